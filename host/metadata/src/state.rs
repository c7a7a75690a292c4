//! The state of the cluster, in persistent maps: cloning it is cheap, changing a clone leaves the others.
//!
//! Here are the data and the few functions that change them together with what is derived from them
//! (who has what, names, references to objects, digests). The rules are in `apply/`, reading is in
//! `view.rs`. Nothing here decides.

use crate::digest::{Digests, Sums, Table};
use crate::model::*;
use crate::records::*;
use crate::weigh::{weigh_run, weigh_scalars};
use imbl::{OrdMap, OrdSet};
use std::ops::Range;
use std::sync::Arc;

/// Everything that the metadata log says, applied.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) index: u64,
    pub(crate) next_stream: StreamId,
    pub(crate) active: Active,
    pub(crate) streams: Table<StreamId, Arc<Stream>>,
    pub(crate) nodes: Table<NodeId, Node>,
    pub(crate) live: Table<Session, Progress>,
    pub(crate) retired: Table<Session, Retired>,
    pub(crate) policies: Table<Digest, Policy>,
    pub(crate) audit: Table<u64, Audit>,
    pub(crate) unlinked: Table<ObjectKey, ()>,
    pub(crate) derived: Derived,
}

/// What follows from the rest: kept as it changes, built anew only when a snapshot is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Derived {
    pub(crate) names: OrdMap<Arc<str>, StreamId>,
    pub(crate) placed: OrdMap<NodeId, OrdSet<StreamId>>,
    pub(crate) open: OrdMap<Session, OrdSet<StreamId>>,
    pub(crate) totals: Totals,
    /// Pending transfers by source and by target.
    pub(crate) leaving: OrdSet<(NodeId, StreamId)>,
    pub(crate) coming: OrdSet<(NodeId, StreamId)>,
    pub(crate) references: OrdMap<ObjectKey, u32>,
    pub(crate) unrecovered: OrdSet<Session>,
    pub(crate) engines: OrdMap<Digest, u32>,
    pub(crate) content_types: OrdMap<Arc<str>, u64>,
    /// Streams that nobody has open and that end by themselves, by the moment of that.
    pub(crate) expiring: OrdSet<(u64, StreamId)>,
}

/// How many streams are in each kind of ownership; deleted ones are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Registered, nothing asked of them yet.
    pub unplaced: u64,
    /// Chosen, not open.
    pub placed: u64,
    /// Open, also in sessions that have ended and are not recovered yet.
    pub opened: u64,
    /// Flushed and let go.
    pub closed: u64,
}

impl Totals {
    /// All streams.
    pub fn total(&self) -> u64 {
        self.unplaced + self.placed + self.opened + self.closed
    }

    fn of(&mut self, ownership: Ownership) -> &mut u64 {
        match ownership {
            Ownership::Unplaced => &mut self.unplaced,
            Ownership::Placed(_) => &mut self.placed,
            Ownership::Opened(_) => &mut self.opened,
            Ownership::Closed(_) => &mut self.closed,
        }
    }
}

impl Default for State {
    fn default() -> Self {
        State::new()
    }
}

impl State {
    /// The state before the first entry.
    pub fn new() -> State {
        State {
            index: 0,
            next_stream: StreamId(1),
            active: Active::default(),
            streams: Table::new(),
            nodes: Table::new(),
            live: Table::new(),
            retired: Table::new(),
            policies: Table::new(),
            audit: Table::new(),
            unlinked: Table::new(),
            derived: Derived::default(),
        }
    }

    /// The two digests, equal on every node that applied the same log.
    pub fn digests(&self) -> Digests {
        self.sums().digests()
    }

    pub(crate) fn sums(&self) -> Sums {
        let mut sums = weigh_scalars(self.next_stream, &self.active);
        sums.add(self.streams.sums());
        sums.add(self.nodes.sums());
        sums.add(self.live.sums());
        sums.add(self.retired.sums());
        sums.add(self.policies.sums());
        sums.add(self.audit.sums());
        sums.add(self.unlinked.sums());
        sums
    }

