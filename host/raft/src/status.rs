//! What a person or a metric sees of the raft member.

use crate::counters::CounterSnapshot;
use crate::options::{ClusterId, Member};
use headwater_metadata::NodeId;

/// The raft member at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// The cluster.
    pub cluster: ClusterId,
    /// This member.
    pub me: Member,
    /// The member that leads, as far as this one knows.
    pub leader: Option<Member>,
    /// Whether this member leads.
    pub is_leader: bool,
    /// The current term.
    pub term: u64,
    /// Members that vote, by member id.
    pub voters: Vec<Member>,
    /// Members that do not, by member id.
    pub learners: Vec<Member>,
    /// Last entry in the log.
    pub last_log: u64,
    /// Last entry applied to the own state.
    pub applied: u64,
    /// Last entry in the snapshot.
    pub snapshot: Option<u64>,
    /// Last entry deleted from the log.
    pub purged: Option<u64>,
    /// Known peer addresses.
    pub peers: Vec<Peer>,
    /// Why the member has stopped.
    pub fatal: Option<String>,
    /// What it did so far.
    pub counters: CounterSnapshot,
}

/// A line of the address book.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Peer {
    /// The raft member.
    pub member: u64,
    /// Its node.
    pub node: NodeId,
    /// Start of its process; the higher one wins.
    pub epoch: u64,
    /// `host:port` of its peer listener.
    pub address: String,
}
