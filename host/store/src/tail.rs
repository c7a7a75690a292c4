//! The newest bytes of open streams in memory: everything that is not committed, and as much of what
//! is as a shared budget allows.

use bytes::Bytes;
use headwater_metadata::Position;
use std::sync::Arc;

/// A budget of bytes shared by the tails of a node.
pub struct TailBudget {}

impl TailBudget {
    /// Committed bytes are kept up to this many; what is not committed always is.
    pub fn new(bytes: u64) -> Arc<TailBudget> {
        let _ = bytes;
        unimplemented!()
    }
}

/// The tail of one stream. Cheap to clone; short locks inside.
#[derive(Clone)]
pub struct Tail {}

impl Tail {
    /// An empty tail at the committed end of a stream that was just opened.
    pub fn new(budget: &Arc<TailBudget>, end: Position) -> Tail {
        let _ = (budget, end);
        unimplemented!()
    }

    /// Appends the bytes of a record.
    pub fn push(&self, bytes: Bytes) {
        let _ = bytes;
        unimplemented!()
    }

    /// Position of the first byte that is still here.
    pub fn start(&self) -> Position {
        unimplemented!()
    }

    /// Position after the last byte.
    pub fn end(&self) -> Position {
        unimplemented!()
    }

    /// Everything before `end` is committed: it may be dropped.
    pub fn committed(&self, end: Position) {
        let _ = end;
        unimplemented!()
    }

    /// The bytes from `from` to `to`, as slices of what was pushed; `None` when `from` is before the
    /// first byte here (look in the objects).
    pub fn read(&self, from: Position, to: Position) -> Option<Vec<Bytes>> {
        let _ = (from, to);
        unimplemented!()
    }
}
