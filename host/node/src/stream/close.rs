//! Letting go of streams: idle ones, ones that must make room, all of them at the end.
//!
//! The stream refuses new appends, waits until every assigned position is durable and committed, and
//! proposes `Close` with its tail. Until the outcome is in the own view it takes nothing; rejected, it
//! goes on. Each close runs in a task of its own, so that it is never left halfway.

use super::Inner;
use super::api::StreamError;
use super::counters::count;
use super::open::{Ended, OpenStream, Phase};
use headwater_env::fail_point;
use headwater_metadata::{Command, Ownership, StreamId};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// So many closes run at a time.
const AT_A_TIME: usize = 256;

impl Inner {
    pub(super) async fn close(self: &Arc<Self>, id: StreamId) -> Result<(), StreamError> {
        let until = self.deadline();
        while let Some(in_use) = self.serving(id, until).await? {
            let stream = in_use.stream().clone();
            drop(in_use);
            if self.close_stream(&stream).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Closes it unless somebody else is at it; false then.
    async fn close_stream(self: &Arc<Self>, stream: &Arc<OpenStream>) -> Result<bool, StreamError> {
        if !stream.change_phase(&[Phase::Serving], Phase::Flushing) {
            return Ok(false);
        }
        let (inner, stream) = (self.clone(), stream.clone());
        let closing = tokio::spawn(async move { inner.flush_and_close(&stream).await });
        match closing.await {
            Ok(result) => result.map(|()| true),
            Err(_) => Err(StreamError::unavailable("closing the stream failed")),
        }
    }

    async fn flush_and_close(self: &Arc<Self>, stream: &Arc<OpenStream>) -> Result<(), StreamError> {
        self.flush(stream).await?;
        if !stream.change_phase(&[Phase::Flushing], Phase::Handed) {
            return Ok(());
        }
        let end = stream.assigned();
        let command = Command::Close {
            stream: stream.id,
            epoch: stream.epoch,
            end,
            touched_ms: stream.uses.touched_ms(),
        };
        let outcome = self.settle(command).await?;
        fail_point!("close.proposed");
        if self.let_go(stream) {
            count(&self.counters.closes);
            return Ok(());
        }
        tracing::warn!(stream = %stream.id, ?outcome, "closing was rejected: the stream goes on");
        count(&self.counters.closes_rejected);
        stream.change_phase(&[Phase::Handed], Phase::Serving);
        Err(StreamError::unavailable("the stream could not be closed"))
    }

    /// Waits until everything assigned is durable and committed.
    async fn flush(&self, stream: &OpenStream) -> Result<(), StreamError> {
        let mut watch = stream.watch();
        while !stream.is_flushed() {
            self.check()?;
            watch.borrow_and_update();
            if stream.is_flushed() {
                break;
            }
            self.signal.request();
            if watch.changed().await.is_err() {
                break;
            }
        }
        self.check()
    }

    /// Ends the stream here if the own view says that it is no longer this session's; false when it is.
    pub(super) fn let_go(&self, stream: &Arc<OpenStream>) -> bool {
        let view = self.log.view();
        let how = match view.stream(stream.id) {
            None => Ended::Deleted,
            Some(s) if s.deleted => Ended::Deleted,
            Some(s) if s.ownership == Ownership::Opened(self.session) && s.epoch == stream.epoch => {
                return false;
            }
            Some(_) => Ended::Closed,
        };
        stream.end(how);
        self.registry.remove(stream);
        true
    }

    /// Waits until one more stream may be open.
    pub(super) async fn make_room(self: &Arc<Self>, until: Duration) -> Result<(), StreamError> {
        while self.registry.len() >= self.options.max_open {
            // Some at once, so that the search is not made for each.
            let few = 1 + self.options.max_open / 64;
            let closed = self.close_all(self.least_used(few)).await;
            for _ in 0..closed {
                count(&self.counters.room_closes);
            }
            if closed == 0 {
                if self.left(until).is_zero() {
                    return Err(StreamError::unavailable("too many streams are open and in use"));
                }
                self.env.clock.sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    /// The idle streams that were used the longest ago.
    fn least_used(&self, few: usize) -> Vec<Arc<OpenStream>> {
        let mut idle: Vec<_> =
            self.registry.all().into_iter().filter_map(|s| Some((s.uses.idle_since()?, s))).collect();
        idle.sort_by_key(|(since, stream)| (*since, stream.id));
        idle.into_iter().take(few).map(|(_, stream)| stream).collect()
    }

    /// Closes these, many at a time; how many it closed.
    async fn close_all(self: &Arc<Self>, streams: Vec<Arc<OpenStream>>) -> usize {
        let mut closing = JoinSet::new();
        let mut closed = 0;
        for stream in streams {
            if closing.len() >= AT_A_TIME {
                closed += usize::from(matches!(closing.join_next().await, Some(Ok(true))));
            }
            let inner = self.clone();
            closing.spawn(async move { matches!(inner.close_stream(&stream).await, Ok(true)) });
        }
        while let Some(result) = closing.join_next().await {
            closed += usize::from(matches!(result, Ok(true)));
        }
        closed
    }

    /// Closes what nobody has asked for, and ends what has expired.
    pub(super) async fn idle_loop(self: Arc<Self>) {
        let interval =
            (self.options.idle_close / 8).clamp(Duration::from_millis(20), Duration::from_secs(15));
        let mut over = self.over.subscribe();
        let mut stopping = self.stopping.subscribe();
        loop {
            tokio::select! {
                () = self.env.clock.sleep(interval) => {}
                _ = over.wait_for(|over| *over) => return,
                _ = stopping.wait_for(|stopping| *stopping) => return,
            }
            let now = self.env.clock.monotonic();
            let mut idle = Vec::new();
            for stream in self.registry.all() {
                if self.is_expired(&stream) {
                    self.expire_open(&stream);
                } else if stream
                    .uses
                    .idle_since()
                    .is_some_and(|since| now.saturating_sub(since) >= self.options.idle_close)
                {
                    idle.push(stream);
                }
            }
            let closed = self.close_all(idle).await;
            for _ in 0..closed {
                count(&self.counters.idle_closes);
            }
        }
    }

    pub(super) async fn shutdown(self: &Arc<Self>, limit: Duration) -> bool {
        self.stopping.send_replace(true);
        let flushed = self.env.timeout(limit, async {
            loop {
                let all = self.registry.all();
                if all.is_empty() || *self.over.borrow() {
                    break;
                }
                if self.close_all(all).await == 0 {
                    self.env.clock.sleep(Duration::from_millis(20)).await;
                }
            }
            self.wal.shutdown().await;
        });
        let done = flushed.await.is_some() && self.registry.len() == 0;
        self.over.send_replace(true);
        self.memory.close();
        self.registry.end_all(Ended::Fenced);
        done
    }
}
