//! Log, vote and purge point on disk, in one redb file that this member alone writes.
//!
//! `append` makes entries readable from memory at once and reports them flushed only after the flush
//! (`writer.rs`). Everything is verified at the start (`open.rs`) and again when it is read. The purge
//! point is stored in the same transaction that deletes the entries. Never retries a failed flush.

mod backend;
mod format;
mod open;
mod writer;

use crate::counters::{Counters, count};
use crate::dir::DataDir;
use crate::error::DirError;
use crate::fatal::FatalCell;
use crate::types::{Config, Entry, LogId, Vote};
use headwater_env::Env;
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use parking_lot::Mutex;
use redb::{Database, ReadableDatabase};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use writer::Write;

/// Recent entries kept in memory for replication and apply: so many, and so many bytes.
const RECENT_ENTRIES: usize = 1_024;
const RECENT_BYTES: usize = 32 << 20;
/// So many writes wait at most.
const QUEUE: usize = 1_024;
/// Bytes of entries that one read of the log for a peer may give.
const READ_BYTES: usize = 1 << 20;

/// The log. Also its reader.
#[derive(Clone)]
pub(crate) struct LogStore {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Write>,
}

struct Shared {
    /// `None` once closed.
    db: Mutex<Option<Arc<Database>>>,
    memory: Mutex<Memory>,
    env: Env,
    counters: Arc<Counters>,
    fatal: FatalCell,
}

/// The truth for everything that is not flushed yet, and a cache of the rest.
struct Memory {
    vote: Option<Vote>,
    purged: Option<LogId>,
    committed: Option<LogId>,
    last: Option<LogId>,
    entries: BTreeMap<u64, Kept>,
    bytes: usize,
    /// Entries up to here are on disk and may be dropped from memory.
    flushed: u64,
}

/// An entry with the length of its row.
type Kept = (Entry, usize);

impl Memory {
    fn insert(&mut self, entry: Entry, size: usize) {
        let id = entry.log_id();
        self.last = Some(id);
        self.bytes += size;
        if let Some((_, old)) = self.entries.insert(id.index, (entry, size)) {
            self.bytes -= old;
        }
    }

    fn flushed(&mut self, index: u64) {
        self.flushed = self.flushed.max(index);
        while (self.entries.len() > RECENT_ENTRIES || self.bytes > RECENT_BYTES)
            && let Some(oldest) = self.entries.first_entry()
            && *oldest.key() <= self.flushed
        {
            self.bytes -= oldest.remove().1;
        }
    }

    fn keep(&mut self, range: impl RangeBounds<u64>) {
        self.entries.retain(|index, _| range.contains(index));
        self.bytes = self.entries.values().map(|(_, size)| size).sum();
    }

    fn first(&self) -> u64 {
        self.purged.map_or(0, |id| id.index + 1)
    }

    fn end(&self) -> u64 {
        self.last.map_or(0, |id| id.index + 1)
    }
}

fn index_of(id: Option<LogId>) -> u64 {
    id.map_or(0, |id| id.index)
}

impl LogStore {
    /// Opens the log of a data directory. Blocks; run it where that is allowed, inside a runtime.
    pub(crate) fn open(
        dir: &mut DataDir,
        counters: Arc<Counters>,
        fatal: FatalCell,
    ) -> Result<LogStore, DirError> {
        let opened = open::open(dir, &counters, RECENT_ENTRIES)?;
        let mut memory = Memory {
            vote: opened.vote,
            purged: opened.purged,
            committed: opened.committed,
            last: opened.last,
            entries: BTreeMap::new(),
            bytes: 0,
            flushed: index_of(opened.last),
        };
        for (entry, size) in opened.tail {
            memory.insert(entry, size);
        }
        let shared = Arc::new(Shared {
            db: Mutex::new(Some(Arc::new(opened.db))),
            memory: Mutex::new(memory),
            env: dir.env.clone(),
            counters,
            fatal,
        });
        let (queue, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(writer::run(shared.clone(), receiver));
        Ok(LogStore { shared, queue })
    }

    /// The last entry that was deleted from the log.
    pub(crate) fn purged(&self) -> Option<LogId> {
        self.shared.memory.lock().purged
    }

    /// Whether this member has neither an entry nor a vote.
    pub(crate) fn is_pristine(&self) -> bool {
        let memory = self.shared.memory.lock();
        memory.last.is_none() && memory.vote.is_none()
    }

    /// Writes what waits and closes the file.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.send(Write::Close { done }).await.is_ok() {
            let _ = closed.await;
        }
        let shared = self.shared.clone();
        self.shared.env.blocking(move || drop(shared.db.lock().take())).await;
    }

    /// Waits for room: raft slows down when the disk does.
    async fn send(&self, write: Write) -> io::Result<()> {
        self.queue.send(write).await.map_err(|_| io::Error::other("the log's writer is gone"))
    }

    async fn read(&self, range: std::ops::Range<u64>, limit: usize) -> io::Result<Vec<Kept>> {
        let (found, missing) = {
            let memory = self.shared.memory.lock();
            let range = range.start.max(memory.first())..range.end.min(memory.end());
            if range.is_empty() {
                return Ok(Vec::new());
            }
            let mut found: BTreeMap<u64, Kept> =
                memory.entries.range(range.clone()).map(|(index, sized)| (*index, sized.clone())).collect();
            // Memory holds the newest: what is missing is one stretch at the front.
            let missing = range.start..found.first_key_value().map_or(range.end, |(index, _)| *index);
            if limit != usize::MAX && !missing.is_empty() {
                found.clear();
            }
            (found, missing)
        };
        let mut entries = Vec::new();
        if !missing.is_empty() {
            let shared = self.shared.clone();
            entries = self.shared.env.blocking(move || shared.load(missing, limit)).await?;
        }
        entries.extend(found.into_values());
        Ok(entries)
    }
}

