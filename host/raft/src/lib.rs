//! The replicated metadata: openraft with log, vote and snapshots on the node's own disk, the peer
//! listener, proposals answered exactly once, and read barriers.
//!
//! Nothing outside this crate sees a type of openraft. A reader starts at `metadata.rs`, the handle.
//!
//! - `dir` the data directory's identity · `options`, `error`, `hooks`, `status`, `counters`
//! - `wire` forms of bytes

mod counters;
mod dir;
mod error;
mod hooks;
mod metadata;
mod options;
mod status;
mod wire;

pub use counters::{CounterSnapshot, Counters};
pub use dir::DataDir;
pub use error::*;
pub use hooks::{Body, Hooks};
pub use metadata::Metadata;
pub use options::{ClusterId, Member, Options};
pub use status::{Peer, Status};
pub use wire::PROTOCOL;
