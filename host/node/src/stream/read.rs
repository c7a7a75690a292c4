//! Reads what is there: committed bytes as ranges of data objects, then the tail from memory.
//!
//! Nothing is parsed or copied. A read ends where an append or a run ends, so every position that is
//! given out is one. A stream that is open nowhere is read from its objects by whoever is asked, after
//! a read barrier.

use super::Inner;
use super::api::{Body, From, Info, Read, ReadLimits, StreamError};
use super::chain::{self, Piece};
use super::counters::count;
use super::expiry;
use super::open::{Ended, OpenStream, Phase, Published};
use super::owner::store_error;
use super::step::{Step, next};
use super::uses::InUse;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use headwater_metadata::{Ownership, Position, Stream, StreamId, View};
use headwater_store::object::ReadError;
use std::sync::Arc;
use std::time::Duration;

/// So often a read looks again when objects vanish under it.
const TRIES: u32 = 3;

/// Where the bytes of a stream are: here, or in objects alone.
pub(super) enum Place {
    /// Open here.
    Here(InUse),
    /// Open nowhere, as a fresh view has it.
    Objects(Arc<Stream>),
}

impl Inner {
    pub(super) async fn read(
        self: &Arc<Self>,
        id: StreamId,
        from: From,
        limits: ReadLimits,
    ) -> Result<Read, StreamError> {
        count(&self.counters.reads);
        let until = self.deadline();
        let mut tries = 0;
        loop {
            let result = match self.find(id, true, until).await? {
                Place::Here(in_use) => self.read_open(in_use, from, limits, until).await,
                Place::Objects(stream) => self.read_closed(&stream, from, limits).await,
            };
            match result {
                Err(Missed::Look) if tries < TRIES => tries += 1,
                Err(Missed::Look) => {
                    return Err(StreamError::unavailable("the stream changes under the read"));
                }
                Err(Missed::Failed(error)) => return Err(error),
                Ok(read) => return Ok(read),
            }
        }
    }

    pub(super) async fn info(self: &Arc<Self>, id: StreamId) -> Result<Info, StreamError> {
        let until = self.deadline();
        match self.find(id, false, until).await? {
            Place::Here(mut in_use) => {
                // Whoever watches a stream must not keep it open by that.
                in_use.looks();
                let stream = in_use.stream();
                if self.is_expired(stream) {
                    self.expire_open(stream);
                    return Err(StreamError::NotFound);
                }
                let info = stream.info(self.start_of(id));
                self.prove_for(stream).await?;
                Ok(info)
            }
            Place::Objects(stream) => Ok(Info {
                id,
                name: stream.name.clone(),
                content_type: stream.content_type.clone(),
                expiry: stream.expiry,
                expires_ms: expiry::expires_ms(stream.expiry, expiry::known_touch(&stream)),
                start: stream.start,
                tail: stream.end,
                eof: stream.eof,
            }),
        }
    }

    /// Finds the stream. `touches`: it will be read, which renews the life of some, and those are
    /// opened.
    pub(super) async fn find(
        self: &Arc<Self>,
        id: StreamId,
        touches: bool,
        until: Duration,
    ) -> Result<Place, StreamError> {
        loop {
            self.check()?;
            if let Some(in_use) = self.serving(id, until).await? {
                return Ok(Place::Here(in_use));
            }
            self.barrier().await?;
            let mut views = self.log.views();
            views.borrow_and_update();
            let view = self.log.view();
            let step = next(&view, id, self.session);
            let Some(stream) = view.stream(id) else { return Err(StreamError::NotFound) };
            let open = matches!(stream.ownership, Ownership::Opened(_));
            match step {
                Step::Absent => return Err(StreamError::NotFound),
                Step::Deleted => return Err(StreamError::Deleted),
                Step::Load(_) => drop(self.open(id).await?),
                Step::Moved(node) if open => return Err(StreamError::Moved(node)),
                Step::WaitForTransfer => {
                    self.next_view(&mut views, until, "the stream is moving here").await?
                }
                Step::WaitForRecovery(_) => {
                    self.next_view(&mut views, until, "the stream's last owner is being recovered").await?;
                }
                Step::Moved(_) | Step::Open(_) | Step::Place | Step::Damaged(_) => {
                    if self.is_over(stream) {
                        self.expire_closed(stream);
                        return Err(StreamError::NotFound);
                    }
                    if touches && expiry::is_renewed_by_reads(stream.expiry) && !stream.damaged {
                        return Ok(Place::Here(self.open(id).await?));
                    }
                    return Ok(Place::Objects(stream.clone()));
                }
            }
        }
    }

    /// The first position that is kept, as far as the own view knows.
    pub(super) fn start_of(&self, id: StreamId) -> Position {
        self.log.view().stream(id).map_or(Position(0), |stream| stream.start)
    }

