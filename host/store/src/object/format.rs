//! The stored form of a data object.
//!
//! A header, the bytes of each run one after the other, the checkpoints, then an index with a checksum
//! of every block, so that a reader of any range can tell zeros from data, and a short trailer by which
//! the index is found from the end. `writer.rs` writes this, `reader.rs` reads it.

use crate::header::{self, u32_at};
use bytes::{BufMut, Bytes, BytesMut};
use headwater_metadata::{Checkpoint, ObjectKey, Position, Run, StreamEpoch, StreamId};
use serde::{Deserialize, Serialize};

/// Bytes that one checksum covers. Counted from the end of the header.
pub(crate) const CHECK: u64 = 64 << 10;
/// Length, checksum and mark at the very end.
pub(crate) const TRAILER: usize = 16;
const MARK: &[u8; 8] = b"HWINDEX1";

/// What a data object holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// In the order of the bytes.
    pub entries: Vec<Entry>,
    /// Length of runs and checkpoints together.
    pub(crate) data: u64,
    /// CRC-32C of each block of runs and checkpoints.
    pub(crate) blocks: Vec<u32>,
}

/// One stream's part of a data object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The stream.
    pub stream: StreamId,
    /// Its epoch when this was written.
    pub epoch: StreamEpoch,
    /// Position after the last byte.
    pub end: Position,
    /// The bytes, if there are any.
    pub run: Option<Run>,
    /// The checkpoint as of their end.
    pub checkpoint: Option<Checkpoint>,
}

impl Index {
    /// Encodes the index and the trailer.
    pub(crate) fn encode(&self) -> Bytes {
        // Encoding plain data into memory does not fail.
        let index = postcard::to_stdvec(self).unwrap_or_default();
        let mut out = BytesMut::from(&index[..]);
        out.put_u32_le(index.len() as u32);
        out.put_u32_le(crc32c::crc32c(&index));
        out.put_slice(MARK);
        out.freeze()
    }

    /// Length of the index that ends with this trailer.
    pub(crate) fn len_in(trailer: &[u8]) -> Result<u64, String> {
        let start = trailer.len().checked_sub(TRAILER).ok_or("it is too short for a data object")?;
        let trailer = &trailer[start..];
        if trailer.iter().all(|byte| *byte == 0) {
            return Err("it ends in zeros".into());
        }
        if &trailer[8..] != MARK {
            return Err("it does not end as a data object".into());
        }
        Ok(u64::from(u32_at(trailer, 0)))
    }

    /// Decodes an index with its trailer at the end of `suffix`.
    pub(crate) fn decode(suffix: &[u8]) -> Result<Index, String> {
        let len = usize::try_from(Self::len_in(suffix)?).unwrap_or(usize::MAX);
        let end = suffix.len() - TRAILER;
        let start = end.checked_sub(len).ok_or("its index is cut off")?;
        let (index, trailer) = (&suffix[start..end], &suffix[end..]);
        if crc32c::crc32c(index) != u32_at(trailer, 4) {
            return Err("its index's checksum does not match".into());
        }
        let index: Index = postcard::from_bytes(index).map_err(|error| format!("its index: {error}"))?;
        if index.blocks.len() as u64 != index.data.div_ceil(CHECK) {
            return Err("its index is inconsistent".into());
        }
        Ok(index)
    }

    /// Checks bytes that begin at `at` behind the header, a multiple of [`CHECK`], and cuts off what
    /// is not data.
    pub(crate) fn verify(&self, at: u64, mut bytes: Bytes) -> Result<Bytes, String> {
        let have = self.data.saturating_sub(at);
        if (bytes.len() as u64) > have {
            bytes.truncate(have as usize);
        }
        let first = (at / CHECK) as usize;
        for (n, block) in bytes.chunks(CHECK as usize).enumerate() {
            let number = first + n;
            let end = (number as u64 + 1) * CHECK;
            let whole = block.len() as u64 == CHECK.min(self.data - (end - CHECK));
            if !whole || self.blocks.get(number) != Some(&crc32c::crc32c(block)) {
                let zeros = if block.iter().all(|byte| *byte == 0) { " (zeros)" } else { "" };
                return Err(format!("its bytes from {} on do not match{zeros}", end - CHECK));
            }
        }
        Ok(bytes)
    }
}

