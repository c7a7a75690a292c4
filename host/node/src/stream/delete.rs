//! Deletes streams: an open one by its owner, any other by whoever is asked; and those that have
//! expired, when somebody looks at them.
//!
//! A delete names id and epoch, so a late one hits no successor. From handing it over until its outcome
//! is known the owner takes nothing.

use super::Inner;
use super::api::StreamError;
use super::counters::count;
use super::expiry;
use super::open::{OpenStream, Phase};
use super::step::{Step, next};
use headwater_metadata::{Command, Outcome, Rejection, Stream, StreamId};
use std::sync::Arc;
use std::time::Duration;

impl Inner {
    pub(super) async fn delete(self: &Arc<Self>, id: StreamId) -> Result<(), StreamError> {
        let until = self.deadline();
        loop {
            self.check()?;
            match self.serving(id, until).await? {
                Some(in_use) => {
                    let stream = in_use.stream().clone();
                    if self.is_expired(&stream) {
                        self.expire_open(&stream);
                        return Err(StreamError::NotFound);
                    }
                    drop(in_use);
                    if self.delete_open(&stream).await? {
                        return Ok(());
                    }
                }
                None => {
                    if self.delete_elsewhere(id, until, false).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Deletes a stream that is open here, in a task of its own. False when somebody else was at it.
    async fn delete_open(self: &Arc<Self>, stream: &Arc<OpenStream>) -> Result<bool, StreamError> {
        if !stream.change_phase(&[Phase::Serving], Phase::Handed) {
            return Ok(false);
        }
        let (inner, stream) = (self.clone(), stream.clone());
        let deleting = tokio::spawn(async move {
            let command = Command::DeleteStream { stream: stream.id, epoch: stream.epoch };
            let outcome = inner.settle(command).await?;
            if inner.let_go(&stream) {
                count(&inner.counters.deletes);
                return Ok(());
            }
            tracing::warn!(stream = %stream.id, ?outcome, "deleting was rejected: the stream goes on");
            stream.change_phase(&[Phase::Handed], Phase::Serving);
            Err(StreamError::unavailable("the stream could not be deleted"))
        });
        let result: Result<(), StreamError> = match deleting.await {
            Ok(result) => result,
            Err(_) => Err(StreamError::unavailable("deleting the stream failed")),
        };
        result.map(|()| true)
    }

    /// Deletes a stream that is not open here. False: look again.
    async fn delete_elsewhere(
        self: &Arc<Self>,
        id: StreamId,
        until: Duration,
        expired: bool,
    ) -> Result<bool, StreamError> {
        self.barrier().await?;
        let mut views = self.log.views();
        views.borrow_and_update();
        let view = self.log.view();
        let Some(stream) = view.stream(id) else { return Err(StreamError::NotFound) };
        match next(&view, id, self.session) {
            Step::Absent => return Err(StreamError::NotFound),
            Step::Deleted => return Err(StreamError::Deleted),
            Step::Load(_) => return self.open(id).await.map(|_| false),
            Step::WaitForTransfer => {
                self.next_view(&mut views, until, "the stream is moving here").await?;
                return Ok(false);
            }
            Step::WaitForRecovery(_) => {
                self.next_view(&mut views, until, "the stream's last owner is being recovered").await?;
                return Ok(false);
            }
            // Placed elsewhere and not open: whoever is asked may delete it.
            Step::Moved(node) if is_open(stream) => return Err(StreamError::Moved(node)),
            Step::Moved(_) | Step::Open(_) | Step::Place | Step::Damaged(_) => {}
        }
        if !expired && self.is_over(stream) {
            self.expire_closed(stream);
            return Err(StreamError::NotFound);
        }
        match self.propose(Command::DeleteStream { stream: id, epoch: stream.epoch }).await? {
            Outcome::Applied(_) | Outcome::Redundant(_) => {
                count(&self.counters.deletes);
                Ok(true)
            }
            Outcome::Rejected(Rejection::NotRegistered { .. }) => Err(StreamError::Fenced),
            Outcome::Rejected(why) => {
                tracing::debug!(stream = %id, %why, "deleting was refused");
                if self.left(until).is_zero() {
                    return Err(StreamError::unavailable("the stream changes hands"));
                }
                self.env.clock.sleep(Duration::from_millis(5)).await;
                Ok(false)
            }
        }
    }

    /// Whether an open stream has reached its end by itself.
    pub(super) fn is_expired(&self, stream: &OpenStream) -> bool {
        if stream.uses.has_live_reader() {
            stream.uses.touch(self.env.clock.wall_ms());
        }
        expiry::is_over(stream.expiry, stream.uses.touched_ms(), self.env.clock.wall_ms())
    }

    /// Whether a stream that is not open has.
    pub(super) fn is_over(&self, stream: &Stream) -> bool {
        expiry::is_over(stream.expiry, expiry::known_touch(stream), self.env.clock.wall_ms())
    }

    /// Has an open stream that is over deleted, in the background.
    pub(super) fn expire_open(self: &Arc<Self>, stream: &Arc<OpenStream>) {
        count(&self.counters.expirations);
        let (inner, stream) = (self.clone(), stream.clone());
        tokio::spawn(async move { inner.delete_open(&stream).await });
    }

    /// The same for one that is not open.
    pub(super) fn expire_closed(self: &Arc<Self>, stream: &Stream) {
        count(&self.counters.expirations);
        let (inner, id) = (self.clone(), stream.id);
        tokio::spawn(async move { inner.delete_expired(id).await });
    }

    /// Deletes a stream that was found to be over, and waits for it.
    pub(super) async fn delete_expired(self: &Arc<Self>, id: StreamId) -> Result<(), StreamError> {
        let until = self.deadline();
        let done = match self.serving(id, until).await? {
            Some(in_use) => {
                let stream = in_use.stream().clone();
                drop(in_use);
                !self.is_expired(&stream) || self.delete_open(&stream).await?
            }
            None => {
                let view = self.log.view();
                let over = view.stream(id).is_some_and(|stream| self.is_over(stream));
                !over || self.delete_elsewhere(id, until, true).await?
            }
        };
        tracing::debug!(stream = %id, done, "expired");
        Ok(())
    }
}

/// Somebody serves it, or has not let go of it yet.
fn is_open(stream: &Stream) -> bool {
    matches!(stream.ownership, headwater_metadata::Ownership::Opened(_))
}
