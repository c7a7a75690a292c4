//! Builds a data object in memory and stores it under a key of its session.

use super::format::{self, Entry, FIRST, Index};
use crate::Store;
use crate::header::{self, Header, Kind};
use crate::layout;
use crate::request::Created;
use bytes::Bytes;
use headwater_env::fail_point;
use headwater_metadata::{Checkpoint, ObjectKey, Position, Run, Session, StreamEpoch, StreamId, StreamRun};
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives out the keys of a session's data objects.
pub struct Keys {
    session: Session,
    nonce: u128,
    next: AtomicU64,
}

impl Keys {
    /// Of a session that has written none yet.
    pub fn new(session: Session, nonce: u128) -> Keys {
        Keys { session, nonce, next: AtomicU64::new(0) }
    }

    /// A key that was not given out before.
    pub fn next(&self) -> ObjectKey {
        ObjectKey { session: self.session, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }

    /// The nonce of the process.
    pub fn nonce(&self) -> u128 {
        self.nonce
    }
}

/// Collects the pieces of a data object.
#[derive(Default)]
pub struct Writer {
    pieces: Vec<Piece>,
    len: u64,
}

struct Piece {
    stream: StreamId,
    epoch: StreamEpoch,
    start: Position,
    bytes: Vec<Bytes>,
    checkpoint: Option<Bytes>,
    eof: bool,
}

/// A data object that is ready to be stored.
pub struct Object {
    /// Its key.
    pub key: ObjectKey,
    /// What a `Commit` says of it, in the order in which streams were added.
    pub runs: Vec<StreamRun>,
    parts: Vec<Bytes>,
}

/// Why a data object could not be stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PutError {
    /// Something else is stored under the key.
    #[error("object {object} exists and is not ours")]
    Foreign {
        /// Its key.
        object: String,
    },
    /// The store refuses for good.
    #[error("object {object} cannot be stored: {reason}")]
    Failed {
        /// Its key.
        object: String,
        /// What it said.
        reason: String,
    },
}

impl Writer {
    /// Empty.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Adds a stream's bytes from `start` on (none is fine), and the checkpoint as of their end.
    pub fn add(
        &mut self,
        stream: StreamId,
        epoch: StreamEpoch,
        start: Position,
        bytes: impl IntoIterator<Item = Bytes>,
        checkpoint: Option<Bytes>,
        eof: bool,
    ) {
        let bytes: Vec<Bytes> = bytes.into_iter().filter(|piece| !piece.is_empty()).collect();
        self.len += total(&bytes) + checkpoint.as_ref().map_or(0, |bytes| bytes.len() as u64);
        self.pieces.push(Piece { stream, epoch, start, bytes, checkpoint, eof });
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether no stream was added.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Completes the object under the next key.
    pub fn finish(self, keys: &Keys) -> Object {
        let key = keys.next();
        let mut parts = Vec::with_capacity(self.pieces.len() * 2 + 2);
        let mut offset = FIRST;
        let mut runs = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let len = total(&piece.bytes);
            let crc = piece.bytes.iter().fold(0, |crc, bytes| crc32c::crc32c_append(crc, bytes));
            let end = Position(piece.start.0 + len);
            let run = Run { start: piece.start, end, object: key, offset, crc };
            runs.push(StreamRun {
                stream: piece.stream,
                epoch: piece.epoch,
                run: (len > 0).then_some(run),
                checkpoint: None,
                eof: piece.eof,
            });
            parts.extend(piece.bytes.iter().cloned());
            offset += len;
        }
        for (piece, run) in self.pieces.iter().zip(&mut runs) {
            let Some(bytes) = &piece.checkpoint else { continue };
            // The caller's checkpoints are far below 4 GiB.
            let len = bytes.len() as u32;
            run.checkpoint = Some(Checkpoint { object: key, offset, len, crc: crc32c::crc32c(bytes) });
            parts.push(bytes.clone());
            offset += bytes.len() as u64;
        }
        let entries = self.pieces.iter().zip(&runs).map(|(piece, run)| Entry {
            stream: run.stream,
            epoch: run.epoch,
            end: run.run.map_or(piece.start, |run| run.end),
            run: run.run,
            checkpoint: run.checkpoint,
        });
        let index =
            Index { entries: entries.collect(), data: offset - FIRST, blocks: format::checksums(&parts) };
        parts.push(index.encode());
        let header = Header {
            kind: Kind::Data,
            session: key.session,
            nonce: keys.nonce(),
            seq: key.number,
            count: runs.len() as u32,
            body: total(&parts),
            digest: header::digest(&parts[parts.len() - 1..]),
        };
        parts.insert(0, Bytes::copy_from_slice(&header.encode()));
        Object { key, runs, parts }
    }
}

fn total(parts: &[Bytes]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

impl Object {
    /// Length of the stored object.
    pub fn len(&self) -> u64 {
        total(&self.parts)
    }

    /// Never: there is always a header.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// Stores the object, durably. Waits out a failing store; the caller bounds it, and may repeat it.
pub async fn put(store: &Store, object: &Object) -> Result<(), PutError> {
    let path = layout::data(object.key);
    fail_point!("store.data.before_put");
    let created = store.create(&path, &object.parts).await;
    fail_point!("store.data.after_put");
    let object = path.to_string();
    match created {
        Ok(Created::Stored) => Ok(()),
        Ok(Created::Taken(_)) => Err(PutError::Foreign { object }),
        Err(reason) => Err(PutError::Failed { object, reason }),
    }
}