    pub(super) async fn read_open(
        self: &Arc<Self>,
        in_use: InUse,
        from: From,
        limits: ReadLimits,
        until: Duration,
    ) -> Result<Read, Missed> {
        let stream = in_use.stream().clone();
        if self.is_expired(&stream) {
            self.expire_open(&stream);
            return Err(StreamError::NotFound.into());
        }
        stream.uses.touch(self.env.clock.wall_ms());
        let seen = stream.published();
        match seen.phase {
            Phase::Serving | Phase::Flushing => {}
            Phase::Handed => {
                self.wait_phase(&stream, until).await?;
                return Err(Missed::Look);
            }
            Phase::Ended(Ended::Fenced) => return Err(StreamError::Fenced.into()),
            Phase::Ended(_) => return Err(Missed::Look),
        }
        let start = self.start_of(stream.id);
        let position = match from {
            From::Start => start,
            From::Now => seen.durable,
            From::At(position) => position,
        };
        if position < start {
            return Err(StreamError::Gone { start }.into());
        }
        if position > seen.durable {
            self.prove_for(&stream).await?;
            return Err(StreamError::BeyondTail { tail: seen.durable }.into());
        }
        let (next, body) = self.bytes_of(&stream, position, seen, limits).await?;
        let mut read = Read {
            id: stream.id,
            content_type: stream.content_type.clone(),
            start: position,
            next,
            up_to_date: next == seen.durable,
            eof: next == seen.durable && seen.eof,
            expires_ms: stream.expires_ms(),
            body: hold(body, in_use),
        };
        if read.up_to_date
            && let Err(error) = self.prove_for(&stream).await
        {
            if read.is_empty() {
                return Err(error.into());
            }
            // What is durable is served; what it means for the tail is not said.
            (read.up_to_date, read.eof) = (false, false);
        }
        Ok(read)
    }

    /// Bytes of an open stream from `position` on, and where they end.
    async fn bytes_of(
        &self,
        stream: &OpenStream,
        position: Position,
        seen: Published,
        limits: ReadLimits,
    ) -> Result<(Position, Body), Missed> {
        if position == seen.durable {
            return Ok((position, stream::empty().boxed()));
        }
        if let Some((next, pieces)) = tail_pieces(stream, position, seen.durable, limits.bytes) {
            return Ok((next, stream::iter(pieces.into_iter().map(Ok)).boxed()));
        }
        let view = self.log.view();
        let committed = view.stream(stream.id).filter(|s| s.epoch == stream.epoch).ok_or(Missed::Look)?;
        let (mut next, body) = self.object_bytes(&view, committed, position, limits).await?;
        let left = limits.bytes.saturating_sub(next.0 - position.0);
        if next != committed.end || next >= seen.durable || left == 0 {
            return Ok((next, body));
        }
        match tail_pieces(stream, next, seen.durable, left) {
            Some((end, pieces)) => {
                next = end;
                Ok((next, body.chain(stream::iter(pieces.into_iter().map(Ok))).boxed()))
            }
            // Committed since the view was taken: what there is will do, the rest comes next.
            None => Ok((next, body)),
        }
    }

    async fn read_closed(&self, stream: &Stream, from: From, limits: ReadLimits) -> Result<Read, Missed> {
        let position = match from {
            From::Start => stream.start,
            From::Now => stream.end,
            From::At(position) => position,
        };
        if position < stream.start {
            return Err(StreamError::Gone { start: stream.start }.into());
        }
        if position > stream.end {
            return Err(StreamError::BeyondTail { tail: stream.end }.into());
        }
        let (next, body) = self.object_bytes(&self.log.view(), stream, position, limits).await?;
        Ok(Read {
            id: stream.id,
            content_type: stream.content_type.clone(),
            start: position,
            next,
            up_to_date: next == stream.end,
            eof: next == stream.end && stream.eof,
            expires_ms: expiry::expires_ms(stream.expiry, expiry::known_touch(stream)),
            body,
        })
    }

    /// Committed bytes from `position` on, up to the end of the run in which the limit is reached. The
    /// first piece is fetched here: an object that is gone means that the view is old.
    async fn object_bytes(
        &self,
        view: &View,
        stream: &Stream,
        position: Position,
        limits: ReadLimits,
    ) -> Result<(Position, Body), Missed> {
        let pieces = chain::pieces(view, stream, position, stream.end, limits.bytes).ok_or(Missed::Look)?;
        let Some(next) = pieces.last().map(|piece| piece.to) else {
            return Ok((position, stream::empty().boxed()));
        };
        Ok((next, self.bytes_in(pieces).await?))
    }

    /// The bytes of these pieces, one at least.
    pub(super) async fn bytes_in(&self, pieces: Vec<Piece>) -> Result<Body, Missed> {
        count(&self.counters.object_reads);
        let cache = self.cache.clone();
        let mut pieces = stream::iter(pieces)
            .flat_map(move |piece| cache.read(&piece.run, piece.from, piece.to))
            .map(|piece| piece.map_err(Broken))
            .boxed();
        let first = match pieces.next().await {
            None => return Err(StreamError::Store("a run has no bytes".into()).into()),
            Some(Err(Broken(ReadError::Gone { .. }))) => return Err(Missed::Look),
            Some(Err(Broken(error))) => return Err(store_error(error).into()),
            Some(Ok(first)) => first,
        };
        let rest = pieces.map(|piece| piece.map_err(|Broken(error)| store_error(error)));
        Ok(stream::iter([Ok(first)]).chain(rest).boxed())
    }
}

struct Broken(ReadError);

/// Why an attempt to read gave nothing.
pub(super) enum Missed {
    /// The stream has changed: look again.
    Look,
    /// This is the answer.
    Failed(StreamError),
}

impl std::convert::From<StreamError> for Missed {
    fn from(error: StreamError) -> Missed {
        Missed::Failed(error)
    }
}

/// Pieces of the tail in memory, up to the end of the append in which the limit is reached.
fn tail_pieces(
    stream: &OpenStream,
    position: Position,
    durable: Position,
    limit: u64,
) -> Option<(Position, Vec<Bytes>)> {
    let next = stream.bytes.cut(position, durable, limit)?;
    let pieces = stream.bytes.read(position, next)?;
    Some((next, pieces))
}

/// Keeps the stream in use until its bytes have been read.
fn hold(body: Body, in_use: InUse) -> Body {
    body.map(move |piece| {
        let _ = &in_use;
        piece
    })
    .boxed()
}
