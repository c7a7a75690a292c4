//! The open streams of a session, by id, in shards; and which of them have something to commit.
//!
//! It is also what the write-ahead log tells of durable records. A stream is here from its opening
//! until the own view says that it is closed or deleted: dropping it earlier would give positions out
//! twice.

use super::commit::Signal;
use super::open::{Ended, OpenStream};
use headwater_metadata::{StreamId, WalSeq};
use headwater_store::wal::Record;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SHARDS: usize = 64;

/// The open streams.
pub struct Registry {
    shards: Vec<RwLock<BTreeMap<StreamId, Arc<OpenStream>>>>,
    len: AtomicUsize,
    dirty: Mutex<Vec<Arc<OpenStream>>>,
    signal: Arc<Signal>,
}

impl Registry {
    /// Empty.
    pub fn new(signal: Arc<Signal>) -> Registry {
        Registry {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            len: AtomicUsize::new(0),
            dirty: Mutex::default(),
            signal,
        }
    }

    fn shard(&self, id: StreamId) -> &RwLock<BTreeMap<StreamId, Arc<OpenStream>>> {
        &self.shards[(id.0 % SHARDS as u64) as usize]
    }

    /// The stream, if it is open here.
    pub fn get(&self, id: StreamId) -> Option<Arc<OpenStream>> {
        self.shard(id).read().get(&id).cloned()
    }

    /// Adds a stream that was just opened.
    pub fn insert(&self, stream: Arc<OpenStream>) {
        if self.shard(stream.id).write().insert(stream.id, stream).is_none() {
            self.len.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes out exactly this stream.
    pub fn remove(&self, stream: &Arc<OpenStream>) {
        let mut shard = self.shard(stream.id).write();
        if shard.get(&stream.id).is_some_and(|there| Arc::ptr_eq(there, stream)) {
            shard.remove(&stream.id);
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// All of them, in an order that is the same every time.
    pub fn all(&self) -> Vec<Arc<OpenStream>> {
        let mut all: Vec<_> =
            self.shards.iter().flat_map(|s| s.read().values().cloned().collect::<Vec<_>>()).collect();
        all.sort_by_key(|stream| stream.id);
        all
    }

    /// Notes that the stream has something to commit.
    pub fn mark_dirty(&self, stream: &Arc<OpenStream>) {
        if stream.mark_dirty() {
            self.dirty.lock().push(stream.clone());
        }
    }

    /// The streams with something to commit, by id; their marks are taken away.
    pub fn take_dirty(&self) -> Vec<Arc<OpenStream>> {
        let mut dirty = std::mem::take(&mut *self.dirty.lock());
        dirty.sort_by_key(|stream| stream.id);
        dirty.iter().for_each(|stream| stream.clear_dirty());
        dirty
    }

    /// Whether any stream has something to commit.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.lock().is_empty()
    }

    /// When the oldest record that is not committed was submitted, among the streams that are to be
    /// committed; monotonic.
    pub fn oldest_dirty(&self) -> Option<Duration> {
        self.dirty.lock().iter().filter_map(|stream| stream.oldest_pending()).min()
    }

    /// Ends every stream.
    pub fn end_all(&self, how: Ended) -> u64 {
        let all = self.all();
        for stream in &all {
            stream.end(how);
            self.remove(stream);
        }
        all.len() as u64
    }
}

impl headwater_store::Sink for Registry {
    fn durable(&self, _seq: WalSeq, records: &[Record]) {
        let mut bytes = 0;
        for record in records {
            let Some(stream) = self.get(record.stream) else { continue };
            if stream.epoch == record.epoch {
                stream.record_durable(record.end(), record.eof);
                self.mark_dirty(&stream);
                bytes += record.size() as u64;
            }
        }
        self.signal.durable(bytes);
    }
}
