//! The verbs of the metadata: what is put in the replicated log, and what applying it answers.
//!
//! Commands name streams by id and stream epoch, never by name (`CreateStream` excepted), so that a
//! late copy cannot hit a successor. A time that matters is carried in the command.

use crate::model::*;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What one entry of the replicated log carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// The start of a session. The only thing that a process may propose before it has one.
    Register(Register),
    /// Commands of one session.
    Batch(Batch),
}

/// Commands of one session, numbered so that a repeat is answered from memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Who proposes. Everything is rejected unless it is the registered session of its node.
    pub session: Session,
    /// From 1, one in flight at a time.
    pub number: u64,
    /// At most 256.
    pub commands: Vec<Command>,
}

/// Starts a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// The node and the start of this process.
    pub session: Session,
    /// Random number of the process: tells two processes with one epoch apart.
    pub nonce: u128,
    /// The session that this one continues after it was evicted or sealed; it must be the highest
    /// epoch ever recorded for the node. `None` at a process start.
    pub continues: Option<Epoch>,
    /// What the node says of itself.
    pub info: NodeInfo,
}

/// One change of the cluster's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Changes what an operator may set on a node.
    SetNode {
        /// The node.
        node: NodeId,
        /// New capacity weight.
        slots: Option<u32>,
        /// New labels, replacing all.
        labels: Option<BTreeMap<String, String>>,
        /// Whether it takes nothing new.
        draining: Option<bool>,
    },
    /// Ends a session that is not the proposer's business to keep.
    Evict {
        /// The session that is meant; another epoch of the node is not touched.
        session: Session,
        /// Proposed by the leader, which has answered none of its heartbeats for so long that its lease
        /// is over.
        silent: bool,
    },
    /// A replaced session that its node does not recover: its streams no longer count as placed on that
    /// node, and close when they are recovered.
    Disown {
        /// The session that is meant.
        session: Session,
    },
    /// Registers a stream; with a body it is created, filled and perhaps closed in one step.
    CreateStream(CreateStream),
    /// Deletes a stream. Only its owner may while it is open.
    DeleteStream {
        /// The stream.
        stream: StreamId,
        /// Its epoch as the proposer knows it.
        epoch: StreamEpoch,
    },
    /// Chooses a node for a stream that has none.
    Place {
        /// The stream.
        stream: StreamId,
    },
    /// Opens a stream for the proposing session.
    Open {
        /// The stream.
        stream: StreamId,
        /// The epoch that the proposer expects; opening adds one.
        epoch: StreamEpoch,
    },
    /// Lets go of an open stream that is flushed.
    Close {
        /// The stream.
        stream: StreamId,
        /// Its epoch.
        epoch: StreamEpoch,
        /// The tail; the committed end must equal it.
        end: Position,
        /// Last touch, milliseconds since 1970.
        touched_ms: u64,
    },
    /// Records that bytes moved from the proposer's write-ahead log into data objects.
    ///
    /// All runs of one object belong in one command: an object that nothing refers to any more may be
    /// deleted at once, and a run in it is refused from then on. After a refused run of a stream, what
    /// follows of that stream in the same command is refused too.
    Commit {
        /// What was written, per stream.
        runs: Vec<StreamRun>,
        /// Everything below this number of the log is covered, if every run is applied.
        trim: WalSeq,
    },
    /// Asks that a stream moves.
    Transfer {
        /// The stream.
        stream: StreamId,
        /// Its epoch as the proposer knows it.
        epoch: StreamEpoch,
        /// Where to.
        target: NodeId,
    },
    /// Ends a pending transfer whose stream is closed.
    CompleteTransfer {
        /// The stream.
        stream: StreamId,
        /// The epoch that the source closed at.
        epoch: StreamEpoch,
    },
    /// Withdraws a pending transfer.
    CancelTransfer {
        /// The stream.
        stream: StreamId,
        /// Its epoch as the proposer knows it.
        epoch: StreamEpoch,
    },
    /// Lets go of streams of a retired session whose log was sealed and replayed. Comes in parts, each
    /// with objects of its own; the last one is rejected while a stream is open in the session.
    RecoverSession {
        /// The retired session.
        session: Session,
        /// What was found, per stream. Streams without anything new are listed with `run: None`.
        streams: Vec<Recovered>,
        /// No more parts follow: marks the session recovered.
        last: bool,
    },
    /// Puts one run in the place of several with the same bytes (compaction).
    Replace {
        /// The stream.
        stream: StreamId,
        /// Its epoch.
        epoch: StreamEpoch,
        /// The new run; runs that it covers exactly are replaced.
        run: Run,
    },
    /// Objects that were unlinked and are now deleted from the store.
    Forget {
        /// Their keys.
        objects: Vec<ObjectKey>,
    },
    /// A person accepts the loss in a damaged stream: it takes appends again from its end.
    AcceptLoss {
        /// The stream.
        stream: StreamId,
        /// Its epoch.
        epoch: StreamEpoch,
    },
    /// Adds a policy.
    PutPolicy {
        /// A name for people; the newest one of a name is found by it.
        name: Arc<str>,
        /// The version that the component says it has.
        version: Arc<str>,
        /// The component asks for nodes' labels.
        needs_labels: bool,
        /// The component. Its SHA-256 names it.
        component: Bytes,
    },
    /// Makes a policy decide, from this log index on.
    ActivatePolicy {
        /// SHA-256 of the component.
        policy: Digest,
    },
    /// Removes a policy that is not active.
    RemovePolicy {
        /// SHA-256 of the component.
        policy: Digest,
    },
    /// Puts all that depends on placement decisions back to what follows from the fencing half.
    ResetPlacement,
}

