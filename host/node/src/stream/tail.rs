//! Whether an append is admitted, and where it goes: the pure half of an open stream.
//!
//! Sync and without a clock. Every assigned position is known here before it is durable, so that
//! requests that arrive together are judged in the order in which they are logged; what this says of
//! positions that are not durable yet is told to nobody before they are (`append.rs` waits).
//!
//! The order of the checks is the protocol's: an empty body, the content type's presence, closed,
//! the content type, the producer, `Stream-Seq`, the body.

use super::api::{Append, Appended, Producer, StreamError};
use super::checkpoint::{ProducerState, RecordMeta, Writers};
use bytes::Bytes;
use headwater_metadata::Position;
use std::sync::Arc;

/// What an append is judged by.
#[derive(Clone, Debug)]
pub struct Tail {
    /// The stream's content type.
    pub content_type: Arc<str>,
    /// End of everything that was assigned.
    pub end: Position,
    /// Closed for appends by something that was assigned.
    pub eof: bool,
    /// The writers as of `end`.
    pub writers: Writers,
    /// A gap begins here: no appends.
    pub damaged: Option<Position>,
    /// The most bytes that one append may have.
    pub limit: u64,
}

/// What shall be done with an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Log this.
    Admit(Admitted),
    /// Nothing to do; the answer is good once everything assigned so far is durable.
    Duplicate(Appended),
}

/// A record with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Position of its first byte.
    pub start: Position,
    /// Its bytes; empty when it only closes the stream.
    pub bytes: Bytes,
    /// It closes the stream.
    pub eof: bool,
    /// How it changes the writers.
    pub meta: RecordMeta,
}

impl Admitted {
    /// Position after its last byte.
    pub fn end(&self) -> Position {
        Position(self.start.0 + self.bytes.len() as u64)
    }
}

impl Tail {
    /// Judges an append. Changes nothing: [`Tail::accept`] does.
    pub fn admit(&self, append: &Append, now_ms: u64) -> Result<Admission, StreamError> {
        let empty = matches!(&append.body, Ok(bytes) if bytes.is_empty());
        if empty && !append.eof {
            return Err(StreamError::EmptyBody);
        }
        if !empty && append.content_type.is_none() {
            return Err(StreamError::ContentTypeMissing);
        }
        if self.eof {
            return self.when_closed(append, empty);
        }
        if let (false, Some(given)) = (empty, &append.content_type)
            && media_type(given) != media_type(&self.content_type)
        {
            return Err(StreamError::ContentType { expected: self.content_type.clone() });
        }
        if let Some(at) = self.damaged {
            return Err(StreamError::Damaged { at });
        }
        if let Some(producer) = &append.producer
            && let Some(state) = self.judge_producer(producer)?
        {
            return Ok(Admission::Duplicate(Appended {
                tail: self.end,
                eof: false,
                duplicate: true,
                producer: Some((state.epoch, state.seq)),
            }));
        }
        if let (Some(seq), Some(last)) = (&append.seq, &self.writers.seq)
            && seq.as_bytes() <= last.as_bytes()
        {
            return Err(StreamError::SeqConflict { last: last.clone() });
        }
        let bytes = append.body.clone()?;
        if bytes.len() as u64 > self.limit {
            return Err(StreamError::TooLarge { limit: self.limit });
        }
        let meta = RecordMeta::new(append.producer.as_ref(), append.seq.as_deref(), now_ms);
        Ok(Admission::Admit(Admitted { start: self.end, bytes, eof: append.eof, meta }))
    }

    /// Takes in what was admitted; it must be the next thing logged for the stream.
    pub fn accept(&mut self, admitted: &Admitted) {
        debug_assert_eq!(admitted.start, self.end);
        self.end = admitted.end();
        self.eof |= admitted.eof;
        self.writers.apply(&admitted.meta, admitted.eof);
    }

    /// A closed stream takes nothing, but says again what it said to the request that closed it, and
    /// closing it once more is no error.
    fn when_closed(&self, append: &Append, empty: bool) -> Result<Admission, StreamError> {
        let repeat = match (&append.producer, &self.writers.closed_by) {
            (Some(producer), Some(by)) => {
                by.producer == producer.id
                    && by.state == ProducerState { epoch: producer.epoch, seq: producer.seq }
            }
            (Some(_), None) => false,
            (None, _) => empty && append.eof,
        };
        if !repeat {
            return Err(StreamError::Closed { tail: self.end });
        }
        Ok(Admission::Duplicate(Appended {
            tail: self.end,
            eof: true,
            duplicate: true,
            producer: append.producer.as_ref().map(|p| (p.epoch, p.seq)),
        }))
    }

    /// `None`: the next request of the producer. `Some`: it was accepted before.
    fn judge_producer(&self, producer: &Producer) -> Result<Option<ProducerState>, StreamError> {
        let Some(state) = self.writers.producers.get(&producer.id) else {
            return match producer.seq {
                0 => Ok(None),
                received => Err(StreamError::ProducerGap { expected: 0, received }),
            };
        };
        if producer.epoch < state.epoch {
            return Err(StreamError::ProducerFenced { epoch: state.epoch });
        }
        if producer.epoch > state.epoch {
            return if producer.seq == 0 { Ok(None) } else { Err(StreamError::ProducerStart) };
        }
        match state.seq.checked_add(1) {
            _ if producer.seq <= state.seq => Ok(Some(*state)),
            Some(expected) if producer.seq > expected => {
                Err(StreamError::ProducerGap { expected, received: producer.seq })
            }
            _ => Ok(None),
        }
    }
}

/// A content type without its parameters, in lower case: what is compared.
pub fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
#[path = "tail_test.rs"]
mod tests;
