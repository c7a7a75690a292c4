//! Puts small adjacent runs of a stream together in one new object.

use crate::Store;
use crate::object::{Keys, Object, ReadError};
use headwater_metadata::{Run, StreamEpoch, StreamId};

/// Reads the runs (adjacent, in order), verifies them, and builds the object whose only run replaces
/// them. The caller stores it and proposes `Replace`.
pub async fn concatenate(
    store: &Store,
    keys: &Keys,
    stream: StreamId,
    epoch: StreamEpoch,
    runs: &[Run],
) -> Result<Object, ReadError> {
    let _ = (store, keys, stream, epoch, runs);
    unimplemented!()
}
