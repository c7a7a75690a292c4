//! Deletes streams that are over and that nobody asks for, a part at a time.
//!
//! Only streams that nobody has open: those the metadata can judge by the last touch that it knows, and
//! a delete names the epoch, so one that is opened in the meantime is not hit. The rate is bounded, so
//! that other proposals of this session find room in every entry of the log. `control/sweep.rs` says
//! when; on access a stream is judged at once (`delete.rs`).

use super::Inner;
use super::api::StreamError;
use super::counters::{add, count};
use headwater_metadata::{Command, Outcome, Rejection};
use std::sync::Arc;
use tokio::task::JoinSet;

/// So many deletes are proposed at a time: half of an entry of the log.
const PART: usize = 128;
/// A stream is swept so long after its end: clocks of nodes differ a little.
const SLACK_MS: u64 = 5_000;

impl Inner {
    /// How many streams it judged: 0 when there is nothing to do.
    pub(super) async fn sweep(self: &Arc<Self>) -> Result<usize, StreamError> {
        self.check()?;
        let now = self.env.clock.wall_ms().saturating_sub(SLACK_MS);
        let view = self.log.view();
        let mut deletes = JoinSet::new();
        for stream in view.expired(now).filter(|it| view.waits_for_recovery(it).is_none()).take(PART) {
            let command = Command::DeleteStream { stream: stream.id, epoch: stream.epoch };
            let inner = self.clone();
            deletes.spawn(async move { inner.propose(command).await });
        }
        let judged = deletes.len();
        let (mut deleted, mut failed) = (0, None);
        while let Some(done) = deletes.join_next().await {
            match done {
                Ok(Ok(Outcome::Applied(_) | Outcome::Redundant(_))) => deleted += 1,
                Ok(Ok(Outcome::Rejected(Rejection::NotRegistered { .. }))) => {
                    failed = Some(StreamError::Fenced);
                }
                Ok(Ok(Outcome::Rejected(why))) => {
                    tracing::debug!(%why, "a stream that was over was not deleted");
                    count(&self.counters.sweeps_refused);
                }
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some(StreamError::unavailable("a delete failed")),
            }
        }
        add(&self.counters.swept, deleted);
        add(&self.counters.deletes, deleted);
        failed.map_or(Ok(judged), Err)
    }
}