impl Shared {
    fn load(&self, range: std::ops::Range<u64>, limit: usize) -> io::Result<Vec<Kept>> {
        let other = |e: &dyn std::fmt::Display| io::Error::other(format!("raft log: {e}"));
        let db = self.db.lock().clone().ok_or_else(|| io::Error::other("the log is closed"))?;
        let transaction = db.begin_read().map_err(|e| other(&e))?;
        let table = transaction.open_table(format::LOG).map_err(|e| other(&e))?;
        let mut entries = Vec::new();
        let mut bytes = 0;
        for row in table.range(range).map_err(|e| other(&e))? {
            let (index, value) = row.map_err(|e| other(&e))?;
            let size = value.value().len();
            bytes += size;
            if bytes > limit && !entries.is_empty() {
                break;
            }
            let entry = open::decode(index.value(), value.value()).map_err(|why| other(&why))?;
            entries.push((entry, size));
        }
        Ok(entries)
    }
}

impl RaftLogReader<Config> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        let entries = self.read(start..end, usize::MAX).await?;
        Ok(entries.into_iter().map(|(entry, _)| entry).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.shared.memory.lock().vote)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        // Entries with a policy are large; a peer gets few of them at a time, but at least one.
        let mut bytes = 0;
        let entries = self.read(start..end, READ_BYTES).await?.into_iter();
        let fit = entries.take_while(|(_, size)| {
            bytes += size;
            bytes == *size || bytes <= READ_BYTES
        });
        Ok(fit.map(|(entry, _)| entry).collect())
    }
}

impl RaftLogStorage<Config> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> io::Result<LogState<Config>> {
        let memory = self.shared.memory.lock();
        Ok(LogState { last_purged_log_id: memory.purged, last_log_id: memory.last })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let (done, written) = oneshot::channel();
        self.send(Write::Vote { vote: *vote, done }).await?;
        written.await.map_err(|_| io::Error::other("the log's writer is gone"))??;
        self.shared.memory.lock().vote = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        // Written with the next flush: losing it costs a replay, not an entry.
        self.shared.memory.lock().committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.shared.memory.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, flushed: IOFlushed<Config>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut rows = Vec::new();
        {
            let mut memory = self.shared.memory.lock();
            for entry in entries {
                let id = entry.log_id();
                let row = format::seal(&format::index_key(id.index), &entry);
                memory.insert(entry, row.len());
                rows.push((id.index, row));
            }
        }
        self.send(Write::Append { rows, flushed }).await
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let from = last.map_or(0, |id| id.index + 1);
        {
            let mut memory = self.shared.memory.lock();
            memory.keep(..from);
            memory.last = last.or(memory.purged);
            memory.flushed = memory.flushed.min(from.saturating_sub(1));
        }
        let (done, written) = oneshot::channel();
        self.send(Write::Truncate { from, done }).await?;
        written.await.map_err(|_| io::Error::other("the log's writer is gone"))?
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        {
            let mut memory = self.shared.memory.lock();
            memory.keep(upto.index + 1..);
            memory.purged = Some(upto);
            if memory.last < Some(upto) {
                memory.last = Some(upto);
            }
        }
        count(&self.shared.counters.log_purges);
        self.send(Write::Purge { upto }).await
    }
}
