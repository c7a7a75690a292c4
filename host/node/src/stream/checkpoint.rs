//! What an owner must remember of a stream's writers: idempotent producers, the last `Stream-Seq`, and
//! who closed the stream. Stored beside the committed runs, rebuilt from the records of a log.
//!
//! Pure. The stored forms are a version byte and postcard; an unknown version is refused, never
//! guessed at. `tail.rs` decides with this, `commit.rs` and `recover.rs` store it.

use super::api::Producer;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const VERSION: u8 = 1;

/// Where an idempotent producer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerState {
    /// Its epoch.
    pub epoch: u64,
    /// The highest number accepted in it.
    pub seq: u64,
}

/// The request of a producer that closed the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedBy {
    /// The producer.
    pub producer: Arc<str>,
    /// Its state with that request.
    pub state: ProducerState,
}

/// What is remembered of a stream's writers, as of one position. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writers {
    /// Idempotent producers, by their own names.
    pub producers: imbl::OrdMap<Arc<str>, ProducerState>,
    /// The last `Stream-Seq`.
    pub seq: Option<Arc<str>>,
    /// Set when an idempotent producer closed the stream.
    pub closed_by: Option<ClosedBy>,
}

/// What a record carries beside its bytes: how it changes [`Writers`], and when it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordMeta {
    /// The producer that sent it, and its state with it.
    pub producer: Option<(Arc<str>, ProducerState)>,
    /// Its `Stream-Seq`.
    pub seq: Option<Arc<str>>,
    /// The owner's clock, milliseconds since 1970.
    pub time_ms: u64,
}

/// Stored bytes that do not read as what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Of a later version of the program, or not ours.
    #[error("version {0} is not known")]
    Version(u8),
    /// Cut or garbled.
    #[error("malformed")]
    Malformed,
}

impl Writers {
    /// Nothing is remembered: nothing needs to be stored.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty() && self.seq.is_none() && self.closed_by.is_none()
    }

    /// Takes in one record. `eof`: it closes the stream.
    pub fn apply(&mut self, meta: &RecordMeta, eof: bool) {
        if let Some((producer, state)) = &meta.producer {
            self.producers.insert(producer.clone(), *state);
            if eof {
                self.closed_by = Some(ClosedBy { producer: producer.clone(), state: *state });
            }
        }
        if let Some(seq) = &meta.seq {
            self.seq = Some(seq.clone());
        }
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Writers, DecodeError> {
        decode(bytes)
    }
}

impl RecordMeta {
    /// Of a request, at a time.
    pub fn new(producer: Option<&Producer>, seq: Option<&str>, time_ms: u64) -> RecordMeta {
        RecordMeta {
            producer: producer.map(|p| (p.id.clone(), ProducerState { epoch: p.epoch, seq: p.seq })),
            seq: seq.map(Arc::from),
            time_ms,
        }
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<RecordMeta, DecodeError> {
        decode(bytes)
    }
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![VERSION]).expect("writing to memory does not fail")
}

fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, DecodeError> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => match postcard::take_from_bytes(rest) {
            Ok((value, [])) => Ok(value),
            _ => Err(DecodeError::Malformed),
        },
        Some((&version, _)) => Err(DecodeError::Version(version)),
        None => Err(DecodeError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = (RecordMeta, bool)> {
        let producer = proptest::option::of(("[a-c]", any::<u64>(), any::<u64>()));
        (producer, proptest::option::of("[a-z0-9]{0,6}"), any::<u64>(), any::<bool>()).prop_map(
            |(producer, seq, time_ms, eof)| {
                let producer =
                    producer.map(|(id, epoch, seq)| (Arc::from(id.as_str()), ProducerState { epoch, seq }));
                (RecordMeta { producer, seq: seq.map(|s| Arc::from(s.as_str())), time_ms }, eof)
            },
        )
    }

    proptest! {
        #[test]
        fn stored_forms_read_back(records in proptest::collection::vec(record(), 0..20)) {
            let mut writers = Writers::default();
            for (meta, eof) in &records {
                prop_assert_eq!(&RecordMeta::decode(&meta.encode()), &Ok(meta.clone()));
                writers.apply(meta, *eof);
            }
            prop_assert_eq!(Writers::decode(&writers.encode()), Ok(writers));
        }

        /// A checkpoint in the middle and the records after it say the same as all records.
        #[test]
        fn a_checkpoint_stands_for_the_records_before_it(
            records in proptest::collection::vec(record(), 0..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let cut = cut.index(records.len() + 1);
            let mut whole = Writers::default();
            records.iter().for_each(|(meta, eof)| whole.apply(meta, *eof));
            let mut first = Writers::default();
            records[..cut].iter().for_each(|(meta, eof)| first.apply(meta, *eof));
            let mut rest = Writers::decode(&first.encode()).expect("just encoded");
            records[cut..].iter().for_each(|(meta, eof)| rest.apply(meta, *eof));
            prop_assert_eq!(rest, whole);
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Writers::decode(&bytes);
            let _ = RecordMeta::decode(&bytes);
        }
    }

    #[test]
    fn later_versions_are_refused() {
        assert_eq!(Writers::decode(&[2, 0]), Err(DecodeError::Version(2)));
        assert_eq!(Writers::decode(&[]), Err(DecodeError::Malformed));
        let mut long = Writers::default().encode();
        long.push(0);
        assert_eq!(Writers::decode(&long), Err(DecodeError::Malformed));
    }
}