    /// Sets what is known of a node, and counts the engine of its session.
    pub(crate) fn put_node(&mut self, node: Node) {
        if let Some(live) = self.nodes.get(&node.id).and_then(|old| old.live.clone()) {
            self.derived.forget_engine(live.info.engine);
        }
        if let Some(live) = &node.live {
            *self.derived.engines.entry(live.info.engine).or_default() += 1;
        }
        self.nodes.insert(node.id, node);
    }

    /// Sets what is known of a session that ended.
    pub(crate) fn put_retired(&mut self, retired: Retired) {
        if retired.recovered {
            self.derived.unrecovered.remove(&retired.session);
        } else {
            self.derived.unrecovered.insert(retired.session);
        }
        self.retired.insert(retired.session, retired);
    }

    /// Adds a stream with a fresh id; its content type is shared with others of the same.
    pub(crate) fn add_stream(&mut self, mut stream: Stream) -> StreamId {
        let id = self.next_stream;
        self.next_stream = StreamId(id.0 + 1);
        stream.id = id;
        self.restore_stream(stream);
        id
    }

    /// Adds a stream that has its id, as a snapshot does.
    pub(crate) fn restore_stream(&mut self, mut stream: Stream) {
        let id = stream.id;
        let derived = &mut self.derived;
        stream.content_type = derived.content_type(&stream.content_type);
        derived.names.insert(stream.name.clone(), id);
        if !stream.deleted {
            derived.count(id, stream.ownership);
        }
        derived.transferring(id, None, stream.transfer);
        derived.expiring(id, None, end_of_life(&stream));
        stream.runs.iter().for_each(|run| derived.link(run.object));
        stream.checkpoint.iter().for_each(|checkpoint| derived.link(checkpoint.object));
        self.streams.insert(id, Arc::new(stream));
    }

    /// Changes a stream, runs and checkpoint excepted, and what is derived from it.
    pub(crate) fn change_stream(&mut self, id: StreamId, change: impl FnOnce(&mut Stream)) {
        let changed = self.streams.modify(&id, |stream| {
            let seen = |it: &Stream| (it.ownership, it.transfer, it.deleted, end_of_life(it));
            let old = seen(stream);
            change(Arc::make_mut(stream));
            (old, seen(stream))
        });
        let Some((old, new)) = changed else {
            return;
        };
        let (owner, transfer, deleted, life) = old;
        let (new_owner, new_transfer, new_deleted, new_life) = new;
        if (owner, deleted) != (new_owner, new_deleted) {
            if !deleted {
                self.derived.uncount(id, owner);
            }
            if !new_deleted {
                self.derived.count(id, new_owner);
            }
        }
        self.derived.transferring(id, transfer, new_transfer);
        self.derived.expiring(id, life, new_life);
    }

    /// Removes a stream; objects that nothing refers to any more wait to be deleted.
    pub(crate) fn remove_stream(&mut self, id: StreamId) {
        let Some(stream) = self.streams.remove(&id) else {
            return;
        };
        if !stream.deleted {
            self.derived.uncount(id, stream.ownership);
        }
        self.derived.transferring(id, stream.transfer, None);
        self.derived.expiring(id, end_of_life(&stream), None);
        self.derived.names.remove(&*stream.name);
        self.derived.forget_content_type(&stream.content_type);
        stream.runs.iter().for_each(|run| self.unlink(run.object));
        stream.checkpoint.iter().for_each(|checkpoint| self.unlink(checkpoint.object));
    }

    /// Adds a run at the committed end.
    pub(crate) fn push_run(&mut self, id: StreamId, run: Run) {
        self.streams.modify(&id, |stream| {
            let stream = Arc::make_mut(stream);
            stream.runs.push(run);
            stream.end = run.end;
        });
        self.streams.adjust(Sums::default(), weigh_run(id, &run));
        self.derived.link(run.object);
    }

    /// Puts one run in the place of those in `range`.
    pub(crate) fn replace_runs(&mut self, id: StreamId, range: Range<usize>, run: Run) {
        let replaced = self.streams.modify(&id, |stream| {
            let old: Vec<Run> = stream.runs.iter().take(range.end).skip(range.start).copied().collect();
            Arc::make_mut(stream).runs.replace(range, run);
            old
        });
        let mut less = Sums::default();
        self.derived.link(run.object);
        for old in replaced.unwrap_or_default() {
            less.add(weigh_run(id, &old));
            self.unlink(old.object);
        }
        self.streams.adjust(less, weigh_run(id, &run));
    }

