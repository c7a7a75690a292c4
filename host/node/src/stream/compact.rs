//! Joins small adjacent runs of open streams, so that neither the metadata nor reads grow with the
//! number of commits.
//!
//! Runs of about one size are joined when there are enough of them, so each byte is written again a
//! few times only. The new object stands in their place in one command; the store is cleaned of the
//! old ones by whoever collects what nothing refers to.

use super::Inner;
use super::api::StreamError;
use super::counters::{add, count};
use super::open::{OpenStream, Phase};
use headwater_metadata::{Command, Run};
use headwater_store::{collect, compact, object};
use std::ops::Range;
use std::sync::Arc;

/// Fewer runs than this are not joined.
const FEW: usize = 16;
/// Runs below this size are all alike.
const SMALL: u64 = 4 << 10;
/// A size class is so many times the one before.
const STEP: u64 = 8;

impl Inner {
    pub(super) async fn compact_loop(self: Arc<Self>) {
        let mut over = self.over.subscribe();
        let mut stopping = self.stopping.subscribe();
        loop {
            tokio::select! {
                () = self.env.clock.sleep(self.options.compact_every) => {}
                _ = over.wait_for(|over| *over) => return,
                _ = stopping.wait_for(|stopping| *stopping) => return,
            }
            for stream in self.registry.all() {
                if *self.over.borrow() || *self.stopping.borrow() {
                    return;
                }
                if let Err(error) = self.compact(&stream).await {
                    tracing::debug!(stream = %stream.id, %error, "runs could not be joined; later again");
                }
            }
        }
    }

    async fn compact(&self, stream: &OpenStream) -> Result<(), StreamError> {
        let view = self.log.view();
        let Some(committed) = view.stream(stream.id) else { return Ok(()) };
        if committed.runs.len() < FEW || stream.published().phase != Phase::Serving {
            return Ok(());
        }
        let runs: Vec<Run> = committed.runs.iter().copied().collect();
        let Some(range) = choose(&runs, self.options.run_bytes) else { return Ok(()) };
        let joined = &runs[range];
        let object = compact::concatenate(&self.store, &self.keys, stream.id, stream.epoch, joined)
            .await
            .map_err(super::owner::store_error)?;
        let put = object::put(&self.store, &object).await;
        put.map_err(|error| StreamError::Store(error.to_string().into()))?;
        let Some(run) = object.runs.first().and_then(|run| run.run) else { return Ok(()) };
        let outcome = self.settle(Command::Replace { stream: stream.id, epoch: stream.epoch, run }).await?;
        if self.log.view().refers_to(object.key) {
            count(&self.counters.compactions);
            add(&self.counters.compacted_runs, joined.len() as u64);
        } else {
            tracing::debug!(stream = %stream.id, ?outcome, "joined runs were not taken");
            collect::delete(&self.store, &[object.key]).await;
        }
        Ok(())
    }
}

/// Adjacent runs that are worth joining: enough of about one size or less, together at most `largest`
/// bytes. The smallest first.
fn choose(runs: &[Run], largest: u64) -> Option<Range<usize>> {
    let len = |run: &Run| run.end.0 - run.start.0;
    let mut class = SMALL;
    while class <= largest {
        let (mut from, mut bytes) = (0, 0);
        for (i, run) in runs.iter().enumerate() {
            if len(run) >= class || bytes + len(run) > largest {
                if is_worth_it(&runs[from..i], bytes) {
                    return Some(from..i);
                }
                (from, bytes) = (i, 0);
            }
            if len(run) >= class {
                from = i + 1;
            } else {
                bytes += len(run);
            }
        }
        if is_worth_it(&runs[from..], bytes) {
            return Some(from..runs.len());
        }
        class = class.saturating_mul(STEP);
    }
    None
}

/// Enough runs, and no large one written again for the sake of small ones.
fn is_worth_it(runs: &[Run], bytes: u64) -> bool {
    let largest = runs.iter().map(|run| run.end.0 - run.start.0).max().unwrap_or(0);
    runs.len() >= FEW && (largest < SMALL || bytes >= 4 * largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_metadata::{Epoch, NodeId, ObjectKey, Position, Session};

    fn runs(lens: &[u64]) -> Vec<Run> {
        let session = Session { node: NodeId(1), epoch: Epoch(1) };
        let mut end = 0;
        let run = |(number, len): (usize, &u64)| {
            let start = end;
            end += len;
            let object = ObjectKey { session, number: number as u64 };
            Run { start: Position(start), end: Position(end), object, offset: 0, crc: 0 }
        };
        lens.iter().enumerate().map(run).collect()
    }

    #[test]
    fn enough_runs_of_a_size_are_joined() {
        let mb = 1 << 20;
        let chosen = |lens: &[u64]| choose(&runs(lens), 4 * mb);
        assert_eq!(chosen(&[1; 15]), None);
        assert_eq!(chosen(&[1; 16]), Some(0..16));
        assert_eq!(chosen(&[&[mb][..], &[1; 20]].concat()), Some(1..21));
        assert_eq!(chosen(&[&[1; 8][..], &[mb], &[1; 8]].concat()), None, "not worth a megabyte");
        assert_eq!(
            chosen(&[&[5000; 3][..], &[1; 20], &[5000; 3]].concat()),
            Some(3..23),
            "the smallest first"
        );
        assert_eq!(chosen(&[5000; 16]), Some(0..16));
        assert_eq!(chosen(&[mb; 100]), None, "only what fits together");
        assert_eq!(chosen(&[mb / 8; 100]), Some(0..32), "as much as fits together");
        assert_eq!(chosen(&[]), None);
    }
}
