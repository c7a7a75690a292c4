//! The first bytes of every object of a log and every data object: who wrote it, as what number, and
//! the digest of what follows. Versioned, with a checksum of its own.

use bytes::Bytes;
use headwater_metadata::{Epoch, NodeId, Session};
use sha2::{Digest, Sha256};

/// Length of a header.
pub(crate) const LEN: usize = 128;
const MAGIC: &[u8; 8] = b"HEADWATR";
const VERSION: u16 = 1;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records of a write-ahead log; none is a proof of freshness.
    Records = 1,
    /// The end of a write-ahead log.
    Seal = 2,
    /// Committed bytes of streams.
    Data = 3,
}

/// The header of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: Kind,
    /// Whose log or data it is.
    pub session: Session,
    /// Random number of the process that wrote it.
    pub nonce: u128,
    /// Its number in the log, or among the data objects.
    pub seq: u64,
    /// Records, or runs.
    pub count: u32,
    /// Length of what follows.
    pub body: u64,
    /// SHA-256 of what follows (of the index alone in a data object, which has checksums of the rest).
    pub digest: [u8; 32],
}

/// SHA-256 of several pieces.
pub(crate) fn digest(parts: &[Bytes]) -> [u8; 32] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[0..8].copy_from_slice(MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[10..12].copy_from_slice(&(self.kind as u16).to_le_bytes());
        out[16..24].copy_from_slice(&self.session.node.0.to_le_bytes());
        out[24..32].copy_from_slice(&self.session.epoch.0.to_le_bytes());
        out[32..48].copy_from_slice(&self.nonce.to_le_bytes());
        out[48..56].copy_from_slice(&self.seq.to_le_bytes());
        out[56..60].copy_from_slice(&self.count.to_le_bytes());
        out[64..72].copy_from_slice(&self.body.to_le_bytes());
        out[80..112].copy_from_slice(&self.digest);
        let crc = crc32c::crc32c(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a header; what is wrong with it otherwise.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, String> {
        let Some(bytes) = bytes.first_chunk::<LEN>() else {
            return Err(format!("{} bytes are too few for a header", bytes.len()));
        };
        if bytes.iter().all(|byte| *byte == 0) {
            return Err("it is filled with zeros".into());
        }
        if &bytes[0..8] != MAGIC {
            return Err("it does not begin as an object of ours".into());
        }
        let mut unsigned = *bytes;
        unsigned[12..16].fill(0);
        if crc32c::crc32c(&unsigned) != u32_at(bytes, 12) {
            return Err("the header's checksum does not match".into());
        }
        let version = u32_at(bytes, 8) & 0xffff;
        if version != u32::from(VERSION) {
            return Err(format!("it is of version {version}, this build reads {VERSION}"));
        }
        let kind = match u32_at(bytes, 8) >> 16 {
            1 => Kind::Records,
            2 => Kind::Seal,
            3 => Kind::Data,
            other => return Err(format!("unknown kind {other}")),
        };
        let mut digest = [0; 32];
        digest.copy_from_slice(&bytes[80..112]);
        Ok(Header {
            kind,
            session: Session { node: NodeId(u64_at(bytes, 16)), epoch: Epoch(u64_at(bytes, 24)) },
            nonce: u128::from(u64_at(bytes, 32)) | u128::from(u64_at(bytes, 40)) << 64,
            seq: u64_at(bytes, 48),
            count: u32_at(bytes, 56),
            body: u64_at(bytes, 64),
            digest,
        })
    }
}

/// Reads a number; the caller knows that it is there.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// Reads a number; the caller knows that it is there.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> impl Strategy<Value = Header> {
        (0usize..3, any::<(u64, u64, u128, u64)>(), any::<(u32, u64, [u8; 32])>()).prop_map(
            |(kind, (node, epoch, nonce, seq), (count, body, digest))| Header {
                kind: [Kind::Records, Kind::Seal, Kind::Data][kind],
                session: Session { node: NodeId(node), epoch: Epoch(epoch) },
                nonce,
                seq,
                count,
                body,
                digest,
            },
        )
    }

    proptest! {
        #[test]
        fn round_trip(header in header()) {
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }

        #[test]
        fn a_flipped_bit_is_noticed(header in header(), at in 0..LEN * 8) {
            let mut bytes = header.encode();
            bytes[at / 8] ^= 1 << (at % 8);
            prop_assert!(Header::decode(&bytes).is_err());
        }

        #[test]
        fn garbage_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Header::decode(&bytes).is_err());
        }
    }
}