    /// Sets the checkpoint of a stream.
    pub(crate) fn set_checkpoint(&mut self, id: StreamId, checkpoint: Checkpoint) {
        let old = self.streams.modify(&id, |stream| Arc::make_mut(stream).checkpoint.replace(checkpoint));
        self.derived.link(checkpoint.object);
        if let Some(Some(old)) = old {
            self.unlink(old.object);
        }
    }

    fn unlink(&mut self, object: ObjectKey) {
        if self.derived.unlink(object) {
            self.unlinked.insert(object, ());
        }
    }
}

impl Derived {
    fn count(&mut self, id: StreamId, ownership: Ownership) {
        *self.totals.of(ownership) += 1;
        match ownership {
            Ownership::Placed(node) => {
                self.placed.entry(node).or_default().insert(id);
            }
            Ownership::Opened(session) => {
                self.open.entry(session).or_default().insert(id);
            }
            Ownership::Unplaced | Ownership::Closed(_) => {}
        }
    }

    fn uncount(&mut self, id: StreamId, ownership: Ownership) {
        *self.totals.of(ownership) -= 1;
        match ownership {
            Ownership::Placed(node) => take_out(&mut self.placed, node, id),
            Ownership::Opened(session) => take_out(&mut self.open, session, id),
            Ownership::Unplaced | Ownership::Closed(_) => {}
        }
    }

    fn transferring(&mut self, id: StreamId, old: Option<Transfer>, new: Option<Transfer>) {
        if let Some(Transfer { source, target }) = old {
            self.leaving.remove(&(source, id));
            self.coming.remove(&(target, id));
        }
        if let Some(Transfer { source, target }) = new {
            self.leaving.insert((source, id));
            self.coming.insert((target, id));
        }
    }

    fn expiring(&mut self, id: StreamId, old: Option<u64>, new: Option<u64>) {
        if old == new {
            return;
        }
        if let Some(at) = old {
            self.expiring.remove(&(at, id));
        }
        if let Some(at) = new {
            self.expiring.insert((at, id));
        }
    }

    fn link(&mut self, object: ObjectKey) {
        *self.references.entry(object).or_default() += 1;
    }

    /// Takes away a reference; true when it was the last.
    fn unlink(&mut self, object: ObjectKey) -> bool {
        match self.references.get_mut(&object) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(_) => {
                self.references.remove(&object);
                true
            }
            None => false,
        }
    }

    fn forget_engine(&mut self, engine: Digest) {
        match self.engines.get_mut(&engine) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.engines.remove(&engine);
            }
        }
    }

    fn content_type(&mut self, content_type: &Arc<str>) -> Arc<str> {
        if let Some((shared, count)) = self.content_types.get_key_value_mut(&**content_type) {
            *count += 1;
            return shared.clone();
        }
        self.content_types.insert(content_type.clone(), 1);
        content_type.clone()
    }

    fn forget_content_type(&mut self, content_type: &Arc<str>) {
        match self.content_types.get_mut(&**content_type) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.content_types.remove(&**content_type);
            }
        }
    }
}

/// When a stream ends by itself, as far as the state can say: while it is open only its owner knows of
/// the touches that renew it.
fn end_of_life(stream: &Stream) -> Option<u64> {
    if stream.deleted || matches!(stream.ownership, Ownership::Opened(_)) {
        return None;
    }
    match stream.expiry {
        Expiry::Never => None,
        Expiry::At(at) => Some(at),
        Expiry::Ttl(seconds) => {
            let touched = stream.touched_ms.max(stream.created_ms);
            Some(touched.saturating_add(seconds.saturating_mul(1000)))
        }
    }
}

fn take_out<K: Ord + Clone>(sets: &mut OrdMap<K, OrdSet<StreamId>>, key: K, id: StreamId) {
    if let Some(set) = sets.get_mut(&key) {
        set.remove(&id);
        if set.is_empty() {
            sets.remove(&key);
        }
    }
}
