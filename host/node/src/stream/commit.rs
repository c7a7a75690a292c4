//! Moves durable bytes from the write-ahead log into stream-major data objects, in the background.
//!
//! One round takes what is durable and not committed of many streams, stores it in data objects,
//! proposes one `Commit` and looks in the own view for what became of it; then the log is cut. One
//! round at a time, so a session has one `Commit` in flight. An object whose commit has an unknown
//! outcome is never deleted here: nothing is deleted here but log objects below an applied trim point.

use super::Inner;
use super::api::StreamError;
use super::counters::{add, count};
use super::open::{Ended, OpenStream};
use headwater_env::fail_point;
use headwater_metadata::{Answer, Command, Outcome, Ownership, Position, StreamId, StreamRun, WalSeq};
use headwater_store::object::{self, Object, Writer};
use headwater_store::wal::Extent;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// At most so many runs are in one `Commit`, so that its log entry stays small.
const RUNS: usize = 2_000;
/// At most so many bytes are in one round.
const ROUND_BYTES: u64 = 64 << 20;

/// How the committer is told that there is something to do.
#[derive(Default)]
pub struct Signal {
    wake: Notify,
    asked: AtomicBool,
    bytes: AtomicU64,
}

impl Signal {
    /// Somebody waits for a commit.
    pub fn request(&self) {
        self.asked.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// So many bytes became durable.
    pub fn durable(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.asked.load(Ordering::Acquire) {
            self.wake.notify_one();
        }
    }
}

/// What a round does with one stream: it is covered up to here.
type Covered = BTreeMap<StreamId, (Arc<OpenStream>, Position, bool)>;

impl Inner {
    pub(super) async fn commit_loop(self: Arc<Self>) {
        let tick = (self.options.commit_age / 4).clamp(Duration::from_millis(5), Duration::from_millis(500));
        let mut over = self.over.subscribe();
        loop {
            tokio::select! {
                () = self.signal.wake.notified() => {}
                () = self.env.clock.sleep(tick) => {}
                _ = over.wait_for(|over| *over) => return,
            }
            while self.is_due() {
                self.signal.asked.store(false, Ordering::Release);
                self.signal.bytes.store(0, Ordering::Relaxed);
                match self.commit_round().await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(StreamError::Fenced) => return,
                    Err(error) => {
                        tracing::warn!(%error, "a commit failed; it is tried again");
                        self.env.clock.sleep(Duration::from_millis(500)).await;
                    }
                }
            }
        }
    }

    fn is_due(&self) -> bool {
        if *self.over.borrow() {
            return false;
        }
        // Objects without records (proofs) are trimmed too.
        let (objects, _) = self.wal.backlog();
        if objects >= self.options.commit_objects {
            return true;
        }
        if !self.registry.is_dirty() {
            return false;
        }
        self.signal.asked.load(Ordering::Acquire)
            || self.signal.bytes.load(Ordering::Relaxed) >= self.options.commit_bytes
            || self.registry.oldest_dirty().is_some_and(|oldest| {
                self.env.clock.monotonic().saturating_sub(oldest) >= self.options.commit_age
            })
    }

    /// False when there was nothing to do.
    async fn commit_round(self: &Arc<Self>) -> Result<bool, StreamError> {
        let (objects, covered) = self.collect();
        let result = self.store_and_commit(&objects, &covered).await;
        for (stream, ..) in covered.values() {
            if stream.has_uncommitted() {
                self.registry.mark_dirty(stream);
            }
        }
        result
    }

    /// Takes what there is to commit, in the order of stream ids, as much as one round may have.
    fn collect(&self) -> (Vec<Object>, Covered) {
        let mut covered = Covered::new();
        let mut objects = Vec::new();
        let mut writer = Writer::new();
        let (mut runs, mut bytes) = (0, 0);
        for stream in self.registry.take_dirty() {
            if runs >= RUNS || bytes >= ROUND_BYTES {
                self.registry.mark_dirty(&stream);
                self.signal.asked.store(true, Ordering::Release);
                continue;
            }
            let Some(part) = stream.uncommitted(self.options.run_bytes, ROUND_BYTES - bytes) else {
                continue;
            };
            let last = part.runs.len() - 1;
            let mut checkpoint = part.writers.as_ref().map(|writers| writers.encode().into());
            for (i, run) in part.runs.into_iter().enumerate() {
                let checkpoint = if i == last { checkpoint.take() } else { None };
                runs += 1;
                bytes += run.end.0 - run.start.0;
                covered.insert(stream.id, (stream.clone(), run.end, run.eof));
                writer.add(stream.id, stream.epoch, run.start, run.bytes, checkpoint, run.eof);
                if writer.len() >= self.options.object_bytes {
                    objects.push(std::mem::take(&mut writer).finish(&self.keys));
                }
            }
        }
        if !writer.is_empty() {
            objects.push(writer.finish(&self.keys));
        }
        (objects, covered)
    }

