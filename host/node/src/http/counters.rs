//! What the front end did. Numbers of a node since it started.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Live counters.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// A moment's reading.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CounterSnapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Reads all of them.
            pub fn snapshot(&self) -> CounterSnapshot {
                CounterSnapshot { $($name: self.$name.load(Relaxed),)* }
            }
        }

        impl CounterSnapshot {
            /// Every counter with its name.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Streams that this node had placed, here or elsewhere.
    places,
    /// Placements that came second: the stream had been placed meanwhile.
    places_redundant,
    /// Connections open now.
    connections,
    /// Connections accepted.
    accepted,
    /// Times that a connection could not be accepted.
    accept_errors,
    /// Requests that came from clients.
    requests,
    /// Requests that another node relayed here.
    relayed_here,
    /// Requests served here.
    served,
    /// Redirects answered.
    redirects,
    /// Requests relayed to another node.
    forwards,
    /// Requests relayed although the route was a redirect, because following it could lose the body.
    forwards_for_safety,
    /// Routes of a policy that were overruled because they led nowhere.
    overruled,
    /// Requests that a stream sent on: it was elsewhere after all.
    moved,
    /// Relayed requests refused because the stream is not here.
    relays_refused,
    /// Answers with a status of 400 or above.
    refused,
    /// Answers with a status of 500 or above.
    failed,
    /// Bytes taken in from bodies.
    uploaded_bytes,
    /// Live reads that wait now.
    live_readers,
    /// Long-polls begun.
    long_polls,
    /// SSE streams begun.
    sse_streams,
}

/// Counts one while it lives.
pub struct Gauge(Arc<Counters>, fn(&Counters) -> &AtomicU64);

impl Gauge {
    /// Counts one in.
    pub fn new(counters: &Arc<Counters>, which: fn(&Counters) -> &AtomicU64) -> Gauge {
        which(counters).fetch_add(1, Relaxed);
        Gauge(counters.clone(), which)
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        self.1(&self.0).fetch_sub(1, Relaxed);
    }
}
