//! Moving a stream: `Transfer`, `CompleteTransfer`, `CancelTransfer`.
//!
//! Only an open stream can have a pending move; any other is placed on the target at once. The move ends
//! when the source lets go (`Close`, `RecoverSession`), or with the target (`Evict`), or the stream.

use super::open_close::let_go;
use super::{Apply, Done, Verdict};
use crate::command::{Answer, Rejection};
use crate::model::*;

impl Apply<'_> {
    pub(super) fn transfer(&mut self, id: StreamId, epoch: StreamEpoch, target: NodeId) -> Verdict {
        let stream = self.stream_at(id, epoch)?;
        let node = self.state.node(target).filter(|node| node.live.is_some());
        if !node.ok_or(Rejection::NoNode(target))?.takes_streams() {
            return Err(Rejection::NoSlots(target));
        }
        if let Some(pending) = stream.transfer {
            return match pending.target == target {
                true => Ok(Done::Redundant(Answer::Done)),
                false => Err(Rejection::TransferPending(pending.target)),
            };
        }
        match stream.ownership {
            Ownership::Opened(Session { node, .. }) | Ownership::Placed(node) if node == target => {
                return Err(Rejection::SameNode(target));
            }
            Ownership::Opened(Session { node: source, .. }) => {
                let transfer = Some(Transfer { source, target });
                self.state.change_stream(id, |stream| stream.transfer = transfer);
            }
            Ownership::Unplaced | Ownership::Placed(_) | Ownership::Closed(_) => {
                self.state.change_stream(id, |stream| stream.ownership = Ownership::Placed(target));
            }
        }
        Ok(Done::Applied(Answer::Done))
    }

    /// Ends a move whose stream is closed. Closing does that already, so this finds it done.
    pub(super) fn complete_transfer(&mut self, id: StreamId, epoch: StreamEpoch) -> Verdict {
        let stream = self.stream_at(id, epoch)?;
        if let Some(session) = self.state.waits_for_recovery(stream) {
            return Err(Rejection::WaitsForRecovery(session));
        }
        match (stream.ownership, stream.transfer) {
            (Ownership::Opened(session), _) => Err(Rejection::OpenElsewhere(session)),
            (_, None) => Ok(Done::Redundant(Answer::Done)),
            (ownership, Some(_)) => {
                self.state.change_stream(id, |stream| let_go(stream, ownership));
                Ok(Done::Applied(Answer::Done))
            }
        }
    }

    pub(super) fn cancel_transfer(&mut self, id: StreamId, epoch: StreamEpoch) -> Verdict {
        if self.stream_at(id, epoch)?.transfer.is_none() {
            return Err(Rejection::NoTransfer);
        }
        self.state.change_stream(id, |stream| stream.transfer = None);
        Ok(Done::Applied(Answer::Done))
    }
}
