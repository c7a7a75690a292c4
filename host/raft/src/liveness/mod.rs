//! Who is alive: heartbeats of sessions to the leader, and the leases that their answers give.
//!
//! A session's lease runs L from the moment its heartbeat was *sent*, if it was answered. The leader
//! answers only a registered session, in a state with everything applied that it has committed (an
//! entry of its own term included), and only while a quorum confirmed it within L. It evicts for
//! silence after evict-after, at least 3 L of its own on-time ticks, and answers nobody whom it is
//! about to evict: so when an eviction for silence applies, the lease is over, whoever leads.
//!
//! `ledger.rs` counts and is pure, `leader.rs` answers and evicts, `lease.rs` is the node's side,
//! `moment.rs` compares clocks.

mod leader;
mod lease;
mod ledger;
mod moment;

pub(crate) use leader::{Leader, watch};
pub use lease::Lease;

use headwater_metadata::Session;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A heartbeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub session: Session,
    /// What the sender takes for the eviction time. Its lease is a third of that, so the leader must mean
    /// the same.
    pub evict_after: Duration,
    /// How long the shared store has refused this node, milliseconds; `None` when it works.
    pub store_fails_ms: Option<u64>,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answered {
    /// The lease runs from when the heartbeat was sent.
    Held,
    /// No lease, and why.
    No(String),
}

/// A session that the leader has not heard for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Which.
    pub session: Session,
    /// For how long, in the leader's on-time ticks.
    pub silent: Duration,
}

/// A heartbeat is sent, and the leader looks, so many times in a lease.
const BEATS: u32 = 4;
/// Leases in the eviction time.
const LEASES: u32 = 3;

/// L: how long a lease runs.
pub(crate) fn lease_length(evict_after: Duration) -> Duration {
    evict_after / LEASES
}

/// Time between two heartbeats, and between two ticks of the leader.
pub(crate) fn beat(evict_after: Duration) -> Duration {
    lease_length(evict_after) / BEATS
}
