//! Decides whether a history is one that the product allows. For every stream:
//!
//! - an acknowledged append is there exactly once, at one position that never changes, and the
//!   acknowledged appends of a writer are in the order in which they were acknowledged;
//! - an append that was refused or got no answer is there at most once;
//! - offsets never go back: not in the answers to a reader, not from one acknowledgement to the next;
//! - what a read showed, every later read of that place shows too, and a later claim to be up to date
//!   covers it, as it covers every append acknowledged before the read began;
//! - no two appends are acknowledged at one position.
//!
//! Offsets are opaque; the checker learns their positions from reads that began at the start and
//! went on where the answer before them ended.

use crate::history::{Entry, Event, History, Outcome, RecordId};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// One thing that must not be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// An acknowledged append is not there.
    Lost(RecordId),
    /// An append is there more than once.
    Twice(RecordId),
    /// A record that nobody wrote, or a part of one.
    Foreign(String),
    /// A writer's acknowledged appends are in another order than they were acknowledged.
    Order(RecordId, RecordId),
    /// A position showed one thing first and another later.
    Changed(usize),
    /// An offset stands for two positions, or an acknowledgement for another one than the record has.
    Offset(String),
    /// An offset came after a greater one.
    Back {
        /// The greater one.
        before: String,
        /// The one after it.
        after: String,
    },
    /// A read claimed to be up to date and ended before what had been seen or acknowledged.
    Stale {
        /// Where it ended.
        end: usize,
        /// What was known before it began.
        known: usize,
    },
    /// Two appends were acknowledged at one position.
    SamePosition(RecordId, RecordId),
    /// No read went from the start to the end after the last append.
    Unread,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Lost(id) => write!(f, "acknowledged and lost: {id:?}"),
            Violation::Twice(id) => write!(f, "there twice: {id:?}"),
            Violation::Foreign(what) => write!(f, "written by nobody: {what:?}"),
            Violation::Order(first, second) => write!(f, "{second:?} stands before {first:?}"),
            Violation::Changed(at) => write!(f, "the bytes at {at} changed"),
            Violation::Offset(token) => write!(f, "the offset {token:?} stands for two positions"),
            Violation::Back { before, after } => write!(f, "the offset {after:?} came after {before:?}"),
            Violation::Stale { end, known } => {
                write!(f, "a read was up to date at {end} when {known} was known")
            }
            Violation::SamePosition(a, b) => write!(f, "{a:?} and {b:?} were acknowledged at one position"),
            Violation::Unread => f.write_str("no complete read after the last append"),
        }
    }
}

/// Judges all streams of a history.
pub fn check(history: &History) -> Result<(), String> {
    let mut report = String::new();
    for (stream, entries) in history.by_stream() {
        for violation in check_stream(&entries) {
            report.push_str(&format!("{stream}: {violation}\n"));
        }
    }
    if report.is_empty() { Ok(()) } else { Err(report) }
}

/// Judges the entries of one stream, in the order in which they ended.
pub fn check_stream(entries: &[Entry]) -> Vec<Violation> {
    let mut stream = Stream::default();
    stream.learn_positions(entries);
    stream.compare_bytes(entries);
    stream.find_records();
    stream.judge_appends(entries);
    stream.judge_offsets(entries);
    stream.judge_freshness(entries);
    stream.violations.sort();
    stream.violations.dedup();
    stream.violations
}

#[derive(Default)]
struct Stream {
    /// The position of each offset that a chain of reads from the start led to.
    positions: BTreeMap<String, usize>,
    /// The bytes as reads showed them first.
    bytes: Vec<u8>,
    /// Where each record ends.
    ends: BTreeMap<RecordId, usize>,
    violations: Vec<Violation>,
}

impl Stream {
    fn learn_positions(&mut self, entries: &[Entry]) {
        self.positions.insert("-1".to_owned(), 0);
        // A read may have been recorded before the one that tells where it began: until nothing is new.
        let mut known = 0;
        while known != self.positions.len() {
            known = self.positions.len();
            for entry in entries {
                let Event::Read { from, next, body, .. } = &entry.event else { continue };
                let Some(start) = self.positions.get(from).copied() else { continue };
                let end = start + body.len();
                if *self.positions.entry(next.clone()).or_insert(end) != end {
                    self.violations.push(Violation::Offset(next.clone()));
                }
            }
        }
    }

    fn compare_bytes(&mut self, entries: &[Entry]) {
        let mut pieces: Vec<(usize, &str)> = entries
            .iter()
            .filter_map(|entry| match &entry.event {
                Event::Read { from, body, .. } => Some((*self.positions.get(from)?, body.as_str())),
                Event::Append { .. } => None,
            })
            .collect();
        pieces.sort();
        for (start, body) in pieces {
            let overlap = self.bytes.len().saturating_sub(start).min(body.len());
            if start > self.bytes.len() {
                continue;
            }
            if let Some(at) = (0..overlap).find(|i| self.bytes[start + i] != body.as_bytes()[*i]) {
                self.violations.push(Violation::Changed(start + at));
            }
            self.bytes.extend_from_slice(&body.as_bytes()[overlap..]);
        }
    }

