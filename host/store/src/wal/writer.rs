//! The running log.

use super::{Extent, Record, Sink, WalError, WalOptions};
use crate::Store;
use headwater_metadata::{Session, WalSeq};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

/// Handle of a running write-ahead log. Cheap to clone.
#[derive(Clone)]
pub struct Wal {
    ended: watch::Receiver<Option<WalError>>,
}

/// Memory reserved for one record.
pub struct Permit {
    pub(super) _memory: OwnedSemaphorePermit,
}

/// Resolves when the record and everything before it is durable, with the number of its object; in
/// the order of the log. Dropping it changes nothing for the record.
pub struct Ticket {
    pub(super) answer: oneshot::Receiver<Result<WalSeq, WalError>>,
}

impl Future for Ticket {
    type Output = Result<WalSeq, WalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(|answer| answer.unwrap_or(Err(WalError::Shutdown)))
    }
}

impl Wal {
    /// Starts the log of a session at number 0.
    pub fn start(
        store: &Store,
        session: Session,
        nonce: u128,
        options: WalOptions,
        sink: Arc<dyn Sink>,
    ) -> Wal {
        let _ = (store, session, nonce, options, sink);
        unimplemented!()
    }

    /// Reserves memory for a record of `size` (`Record::size`). Waits while the log is behind; the
    /// caller bounds the wait. Taken before the stream's lock.
    pub async fn reserve(&self, size: usize) -> Result<Permit, WalError> {
        let _ = size;
        unimplemented!()
    }

    /// Puts the record at the end of the log. Never waits.
    pub fn submit(&self, permit: Permit, record: Record) -> Ticket {
        let _ = (permit, record);
        unimplemented!()
    }

    /// The first number that is not known to be durable: everything below is.
    pub fn durable(&self) -> WalSeq {
        unimplemented!()
    }

    /// The number up to which all durable objects are covered by what is (or is about to be)
    /// committed, as `covered` says for each stream in them, asked from the oldest on.
    pub fn trim_point(&self, covered: impl FnMut(&Extent) -> bool) -> WalSeq {
        let _ = covered;
        unimplemented!()
    }

    /// Durable objects and bytes from the last trim on: what a recovery would replay.
    pub fn backlog(&self) -> (u64, u64) {
        unimplemented!()
    }

    /// Deletes the objects below a trim point *that has been applied*. Errors are repeated at the
    /// next call.
    pub async fn delete_below(&self, trim: WalSeq) {
        let _ = trim;
        unimplemented!()
    }

    /// Proves that the log is not sealed: an empty object, begun after this call, is acknowledged in
    /// the order of the log. One proof serves all who asked before it began.
    pub async fn prove(&self) -> Result<(), WalError> {
        unimplemented!()
    }

    /// Set once the log takes nothing more, with the reason.
    pub fn ended(&self) -> watch::Receiver<Option<WalError>> {
        self.ended.clone()
    }

    /// Writes what was submitted and ends the log.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}
