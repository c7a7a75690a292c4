//! What a fork begins with: finds the source and the place in it, and has the source committed up to
//! there before the fork is proposed, so that no later crash takes back what the fork stands on.
//!
//! While the source is open this is its owner's business; one that is open nowhere can be forked by
//! whoever is asked. The proposal names the source's id and epoch and is refused when somebody else has
//! opened it meanwhile. A fork remembers nothing of its source's writers.

use super::Inner;
use super::api::{Create, ForkFrom, From, StreamError};
use super::chain;
use super::counters::count;
use super::create::Registered;
use super::open::{OpenStream, Phase};
use super::read::{Missed, Place};
use super::tail::media_type;
use super::uses::InUse;
use crate::messages::Boundaries;
use futures_util::stream::StreamExt;
use headwater_env::fail_point;
use headwater_metadata::{Expiry, ForkOf, Position, Stream, StreamId, View};
use std::sync::Arc;
use std::time::Duration;

/// Pause before a source that changed hands is looked at again.
const AGAIN: Duration = Duration::from_millis(5);

/// The source as it was found.
struct Source {
    id: StreamId,
    content_type: Arc<str>,
    start: Position,
    tail: Position,
    /// Open here: kept in use until the fork is registered.
    open: Option<InUse>,
}

impl Inner {
    /// Registers a fork.
    pub(super) async fn register_fork(
        self: &Arc<Self>,
        create: &Create,
        from: &ForkFrom,
        until: Duration,
    ) -> Result<Registered, StreamError> {
        loop {
            self.check()?;
            match self.try_fork(create, from, until).await {
                Ok(Registered::Refused(why)) => tracing::debug!(name = %create.name, %why, "not forked yet"),
                Ok(registered) => return Ok(registered),
                Err(Missed::Failed(error)) => return Err(error),
                Err(Missed::Look) => {}
            }
            if self.left(until).is_zero() {
                return Err(StreamError::unavailable("the source of the fork changes hands"));
            }
            self.env.clock.sleep(AGAIN).await;
        }
    }

    async fn try_fork(
        self: &Arc<Self>,
        create: &Create,
        from: &ForkFrom,
        until: Duration,
    ) -> Result<Registered, Missed> {
        let source = self.source(&from.source, until).await?;
        if !from.inherits_content_type && media_type(&create.content_type) != media_type(&source.content_type)
        {
            return Err(StreamError::ContentType { expected: source.content_type }.into());
        }
        let anchor = match from.at {
            From::Start => source.start,
            From::Now => source.tail,
            From::At(position) => position,
        };
        if anchor < source.start {
            return Err(StreamError::Gone { start: source.start }.into());
        }
        // Messages are counted in what is committed; for bytes the place is known at once.
        let counts = from.past > 0 && is_json(&source.content_type);
        let needed = match counts {
            true => source.tail.max(anchor),
            false => Position(anchor.0.saturating_add(from.past)),
        };
        if needed > source.tail {
            self.prove_source(&source).await?;
            let tail = source.tail;
            return Err(match anchor > tail {
                true => StreamError::BeyondTail { tail },
                false => StreamError::ForkBeyondTail { tail },
            }
            .into());
        }
        if let Some(open) = &source.open {
            self.committed(open.stream(), needed, until).await?;
        }
        fail_point!("fork.committed");
        let view = self.log.view();
        let there =
            view.stream(source.id).filter(|it| !it.deleted && it.end >= needed).ok_or(Missed::Look)?;
        let epoch = source.open.as_ref().map_or(there.epoch, |open| open.stream().epoch);
        let at = match counts {
            false => needed,
            true => match self.skip_messages(&view, there, anchor, source.tail, from.past).await? {
                Some(at) => at,
                None => {
                    self.prove_source(&source).await?;
                    return Err(StreamError::ForkBeyondTail { tail: source.tail }.into());
                }
            },
        };
        let (content_type, expiry) = inherited(create, from, there);
        let settled = Create { content_type: content_type.clone(), expiry, ..create.clone() };
        let registered = self.register(&settled, Some(ForkOf { source: source.id, epoch, at })).await?;
        if let Registered::New(_) = registered {
            count(&self.counters.forks);
        }
        Ok(registered)
    }

