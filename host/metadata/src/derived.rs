//! What follows from the rest of the state: who has which streams, names, references to objects.
//!
//! Kept as things change, so that no question costs a walk over all streams; built anew only when a
//! snapshot is read. It is in no digest, and the tests compare it with one built from scratch.

use crate::model::*;
use imbl::{OrdMap, OrdSet};
use std::sync::Arc;

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

impl Derived {
    pub(crate) fn count(&mut self, id: StreamId, ownership: Ownership) {
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

    pub(crate) fn uncount(&mut self, id: StreamId, ownership: Ownership) {
        *self.totals.of(ownership) -= 1;
        match ownership {
            Ownership::Placed(node) => take_out(&mut self.placed, node, id),
            Ownership::Opened(session) => take_out(&mut self.open, session, id),
            Ownership::Unplaced | Ownership::Closed(_) => {}
        }
    }

    pub(crate) fn transferring(&mut self, id: StreamId, old: Option<Transfer>, new: Option<Transfer>) {
        if let Some(Transfer { source, target }) = old {
            self.leaving.remove(&(source, id));
            self.coming.remove(&(target, id));
        }
        if let Some(Transfer { source, target }) = new {
            self.leaving.insert((source, id));
            self.coming.insert((target, id));
        }
    }

    pub(crate) fn link(&mut self, object: ObjectKey) {
        *self.references.entry(object).or_default() += 1;
    }

    /// Takes away a reference; true when it was the last.
    pub(crate) fn unlink(&mut self, object: ObjectKey) -> bool {
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

    pub(crate) fn add_engine(&mut self, engine: Digest) {
        *self.engines.entry(engine).or_default() += 1;
    }

    pub(crate) fn forget_engine(&mut self, engine: Digest) {
        match self.engines.get_mut(&engine) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.engines.remove(&engine);
            }
        }
    }

    pub(crate) fn content_type(&mut self, content_type: &Arc<str>) -> Arc<str> {
        if let Some((shared, count)) = self.content_types.get_key_value_mut(&**content_type) {
            *count += 1;
            return shared.clone();
        }
        self.content_types.insert(content_type.clone(), 1);
        content_type.clone()
    }

    pub(crate) fn forget_content_type(&mut self, content_type: &Arc<str>) {
        match self.content_types.get_mut(&**content_type) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.content_types.remove(&**content_type);
            }
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
