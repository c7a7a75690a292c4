//! Why a command was rejected, in types: the proposer decides by them, people read their text.
//!
//! `apply/` makes them. Nothing here says what to do about one.

use crate::model::*;
use serde::{Deserialize, Serialize};

/// Why a command was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    /// The proposer is not the registered session of its node.
    #[error("session {session} is not registered ({why})")]
    NotRegistered {
        /// The proposer.
        session: Session,
        /// What the state knows of it.
        why: SessionState,
    },
    /// The command names a session that was never registered.
    #[error("there never was a session {0}")]
    NoSession(Session),
    /// An epoch below the highest ever recorded for the node.
    #[error("epoch {offered} is below {highest}, the highest recorded for the node")]
    LowerEpoch {
        /// What was offered.
        offered: Epoch,
        /// What is recorded.
        highest: Epoch,
    },
    /// The same epoch as another process, or a session that was retired.
    #[error("epoch {0} is taken by another process or by a session that has ended")]
    EpochTaken(Epoch),
    /// A `continues` that is not the highest epoch recorded.
    #[error("a later process of the node exists, at epoch {0}")]
    LaterProcess(Epoch),
    /// A number that is not the next one, nor a repeat of the last entry.
    #[error("entry {number} is neither a repeat of the last entry ({last}) nor the next one")]
    Number {
        /// Of the entry.
        number: u64,
        /// Of the last entry of the session.
        last: u64,
    },
    /// No such node.
    #[error("node {0} is not registered")]
    NoNode(NodeId),
    /// No such stream (any more).
    #[error("stream {0} does not exist")]
    NoStream(StreamId),
    /// The name is taken, by a stream with another configuration or a deleted one that forks need.
    #[error("the name is taken by stream {0}")]
    NameTaken(StreamId),
    /// The command names another epoch of the stream.
    #[error("the stream is at epoch {actual}, not {named}")]
    StreamEpoch {
        /// In the command.
        named: StreamEpoch,
        /// In the state.
        actual: StreamEpoch,
    },
    /// Somebody else has it open.
    #[error("the stream is open in session {0}")]
    OpenElsewhere(Session),
    /// The proposer does not have it open.
    #[error("the stream is not open in session {0}")]
    NotOpen(Session),
    /// It waits for the recovery of this session.
    #[error("the stream waits for the recovery of session {0}")]
    WaitsForRecovery(Session),
    /// A transfer to somebody else is pending.
    #[error("a transfer to node {0} is pending")]
    TransferPending(NodeId),
    /// No transfer is pending.
    #[error("no transfer is pending")]
    NoTransfer,
    /// Source and target are the same.
    #[error("the stream is already on node {0}")]
    SameNode(NodeId),
    /// The target takes nothing: no slots, or draining.
    #[error("node {0} takes no streams: it has no slots or is draining")]
    NoSlots(NodeId),
    /// Nobody can take the stream.
    #[error("no node takes streams: every node has no slots, is draining or is not registered")]
    NoCandidate,
    /// A run does not continue the committed end.
    #[error("the run begins at {start}, the committed end is {end}")]
    NotContiguous {
        /// Of the run.
        start: Position,
        /// Committed.
        end: Position,
    },
    /// A close whose tail is not the committed end.
    #[error("the tail is {tail}, the committed end is {end}")]
    NotFlushed {
        /// In the command.
        tail: Position,
        /// Committed.
        end: Position,
    },
    /// A run in an object that another session wrote.
    #[error("the object was written by session {0}")]
    ForeignObject(Session),
    /// A run or its object is not well formed (empty, backwards, wrong start).
    #[error("the run is malformed")]
    MalformedRun,
    /// The object was unlinked before: it may be gone from the store.
    #[error("the object is no longer linked and may be deleted")]
    UnlinkedObject(ObjectKey),
    /// The stream is closed for appends.
    #[error("the stream is closed")]
    Eof,
    /// A fork point beyond the committed end, or before the first kept position.
    #[error("the fork point is outside the committed range {start}..{end}")]
    ForkPoint {
        /// First position kept.
        start: Position,
        /// Committed end.
        end: Position,
    },
    /// A stream with a gap takes no appends until the loss is accepted.
    #[error("the stream is damaged at {0}: accept the loss or delete it")]
    Damaged(Position),
    /// The stream is not damaged.
    #[error("the stream is not damaged")]
    NotDamaged,
    /// The session is not retired, or is unknown.
    #[error("session {0} is not retired")]
    NotRetired(Session),
    /// The last part of a recovery while streams are still open in the session.
    #[error("{0} streams are still open in the session")]
    StillOpen(u64),
    /// The replacement does not cover existing runs exactly.
    #[error("the replacement does not cover whole runs")]
    NotCovering,
    /// No such policy.
    #[error("policy {0} is not in the cluster")]
    NoPolicy(Digest),
    /// The policy is active (or the previous one) and cannot be removed.
    #[error("policy {0} is in use")]
    PolicyInUse(Digest),
    /// A limit of the state.
    #[error("too large: {0}")]
    TooLarge(String),
}

/// What the state knows of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionState {
    /// Never heard of it.
    Unknown,
    /// The registered session of its node.
    Registered,
    /// Ended.
    Retired(RetiredBy),
}

impl std::fmt::Display for SessionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SessionState::Unknown => "unknown",
            SessionState::Registered => "registered",
            SessionState::Retired(RetiredBy::Replaced) => "replaced by a later process",
            SessionState::Retired(RetiredBy::Evicted) => "evicted",
        })
    }
}
