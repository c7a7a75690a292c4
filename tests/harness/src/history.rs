//! What writers and readers saw, in the order in which it ended. Recorded while faults happen, judged
//! afterwards by `checker.rs`.
//!
//! A record is one line `writer.number.padding`: whoever sees it anywhere knows who wrote it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names one record: its writer and that writer's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordId {
    /// The writer.
    pub writer: u64,
    /// The writer's number, from 0, in the order of its attempts.
    pub number: u64,
}

impl RecordId {
    /// The bytes of the record, with a length that follows from its name.
    pub fn line(self) -> String {
        let padding = "x".repeat(usize::try_from((self.writer * 31 + self.number * 17) % 60).unwrap_or(0));
        format!("{}.{}.{padding}\n", self.writer, self.number)
    }

    /// The record that such bytes (without the line's end) are, if they are whole.
    pub fn parse(line: &str) -> Option<RecordId> {
        let mut parts = line.split('.');
        let id = RecordId { writer: parts.next()?.parse().ok()?, number: parts.next()?.parse().ok()? };
        (id.line().trim_end() == line).then_some(id)
    }
}

/// What an append came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged, with the offset after it.
    Acked {
        /// `Stream-Next-Offset` of the answer.
        next: String,
        /// The address that acknowledged it.
        by: String,
    },
    /// Refused, or no answer at all: it may be there once.
    Unknown {
        /// What was seen instead.
        why: String,
    },
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An append.
    Append {
        /// The record.
        record: RecordId,
        /// What it came to.
        outcome: Outcome,
    },
    /// One answer to a read.
    Read {
        /// The reader.
        reader: u64,
        /// The offset that was asked for.
        from: String,
        /// `Stream-Next-Offset` of the answer.
        next: String,
        /// The body.
        body: String,
        /// Whether the answer claimed that there was no more.
        up_to_date: bool,
    },
}

/// An event with its stream and its time.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The stream's path.
    pub stream: String,
    /// When the request was sent.
    pub began: Duration,
    /// When its answer was complete.
    pub ended: Duration,
    /// What happened.
    pub event: Event,
}

/// A history that many tasks write to. Cheap to clone.
#[derive(Clone)]
pub struct History {
    start: Instant,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Default for History {
    fn default() -> Self {
        History { start: Instant::now(), entries: Arc::default() }
    }
}

impl History {
    /// Now, on the history's clock.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Records what began then and ends now.
    pub fn record(&self, stream: &str, began: Duration, event: Event) {
        let entry = Entry { stream: stream.to_owned(), began, ended: self.now(), event };
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    /// The entries so far, by stream, each in the order in which it ended.
    pub fn by_stream(&self) -> BTreeMap<String, Vec<Entry>> {
        let mut streams: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for entry in self.entries.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            streams.entry(entry.stream.clone()).or_default().push(entry.clone());
        }
        streams.values_mut().for_each(|entries| entries.sort_by_key(|e| e.ended));
        streams
    }

    /// How many appends were acknowledged so far.
    pub fn acked(&self) -> usize {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let acked = |e: &&Entry| matches!(&e.event, Event::Append { outcome: Outcome::Acked { .. }, .. });
        entries.iter().filter(acked).count()
    }
}
