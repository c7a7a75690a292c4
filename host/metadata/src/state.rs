//! The state of the cluster, in persistent maps: cloning it is cheap, changing a clone leaves the others.
//!
//! Here are the data and the few functions that change them together with the digests and with what is
//! derived from them (`derived.rs`). The rules are in `apply/`, reading is in `view.rs`. Nothing here
//! decides.

use crate::derived::Derived;
use crate::digest::{Digests, Sums, Table};
use crate::model::*;
use crate::records::*;
use crate::weigh::{weigh_run, weigh_scalars};
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
            self.derived.add_engine(live.info.engine);
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
        stream.runs.iter().for_each(|run| derived.link(run.object));
        stream.checkpoint.iter().for_each(|checkpoint| derived.link(checkpoint.object));
        self.streams.insert(id, Arc::new(stream));
    }

    /// Changes a stream, runs and checkpoint excepted, and what is derived from it.
    pub(crate) fn change_stream(&mut self, id: StreamId, change: impl FnOnce(&mut Stream)) {
        let changed = self.streams.modify(&id, |stream| {
            let old = (stream.ownership, stream.transfer, stream.deleted);
            change(Arc::make_mut(stream));
            (old, (stream.ownership, stream.transfer, stream.deleted))
        });
        let Some(((owner, transfer, deleted), (new_owner, new_transfer, new_deleted))) = changed else {
            return;
        };
        if (owner, deleted) != (new_owner, new_deleted) {
            if !deleted {
                self.derived.uncount(id, owner);
            }
            if !new_deleted {
                self.derived.count(id, new_owner);
            }
        }
        self.derived.transferring(id, transfer, new_transfer);
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
