//! Builds a data object in memory and stores it under a key of its session.

use crate::Store;
use bytes::Bytes;
use headwater_metadata::{ObjectKey, Position, Session, StreamEpoch, StreamId, StreamRun};
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives out the keys of a session's data objects.
pub struct Keys {
    session: Session,
    nonce: u128,
    next: AtomicU64,
}

impl Keys {
    /// Of a session that has written none yet.
    pub fn new(session: Session, nonce: u128) -> Keys {
        Keys { session, nonce, next: AtomicU64::new(0) }
    }

    /// A key that was not given out before.
    pub fn next(&self) -> ObjectKey {
        ObjectKey { session: self.session, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }

    /// The nonce of the process.
    pub fn nonce(&self) -> u128 {
        self.nonce
    }
}

/// Collects the pieces of a data object.
#[derive(Default)]
pub struct Writer {}

/// A data object that is ready to be stored.
pub struct Object {
    /// Its key.
    pub key: ObjectKey,
    /// What a `Commit` says of it, in the order in which streams were added.
    pub runs: Vec<StreamRun>,
}

/// Why a data object could not be stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PutError {
    /// Something else is stored under the key.
    #[error("object {object} exists and is not ours")]
    Foreign {
        /// Its key.
        object: String,
    },
    /// The store refuses for good.
    #[error("object {object} cannot be stored: {reason}")]
    Failed {
        /// Its key.
        object: String,
        /// What it said.
        reason: String,
    },
}

impl Writer {
    /// Empty.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Adds a stream's bytes from `start` on (none is fine), and the checkpoint as of their end.
    pub fn add(
        &mut self,
        stream: StreamId,
        epoch: StreamEpoch,
        start: Position,
        bytes: impl IntoIterator<Item = Bytes>,
        checkpoint: Option<Bytes>,
        eof: bool,
    ) {
        let _ = (stream, epoch, start, bytes.into_iter().count(), checkpoint, eof);
        unimplemented!()
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        unimplemented!()
    }

    /// Whether no stream was added.
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }

    /// Completes the object under the next key.
    pub fn finish(self, keys: &Keys) -> Object {
        let _ = keys;
        unimplemented!()
    }
}

/// Stores the object, durably. Waits out a failing store; the caller bounds it, and may repeat it.
pub async fn put(store: &Store, object: &Object) -> Result<(), PutError> {
    let _ = (store, object);
    unimplemented!()
}
