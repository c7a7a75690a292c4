//! The shared store: write-ahead logs, data objects, recovery and caches over one object store.
//!
//! Every record lives here, so that ownership of a stream moves without moving data. `layout.rs`
//! names the objects, `store.rs` opens and proves a store, `wal/` is the log of a session and its
//! seal, `recover.rs` reads a sealed log, `object/` are the stream-major data objects, `tail.rs` and
//! `cache.rs` keep bytes in memory, `compact.rs` and `collect.rs` keep the store small.
//!
//! Nothing here knows HTTP or the metadata log: what a checkpoint or a record's `meta` means is the
//! caller's.

pub mod cache;
pub mod collect;
pub mod compact;
mod counters;
mod header;
pub mod layout;
mod local;
pub mod object;
pub mod recover;
mod request;
mod s3;
pub mod store;
pub mod tail;
pub mod testing;
pub mod wal;

pub use counters::{Counters, CountersSnapshot};
pub use store::{Kind, Store, StoreError};
pub use wal::{Permit, Record, Sink, Ticket, Wal, WalError, WalOptions};
