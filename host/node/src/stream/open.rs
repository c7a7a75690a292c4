//! One open stream: what this session has assigned, logged and committed of it, and who may still
//! append.
//!
//! Invariants: committed ≤ durable ≤ assigned; readers see what is durable, never more; a position is
//! assigned and its record handed to the log in one step under the lock; once a `Close` or a delete was
//! handed to the metadata log no append is taken until its outcome is known. The lock is short and
//! never held across an await. `tail.rs` decides, `append.rs` waits, `commit.rs` takes from here.

use super::api::{Append, Info, StreamError};
use super::checkpoint::{RecordMeta, Writers};
use super::expiry;
use super::tail::{Admission, Admitted, Tail};
use super::uses::Uses;
use bytes::Bytes;
use headwater_metadata::{Expiry, Position, Stream, StreamEpoch, StreamId};
use headwater_store::tail::{Tail as TailBytes, TailBudget};
use headwater_store::{Permit, Record, Ticket, Wal};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// How an open stream ended here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Flushed and let go.
    Closed,
    /// Deleted.
    Deleted,
    /// The session is over, or the stream is no longer its own.
    Fenced,
}

/// What an open stream does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Serves.
    Serving,
    /// Takes no appends: what it has is being flushed, to be let go.
    Flushing,
    /// A `Close` or a delete is with the metadata log, its outcome unknown: nothing is taken, and
    /// nothing proves that the stream is still this session's.
    Handed,
    /// It is over.
    Ended(Ended),
}

/// What waits on an open stream can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// End of what is durable: readers go up to here.
    pub durable: Position,
    /// Closed for appends, durably; `durable` is the end.
    pub eof: bool,
    /// End of what is in data objects that the metadata refers to.
    pub committed: Position,
    /// The closing for appends is committed too.
    pub committed_eof: bool,
    /// What the stream does.
    pub phase: Phase,
}

/// A stream that this session has open.
pub struct OpenStream {
    /// Its id.
    pub id: StreamId,
    /// The epoch at which it is open.
    pub epoch: StreamEpoch,
    /// Its name.
    pub name: Arc<str>,
    /// Its content type.
    pub content_type: Arc<str>,
    /// When it ends by itself.
    pub expiry: Expiry,
    /// The newest bytes.
    pub bytes: TailBytes,
    state: Mutex<State>,
    published: watch::Sender<Published>,
    /// Who uses it, and when it was last used.
    pub uses: Uses,
    dirty: AtomicBool,
}

struct State {
    tail: Tail,
    /// Logged and not committed, in order.
    pending: VecDeque<Pending>,
    /// So many of them, from the front, are durable.
    durable: usize,
    /// The writers as of the committed end.
    base: Writers,
}

/// A record that is not committed.
struct Pending {
    end: Position,
    eof: bool,
    meta: RecordMeta,
    at: Duration,
    _memory: OwnedSemaphorePermit,
}

/// What an append came to, under the lock.
pub enum Submitted {
    /// It is on its way: wait for the ticket.
    Logged {
        /// Resolves when it is durable.
        ticket: Ticket,
        /// The record's end.
        admitted: Admitted,
    },
    /// Known already: wait until everything up to here is durable.
    Duplicate(super::api::Appended),
    /// The stream takes nothing now.
    NotServing,
}

/// Part of a stream that can be committed.
pub struct Uncommitted {
    /// The bytes of each run, from the committed end on.
    pub runs: Vec<UncommittedRun>,
    /// The writers as of the end, when they have changed.
    pub writers: Option<Writers>,
}

/// Part of [`Uncommitted`].
pub struct UncommittedRun {
    /// Where it begins.
    pub start: Position,
    /// Where it ends.
    pub end: Position,
    /// Its bytes.
    pub bytes: Vec<Bytes>,
    /// The stream is closed for appends at its end.
    pub eof: bool,
}

impl OpenStream {
    /// A stream that was just opened at `epoch`, as the metadata has it.
    pub fn new(
        stream: &Stream,
        epoch: StreamEpoch,
        writers: Writers,
        budget: &Arc<TailBudget>,
        limit: u64,
        now: (u64, Duration),
    ) -> OpenStream {
        let tail = Tail {
            content_type: stream.content_type.clone(),
            end: stream.end,
            eof: stream.eof,
            writers: writers.clone(),
            damaged: stream.damaged.then_some(stream.end),
            limit,
        };
        let published = Published {
            durable: stream.end,
            eof: stream.eof,
            committed: stream.end,
            committed_eof: stream.eof,
            phase: Phase::Serving,
        };
        OpenStream {
            id: stream.id,
            epoch,
            name: stream.name.clone(),
            content_type: stream.content_type.clone(),
            expiry: stream.expiry,
            bytes: TailBytes::new(budget, stream.end),
            state: Mutex::new(State { tail, pending: VecDeque::new(), durable: 0, base: writers }),
            published: watch::Sender::new(published),
            uses: Uses::new(now.1, expiry::known_touch(stream)),
            dirty: AtomicBool::new(false),
        }
    }

