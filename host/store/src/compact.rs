//! Puts small adjacent runs of a stream together in one new object.

use crate::Store;
use crate::object::reader::damaged;
use crate::object::{Keys, Object, ReadError, Writer, read_range};
use bytes::Bytes;
use futures_util::stream::TryStreamExt;
use headwater_metadata::{Run, StreamEpoch, StreamId};

/// Reads the runs (adjacent, in order), verifies each against its checksum, and builds the object
/// whose only run takes their place. The caller bounds their size, stores the object and proposes
/// `Replace`; only what that unlinks may be deleted.
pub async fn concatenate(
    store: &Store,
    keys: &Keys,
    stream: StreamId,
    epoch: StreamEpoch,
    runs: &[Run],
) -> Result<Object, ReadError> {
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut next = runs.first().map(|run| run.start);
    for run in runs {
        if next != Some(run.start) {
            return Err(damaged(run.object, "its run is not adjacent to the one before".into()));
        }
        next = Some(run.end);
        let read: Vec<Bytes> = read_range(store, run, run.start, run.end).try_collect().await?;
        let crc = read.iter().fold(0, |crc, piece| crc32c::crc32c_append(crc, piece));
        if crc != run.crc {
            return Err(damaged(run.object, "a run does not match its checksum".into()));
        }
        pieces.extend(read);
    }
    let mut writer = Writer::new();
    if let Some(first) = runs.first() {
        writer.add(stream, epoch, first.start, pieces, None, false);
    }
    Ok(writer.finish(keys))
}
