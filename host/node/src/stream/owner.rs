//! Opens streams: one opener per stream at a time, whoever asks; an open whose askers left is kept.
//!
//! `step.rs` says what to do next, this does it until the stream serves, another node has it, or time
//! is up.

use super::api::StreamError;
use super::checkpoint::Writers;
use super::counters::count;
use super::open::{Ended, OpenStream, Phase};
use super::step::{Step, next};
use super::uses::InUse;
use super::{Inner, log};
use headwater_env::fail_point;
use headwater_metadata::{Answer, Command, Outcome, Rejection, StreamEpoch, StreamId};
use headwater_raft::ProposeError;
use headwater_store::object;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

type Opening = watch::Receiver<Option<Result<(), StreamError>>>;

/// The streams that are being opened.
#[derive(Default)]
pub struct Openers(Mutex<BTreeMap<StreamId, Opening>>);

impl Inner {
    /// The stream, open and serving here; opened first when it is this node's to open.
    pub(super) async fn open(self: &Arc<Self>, id: StreamId) -> Result<InUse, StreamError> {
        let until = self.deadline();
        loop {
            self.check()?;
            match self.serving(id, until).await? {
                Some(stream) => return Ok(stream),
                None => self.open_once(id, until).await?,
            }
        }
    }

    /// The stream if it is open here and serves; waits while it is between two states.
    pub(super) async fn serving(
        self: &Arc<Self>,
        id: StreamId,
        until: Duration,
    ) -> Result<Option<InUse>, StreamError> {
        while let Some(stream) = self.registry.get(id) {
            let in_use = InUse::new(stream.clone(), self.env.clock.clone());
            match stream.published().phase {
                Phase::Serving => return Ok(Some(in_use)),
                Phase::Flushing | Phase::Handed => {
                    drop(in_use);
                    self.wait_phase(&stream, until).await?;
                }
                Phase::Ended(Ended::Fenced) => return Err(StreamError::Fenced),
                Phase::Ended(_) => self.registry.remove(&stream),
            }
        }
        Ok(None)
    }

    /// Waits until the stream serves again or has ended.
    pub(super) async fn wait_phase(&self, stream: &OpenStream, until: Duration) -> Result<(), StreamError> {
        let mut watch = stream.watch();
        let settled = watch.wait_for(|p| !matches!(p.phase, Phase::Flushing | Phase::Handed));
        match self.env.timeout(self.left(until), settled).await {
            Some(_) => Ok(()),
            None => Err(StreamError::unavailable("the stream is being let go")),
        }
    }

    /// When a request that begins now gives up, monotonic.
    pub(super) fn deadline(&self) -> Duration {
        self.env.clock.monotonic() + self.options.wait
    }

    pub(super) fn left(&self, until: Duration) -> Duration {
        until.saturating_sub(self.env.clock.monotonic())
    }

    /// Joins the stream's opener, or becomes it, in a task of its own: an open is finished whoever leaves.
    async fn open_once(self: &Arc<Self>, id: StreamId, until: Duration) -> Result<(), StreamError> {
        let mut opening = {
            let mut openers = self.openers.0.lock();
            // An opener that died without a word is replaced.
            match openers.get(&id).filter(|o| o.borrow().is_some() || o.has_changed().is_ok()) {
                Some(opening) => opening.clone(),
                None => {
                    let (answer, opening) = watch::channel(None);
                    openers.insert(id, opening.clone());
                    let inner = self.clone();
                    tokio::spawn(headwater_raft::in_request(async move {
                        let result = inner.opener(id).await;
                        inner.openers.0.lock().remove(&id);
                        answer.send_replace(Some(result));
                    }));
                    opening
                }
            }
        };
        match self.env.timeout(self.left(until), opening.wait_for(Option::is_some)).await {
            Some(Ok(result)) => result.clone().unwrap_or(Ok(())),
            Some(Err(_)) => Err(StreamError::unavailable("the stream could not be opened")),
            None => Err(StreamError::unavailable("opening the stream takes too long")),
        }
    }

    async fn opener(self: &Arc<Self>, id: StreamId) -> Result<(), StreamError> {
        let until = self.deadline();
        let mut fresh = false;
        loop {
            self.check()?;
            if self.registry.get(id).is_some() {
                return Ok(());
            }
            let mut views = self.log.views();
            views.borrow_and_update();
            match next(&self.log.view(), id, self.session) {
                Step::Absent | Step::Deleted if !fresh => {
                    self.barrier().await?;
                    fresh = true;
                }
                Step::Absent => return Err(StreamError::NotFound),
                Step::Deleted => return Err(StreamError::Deleted),
                Step::Moved(node) => return Err(StreamError::Moved(node)),
                Step::Damaged(at) => return Err(StreamError::Damaged { at }),
                Step::Load(epoch) => return self.load(id, epoch).await,
                Step::WaitForTransfer => {
                    self.next_view(&mut views, until, "the stream is moving here").await?;
                }
                Step::WaitForRecovery(_) => {
                    self.next_view(&mut views, until, "the stream's last owner is being recovered").await?;
                }
                Step::Place => self.place(id).await?,
                Step::Open(epoch) => {
                    if *self.stopping.borrow() {
                        return Err(StreamError::unavailable("the node is stopping"));
                    }
                    self.make_room(until).await?;
                    let refused = self.propose_open(id, epoch).await?;
                    if refused {
                        // The own view has moved on, or will: look again, not at once.
                        self.env.clock.sleep(Duration::from_millis(5)).await;
                        if self.left(until).is_zero() {
                            return Err(StreamError::unavailable("the stream cannot be opened here now"));
                        }
                    }
                }
            }
        }
    }