/// What a new stream is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateStream {
    /// The URL path.
    pub name: Arc<str>,
    /// Content type.
    pub content_type: Arc<str>,
    /// When it ends by itself.
    pub expiry: Expiry,
    /// Milliseconds since 1970, at the proposer.
    pub now_ms: u64,
    /// Created closed.
    pub eof: bool,
    /// The first content, already in an object of the proposing session. Starts at 0 (or at the fork).
    pub body: Option<Run>,
    /// The stream is a fork.
    pub fork: Option<ForkOf>,
}

/// The source of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOf {
    /// The source.
    pub source: StreamId,
    /// Its epoch as the proposer knows it.
    pub epoch: StreamEpoch,
    /// The position, at most the source's committed end.
    pub at: Position,
}

/// A run of a stream that the proposer has open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRun {
    /// The stream.
    pub stream: StreamId,
    /// Its epoch.
    pub epoch: StreamEpoch,
    /// The run; `None` when only the checkpoint or the end-of-file mark changes.
    pub run: Option<Run>,
    /// The new checkpoint, as of the run's end; `None` leaves the old one.
    pub checkpoint: Option<Checkpoint>,
    /// The stream is closed for appends at the run's end.
    pub eof: bool,
}

/// What a recovery found for one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovered {
    /// What was past the committed end.
    pub run: StreamRun,
    /// The log has a gap for this stream: it is let go as damaged.
    pub damaged: bool,
    /// Time of the recovery: the start of a new TTL window, milliseconds since 1970.
    pub now_ms: u64,
}

/// What applying a command did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The state changed.
    Applied(Answer),
    /// A repeat: nothing changed, and that is fine.
    Redundant(Answer),
    /// Nothing changed, and the proposer has to know.
    Rejected(Rejection),
}

/// What a command answers beside its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Nothing more to say.
    Done,
    /// `CreateStream`: the stream, new or already there under the name.
    Stream(StreamId),
    /// `Place`: who has it now.
    Owner(NodeId),
    /// `Open`: the stream's epoch from now on.
    Opened(StreamEpoch),
    /// `PutPolicy`, `ActivatePolicy`: the policy.
    Policy(Digest),
    /// `Commit`, `RecoverSession`: the streams whose runs were refused, and why.
    Refused(Vec<(StreamId, Rejection)>),
}

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
            SessionState::Retired(RetiredBy::Silent) => "evicted for silence",
        })
    }
}