    /// Finds the source by name, as of a moment after this call began.
    async fn source(self: &Arc<Self>, name: &str, until: Duration) -> Result<Source, Missed> {
        let named = |inner: &Self| inner.log.view().stream_by_name(name).map(|it| it.id);
        let id = match named(self) {
            Some(id) => id,
            None => {
                self.barrier().await?;
                named(self).ok_or(StreamError::SourceNotFound)?
            }
        };
        let place = self.find(id, false, until).await.map_err(|error| match error {
            StreamError::NotFound => StreamError::SourceNotFound,
            StreamError::Deleted => StreamError::SourceDeleted,
            error => error,
        })?;
        match place {
            Place::Here(open) => {
                let stream = open.stream();
                if self.is_expired(stream) {
                    self.expire_open(stream);
                    return Err(StreamError::SourceNotFound.into());
                }
                Ok(Source {
                    id,
                    content_type: stream.content_type.clone(),
                    start: self.start_of(id),
                    tail: stream.published().durable,
                    open: Some(open),
                })
            }
            Place::Objects(stream) => Ok(Source {
                id,
                content_type: stream.content_type.clone(),
                start: stream.start,
                tail: stream.end,
                open: None,
            }),
        }
    }

    /// What is about to be said of the source's tail is fresh.
    async fn prove_source(&self, source: &Source) -> Result<(), StreamError> {
        match &source.open {
            Some(open) => self.prove_for(open.stream()).await,
            None => Ok(()),
        }
    }

    /// Waits until the stream is committed up to `end`, which is durable.
    async fn committed(&self, stream: &OpenStream, end: Position, until: Duration) -> Result<(), Missed> {
        let mut watch = stream.watch();
        if watch.borrow().committed < end {
            count(&self.counters.fork_commits);
        }
        loop {
            let seen = *watch.borrow_and_update();
            if seen.committed >= end {
                return Ok(());
            }
            if let Phase::Ended(_) = seen.phase {
                self.check()?;
                return Err(Missed::Look);
            }
            self.signal.request();
            if self.env.timeout(self.left(until), watch.changed()).await.is_none() {
                let reason = "the source of the fork could not be committed in time";
                return Err(StreamError::unavailable(reason).into());
            }
        }
    }

    /// The place after `count` messages from `from` on, if there are so many before `end`.
    async fn skip_messages(
        &self,
        view: &View,
        stream: &Stream,
        from: Position,
        end: Position,
        mut count: u64,
    ) -> Result<Option<Position>, Missed> {
        let pieces = chain::pieces(view, stream, from, end, u64::MAX).ok_or(Missed::Look)?;
        if pieces.is_empty() {
            return Ok(None);
        }
        let mut body = self.bytes_in(pieces).await?;
        let (mut at, mut boundaries) = (from, Boundaries::default());
        while let Some(piece) = body.next().await {
            let piece = piece?;
            if let Some(len) = boundaries.skip(&piece, &mut count) {
                return Ok(Some(Position(at.0 + len as u64)));
            }
            at.0 += piece.len() as u64;
        }
        Ok(None)
    }

    /// Whether a fork that exists begins where a repeated create asks for it. Without an offset the create
    /// asks for the tail of its own time, which any place may have been.
    pub(super) async fn is_fork_point(
        &self,
        view: &View,
        fork: &Stream,
        at: Position,
        from: &ForkFrom,
    ) -> Result<bool, StreamError> {
        let anchor = match from.at {
            From::Now => return Ok(from.past == 0),
            From::Start => fork.start,
            From::At(position) => position,
        };
        if from.past == 0 || !is_json(&fork.content_type) {
            return Ok(anchor.0.checked_add(from.past) == Some(at.0));
        }
        // What the fork begins with is the same as in the source, which may be deleted by now.
        match self.skip_messages(view, fork, anchor, at, from.past).await {
            Ok(end) => Ok(end == Some(at)),
            Err(Missed::Failed(error)) => Err(error),
            Err(Missed::Look) => Err(StreamError::unavailable("the stream changes under the request")),
        }
    }
}

/// Content type and expiry of a fork: what the create says, or the source's.
pub(super) fn inherited<'a>(
    create: &'a Create,
    from: &ForkFrom,
    source: &'a Stream,
) -> (&'a Arc<str>, Expiry) {
    let content_type = if from.inherits_content_type { &source.content_type } else { &create.content_type };
    let expiry = match create.expiry {
        Expiry::Never => source.expiry,
        expiry => expiry,
    };
    (content_type, expiry)
}

/// Whether the stream holds JSON messages, each followed by a comma.
fn is_json(content_type: &str) -> bool {
    media_type(content_type) == "application/json"
}