    async fn store_and_commit(
        self: &Arc<Self>,
        objects: &[Object],
        covered: &Covered,
    ) -> Result<bool, StreamError> {
        for object in objects {
            self.put(object).await?;
        }
        fail_point!("commit.object_put");
        let trim = self.wal.trim_point(|extent| self.covers(covered, extent));
        let runs: Vec<StreamRun> = objects.iter().flat_map(|object| object.runs.iter().cloned()).collect();
        if runs.is_empty() && self.applied_trim().is_none_or(|applied| trim <= applied) {
            return Ok(false);
        }
        let (objects, runs_len) = (objects.len() as u64, runs.len() as u64);
        let outcome = self.settle(Command::Commit { runs, trim }).await?;
        fail_point!("commit.proposed");
        match &outcome {
            Outcome::Applied(Answer::Refused(refused)) if !refused.is_empty() => {
                count(&self.counters.commits_refused);
                tracing::warn!(?refused, "parts of a commit were refused");
            }
            Outcome::Rejected(why) => tracing::warn!(%why, "a commit was rejected"),
            _ => {}
        }
        count(&self.counters.commits);
        add(&self.counters.commit_runs, runs_len);
        add(&self.counters.commit_objects, objects);
        let stuck = covered.values().filter(|(stream, end, eof)| !self.take_in(stream, *end, *eof)).count();
        if let Some(trim) = self.applied_trim() {
            self.wal.delete_below(trim).await;
        }
        if stuck > 0 {
            return Err(StreamError::unavailable("the metadata log refused a commit"));
        }
        Ok(true)
    }

    /// Stores an object, however long the store fails: there is nothing better to do with the bytes.
    async fn put(&self, object: &Object) -> Result<(), StreamError> {
        loop {
            self.check()?;
            match object::put(&self.store, object).await {
                Ok(()) => return Ok(()),
                Err(object::PutError::Foreign { object }) => {
                    tracing::error!(object, "somebody else writes data objects of this session");
                    self.end_session();
                    return Err(StreamError::Fenced);
                }
                Err(error) => {
                    tracing::warn!(%error, "a data object could not be stored; it is tried again");
                    self.env.clock.sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    /// Whether what an object of the log holds of a stream is, or is about to be, committed, or is
    /// nobody's any more.
    fn covers(&self, covered: &Covered, extent: &Extent) -> bool {
        let Some(stream) = self.registry.get(extent.stream) else { return true };
        if stream.epoch != extent.epoch {
            return stream.epoch > extent.epoch;
        }
        let published = stream.published();
        let about_to = covered.get(&extent.stream).filter(|(there, ..)| Arc::ptr_eq(there, &stream));
        let (end, eof) = about_to.map_or((published.committed, published.committed_eof), |(_, end, eof)| {
            ((*end).max(published.committed), *eof || published.committed_eof)
        });
        end >= extent.end && (eof || !extent.eof)
    }

    /// The session's trim point in the own view.
    fn applied_trim(&self) -> Option<WalSeq> {
        self.log.view().progress(self.session).map(|progress| progress.trim)
    }

    /// Takes in what the own view says of a stream after a commit. False when it still lacks the runs.
    fn take_in(&self, stream: &Arc<OpenStream>, end: Position, eof: bool) -> bool {
        let view = self.log.view();
        match view.stream(stream.id) {
            Some(s)
                if s.ownership == Ownership::Opened(self.session)
                    && s.epoch == stream.epoch
                    && !s.deleted =>
            {
                stream.set_committed(s.end, s.eof);
                s.end >= end && (s.eof || !eof)
            }
            Some(s) if !s.deleted => {
                tracing::error!(stream = %stream.id, "the stream is no longer this session's");
                stream.end(Ended::Fenced);
                self.registry.remove(stream);
                true
            }
            _ => {
                stream.end(Ended::Deleted);
                self.registry.remove(stream);
                true
            }
        }
    }
}
