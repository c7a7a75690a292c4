//! What the store was asked and what it cost, counted since the start of the process.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($(#[$doc:meta])* $name:ident, $snapshot:ident { $($(#[$field_doc:meta])* $field:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub(crate) $field: std::sync::atomic::AtomicU64,)*
        }

        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct $snapshot {
            $($(#[$field_doc])* pub $field: u64,)*
        }

        impl $name {
            /// The counters now.
            pub fn snapshot(&self) -> $snapshot {
                $snapshot { $($field: self.$field.load(std::sync::atomic::Ordering::Relaxed),)* }
            }
        }
    };
}
pub(crate) use counters;

counters! {
    /// Counters of a store.
    Counters, CountersSnapshot {
        /// Creates that were sent, repeats included.
        puts,
        /// Bytes in them.
        put_bytes,
        /// Reads that were sent, repeats included.
        gets,
        /// Bytes that they gave.
        get_bytes,
        /// Listings.
        lists,
        /// Objects that were deleted.
        deletes,
        /// Requests that failed in passing and were repeated.
        retries,
        /// Creates answered "already exists" that turned out to be our own.
        lost_answers,
        /// Milliseconds for which the store asked to be left alone.
        held_ms,
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Raises a counter to a maximum.
pub(crate) fn raise(counter: &AtomicU64, n: u64) {
    counter.fetch_max(n, Ordering::Relaxed);
}
