//! Whether this session may still say what a stream's tail is.
//!
//! Durable bytes never change, so serving them needs nothing. To say "up to date", "closed" or what
//! the tail is, the session must know that nobody else has the stream: by its lease, or by a proof
//! through the store that began after the request came. The tail is read first, this is asked after.

use super::Inner;
use super::api::StreamError;
use super::counters::count;
use super::open::{OpenStream, Phase};
use headwater_store::WalError;

/// Says whether the session is known to be alive.
pub trait Lease: Send + Sync + 'static {
    /// Holds at this moment, by the clocks that count suspended time.
    fn holds(&self) -> bool;
}

impl Inner {
    /// Fails unless the session is known to have been alive after this call began.
    pub(super) async fn prove(&self) -> Result<(), StreamError> {
        self.check()?;
        if self.lease.as_ref().is_some_and(|lease| lease.holds()) {
            return Ok(());
        }
        count(&self.counters.proofs);
        match self.env.timeout(self.options.proof_wait, self.wal.prove()).await {
            Some(Ok(())) => self.check(),
            Some(Err(WalError::Fenced { .. })) => Err(StreamError::Fenced),
            Some(Err(_)) => Err(StreamError::unavailable("the node is stopping")),
            None => Err(StreamError::unavailable("the store does not answer: freshness cannot be proven")),
        }
    }

    /// The same for one stream: what was handed over in a `Close` or a delete is covered by nothing.
    pub(super) async fn prove_for(&self, stream: &OpenStream) -> Result<(), StreamError> {
        self.prove().await?;
        match stream.published().phase {
            Phase::Serving | Phase::Flushing => Ok(()),
            Phase::Handed | Phase::Ended(_) => Err(StreamError::unavailable("the stream is being let go")),
        }
    }
}
