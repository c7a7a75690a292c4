//! The nouns of the metadata: identities, streams, nodes, sessions, runs.
//!
//! Plain data with an order, no behaviour beyond display. Nothing here knows about IO, clocks
//! or async. `command.rs` has the verbs, `state.rs` holds these values, `view.rs` shows them.

use crate::runs::Runs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Stable id of a node, chosen by the operator, unique in its cluster.
    NodeId
}
number! {
    /// Start of a node's process: wall clock in milliseconds since 1970.
    Epoch
}
number! {
    /// Id of a stream. Given out in order, never twice.
    StreamId
}
number! {
    /// How often a stream was opened; 0 means never.
    StreamEpoch
}
number! {
    /// A place in a stream: the number of stored bytes before it. Never reset, also not by trimming.
    Position
}
number! {
    /// Sequence number in the write-ahead log of one session, from 0.
    WalSeq
}

/// One process of a node: the node's id with the epoch of its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Session {
    /// The node.
    pub node: NodeId,
    /// The start of its process.
    pub epoch: Epoch,
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.node, self.epoch)
    }
}

/// SHA-256 of something; displayed as hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Stands for the built-in rule where a policy is named. No component has it: SHA-256 of nothing known
    /// is all zeros.
    pub const BUILTIN: Digest = Digest([0; 32]);
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Key of a data object in the shared store. The session that wrote it is part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The session that wrote the object.
    pub session: Session,
    /// Number of the object in that session, from 0.
    pub number: u64,
}

/// Who has a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ownership {
    /// Registered, nothing asked of it yet.
    Unplaced,
    /// Chosen, not open.
    Placed(NodeId),
    /// Being served.
    Opened(Session),
    /// Flushed and let go by this node; any node may revive it.
    Closed(NodeId),
}

/// A move that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Who has the stream.
    pub source: NodeId,
    /// Who shall have it.
    pub target: NodeId,
}

/// When a stream ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expiry {
    /// Never.
    #[default]
    Never,
    /// This many seconds after its last touch.
    Ttl(u64),
    /// At this moment, milliseconds since 1970.
    At(u64),
}

/// A contiguous piece of one stream inside one data object, byte for byte as readers get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Position of the first byte.
    pub start: Position,
    /// Position after the last byte.
    pub end: Position,
    /// Where the bytes are.
    pub object: ObjectKey,
    /// Offset of the first byte in the object.
    pub offset: u64,
    /// CRC-32C of the bytes.
    pub crc: u32,
}

/// Where a stream's checkpoint (producers and whatever else its owner must remember) is stored:
/// a range of a data object, written with the run that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The object.
    pub object: ObjectKey,
    /// Offset in the object.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
    /// CRC-32C of the bytes.
    pub crc: u32,
}

/// Where a fork begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// The stream that it was forked from.
    pub source: StreamId,
    /// Everything before this position is the source's.
    pub at: Position,
}

/// A registered stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Its id.
    pub id: StreamId,
    /// The URL path, percent-encoded as the client sent it, with the leading slash.
    pub name: Arc<str>,
    /// Content type as given at creation.
    pub content_type: Arc<str>,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// When it ends by itself.
    pub expiry: Expiry,
    /// The last touch known to the metadata, milliseconds since 1970.
    pub touched_ms: u64,
    /// Who has it.
    pub ownership: Ownership,
    /// How often it was opened.
    pub epoch: StreamEpoch,
    /// A move that is under way.
    pub transfer: Option<Transfer>,
    /// First position that is still kept.
    pub start: Position,
    /// Committed end.
    pub end: Position,
    /// No more appends, for ever: the protocol's `Stream-Closed`. The end is final once committed.
    pub eof: bool,
    /// Committed runs, contiguous from `start` (or from the fork's position) to `end`.
    pub runs: Runs,
    /// What the owner must remember, as of `end`.
    pub checkpoint: Option<Checkpoint>,
    /// A recovery found a gap here: readable up to `end`, no appends until a person decides.
    pub damaged: bool,
    /// Set when this stream is a fork.
    pub fork: Option<Fork>,
    /// Forks that refer to this stream.
    pub forks: u32,
    /// Deleted, but kept because forks refer to it.
    pub deleted: bool,
}

/// What a node says of itself when it registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Base URL that clients reach, without a trailing slash.
    pub address: String,
    /// Capacity weight; 0 takes nothing.
    pub slots: u32,
    /// Free labels.
    pub labels: BTreeMap<String, String>,
    /// Engine fingerprint: wasmtime's compatibility hash.
    pub engine: Digest,
    /// Version of the peer protocol.
    pub protocol: u32,
    /// Form of the node's write-ahead log.
    pub wal: WalForm,
    /// Identity of the data directory's lock.
    pub lock: LockIdentity,
}

/// Form of a session's write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WalForm {
    /// One object for each group commit, sealed by an object.
    Objects,
    /// Append files in the session's folder, sealed by a rename of the folder.
    Files,
}

/// Identity of a data directory's lock: the same lock can be held by one process at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockIdentity {
    /// The kernel's boot id.
    pub boot: String,
    /// Device of the lock file.
    pub device: u64,
    /// Inode of the lock file.
    pub inode: u64,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetiredBy {
    /// A later epoch of the same node registered.
    Replaced,
    /// Evicted: by a person, or its own farewell.
    Evicted,
    /// Evicted by the leader for silence: its lease was over before.
    Silent,
}
