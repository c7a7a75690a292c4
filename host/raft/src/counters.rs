//! Every mechanism of the crate counts what it does. Tests assert that the count moved.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Live counters of one raft member.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// The counters at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct CounterSnapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// The counters now.
            pub fn snapshot(&self) -> CounterSnapshot {
                CounterSnapshot { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Entries that this process proposed (repeats not counted).
    entries_proposed,
    /// Commands in them.
    commands_proposed,
    /// Entries sent again under their number.
    repeats,
    /// Entries handed to the leader over the peer listener.
    forwards_sent,
    /// Entries taken from a follower.
    forwards_served,
    /// Read barriers asked for.
    barriers,
    /// Questions to the leader that they shared.
    barrier_rounds,
    /// Entries applied to the state.
    entries_applied,
    /// Flushes of the log.
    log_flushes,
    /// Entries written by them.
    log_entries,
    /// Purges of the log.
    log_purges,
    /// Snapshots built.
    snapshots_built,
    /// Bytes of them.
    snapshot_bytes_built,
    /// Entries applied that asked a policy on another engine than this node's.
    foreign_engine_entries,
    /// Snapshots installed from the leader.
    snapshots_installed,
    /// Snapshots sent to a member.
    snapshots_sent,
    /// Chunks of them.
    snapshot_chunks_sent,
    /// Chunks of snapshots received.
    snapshot_chunks_received,
    /// Connections made to peers.
    peer_connects,
    /// Requests to peers that failed.
    peer_failures,
    /// Requests from peers that were refused (cluster, secret, version).
    peer_refusals,
    /// Addresses of peers learned.
    addresses_learned,
    /// Changes of the membership that this member made as leader.
    membership_changes,
    /// Heartbeats of sessions that this member answered as leader.
    heartbeats_answered,
    /// Heartbeats that it refused.
    heartbeats_refused,
    /// Answers that renewed this node's lease.
    leases_renewed,
    /// Ticks of the leader that came late and counted for nothing.
    ticks_late,
    /// Evictions for silence that this member proposed.
    evictions_proposed,
    /// Client requests relayed to other nodes.
    requests_forwarded,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}
