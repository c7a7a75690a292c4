//! Whether this session may still say what a stream's tail is.
//!
//! Durable bytes never change, so serving them needs nothing. To say "up to date", "closed" or what
//! the tail is, the session must know that nobody else has the stream: by its lease, or by asking after
//! the request came, first the metadata log's leader (a read barrier), and without a quorum the store
//! (its log is not sealed). The tail is read first, this is asked after.

use super::Inner;
use super::api::StreamError;
use super::counters::count;
use super::open::{OpenStream, Phase};
use headwater_metadata::{Ownership, SessionState};
use headwater_store::WalError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a read waits for a barrier before it asks the store.
const BARRIER: Duration = Duration::from_millis(250);
/// So long the store is asked at once after a barrier that did not come.
const PAUSE: Duration = Duration::from_secs(2);

/// Says whether the session is known to be alive.
pub trait Lease: Send + Sync + 'static {
    /// Holds at this moment, by the clocks that count suspended time.
    fn holds(&self) -> bool;
}

/// When a barrier may be asked for again, monotonic milliseconds.
#[derive(Default)]
pub struct NextBarrier(AtomicU64);

impl Inner {
    /// Fails unless the stream is known to have been this session's after this call began. What was
    /// handed over in a `Close` or a delete is covered by nothing.
    pub(super) async fn prove_for(&self, stream: &OpenStream) -> Result<(), StreamError> {
        self.check()?;
        if !self.lease.as_ref().is_some_and(|lease| lease.holds()) && !self.by_barrier(stream).await? {
            self.by_store().await?;
        }
        match stream.published().phase {
            Phase::Serving | Phase::Flushing => Ok(()),
            Phase::Handed | Phase::Ended(_) => Err(StreamError::unavailable("the stream is being let go")),
        }
    }

    /// True when a fresh view has the stream open in this session; false when no fresh view is to be had.
    async fn by_barrier(&self, stream: &OpenStream) -> Result<bool, StreamError> {
        let now = self.env.clock.monotonic().as_millis() as u64;
        if now < self.next_barrier.0.load(Ordering::Relaxed) {
            return Ok(false);
        }
        count(&self.counters.barriers);
        if !matches!(self.env.timeout(BARRIER, self.log.barrier()).await, Some(Ok(()))) {
            self.next_barrier.0.store(now + (BARRIER + PAUSE).as_millis() as u64, Ordering::Relaxed);
            return Ok(false);
        }
        let view = self.log.view();
        if view.session_state(self.session) != SessionState::Registered {
            self.end_session();
            return Err(StreamError::Fenced);
        }
        let there = view.stream(stream.id).filter(|s| s.epoch == stream.epoch && !s.deleted);
        match there.is_some_and(|s| s.ownership == Ownership::Opened(self.session)) {
            true => Ok(true),
            false => Err(StreamError::unavailable("the stream is being let go")),
        }
    }

    /// Asks the store whether the own log is sealed.
    async fn by_store(&self) -> Result<(), StreamError> {
        count(&self.counters.proofs);
        match self.env.timeout(self.options.proof_wait, self.wal.prove()).await {
            Some(Ok(())) => self.check(),
            Some(Err(WalError::Fenced { .. })) => Err(StreamError::Fenced),
            Some(Err(_)) => Err(StreamError::unavailable("the node is stopping")),
            None => Err(StreamError::unavailable("the store does not answer: freshness cannot be proven")),
        }
    }
}
