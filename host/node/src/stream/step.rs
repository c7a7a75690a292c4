//! What a node has to do to serve a stream, as its view has it: pure. `owner.rs` does it.

use headwater_metadata::{Effective, NodeId, Ownership, Position, Session, StreamEpoch, StreamId, View};

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The view has no such stream.
    Absent,
    /// It is deleted and kept for its forks.
    Deleted,
    /// It is open in the own session, at this epoch: load it.
    Load(StreamEpoch),
    /// Open it, expecting this epoch.
    Open(StreamEpoch),
    /// Ask where it shall be.
    Place,
    /// Wait: it moves here and is not let go yet.
    WaitForTransfer,
    /// Wait: the session that had it is not recovered yet.
    WaitForRecovery(Session),
    /// Records were lost from here on: it is read from its objects, and nobody opens it.
    Damaged(Position),
    /// Another node has it.
    Moved(NodeId),
}

/// The next thing that the session has to do to serve the stream.
pub fn next(view: &View, id: StreamId, session: Session) -> Step {
    let Some(stream) = view.stream(id) else { return Step::Absent };
    if stream.deleted {
        return Step::Deleted;
    }
    let waits = view.waits_for_recovery(stream);
    if stream.ownership == Ownership::Opened(session) && waits.is_none() {
        return Step::Load(stream.epoch);
    }
    let open = match waits {
        Some(ended) => Step::WaitForRecovery(ended),
        None if stream.damaged => Step::Damaged(stream.end),
        None => Step::Open(stream.epoch),
    };
    match view.effective(stream) {
        Effective::Unregistered => Step::Absent,
        Effective::Unplaced => Step::Place,
        Effective::Placed(node) if node == session.node => open,
        Effective::Placed(node) => Step::Moved(node),
        Effective::Opened(other) => Step::Moved(other.node),
        Effective::Transferring(transfer) if transfer.target != session.node => Step::Moved(transfer.target),
        Effective::Transferring(_) => match stream.ownership {
            Ownership::Opened(_) if waits.is_none() => Step::WaitForTransfer,
            _ => open,
        },
        Effective::Closed(_) if waits.is_none() && drains(view, session.node) => Step::Place,
        Effective::Closed(_) => open,
    }
}

/// Whether the node shall revive nothing because another one can.
fn drains(view: &View, node: NodeId) -> bool {
    view.node(node).is_some_and(|node| node.draining) && view.has_candidate()
}

#[cfg(test)]
#[path = "step_test.rs"]
mod tests;
