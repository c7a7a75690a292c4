//! Who serves a stream: `Open` and `Close`. This is where at most one owner comes from.

use super::{Apply, Done, Verdict};
use crate::command::{Answer, Rejection};
use crate::model::*;

impl Apply<'_> {
    /// Opens a stream for the proposer. The epoch that it names makes a late copy harmless; every open
    /// adds one. Whether the proposer was chosen is a matter of routing and not asked here.
    pub(super) fn open(&mut self, id: StreamId, epoch: StreamEpoch) -> Verdict {
        let stream = self.existing(id)?;
        if stream.ownership == Ownership::Opened(self.by) {
            return Ok(Done::Redundant(Answer::Opened(stream.epoch)));
        }
        self.not_open_elsewhere(stream)?;
        let stream = self.stream_at(id, epoch)?;
        if let Some(transfer) = stream.transfer.filter(|transfer| transfer.target != self.by.node) {
            return Err(Rejection::TransferPending(transfer.target));
        }
        if stream.damaged {
            return Err(Rejection::Damaged(stream.end));
        }
        let next = StreamEpoch(epoch.0 + 1);
        let by = self.by;
        self.state.change_stream(id, |stream| {
            stream.ownership = Ownership::Opened(by);
            stream.epoch = next;
            stream.transfer = None;
        });
        Ok(Done::Applied(Answer::Opened(next)))
    }

    /// Lets go of a stream whose every byte is committed. A pending move ends here: the stream is placed
    /// on its target.
    pub(super) fn close(
        &mut self,
        id: StreamId,
        epoch: StreamEpoch,
        end: Position,
        touched_ms: u64,
    ) -> Verdict {
        let stream = self.existing(id)?;
        let closed_before = stream.ownership == Ownership::Closed(self.by.node);
        if closed_before && stream.epoch == epoch && stream.end == end {
            return Ok(Done::Redundant(Answer::Done));
        }
        let stream = self.opened(id, epoch)?;
        if stream.end != end {
            return Err(Rejection::NotFlushed { tail: end, end: stream.end });
        }
        let node = self.by.node;
        self.state.change_stream(id, |stream| {
            let_go(stream, Ownership::Closed(node));
            stream.touched_ms = stream.touched_ms.max(touched_ms);
        });
        Ok(Done::Applied(Answer::Done))
    }
}

/// Ends an ownership: the stream goes to the target of a pending move, or else where it is said.
pub(super) fn let_go(stream: &mut Stream, otherwise: Ownership) {
    stream.ownership = match stream.transfer.take() {
        Some(transfer) => Ownership::Placed(transfer.target),
        None => otherwise,
    };
}
