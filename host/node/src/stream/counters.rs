//! Every mechanism here counts what it does: tests assert that the counts move, metrics show them.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Live counters of the streams of one session.
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
    /// Appends that were logged and acknowledged.
    appends,
    /// Bytes of them.
    append_bytes,
    /// Appends that repeated an earlier one.
    duplicates,
    /// Appends that were refused by the stream's state.
    refused,
    /// Appends that waited in vain for memory.
    backpressure,
    /// Reads.
    reads,
    /// Reads that needed bytes from data objects.
    object_reads,
    /// Waits of live readers.
    follows,
    /// Streams registered.
    creates,
    /// First contents put into an object before their stream was registered.
    create_objects,
    /// Streams registered as forks.
    forks,
    /// Forks that waited until their source was committed up to where they begin.
    fork_commits,
    /// Streams deleted.
    deletes,
    /// Streams found to be over on access.
    expirations,
    /// Streams that nobody asked for and that were deleted because they were over.
    swept,
    /// Such deletes that were refused: somebody was faster.
    sweeps_refused,
    /// Streams opened.
    opens,
    /// Streams closed because nobody asked for them.
    idle_closes,
    /// Streams closed to make room for others.
    room_closes,
    /// Streams closed in all.
    closes,
    /// Closes that were rejected: the stream went on.
    closes_rejected,
    /// Commits applied.
    commits,
    /// Runs in them.
    commit_runs,
    /// Data objects written for them.
    commit_objects,
    /// Commits of which a part was refused.
    commits_refused,
    /// Times that small runs were joined.
    compactions,
    /// Runs that were joined.
    compacted_runs,
    /// Proofs of freshness asked of the store.
    proofs,
    /// Read barriers asked for.
    barriers,
    /// Sessions recovered, the last part included.
    recoveries,
    /// Parts of recoveries.
    recovery_parts,
    /// Streams let go by them.
    recovered_streams,
    /// Bytes found past committed ends.
    recovered_bytes,
    /// Streams let go with a gap.
    damaged_streams,
    /// Streams that ended because the session did.
    fenced,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
