//! The stored form of a state: magic, version, checksum, body.
//!
//! Reading one never panics, whatever the bytes; a state that is read has the digests it was written
//! with, or it is refused. Nothing here touches a disk.

use crate::digest::Digests;
use crate::model::*;
use crate::records::*;
use crate::state::State;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const MAGIC: &[u8; 8] = b"hwstate\n";
const VERSION: u32 = 1;
const HEADER: usize = MAGIC.len() + 4 + 32;

/// Why bytes are not a state.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DecodeError {
    /// Too short, or it begins with something else.
    #[error("not a snapshot of the metadata")]
    NotASnapshot,
    /// Written by another version of this program.
    #[error("the snapshot has version {found}, this program reads version {VERSION}")]
    Version {
        /// Of the snapshot.
        found: u32,
    },
    /// The bytes are not those that were written.
    #[error("the snapshot is damaged: its checksum does not match")]
    Checksum,
    /// The checksum matches, the contents do not.
    #[error("the snapshot is malformed: {0}")]
    Malformed(String),
    /// The state that was read has other digests than the one that was written.
    #[error("the snapshot does not give the state that it was made of")]
    Digests,
}

/// Encodes a state.
pub fn encode(state: &State) -> Vec<u8> {
    let image = Image {
        digests: state.digests(),
        index: state.index,
        next_stream: state.next_stream,
        active: state.active,
        streams: state.streams.map().values().map(|stream| &**stream).collect(),
        nodes: state.nodes.map().values().collect(),
        live: state.live.map().iter().map(|(session, progress)| (*session, progress)).collect(),
        retired: state.retired.map().values().collect(),
        policies: state.policies.map().values().collect(),
        audit: state.audit.map().iter().map(|(number, audit)| (*number, audit)).collect(),
        unlinked: state.unlinked.map().keys().copied().collect(),
    };
    let mut bytes = vec![0; HEADER];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let mut bytes = postcard::to_extend(&image, bytes).expect("plain data has a stored form");
    let checksum = Sha256::digest(&bytes[HEADER..]);
    bytes[12..HEADER].copy_from_slice(&checksum);
    bytes
}

/// Decodes a state and checks that it is the one that was encoded.
pub fn decode(bytes: &[u8]) -> Result<State, DecodeError> {
    if bytes.len() < HEADER || &bytes[..8] != MAGIC {
        return Err(DecodeError::NotASnapshot);
    }
    let version = bytes[8..12].try_into().map(u32::from_le_bytes).unwrap_or_default();
    if version != VERSION {
        return Err(DecodeError::Version { found: version });
    }
    let body = &bytes[HEADER..];
    if Sha256::digest(body)[..] != bytes[12..HEADER] {
        return Err(DecodeError::Checksum);
    }
    let image: OwnedImage = postcard::from_bytes(body).map_err(|e| DecodeError::Malformed(e.to_string()))?;
    let digests = image.digests;
    let state = restore(image);
    if state.digests() == digests { Ok(state) } else { Err(DecodeError::Digests) }
}

fn restore(image: OwnedImage) -> State {
    let mut state = State::new();
    state.index = image.index;
    state.next_stream = image.next_stream;
    state.active = image.active;
    for stream in image.streams {
        // Twice the same id cannot come from a state; the digests will tell.
        if state.streams.get(&stream.id).is_none() {
            state.restore_stream(stream);
        }
    }
    for node in image.nodes {
        state.put_node(node);
    }
    state.live = image.live.into_iter().collect();
    for retired in image.retired {
        state.put_retired(retired);
    }
    state.policies = image.policies.into_iter().map(|policy| (policy.digest, policy)).collect();
    state.audit = image.audit.into_iter().collect();
    state.unlinked = image.unlinked.into_iter().map(|object| (object, ())).collect();
    state
}

/// What is written. Both forms have the same fields in the same order.
#[derive(Serialize)]
struct Image<'a> {
    digests: Digests,
    index: u64,
    next_stream: StreamId,
    active: Active,
    streams: Vec<&'a Stream>,
    nodes: Vec<&'a Node>,
    live: Vec<(Session, &'a Progress)>,
    retired: Vec<&'a Retired>,
    policies: Vec<&'a Policy>,
    audit: Vec<(u64, &'a Audit)>,
    unlinked: Vec<ObjectKey>,
}

#[derive(Deserialize)]
struct OwnedImage {
    digests: Digests,
    index: u64,
    next_stream: StreamId,
    active: Active,
    streams: Vec<Stream>,
    nodes: Vec<Node>,
    live: Vec<(Session, Progress)>,
    retired: Vec<Retired>,
    policies: Vec<Policy>,
    audit: Vec<(u64, Audit)>,
    unlinked: Vec<ObjectKey>,
}

/// Digests of a snapshot, read without decoding the rest of it. The checksum is not verified.
pub fn peek(bytes: &[u8]) -> Option<(Digests, u64)> {
    let body = bytes.get(HEADER..).filter(|_| bytes.starts_with(MAGIC))?;
    let (digests, rest) = postcard::take_from_bytes(body).ok()?;
    let (index, _) = postcard::take_from_bytes(rest).ok()?;
    Some((digests, index))
}
