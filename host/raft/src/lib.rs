//! The replicated metadata: openraft with log, vote and snapshots on the node's own disk, the peer
//! listener, proposals answered exactly once, and read barriers.
//!
//! Nothing outside this crate sees a type of openraft. A reader starts at `metadata.rs`, the handle:
//!
//! - `propose/` one command's way into the log and back · `barrier` reading freshly
//! - `log_store/` the log on disk · `state_machine/` applying, views, snapshots
//! - `liveness/` heartbeats, leases, evictions for silence
//! - `peer/` everything between members · `membership` voters and learners
//! - `dir` the data directory's identity · `wire` forms of bytes
//! - `options`, `error`, `hooks`, `status`, `counters` what others see

mod barrier;
mod core;
mod counters;
mod dir;
mod error;
mod fatal;
mod hooks;
mod liveness;
mod log_store;
mod membership;
mod metadata;
mod options;
mod peer;
mod propose;
mod state_machine;
mod status;
mod types;
mod wire;

pub use counters::{CounterSnapshot, Counters};
pub use dir::DataDir;
pub use error::*;
pub use hooks::{Body, Hooks};
pub use liveness::{Lease, Silent};
pub use metadata::Metadata;
pub use options::{ClusterId, Member, Options};
pub use propose::{as_request, in_request};
pub use status::{Peer, Status};
pub use wire::PROTOCOL;