/// Checksums of the blocks that several pieces make up together.
pub(crate) fn checksums(parts: &[Bytes]) -> Vec<u32> {
    let (mut blocks, mut crc, mut left) = (Vec::new(), 0, CHECK as usize);
    for part in parts {
        let mut rest = &part[..];
        while !rest.is_empty() {
            let (piece, next) = rest.split_at(rest.len().min(left));
            crc = crc32c::crc32c_append(crc, piece);
            left -= piece.len();
            if left == 0 {
                blocks.push(std::mem::take(&mut crc));
                left = CHECK as usize;
            }
            rest = next;
        }
    }
    if left < CHECK as usize {
        blocks.push(crc);
    }
    blocks
}

/// Offset in the object of the first byte behind the header.
pub(crate) const FIRST: u64 = header::LEN as u64;

/// Name of an object in messages.
pub(crate) fn name(key: ObjectKey) -> String {
    crate::layout::data(key).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_metadata::{Epoch, NodeId, Session};
    use proptest::prelude::*;

    fn parts() -> impl Strategy<Value = Vec<Bytes>> {
        let part = proptest::collection::vec(any::<u8>(), 0..50_000).prop_map(Bytes::from);
        proptest::collection::vec(part, 0..8)
    }

    fn entry() -> impl Strategy<Value = Entry> {
        any::<(u64, u64, u64, u64, u64)>().prop_map(|(stream, epoch, end, number, offset)| {
            let session = Session { node: NodeId(1), epoch: Epoch(2) };
            let object = ObjectKey { session, number };
            let run = Run { start: Position(0), end: Position(end), object, offset, crc: 5 };
            let checkpoint = Checkpoint { object, offset, len: 7, crc: 9 };
            Entry {
                stream: StreamId(stream),
                epoch: StreamEpoch(epoch),
                end: Position(end),
                run: (end % 2 == 0).then_some(run),
                checkpoint: (end % 3 == 0).then_some(checkpoint),
            }
        })
    }

    proptest! {
        #[test]
        fn round_trip(entries in proptest::collection::vec(entry(), 0..20), parts in parts()) {
            let data = parts.iter().map(|part| part.len() as u64).sum();
            let index = Index { entries, data, blocks: checksums(&parts) };
            prop_assert_eq!(Index::decode(&index.encode()), Ok(index.clone()));
            let all: Bytes = parts.concat().into();
            for at in (0..data).step_by(CHECK as usize) {
                // One block, and all from there with the index behind it.
                let block = all.slice(at as usize..(at + CHECK).min(data) as usize);
                prop_assert_eq!(index.verify(at, block.clone()), Ok(block));
                let more: Bytes = [&all[at as usize..], b"index"].concat().into();
                prop_assert_eq!(index.verify(at, more), Ok(all.slice(at as usize..)));
            }
        }

        #[test]
        fn an_altered_block_is_noticed(parts in parts(), bit: proptest::sample::Index) {
            let mut all = parts.concat();
            prop_assume!(!all.is_empty());
            let index = Index { entries: Vec::new(), data: all.len() as u64, blocks: checksums(&parts) };
            let bit = bit.index(all.len() * 8);
            all[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(index.verify(0, all.into()).is_err());
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), marked: bool) {
            let mut bytes = bytes;
            if marked {
                bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                let crc = crc32c::crc32c(&bytes[..bytes.len() - 4]);
                bytes.extend_from_slice(&crc.to_le_bytes());
                bytes.extend_from_slice(MARK);
            }
            if let Ok(index) = Index::decode(&bytes) {
                let _ = index.verify(0, Bytes::from(bytes));
            }
        }
    }
}
