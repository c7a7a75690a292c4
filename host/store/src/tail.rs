//! The newest bytes of open streams in memory: everything that is not committed, and as much of what
//! is as a shared budget allows.
//!
//! A tail knows nothing of durability: its reader says up to where it may read.

use bytes::{Bytes, BytesMut};
use headwater_metadata::Position;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A budget of bytes shared by the tails of a node.
pub struct TailBudget {
    limit: u64,
    /// Committed bytes that are still here.
    used: AtomicU64,
    /// Tails that have some, oldest first.
    holders: Mutex<VecDeque<Weak<Mutex<Inner>>>>,
}

impl TailBudget {
    /// Committed bytes are kept up to this many; what is not committed always is.
    pub fn new(bytes: u64) -> Arc<TailBudget> {
        Arc::new(TailBudget { limit: bytes, used: AtomicU64::new(0), holders: Mutex::default() })
    }

    /// Committed bytes that are still in memory.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn shrink(&self) {
        while self.used() > self.limit {
            let Some(oldest) = self.holders.lock().pop_front() else { return };
            if let Some(tail) = oldest.upgrade() {
                tail.lock().drop_committed();
            }
        }
    }
}

/// The tail of one stream. Cheap to clone; short locks inside.
#[derive(Clone)]
pub struct Tail {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    budget: Arc<TailBudget>,
    /// Position of the first byte that is still here.
    start: Position,
    end: Position,
    committed: Position,
    /// Pieces with the position of their first byte.
    pieces: VecDeque<(Position, Bytes)>,
    /// Committed bytes counted in the budget.
    counted: u64,
    holder: bool,
}

/// Pieces below this length are joined when read.
const SMALL: usize = 4 << 10;
/// Joined pieces reach about this length.
const JOINED: usize = 64 << 10;