    fn find_records(&mut self) {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let mut end = 0;
        for line in text.split_inclusive('\n') {
            end += line.len();
            match RecordId::parse(line.trim_end_matches('\n')).filter(|_| line.ends_with('\n')) {
                None => self.violations.push(Violation::Foreign(line.chars().take(80).collect())),
                Some(id) if self.ends.contains_key(&id) => self.violations.push(Violation::Twice(id)),
                Some(id) => {
                    self.ends.insert(id, end);
                }
            }
        }
    }

    fn judge_appends(&mut self, entries: &[Entry]) {
        let mut written = std::collections::BTreeSet::new();
        let mut last: BTreeMap<u64, (RecordId, usize)> = BTreeMap::new();
        let mut at: BTreeMap<&str, RecordId> = BTreeMap::new();
        for entry in entries {
            let Event::Append { record, outcome } = &entry.event else { continue };
            written.insert(*record);
            let Outcome::Acked { next, .. } = outcome else { continue };
            if let Some(other) = at.insert(next, *record) {
                self.violations.push(Violation::SamePosition(other, *record));
            }
            let Some(end) = self.ends.get(record).copied() else {
                self.violations.push(Violation::Lost(*record));
                continue;
            };
            if self.positions.get(next).is_some_and(|position| *position != end) {
                self.violations.push(Violation::Offset(next.clone()));
            }
            if let Some((before, place)) = last.insert(record.writer, (*record, end))
                && place > end
            {
                self.violations.push(Violation::Order(before, *record));
            }
        }
        let foreign = self.ends.keys().filter(|id| !written.contains(*id));
        self.violations.extend(foreign.map(|id| Violation::Foreign(format!("{id:?}"))));
    }

    fn judge_offsets(&mut self, entries: &[Entry]) {
        let mut readers: BTreeMap<u64, &str> = BTreeMap::new();
        for entry in entries {
            let Event::Read { reader, from, next, .. } = &entry.event else { continue };
            // A reader that starts anew may see less than it saw in the middle of its last pass.
            if from != "-1"
                && let Some(before) = readers.get(reader)
                && (*before > next.as_str() || from > next)
            {
                let (before, after) = ((*before).to_owned(), next.clone());
                self.violations.push(Violation::Back { before, after });
            }
            readers.insert(*reader, next);
        }
        for (before, after) in later_pairs(entries) {
            if after <= before {
                self.violations.push(Violation::Back { before, after });
            }
        }
    }

    fn judge_freshness(&mut self, entries: &[Entry]) {
        let last_append = entries.iter().filter(|e| matches!(e.event, Event::Append { .. }));
        let last_append = last_append.map(|e| e.ended).max().unwrap_or_default();
        let known = self.known(entries);
        let mut complete = false;
        for entry in entries {
            let Event::Read { from, body, up_to_date: true, .. } = &entry.event else { continue };
            let Some(start) = self.positions.get(from) else { continue };
            let end = start + body.len();
            complete |= entry.began >= last_append && end == self.bytes.len();
            let before = known.partition_point(|(ended, _)| *ended < entry.began);
            let known = known[..before].last().map_or(0, |(_, position)| *position);
            if known > end {
                self.violations.push(Violation::Stale { end, known });
            }
        }
        if !complete {
            self.violations.push(Violation::Unread);
        }
    }

    /// Over time, the greatest position that a read had shown or an acknowledgement had promised.
    fn known(&self, entries: &[Entry]) -> Vec<(Duration, usize)> {
        let mut greatest = 0;
        let mut known = Vec::new();
        for entry in entries {
            let position = match &entry.event {
                Event::Read { next, .. } => self.positions.get(next).copied(),
                Event::Append { record, outcome: Outcome::Acked { .. } } => self.ends.get(record).copied(),
                Event::Append { .. } => None,
            };
            greatest = greatest.max(position.unwrap_or(0));
            known.push((entry.ended, greatest));
        }
        known
    }
}

/// For every acknowledgement, the greatest offset acknowledged before its append was sent.
fn later_pairs(entries: &[Entry]) -> Vec<(String, String)> {
    let acked: Vec<(Duration, Duration, &String)> = entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::Append { outcome: Outcome::Acked { next, .. }, .. } => {
                Some((entry.began, entry.ended, next))
            }
            _ => None,
        })
        .collect();
    let mut by_begin = acked.clone();
    by_begin.sort();
    let (mut ended, mut greatest, mut pairs) = (acked.iter().peekable(), None::<&String>, Vec::new());
    for (began, _, next) in by_begin {
        while let Some((_, _, earlier)) = ended.next_if(|(_, end, _)| *end < began) {
            greatest = greatest.max(Some(earlier));
        }
        pairs.extend(greatest.map(|before| (before.clone(), next.clone())));
    }
    pairs
}

#[cfg(test)]
#[path = "checker_test.rs"]
mod tests;