    /// Waits for another view.
    pub(super) async fn next_view(
        &self,
        views: &mut watch::Receiver<u64>,
        until: Duration,
        reason: &'static str,
    ) -> Result<(), StreamError> {
        match self.env.timeout(self.left(until), views.changed()).await {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(StreamError::unavailable("the node is stopping")),
            None => Err(StreamError::unavailable(reason)),
        }
    }

    async fn place(&self, id: StreamId) -> Result<(), StreamError> {
        match self.propose(Command::Place { stream: id }).await? {
            Outcome::Applied(Answer::Owner(node)) | Outcome::Redundant(Answer::Owner(node)) => {
                if node == self.me() { Ok(()) } else { Err(StreamError::Moved(node)) }
            }
            Outcome::Rejected(Rejection::NoCandidate) => Err(StreamError::NoCandidate),
            Outcome::Rejected(Rejection::NoStream(_)) => Err(StreamError::NotFound),
            Outcome::Rejected(Rejection::NotRegistered { .. }) => Err(StreamError::Fenced),
            other => {
                tracing::warn!(stream = %id, ?other, "placing was refused");
                Err(StreamError::unavailable("the stream could not be placed"))
            }
        }
    }

    /// True when it was refused for a reason that a later view shows.
    async fn propose_open(&self, id: StreamId, epoch: StreamEpoch) -> Result<bool, StreamError> {
        match self.propose(Command::Open { stream: id, epoch }).await? {
            Outcome::Applied(_) | Outcome::Redundant(_) => Ok(false),
            Outcome::Rejected(Rejection::NotRegistered { .. }) => Err(StreamError::Fenced),
            Outcome::Rejected(Rejection::NoStream(_)) => Err(StreamError::NotFound),
            Outcome::Rejected(Rejection::Damaged(at)) => Err(StreamError::Damaged { at }),
            Outcome::Rejected(why) => {
                tracing::debug!(stream = %id, %why, "opening was refused");
                Ok(true)
            }
        }
    }

    /// Takes in a stream that is open in this session: its committed end, and what is remembered of its
    /// writers. Nothing was logged at this epoch yet, so the committed end is the whole stream.
    async fn load(self: &Arc<Self>, id: StreamId, epoch: StreamEpoch) -> Result<(), StreamError> {
        let view = self.log.view();
        let Some(stream) = view.stream(id).filter(|s| s.epoch == epoch) else {
            return Err(StreamError::unavailable("the stream has changed hands"));
        };
        let writers = match &stream.checkpoint {
            None => Writers::default(),
            Some(place) => {
                let stored = object::read_checkpoint(&self.store, place).await.map_err(store_error)?;
                Writers::decode(&stored)
                    .map_err(|error| StreamError::Store(format!("checkpoint: {error}").into()))?
            }
        };
        fail_point!("stream.open.loaded");
        let limit = self.options.append_limit;
        let open = OpenStream::new(stream, epoch, writers, &self.tails, limit, self.now());
        self.registry.insert(Arc::new(open));
        count(&self.counters.opens);
        if *self.over.borrow() {
            self.registry.end_all(Ended::Fenced);
            return Err(StreamError::Fenced);
        }
        Ok(())
    }

    /// Proposes a command whose unknown outcome the caller may leave unknown.
    pub(super) async fn propose(&self, command: Command) -> Result<Outcome, StreamError> {
        self.log.propose(command).await.map_err(propose_error)
    }

    /// Proposes a command until its outcome is known.
    pub(super) async fn settle(&self, command: Command) -> Result<Outcome, StreamError> {
        log::settle(self.log.as_ref(), &self.env, command).await.map_err(|error| propose_error(error.0))
    }

    /// Waits until the own view is fresh.
    pub(super) async fn barrier(&self) -> Result<(), StreamError> {
        count(&self.counters.barriers);
        let fresh = self.log.barrier().await;
        fresh.map_err(|_| {
            StreamError::unavailable("the cluster has no quorum: this cannot be answered freshly")
        })
    }
}

pub(super) fn propose_error(error: ProposeError) -> StreamError {
    match error {
        ProposeError::SessionEnded(_) | ProposeError::NoSession => StreamError::Fenced,
        ProposeError::Unavailable(_) => {
            StreamError::unavailable("the cluster has no quorum: nothing can be changed")
        }
        ProposeError::Unknown => StreamError::unavailable("the metadata log gave no answer in time"),
        ProposeError::TooLarge { .. } => {
            StreamError::unavailable("the change is too large for the metadata log")
        }
        ProposeError::Stopped(_) => StreamError::unavailable("the node is stopping"),
    }
}

pub(super) fn store_error(error: object::ReadError) -> StreamError {
    if let object::ReadError::Damaged { .. } = error {
        tracing::error!(%error, "an object of the store is damaged: what it holds cannot be read");
    }
    StreamError::Store(error.to_string().into())
}
