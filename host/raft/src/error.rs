//! What can go wrong, one enum per operation. Every text says what a person can do where there is
//! something to do.

use crate::options::ClusterId;
use headwater_metadata::{NodeId, Rejection, RetiredBy};
use std::io;
use std::path::PathBuf;

/// An error of any kind, for bodies.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// Another process has it.
    #[error("the data directory {path} is in use by another process", path = .0.display())]
    InUse(PathBuf),
    /// The file system refuses.
    #[error("{path}: {error}", path = .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// It belongs to another node.
    #[error(
        "the data directory {path} belongs to node {found}, this is node {wanted}: give each node a directory of its own",
        path = .path.display()
    )]
    ForeignNode {
        /// The directory.
        path: PathBuf,
        /// In the directory.
        found: NodeId,
        /// Of this process.
        wanted: NodeId,
    },
    /// It belongs to another cluster.
    #[error(
        "the data directory {path} belongs to cluster {found}, not to {wanted}",
        path = .path.display()
    )]
    ForeignCluster {
        /// The directory.
        path: PathBuf,
        /// In the directory.
        found: ClusterId,
        /// Of the store or the peers.
        wanted: ClusterId,
    },
    /// A file is damaged, missing, or not the one that this directory had.
    #[error(
        "{path}: {why}. This member must not vote with a memory it no longer has: empty the data directory and start again, the node then joins as a new member under its id",
        path = .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl DirError {
    pub(crate) fn io(path: impl Into<PathBuf>, error: io::Error) -> DirError {
        DirError::Io { path: path.into(), error }
    }

    pub(crate) fn damaged(path: impl Into<PathBuf>, why: impl Into<String>) -> DirError {
        DirError::Damaged { path: path.into(), why: why.into() }
    }
}

/// Why the metadata log did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// The peer listener.
    #[error("peer listener: {0}")]
    Listen(io::Error),
    /// Nobody that was asked let this node join in time.
    #[error("cannot join the cluster: {0}")]
    Join(String),
    /// The cluster refuses this node for good.
    #[error("the cluster refuses this node: {0}")]
    Refused(String),
    /// The directory is new, and there is nobody to ask.
    #[error("the data directory is new and belongs to no cluster: name a node to join")]
    NothingToJoin,
    /// Raft did not come up.
    #[error("raft: {0}")]
    Raft(String),
}

/// Why a session did not start.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RegisterError {
    /// The log has the answer, and it is no.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// No answer in time. Proposing the same registration again is harmless.
    #[error("the metadata log cannot be written: {0}")]
    Unavailable(String),
    /// The member has stopped.
    #[error("the raft member has stopped: {0}")]
    Stopped(String),
}

/// Why a command has no outcome.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProposeError {
    /// This process has no session (yet).
    #[error("this process is not registered")]
    NoSession,
    /// The command was not proposed and never will be.
    #[error("the metadata log cannot be written: {0}")]
    Unavailable(String),
    /// The command was proposed; whether it applies is not known. It may still apply later.
    #[error("the metadata log gave no answer in time; the outcome is unknown")]
    Unknown,
    /// The session has ended. Without an outcome in the own view the command's fate is unknown.
    #[error("the session has ended ({0:?})")]
    SessionEnded(RetiredBy),
    /// The command is too large for an entry of the log.
    #[error("the command has {size} bytes, an entry of the log at most {limit}")]
    TooLarge {
        /// Encoded size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The member has stopped.
    #[error("the raft member has stopped: {0}")]
    Stopped(String),
}

/// A read barrier that could not be reached in time.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the metadata cannot be read freshly: {0}")]
pub struct Unavailable(pub String);

/// Why a request to a peer has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// No address is known for the node.
    #[error("no peer address is known for node {0}")]
    UnknownNode(NodeId),
    /// Nothing of the request was sent: it may be tried elsewhere.
    #[error("{peer} cannot be reached: {why}")]
    NotSent {
        /// Its address.
        peer: String,
        /// What happened.
        why: String,
    },
    /// Something was sent, the answer did not come: the request must not be repeated.
    #[error("{peer} broke off: {why}")]
    Broken {
        /// Its address.
        peer: String,
        /// What happened.
        why: String,
    },
    /// The peer refuses this node: another cluster, secret or protocol.
    #[error("{peer} refuses: {why}")]
    Refused {
        /// Its address.
        peer: String,
        /// What it said.
        why: String,
    },
}

/// Why the member has stopped for good; the process ends.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fatal {
    /// The local disk failed. A failed flush is never tried again.
    #[error("the local disk failed: {0}")]
    Disk(String),
    /// Raft stopped for another reason.
    #[error("raft stopped: {0}")]
    Raft(String),
    /// An entry of this session was seen under its number with other contents: another process
    /// uses the same session.
    #[error("another process proposes under this session: {0}")]
    Cloned(String),
}