impl Tail {
    /// An empty tail at the committed end of a stream that was just opened.
    pub fn new(budget: &Arc<TailBudget>, end: Position) -> Tail {
        let inner = Inner {
            budget: budget.clone(),
            start: end,
            end,
            committed: end,
            pieces: VecDeque::new(),
            counted: 0,
            holder: false,
        };
        Tail { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Appends the bytes of a record.
    pub fn push(&self, bytes: Bytes) {
        let mut inner = self.inner.lock();
        let start = inner.end;
        inner.end = Position(start.0 + bytes.len() as u64);
        if !bytes.is_empty() {
            inner.pieces.push_back((start, bytes));
        }
    }

    /// Position of the first byte that is still here.
    pub fn start(&self) -> Position {
        self.inner.lock().start
    }

    /// Position after the last byte.
    pub fn end(&self) -> Position {
        self.inner.lock().end
    }

    /// Everything before `end` is committed: it may be dropped.
    pub fn committed(&self, end: Position) {
        let budget = {
            let mut inner = self.inner.lock();
            inner.committed = end.max(inner.committed).min(inner.end);
            let counted = inner.committed.0.saturating_sub(inner.start.0);
            let budget = inner.budget.clone();
            budget.used.fetch_add(counted.saturating_sub(inner.counted), Ordering::Relaxed);
            inner.counted = inner.counted.max(counted);
            if counted > 0 && !inner.holder {
                inner.holder = true;
                budget.holders.lock().push_back(Arc::downgrade(&self.inner));
            }
            budget
        };
        budget.shrink();
    }

    /// Where a read from `from` of about `limit` bytes ends: where a piece ends, after at least one of
    /// them, and at most at `to`. `None` when `from` is before the first byte here.
    pub fn cut(&self, from: Position, to: Position, limit: u64) -> Option<Position> {
        let inner = self.inner.lock();
        if from < inner.start {
            return None;
        }
        let end_of = |(start, bytes): &(Position, Bytes)| start.0 + bytes.len() as u64;
        let most = from.0.saturating_add(limit);
        let within = inner.pieces.partition_point(|piece| end_of(piece) <= most);
        let first = inner.pieces.partition_point(|piece| end_of(piece) <= from.0);
        let last = within.max(first + 1) - 1;
        let end = inner.pieces.get(last).map_or(to.0, end_of);
        Some(Position(end.min(to.0)))
    }

    /// The bytes from `from` to `to` (cut at the end), as slices of what was pushed, small ones
    /// joined; `None` when `from` is before the first byte here: look in the objects.
    pub fn read(&self, from: Position, to: Position) -> Option<Vec<Bytes>> {
        let inner = self.inner.lock();
        if from < inner.start {
            return None;
        }
        let (mut out, mut joined) = (Vec::new(), BytesMut::new());
        let first = inner.pieces.partition_point(|(start, bytes)| start.0 + bytes.len() as u64 <= from.0);
        for (start, bytes) in inner.pieces.range(first..) {
            if *start >= to {
                break;
            }
            let cut = from.0.saturating_sub(start.0) as usize;
            let end = bytes.len().min((to.0 - start.0) as usize);
            if cut >= end {
                break;
            }
            if end - cut < SMALL {
                joined.extend_from_slice(&bytes[cut..end]);
            }
            if end - cut >= SMALL || joined.len() >= JOINED {
                flush(&mut joined, &mut out);
            }
            if end - cut >= SMALL {
                out.push(bytes.slice(cut..end));
            }
        }
        flush(&mut joined, &mut out);
        Some(out)
    }
}

fn flush(joined: &mut BytesMut, out: &mut Vec<Bytes>) {
    if !joined.is_empty() {
        out.push(joined.split().freeze());
    }
}

impl Inner {
    /// Drops the pieces that are committed as a whole.
    fn drop_committed(&mut self) {
        self.holder = false;
        while let Some((start, bytes)) = self.pieces.front() {
            let end = Position(start.0 + bytes.len() as u64);
            if end > self.committed {
                break;
            }
            self.start = end;
            self.pieces.pop_front();
        }
        let left = self.committed.0.saturating_sub(self.start.0);
        self.budget.used.fetch_sub(self.counted.saturating_sub(left), Ordering::Relaxed);
        self.counted = left.min(self.counted);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(tail: &Tail, from: u64, to: u64) -> Option<Vec<u8>> {
        tail.read(Position(from), Position(to)).map(|pieces| pieces.concat())
    }

    #[test]
    fn what_is_not_committed_stays_whatever_the_budget() {
        let budget = TailBudget::new(10);
        let tail = Tail::new(&budget, Position(100));
        for _ in 0..10 {
            tail.push(Bytes::from_static(b"0123456789"));
        }
        assert_eq!((tail.start(), tail.end()), (Position(100), Position(200)));
        tail.committed(Position(110));
        assert_eq!((tail.start(), budget.used()), (Position(100), 10));
        tail.committed(Position(135));
        // Over the budget: whole pieces go, the one that is committed in part stays.
        assert_eq!((tail.start(), budget.used()), (Position(130), 5));
        assert_eq!(all(&tail, 129, 140), None);
        assert_eq!(all(&tail, 132, 141).as_deref(), Some(&b"234567890"[..]));
        drop(tail);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn reads_are_cut_where_pieces_end() {
        let tail = Tail::new(&TailBudget::new(0), Position(10));
        for piece in ["one", "three", "fifteen"] {
            tail.push(Bytes::from_static(piece.as_bytes()));
        }
        let rows = [
            (10, 25, 0, 13),
            (10, 25, 3, 13),
            (10, 25, 7, 13),
            (10, 25, 8, 18),
            (11, 25, 1, 13),
            (13, 25, 1, 18),
            (13, 18, 100, 18),
            (18, 25, 1, 25),
            (10, 25, 100, 25),
            (25, 25, 5, 25),
        ];
        for (from, to, limit, end) in rows {
            let cut = tail.cut(Position(from), Position(to), limit);
            assert_eq!(cut, Some(Position(end)), "{from}..{to} limit {limit}");
        }
        assert_eq!(tail.cut(Position(9), Position(25), 5), None);
    }

    #[test]
    fn the_oldest_holder_goes_first() {
        let budget = TailBudget::new(25);
        let tails: Vec<_> = (0..3).map(|_| Tail::new(&budget, Position(0))).collect();
        for tail in &tails {
            tail.push(Bytes::from_static(b"0123456789"));
            tail.committed(Position(10));
        }
        let starts: Vec<_> = tails.iter().map(|tail| tail.start().0).collect();
        assert_eq!((starts, budget.used()), (vec![10, 0, 0], 20));
    }

    proptest! {
        #[test]
        fn reads_what_was_pushed(
            lens in proptest::collection::vec(prop_oneof![9 => 0usize..50, 1 => 4000usize..9000], 0..80),
            from in 0u64..20_000, len in 0u64..20_000, commit in 0u64..20_000, limit in 0u64..5_000,
        ) {
            let budget = TailBudget::new(limit);
            let tail = Tail::new(&budget, Position(0));
            let whole: Vec<u8> = (0..lens.iter().sum::<usize>()).map(|n| (n % 251) as u8).collect();
            let mut at = 0;
            for len in lens {
                tail.push(Bytes::copy_from_slice(&whole[at..at + len]));
                at += len;
            }
            tail.committed(Position(commit));
            prop_assert!(tail.start().0 <= commit);
            prop_assert!(budget.used() <= limit.max(9000));
            match all(&tail, from, from + len) {
                None => prop_assert!(from < tail.start().0),
                Some(bytes) => {
                    let end = whole.len().min((from + len) as usize);
                    prop_assert_eq!(&bytes, &whole[(from as usize).min(end)..end]);
                }
            }
        }
    }
}
