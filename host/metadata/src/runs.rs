//! The committed runs of one stream: a list in position order that is small while it is short.
//!
//! A million streams have a run or two each, a few have thousands: up to `FEW` runs are a plain vector of
//! exact size, more are a persistent one, so that neither memory nor copying grows with the wrong number.
//! It only holds what it is given; `apply/commit.rs` decides what may be added.

use crate::model::{Position, Run};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Range;

/// Runs in position order, contiguous.
#[derive(Clone, Debug, Default)]
pub struct Runs(List);

#[derive(Clone, Debug)]
enum List {
    Few(Box<[Run]>),
    Many(Box<imbl::Vector<Run>>),
}

/// So many are kept in a plain vector.
const FEW: usize = 16;

impl Default for List {
    fn default() -> Self {
        List::Few(Box::default())
    }
}

impl Runs {
    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            List::Few(runs) => runs.len(),
            List::Many(runs) => runs.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The run with this index.
    pub fn get(&self, index: usize) -> Option<&Run> {
        match &self.0 {
            List::Few(runs) => runs.get(index),
            List::Many(runs) => runs.get(index),
        }
    }

    /// The last run.
    pub fn last(&self) -> Option<&Run> {
        self.len().checked_sub(1).and_then(|last| self.get(last))
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Run> + ExactSizeIterator + '_ {
        (0..self.len()).map(|index| self.get(index).expect("the index is below the length"))
    }

    /// Index of the run that has the byte at `position`, or the number of runs when none has.
    pub fn index_of(&self, position: Position) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle) {
                Some(run) if run.end <= position => low = middle + 1,
                _ => high = middle,
            }
        }
        match self.get(low) {
            Some(run) if run.start <= position => low,
            _ => self.len(),
        }
    }

    /// The runs from the one that has the byte at `position` to the last.
    pub fn from(&self, position: Position) -> impl Iterator<Item = &Run> + '_ {
        self.iter().skip(self.index_of(position))
    }

    pub(crate) fn push(&mut self, run: Run) {
        match &mut self.0 {
            List::Few(runs) if runs.len() < FEW => {
                self.0 = List::Few(runs.iter().copied().chain([run]).collect());
            }
            List::Few(runs) => {
                self.0 = List::Many(Box::new(runs.iter().copied().chain([run]).collect()));
            }
            List::Many(runs) => runs.push_back(run),
        }
    }

    /// Puts one run in the place of those in `range`, which must exist.
    pub(crate) fn replace(&mut self, range: Range<usize>, run: Run) {
        let rest = self.len() - range.len() + 1;
        if rest <= FEW {
            let before = self.iter().take(range.start).copied();
            let after = self.iter().skip(range.end).copied();
            let all: Vec<Run> = before.chain([run]).chain(after).collect();
            self.0 = List::Few(all.into_boxed_slice());
        } else if let List::Many(runs) = &mut self.0 {
            let mut after = runs.split_off(range.start);
            runs.push_back(run);
            runs.append(after.split_off(range.len()));
        } else {
            let mut runs: imbl::Vector<Run> = self.iter().copied().collect();
            let mut after = runs.split_off(range.start);
            runs.push_back(run);
            runs.append(after.split_off(range.len()));
            self.0 = List::Many(Box::new(runs));
        }
    }
}

impl PartialEq for Runs {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Runs {}

impl FromIterator<Run> for Runs {
    fn from_iter<I: IntoIterator<Item = Run>>(runs: I) -> Self {
        let all: Vec<Run> = runs.into_iter().collect();
        if all.len() <= FEW {
            Runs(List::Few(all.into_boxed_slice()))
        } else {
            Runs(List::Many(Box::new(all.into_iter().collect())))
        }
    }
}

impl Serialize for Runs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Runs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Run>::deserialize(deserializer).map(|runs| runs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Epoch, NodeId, ObjectKey, Session};

    fn run(start: u64, end: u64) -> Run {
        let session = Session { node: NodeId(1), epoch: Epoch(1) };
        let object = ObjectKey { session, number: start };
        Run { start: Position(start), end: Position(end), object, offset: 0, crc: 0 }
    }

    #[test]
    fn grows_and_finds_by_position() {
        let mut runs = Runs::default();
        assert_eq!(runs.index_of(Position(0)), 0);
        for n in 0..40 {
            runs.push(run(n * 10, n * 10 + 10));
            assert_eq!(runs.len() as u64, n + 1);
            assert_eq!(runs.last(), Some(&run(n * 10, n * 10 + 10)));
            for m in 0..=n {
                assert_eq!(runs.index_of(Position(m * 10)) as u64, m);
                assert_eq!(runs.index_of(Position(m * 10 + 9)) as u64, m);
            }
            assert_eq!(runs.index_of(Position(n * 10 + 10)), runs.len());
        }
        assert_eq!(runs.from(Position(385)).count(), 2);
    }

    #[test]
    fn replacing_matches_a_plain_vector() {
        for len in [1u64, 2, 15, 16, 17, 18, 40] {
            for from in 0..len {
                for to in from + 1..=len {
                    let mut runs: Runs = (0..len).map(|n| run(n, n + 1)).collect();
                    let mut plain: Vec<Run> = runs.iter().copied().collect();
                    runs.replace(from as usize..to as usize, run(from, to));
                    plain.splice(from as usize..to as usize, [run(from, to)]);
                    assert_eq!(runs, plain.into_iter().collect());
                }
            }
        }
    }
}
