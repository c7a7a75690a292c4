//! The write-ahead log of a session: a sequence of objects, each holding the records that arrived
//! while the previous ones were on their way.
//!
//! Invariant: a record is acknowledged when its object and every one before it exist and are this
//! session's. Objects are created only if absent, and a seal at the first absent number ends the log:
//! so after a seal nothing at or behind it is ever acknowledged.
//!
//! `writer.rs` is the handle of a running log, `flusher.rs` its task, `log.rs` what its two forms have in
//! common, `objects.rs` and `folder/` those forms, `format.rs` a stored group, `seal.rs` what ends a log.

mod counters;
mod flusher;
pub(crate) mod folder;
pub(crate) mod format;
mod log;
mod objects;
pub mod seal;
mod writer;

pub use counters::WalCountersSnapshot;
pub use writer::{Permit, Ticket, Wal};

use bytes::Bytes;
use headwater_metadata::{Position, StreamEpoch, StreamId, WalSeq};
use std::sync::Arc;

/// One append as it is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The stream.
    pub stream: StreamId,
    /// The epoch at which the session has it open.
    pub epoch: StreamEpoch,
    /// Position of the first byte.
    pub start: Position,
    /// The bytes as readers get them. May be empty.
    pub bytes: Bytes,
    /// The stream is closed for appends after these bytes.
    pub eof: bool,
    /// Opaque to the store: producer, sequence, time.
    pub meta: Bytes,
}

impl Record {
    /// Position after the last byte.
    pub fn end(&self) -> Position {
        Position(self.start.0 + self.bytes.len() as u64)
    }

    /// Bytes to reserve for it.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.meta.len() + 64
    }
}

/// How far one object reaches in one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The stream.
    pub stream: StreamId,
    /// Its epoch.
    pub epoch: StreamEpoch,
    /// Position after the last byte of its last record in the object.
    pub end: Position,
    /// The last record closes the stream.
    pub eof: bool,
}

/// Told of durable records, in the order of the log, before their tickets resolve.
pub trait Sink: Send + Sync + 'static {
    /// The records of object `seq` are durable, and so is everything before. Must not block.
    fn durable(&self, seq: WalSeq, records: &[Record]);
}

impl Sink for () {
    fn durable(&self, _: WalSeq, _: &[Record]) {}
}

/// Settings of a write-ahead log.
#[derive(Clone, Debug)]
pub struct WalOptions {
    /// Uploads on their way at a time. `None`: two on a disk, where more of them only split the groups
    /// but a second one fills the time between two flushes, and four elsewhere, where they hide the way.
    /// A log of append files has one, whatever is said here.
    pub in_flight: Option<usize>,
    /// Records are put together up to this size.
    pub object_bytes: usize,
    /// Memory for records that are not durable yet. A record is never larger than this.
    pub memory_bytes: usize,
}

impl Default for WalOptions {
    fn default() -> WalOptions {
        WalOptions { in_flight: None, object_bytes: 8 << 20, memory_bytes: 128 << 20 }
    }
}

/// Why a record is not (known to be) durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalError {
    /// A successor sealed the log: the session is over.
    #[error("the write-ahead log is sealed at {at}")]
    Fenced {
        /// Number of the seal.
        at: WalSeq,
    },
    /// Something that must not happen did, or a flush failed: the session is over.
    #[error("the write-ahead log failed: {0}")]
    Failed(Arc<str>),
    /// The record is larger than the log's memory.
    #[error("a record of {size} bytes is larger than {limit}")]
    TooLarge {
        /// Of the record.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The log was shut down in order.
    #[error("the write-ahead log is shut down")]
    Shutdown,
}

#[cfg(test)]
mod wal_test;
