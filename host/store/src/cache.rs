//! A cache of blocks of data objects, within a budget of bytes.
//!
//! Objects never change, so nothing is ever invalidated. A block is fetched once however many ask for
//! it at a time. What was used since the hand of the clock last passed is spared by it.

use crate::Store;
use crate::counters::{add, counters};
use crate::object::format::{CHECK, Index};
use crate::object::reader::{cut, in_data, read_blocks, read_index};
use crate::object::{Index as ObjectIndex, ReadError};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use headwater_metadata::{ObjectKey, Position, Run};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::OnceCell;

counters! {
    /// Counters of a block cache.
    CacheCounters, CacheCountersSnapshot {
        /// Blocks that were in memory.
        hits,
        /// Blocks that were fetched.
        misses,
        /// Blocks that had to go.
        evicted,
    }
}

/// Blocks of data objects in memory. Cheap to clone.
#[derive(Clone)]
pub struct BlockCache {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    budget: u64,
    block: u64,
    state: Mutex<State>,
    counters: CacheCounters,
}

/// A block of an object, or its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Id {
    Index(ObjectKey),
    Block(ObjectKey, u64),
}

#[derive(Clone)]
enum Value {
    Index(Arc<ObjectIndex>),
    Block(Bytes),
}

type Cell = Arc<OnceCell<Value>>;

struct Slot {
    cell: Cell,
    used: bool,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<Id, Slot>,
    /// Filled slots, in the order in which the hand reaches them.
    clock: VecDeque<(Id, u64)>,
    bytes: u64,
}

/// Blocks asked for ahead of a reader.
const AHEAD: usize = 3;

impl BlockCache {
    /// Holds up to `budget` bytes in blocks of `block` bytes (rounded up to a multiple of 64 KiB).
    pub fn new(store: &Store, budget: u64, block: u64) -> BlockCache {
        let block = block.max(1).div_ceil(CHECK) * CHECK;
        let (store, counters) = (store.clone(), CacheCounters::default());
        BlockCache { inner: Arc::new(Inner { store, budget, block, state: Mutex::default(), counters }) }
    }

    /// Like `object::read_range`, through the cache.
    pub fn read(
        &self,
        run: &Run,
        from: Position,
        to: Position,
    ) -> BoxStream<'static, Result<Bytes, ReadError>> {
        let Some(wanted) = in_data(run, from, to) else { return stream::empty().boxed() };
        let (cache, key, size) = (self.clone(), run.object, self.inner.block);
        let numbers = stream::iter(wanted.start / size..wanted.end.div_ceil(size));
        let blocks = numbers.map(move |number| {
            let (cache, wanted) = (cache.clone(), wanted.clone());
            async move {
                let block = cache.block(key, number).await?;
                Ok(cut(block, number * size, &wanted))
            }
        });
        blocks.buffered(AHEAD).boxed()
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        self.inner.state.lock().bytes
    }

    /// What it did so far.
    pub fn counters(&self) -> CacheCountersSnapshot {
        self.inner.counters.snapshot()
    }

    async fn block(&self, key: ObjectKey, number: u64) -> Result<Bytes, ReadError> {
        let id = Id::Block(key, number);
        let fetch = async {
            add(&self.inner.counters.misses, 1);
            let index = self.index(key).await?;
            let start = number * self.inner.block;
            let bytes = read_blocks(&self.inner.store, key, &index, start..start + self.inner.block).await?;
            let len = bytes.len() as u64;
            Ok((Value::Block(bytes), len))
        };
        match self.load(id, fetch).await? {
            Value::Block(bytes) => Ok(bytes),
            Value::Index(_) => Err(crate::object::reader::damaged(key, "a block is an index".into())),
        }
    }

    async fn index(&self, key: ObjectKey) -> Result<Arc<Index>, ReadError> {
        let fetch = async {
            let index = read_index(&self.inner.store, key).await?;
            let len = (index.entries.len() * 160 + index.blocks.len() * 4) as u64;
            Ok((Value::Index(Arc::new(index)), len))
        };
        match self.load(Id::Index(key), fetch).await? {
            Value::Index(index) => Ok(index),
            Value::Block(_) => Err(crate::object::reader::damaged(key, "an index is a block".into())),
        }
    }

    /// What is in the slot, fetched by one of those who ask.
    async fn load(
        &self,
        id: Id,
        fetch: impl Future<Output = Result<(Value, u64), ReadError>>,
    ) -> Result<Value, ReadError> {
        let cell = {
            let mut state = self.inner.state.lock();
            let slot = state.slots.entry(id).or_insert_with(|| Slot { cell: Cell::default(), used: false });
            slot.used = true;
            slot.cell.clone()
        };
        if let Some(value) = cell.get() {
            if matches!(id, Id::Block(..)) {
                add(&self.inner.counters.hits, 1);
            }
            return Ok(value.clone());
        }
        let filled = cell
            .get_or_try_init(|| async {
                let (value, len) = fetch.await?;
                self.inner.admit(id, &cell, len);
                Ok(value)
            })
            .await
            .cloned();
        if filled.is_err() {
            self.inner.forget(id, &cell);
        }
        filled
    }
}

impl Inner {
    /// Counts a slot that is being filled, and makes room for it.
    fn admit(&self, id: Id, cell: &Cell, len: u64) {
        let mut state = self.state.lock();
        if !state.slots.get(&id).is_some_and(|slot| Arc::ptr_eq(&slot.cell, cell)) {
            return;
        }
        state.bytes += len;
        state.clock.push_back((id, len));
        while state.bytes > self.budget {
            let Some((id, len)) = state.clock.pop_front() else { break };
            let Some(slot) = state.slots.get_mut(&id) else { continue };
            if slot.used {
                slot.used = false;
                state.clock.push_back((id, len));
                continue;
            }
            state.slots.remove(&id);
            state.bytes -= len;
            add(&self.counters.evicted, 1);
        }
    }

    /// Drops a slot that could not be filled.
    fn forget(&self, id: Id, cell: &Cell) {
        let mut state = self.state.lock();
        let same = |slot: &Slot| Arc::ptr_eq(&slot.cell, cell) && slot.cell.get().is_none();
        if state.slots.get(&id).is_some_and(same) {
            state.slots.remove(&id);
        }
    }
}