    /// Judges an append and, when it is admitted, gives it its place and hands it to the log: one
    /// step. A panic in the middle would leave a hole in the stream, so it ends the process.
    pub fn submit(
        &self,
        append: &Append,
        permit: Permit,
        memory: OwnedSemaphorePermit,
        wal: &Wal,
        now: (u64, Duration),
    ) -> Result<Submitted, StreamError> {
        let mut state = self.state.lock();
        let phase = self.published.borrow().phase;
        if phase != Phase::Serving {
            return Ok(Submitted::NotServing);
        }
        let admitted = match state.tail.admit(append, now.0)? {
            Admission::Duplicate(appended) => return Ok(Submitted::Duplicate(appended)),
            Admission::Admit(admitted) => admitted,
        };
        let guard = AbortOnPanic;
        state.tail.accept(&admitted);
        self.bytes.push(admitted.bytes.clone());
        state.pending.push_back(Pending {
            end: admitted.end(),
            eof: admitted.eof,
            meta: admitted.meta.clone(),
            at: now.1,
            _memory: memory,
        });
        let ticket = wal.submit(
            permit,
            Record {
                stream: self.id,
                epoch: self.epoch,
                start: admitted.start,
                bytes: admitted.bytes.clone(),
                eof: admitted.eof,
                meta: Bytes::from(admitted.meta.encode()),
            },
        );
        std::mem::forget(guard);
        Ok(Submitted::Logged { ticket, admitted })
    }

    /// A record up to `end` is durable. Called in the order of the log.
    pub fn record_durable(&self, end: Position, eof: bool) {
        let mut state = self.state.lock();
        if state.durable == state.pending.len() {
            return; // the stream ended here before
        }
        debug_assert_eq!(state.pending.get(state.durable).map(|p| p.end), Some(end), "durable in order");
        state.durable += 1;
        self.published.send_modify(|p| {
            p.durable = p.durable.max(end);
            p.eof |= eof;
        });
    }

    /// What is durable and not committed, in runs of about `run_bytes` that end where records end, up
    /// to about `limit` bytes in all. `None` when there is nothing.
    pub fn uncommitted(&self, run_bytes: u64, limit: u64) -> Option<Uncommitted> {
        let state = self.state.lock();
        let start = self.published.borrow().committed;
        let mut writers = state.base.clone();
        let mut runs: Vec<(Position, Position, bool)> = Vec::new();
        for pending in state.pending.iter().take(state.durable) {
            let from = runs.last().map_or(start, |run| run.1);
            if from.0 - start.0 >= limit {
                break;
            }
            match runs.last_mut() {
                Some(run) if pending.end.0 - run.0.0 <= run_bytes => {
                    run.1 = pending.end;
                    run.2 |= pending.eof;
                }
                _ => runs.push((from, pending.end, pending.eof)),
            }
            writers.apply(&pending.meta, pending.eof);
        }
        if runs.is_empty() {
            return None;
        }
        let runs = runs
            .into_iter()
            .map(|(start, end, eof)| {
                let bytes = self.bytes.read(start, end).expect("what is not committed is in memory");
                UncommittedRun { start, end, bytes, eof }
            })
            .collect();
        Some(Uncommitted { runs, writers: (writers != state.base).then_some(writers) })
    }

    /// Everything up to `end` is committed.
    pub fn set_committed(&self, end: Position, eof: bool) {
        let mut state = self.state.lock();
        while state.pending.front().is_some_and(|first| first.end <= end && (eof || !first.eof)) {
            let Some(first) = state.pending.pop_front() else { break };
            state.base.apply(&first.meta, first.eof);
            state.durable = state.durable.saturating_sub(1);
        }
        self.bytes.committed(end);
        self.published.send_modify(|p| {
            p.committed = p.committed.max(end);
            p.committed_eof |= eof;
        });
    }

    /// Whether something is durable and not committed.
    pub fn has_uncommitted(&self) -> bool {
        self.state.lock().durable > 0
    }

    /// Marks it as having something to commit; false when it was marked.
    pub fn mark_dirty(&self) -> bool {
        !self.dirty.swap(true, Ordering::AcqRel)
    }

    /// Takes that mark away, before what there is to commit is looked at.
    pub fn clear_dirty(&self) {
        self.dirty.store(false, Ordering::Release);
    }

    /// When the oldest record that is not committed was submitted, monotonic.
    pub fn oldest_pending(&self) -> Option<Duration> {
        self.state.lock().pending.front().map(|p| p.at)
    }

    /// Nothing is assigned that is not committed.
    pub fn is_flushed(&self) -> bool {
        self.state.lock().pending.is_empty()
    }

    /// End of everything assigned.
    pub fn assigned(&self) -> Position {
        self.state.lock().tail.end
    }

    /// Goes from one phase to another; false when it is in none of `from`.
    pub fn change_phase(&self, from: &[Phase], to: Phase) -> bool {
        // Under the lock, so that no append is admitted in a phase that is over.
        let mut state = self.state.lock();
        let changed = self.published.send_if_modified(|p| {
            let allowed = from.contains(&p.phase);
            if allowed {
                p.phase = to;
            }
            allowed
        });
        if let (true, Phase::Ended(_)) = (changed, to) {
            state.pending.clear();
            state.durable = 0;
            self.bytes.committed(state.tail.end);
        }
        changed
    }

    /// It is over, whatever it did.
    pub fn end(&self, how: Ended) {
        let phases = [Phase::Serving, Phase::Flushing, Phase::Handed];
        self.change_phase(&phases, Phase::Ended(how));
    }

    /// What can be seen now.
    pub fn published(&self) -> Published {
        *self.published.borrow()
    }

    /// Sees every change.
    pub fn watch(&self) -> watch::Receiver<Published> {
        self.published.subscribe()
    }

    /// The moment at which the stream ends by itself.
    pub fn expires_ms(&self) -> Option<u64> {
        expiry::expires_ms(self.expiry, self.uses.touched_ms())
    }

    /// The stream as this owner sees it.
    pub fn info(&self, start: Position) -> Info {
        let published = self.published();
        Info {
            id: self.id,
            name: self.name.clone(),
            content_type: self.content_type.clone(),
            expiry: self.expiry,
            expires_ms: self.expires_ms(),
            start,
            tail: published.durable,
            eof: published.eof,
        }
    }
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        tracing::error!("a panic between assigning a position and logging it: the process ends");
        std::process::abort();
    }
}
