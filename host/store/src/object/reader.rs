//! Reads ranges and checkpoints of data objects, verified.

use super::format::{self, CHECK, FIRST, Index};
use crate::Store;
use crate::layout;
use crate::request::Failure;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use headwater_metadata::{Checkpoint, ObjectKey, Position, Run};
use std::ops::Range;

/// Why bytes of a data object cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The object is not there (any more): the metadata has moved on, look again.
    #[error("object {object} is gone")]
    Gone {
        /// Its key.
        object: String,
        /// The same.
        key: ObjectKey,
    },
    /// What is there is not what the metadata says.
    #[error("object {object} is damaged: {reason}")]
    Damaged {
        /// Its key.
        object: String,
        /// What is wrong.
        reason: String,
    },
    /// The store does not answer, or refuses.
    #[error("object {object} cannot be read: {reason}")]
    Unavailable {
        /// Its key.
        object: String,
        /// What the store said.
        reason: String,
    },
}

/// Bytes asked for at a time.
const PIECE: u64 = 1 << 20;
/// Pieces asked for ahead.
const AHEAD: usize = 2;
/// A read is not given up for one bad answer.
const ATTEMPTS: u32 = 6;
/// Enough for most indexes.
const SUFFIX: u64 = 64 << 10;

/// The bytes of `run` from position `from` to position `to`, in pieces, each verified.
pub fn read_range(
    store: &Store,
    run: &Run,
    from: Position,
    to: Position,
) -> BoxStream<'static, Result<Bytes, ReadError>> {
    let (store, key) = (store.clone(), run.object);
    let Some(wanted) = in_data(run, from, to) else { return stream::empty().boxed() };
    let whole = wanted.start / CHECK * CHECK..wanted.end;
    let pieces = async move {
        let index = read_index(&store, key).await?;
        let starts = stream::iter(whole.clone().step_by(PIECE as usize));
        let pieces = starts.map(move |start| {
            let (store, index) = (store.clone(), index.clone());
            let (end, wanted) = ((start + PIECE).min(whole.end), wanted.clone());
            async move {
                let bytes = read_blocks(&store, key, &index, start..end).await?;
                Ok(cut(bytes, start, &wanted))
            }
        });
        Ok(pieces.buffered(AHEAD))
    };
    stream::once(pieces).flat_map(|pieces| pieces.map_or_else(failed, StreamExt::boxed)).boxed()
}

fn failed<T: Send + 'static>(error: ReadError) -> BoxStream<'static, Result<T, ReadError>> {
    stream::iter([Err(error)]).boxed()
}

/// Where the positions are, behind the header; `None` when there is nothing.
pub(crate) fn in_data(run: &Run, from: Position, to: Position) -> Option<Range<u64>> {
    let (from, to) = (from.max(run.start), to.min(run.end));
    let first = run.offset.checked_sub(FIRST)?;
    (from < to).then(|| first + (from.0 - run.start.0)..first + (to.0 - run.start.0))
}

/// The part of bytes that begin at `at` which lies in `wanted`.
pub(crate) fn cut(bytes: Bytes, at: u64, wanted: &Range<u64>) -> Bytes {
    let len = bytes.len() as u64;
    let start = wanted.start.saturating_sub(at).min(len);
    let end = wanted.end.saturating_sub(at).min(len);
    bytes.slice(start as usize..end as usize)
}

/// Reads blocks of an object whose index is known, in one request. The range begins at a block; it is
/// widened to the end of one.
pub(crate) async fn read_blocks(
    store: &Store,
    key: ObjectKey,
    index: &Index,
    range: Range<u64>,
) -> Result<Bytes, ReadError> {
    let end = (range.end.div_ceil(CHECK) * CHECK).min(index.data);
    if end <= range.start {
        return Err(damaged(key, "it is shorter than the metadata says".into()));
    }
    let bytes = get(store, key, Some(FIRST + range.start..FIRST + end)).await?;
    if bytes.len() as u64 != end - range.start {
        return Err(damaged(key, "it is shorter than its index says".into()));
    }
    index.verify(range.start, bytes).map_err(|reason| damaged(key, reason))
}

/// Reads the index of an object.
pub async fn read_index(store: &Store, key: ObjectKey) -> Result<Index, ReadError> {
    let mut suffix = get_suffix(store, key, SUFFIX).await?;
    let needed = Index::len_in(&suffix).map_err(|reason| damaged(key, reason))? + format::TRAILER as u64;
    if needed > suffix.len() as u64 {
        suffix = get_suffix(store, key, needed).await?;
    }
    Index::decode(&suffix).map_err(|reason| damaged(key, reason))
}

/// A checkpoint, verified.
pub async fn read_checkpoint(store: &Store, checkpoint: &Checkpoint) -> Result<Bytes, ReadError> {
    let (key, len) = (checkpoint.object, u64::from(checkpoint.len));
    if len == 0 {
        return Ok(Bytes::new());
    }
    let bytes = get(store, key, Some(checkpoint.offset..checkpoint.offset + len)).await?;
    if bytes.len() as u64 != len || crc32c::crc32c(&bytes) != checkpoint.crc {
        return Err(damaged(key, "a checkpoint does not match its checksum".into()));
    }
    Ok(bytes)
}

pub(crate) fn damaged(key: ObjectKey, reason: String) -> ReadError {
    let object = format::name(key);
    tracing::error!(object, reason, "a data object is damaged");
    ReadError::Damaged { object, reason }
}

async fn get(store: &Store, key: ObjectKey, range: Option<Range<u64>>) -> Result<Bytes, ReadError> {
    let path = layout::data(key);
    patiently(store, key, || store.get_once(&path, range.clone())).await
}

async fn get_suffix(store: &Store, key: ObjectKey, len: u64) -> Result<Bytes, ReadError> {
    let path = layout::data(key);
    patiently(store, key, || store.get_suffix(&path, len)).await
}

async fn patiently<F>(store: &Store, key: ObjectKey, request: impl Fn() -> F) -> Result<Bytes, ReadError>
where
    F: Future<Output = Result<Bytes, Failure>>,
{
    let mut backoff = store.backoff();
    loop {
        let reason = match request().await {
            Ok(bytes) => return Ok(bytes),
            Err(Failure::Absent) => return Err(ReadError::Gone { object: format::name(key), key }),
            Err(Failure::Final(reason)) => return Err(unavailable(key, reason)),
            Err(Failure::Passing(reason)) => reason,
        };
        if backoff.attempts() + 1 >= ATTEMPTS {
            // Asking for bytes of an object without any is answered as an error of the request.
            let path = layout::data(key);
            return Err(match store.get_once(&path, None).await {
                Ok(bytes) if bytes.len() < header_and_trailer() => {
                    damaged(key, format!("it has {} bytes", bytes.len()))
                }
                _ => unavailable(key, reason),
            });
        }
        backoff.wait(&reason).await;
    }
}

fn header_and_trailer() -> usize {
    FIRST as usize + format::TRAILER
}

fn unavailable(key: ObjectKey, reason: String) -> ReadError {
    ReadError::Unavailable { object: format::name(key), reason }
}
