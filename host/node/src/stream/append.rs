//! Appends: memory first, then one step under the stream's lock (`open.rs`), then the wait for the log.
//!
//! No metadata command is on this path once the stream is open. An answer that follows from records
//! that are not durable yet waits until they are.

use super::Inner;
use super::api::{Append, Appended, StreamError};
use super::counters::{add, count};
use super::open::{Ended, OpenStream, Phase, Published, Submitted};
use headwater_env::fail_point;
use headwater_metadata::{Position, StreamId};
use headwater_store::{Permit, WalError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// What a record costs beside its bytes, about.
const OVERHEAD: usize = 256;

impl Inner {
    pub(super) async fn append(
        self: &Arc<Self>,
        id: StreamId,
        append: Append,
    ) -> Result<Appended, StreamError> {
        let until = self.deadline();
        loop {
            let in_use = self.open(id).await?;
            let stream = in_use.stream();
            if self.is_expired(stream) {
                self.expire_open(stream);
                return Err(StreamError::NotFound);
            }
            let (permit, memory) = self.reserve(&append, until).await?;
            let now = self.now();
            match stream.submit(&append, permit, memory, &self.wal, now) {
                Ok(Submitted::Logged { ticket, admitted }) => {
                    fail_point!("stream.append.submitted");
                    stream.uses.touch(now.0);
                    let ticket = self.env.timeout(self.left(until), ticket).await;
                    self.logged(ticket)?;
                    count(&self.counters.appends);
                    add(&self.counters.append_bytes, admitted.bytes.len() as u64);
                    let producer = append.producer.as_ref().map(|p| (p.epoch, p.seq));
                    return Ok(Appended {
                        tail: admitted.end(),
                        eof: admitted.eof,
                        duplicate: false,
                        producer,
                    });
                }
                Ok(Submitted::Duplicate(appended)) => {
                    self.durable(stream, appended.tail, appended.eof, until).await?;
                    count(&self.counters.duplicates);
                    return Ok(appended);
                }
                Ok(Submitted::NotServing) => {
                    let stream = stream.clone();
                    drop(in_use);
                    self.wait_phase(&stream, until).await?;
                }
                Err(refusal) => {
                    count(&self.counters.refused);
                    return Err(self.refuse(stream, refusal, until).await?);
                }
            }
        }
    }

    /// Memory for the record, in the log and until it is committed. Waits while the node is behind.
    async fn reserve(
        &self,
        append: &Append,
        until: Duration,
    ) -> Result<(Permit, OwnedSemaphorePermit), StreamError> {
        let len = append.body.as_ref().map_or(0, |bytes| bytes.len());
        if len as u64 > self.options.append_limit {
            return Err(StreamError::TooLarge { limit: self.options.append_limit });
        }
        let names =
            append.producer.as_ref().map_or(0, |p| p.id.len()) + append.seq.as_ref().map_or(0, String::len);
        let size = len + names + OVERHEAD;
        let amount = u32::try_from(size.min(self.options.uncommitted_bytes)).unwrap_or(u32::MAX);
        let both = async {
            let memory =
                self.memory.clone().acquire_many_owned(amount).await.map_err(|_| StreamError::Fenced)?;
            let permit = self.wal.reserve(size).await.map_err(|error| self.wal_error(error))?;
            Ok((permit, memory))
        };
        match self.env.timeout(self.left(until), both).await {
            Some(result) => result,
            None => {
                count(&self.counters.backpressure);
                Err(StreamError::unavailable("the store is slower than the appends: memory is full"))
            }
        }
    }

    fn logged(&self, ticket: Option<Result<impl Sized, WalError>>) -> Result<(), StreamError> {
        match ticket {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(self.wal_error(error)),
            None => {
                Err(StreamError::unavailable("the store does not answer: the append may still be stored"))
            }
        }
    }

    fn wal_error(&self, error: WalError) -> StreamError {
        match error {
            WalError::Fenced { .. } | WalError::Failed(_) => {
                self.end_session();
                StreamError::Fenced
            }
            WalError::TooLarge { limit, .. } => StreamError::TooLarge { limit: limit as u64 },
            WalError::Shutdown => StreamError::unavailable("the node is stopping"),
        }
    }

    /// Waits until the stream is durable up to `tail`, and its closing when `eof`.
    async fn durable(
        &self,
        stream: &OpenStream,
        tail: Position,
        eof: bool,
        until: Duration,
    ) -> Result<(), StreamError> {
        let reached = |p: &Published| p.durable >= tail && (p.eof || !eof);
        let mut watch = stream.watch();
        let seen = watch.wait_for(|p| reached(p) || matches!(p.phase, Phase::Ended(_)));
        match self.env.timeout(self.left(until), seen).await {
            Some(Ok(p)) if reached(&p) => Ok(()),
            Some(Ok(p)) if p.phase == Phase::Ended(Ended::Deleted) => Err(StreamError::NotFound),
            Some(_) => Err(StreamError::Fenced),
            None => Err(StreamError::unavailable("the store does not answer")),
        }
    }

    /// A refusal that follows from the stream's state is given only when that state is durable and
    /// known to be the newest.
    async fn refuse(
        &self,
        stream: &OpenStream,
        refusal: StreamError,
        until: Duration,
    ) -> Result<StreamError, StreamError> {
        let by_state = matches!(
            &refusal,
            StreamError::Closed { .. }
                | StreamError::ProducerFenced { .. }
                | StreamError::ProducerGap { .. }
                | StreamError::ProducerStart
                | StreamError::SeqConflict { .. }
        );
        if by_state {
            let closed = matches!(refusal, StreamError::Closed { .. });
            self.durable(stream, stream.assigned(), closed, until).await?;
            self.prove_for(stream).await?;
        }
        Ok(refusal)
    }
}
