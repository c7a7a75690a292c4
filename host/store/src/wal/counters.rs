//! What a log did, counted.

use crate::counters::counters;

counters! {
    /// Counters of a write-ahead log.
    WalCounters, WalCountersSnapshot {
        /// Objects that were acknowledged.
        objects,
        /// Records in them: divided by the objects, the mean group.
        records,
        /// Bytes of the records.
        bytes,
        /// The largest group.
        largest_group,
        /// Objects begun while others were on their way.
        overlapping,
        /// The most objects on their way at a time.
        in_flight_max,
        /// Objects that carried no record, only a proof.
        empty,
        /// Callers that asked for a proof and got it.
        proofs,
        /// Records refused because the log had ended.
        refused,
    }
}
