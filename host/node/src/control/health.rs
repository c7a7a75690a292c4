//! Tells the leader, with the heartbeats, whether the shared store takes what this node puts.
//!
//! Looks at what the node does anyway and never puts anything itself: requests that had to be repeated
//! while the write-ahead log stands still mean that the store fails.

use crate::node::Parts;
use crate::stream::Streams;
use headwater_metadata::WalSeq;
use std::sync::Arc;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(500);
/// So many looks without a repeated request, and the store counts as working again.
const QUIET: u32 = 10;

/// Watches for ever.
pub async fn watch_store(parts: Arc<Parts>, streams: Streams) {
    let (mut health, lease) = (Health::default(), parts.metadata.lease());
    loop {
        parts.env.clock.sleep(INTERVAL).await;
        let retries = parts.store.counters().snapshot().retries;
        let works = health.look(retries, streams.wal().durable());
        if health.changed {
            tracing::warn!(works, "the shared store {}", if works { "works again" } else { "fails" });
        }
        lease.store_works(works);
    }
}

#[derive(Default)]
struct Health {
    retries: u64,
    durable: Option<WalSeq>,
    fails: bool,
    quiet: u32,
    changed: bool,
}

impl Health {
    /// Takes in what was counted so far; whether the store works.
    fn look(&mut self, retries: u64, durable: WalSeq) -> bool {
        let stands = self.durable == Some(durable);
        let repeated = retries > self.retries;
        self.quiet = if repeated { 0 } else { self.quiet.saturating_add(1) };
        let fails = stands && (repeated || (self.fails && self.quiet < QUIET));
        self.changed = fails != self.fails;
        (self.fails, self.retries, self.durable) = (fails, retries, Some(durable));
        !fails
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_fails_while_requests_are_repeated_and_the_log_stands_still() {
        let mut health = Health::default();
        let mut look = |retries, durable| health.look(retries, WalSeq(durable));
        assert!(look(0, 0));
        assert!(look(1, 5), "the log moves on");
        assert!(!look(2, 5));
        assert!(!look(2, 5), "one look without a repeat says nothing");
        assert!(look(3, 6), "something was stored");
        assert!(!look(4, 6));
        for _ in 1..QUIET {
            assert!(!look(4, 6));
        }
        assert!(look(4, 6), "nothing was asked of it for a while");
    }
}
