//! Which part of each entry belongs to which digest.
//!
//! Everything is named here field by field, so that a new field does not compile until it is decided.
//! What a policy's answer can change is in the placement half, all else in the fencing half: whether a
//! stream is placed at all is fencing, on which node is placement.

use crate::digest::{Sum, Sums, Weigh, hash};
use crate::model::*;
use crate::records::*;
use std::sync::Arc;

impl Weigh<StreamId> for Arc<Stream> {
    fn weigh(&self, _: &StreamId) -> Sums {
        let Stream {
            id,
            name,
            content_type,
            created_ms,
            expiry,
            touched_ms,
            ownership,
            epoch,
            transfer,
            start,
            end,
            eof,
            runs: _,
            checkpoint,
            damaged,
            fork,
            forks,
            deleted,
        } = &**self;
        let (kind, placement) = match *ownership {
            Ownership::Placed(node) => (Ownership::Placed(NodeId(0)), hash("placed", &(id, node))),
            other => (other, Sum::default()),
        };
        let identity = (id, name, content_type, created_ms, expiry, fork);
        let owner = (kind, epoch, transfer, touched_ms);
        let content = (start, end, eof, checkpoint, damaged, forks, deleted);
        Sums { fencing: hash("stream", &(identity, owner, content)), placement }
    }

    fn weigh_parts(&self, id: &StreamId) -> Sums {
        let mut sums = Sums::default();
        self.runs.iter().for_each(|run| sums.add(weigh_run(*id, run)));
        sums
    }
}

/// A run is an entry of its own: a commit costs what it adds.
pub(crate) fn weigh_run(stream: StreamId, run: &Run) -> Sums {
    Sums::fencing(hash("run", &(stream, run)))
}

impl Weigh<NodeId> for Node {
    fn weigh(&self, _: &NodeId) -> Sums {
        let Node { id, highest, live, slots, labels, draining } = self;
        Sums::fencing(hash("node", &(id, highest, live, slots, labels, draining)))
    }
}

/// The fencing and the placement half of a session's progress.
fn weigh_progress(session: Session, progress: &Progress) -> Sums {
    let Progress { trim, number, last } = progress;
    let entry = last.as_ref().map(|last| last.entry);
    let answers = last.iter().flat_map(|last| last.answers.iter().enumerate());
    let (mut fencing, mut placement) = (Vec::new(), Vec::new());
    for (index, answer) in answers {
        match answer {
            Answered::Fencing(outcome) => fencing.push((index, outcome)),
            Answered::Placement(outcome) => placement.push((index, outcome)),
        }
    }
    let mut sums = Sums::fencing(hash("progress", &(session, trim, number, entry, fencing)));
    if !placement.is_empty() {
        sums.placement = hash("answers", &(session, placement));
    }
    sums
}

impl Weigh<Session> for Progress {
    fn weigh(&self, session: &Session) -> Sums {
        weigh_progress(*session, self)
    }
}

impl Weigh<Session> for Retired {
    fn weigh(&self, _: &Session) -> Sums {
        let Retired { session, why, disowned, recovered, retired_index, nonce, wal, lock, progress } = self;
        let mut sums = weigh_progress(*session, progress);
        let record = (session, why, disowned, recovered, retired_index, nonce, wal, lock);
        sums.fencing.add(hash("retired", &record));
        sums
    }
}

impl Weigh<Digest> for Policy {
    fn weigh(&self, _: &Digest) -> Sums {
        let Policy { digest, name, version, needs_labels, put_index, component } = self;
        Sums::fencing(hash("policy", &(digest, name, version, needs_labels, put_index, component.len())))
    }
}

impl Weigh<u64> for Audit {
    fn weigh(&self, number: &u64) -> Sums {
        Sums::fencing(hash("audit", &(number, self)))
    }
}

/// An object that waits to be deleted.
impl Weigh<ObjectKey> for () {
    fn weigh(&self, object: &ObjectKey) -> Sums {
        Sums::fencing(hash("unlinked", object))
    }
}

/// What is not in a table.
pub(crate) fn weigh_scalars(next_stream: StreamId, active: &Active) -> Sums {
    Sums { fencing: hash("next", &next_stream), placement: hash("active", active) }
}
