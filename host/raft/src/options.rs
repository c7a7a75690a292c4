//! What a node is told about its raft member. Values only; `metadata.rs` acts on them.

use headwater_metadata::NodeId;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Random id of a cluster, made by the node that founds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ClusterId(pub u128);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for ClusterId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(ClusterId)
    }
}

/// Settings of a raft member. `Options::new` has the defaults.
#[derive(Clone)]
pub struct Options {
    /// Where the peer listener listens; port 0 takes any free one.
    pub listen: SocketAddr,
    /// `host:port` under which the other nodes reach the peer listener. `None`: the address it listens on.
    pub advertise: Option<String>,
    /// `host:port` of peer listeners to ask when the data directory is new, and to tell the own
    /// address to at every start.
    pub join: Vec<String>,
    /// Shared by all nodes of the cluster; every peer request proves that it knows it. Empty: the
    /// cluster's id alone is the proof.
    pub secret: Vec<u8>,
    /// So many members vote, the rest are learners.
    pub voters: usize,
    /// A node silent for so long is evicted.
    pub evict_after: Duration,
    /// Whether this member evicts silent sessions while it leads.
    pub evict: bool,
    /// How long a proposal waits for its outcome, a leader or both.
    pub deadline: Duration,
    /// How long a read barrier waits.
    pub read_deadline: Duration,
    /// How long a node with a new data directory tries to join.
    pub join_deadline: Duration,
    /// A snapshot is made each time the log has grown by so many entries.
    pub snapshot_every: u64,
    /// So many entries already in the snapshot are kept for members that lag a little.
    pub keep_entries: u64,
    /// Size limit of one entry in bytes, checked before it gets a number.
    pub entry_limit: usize,
    /// Interval of the leader's raft heartbeats; elections follow after 5 to 10 of them.
    pub raft_heartbeat: Duration,
}

impl Options {
    /// The defaults, listening on `listen`.
    pub fn new(listen: SocketAddr) -> Options {
        Options {
            listen,
            advertise: None,
            join: Vec::new(),
            secret: Vec::new(),
            voters: 3,
            evict_after: Duration::from_secs(5),
            evict: false,
            deadline: Duration::from_secs(10),
            read_deadline: Duration::from_secs(5),
            join_deadline: Duration::from_secs(60),
            snapshot_every: 5_000,
            keep_entries: 1_000,
            entry_limit: 10 << 20,
            raft_heartbeat: Duration::from_millis(100),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret stays out of logs.
        f.debug_struct("Options")
            .field("listen", &self.listen)
            .field("advertise", &self.advertise)
            .field("join", &self.join)
            .field("voters", &self.voters)
            .finish_non_exhaustive()
    }
}

/// Where the files of a data directory are.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub root: PathBuf,
}

impl Paths {
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }
    pub fn identity(&self) -> PathBuf {
        self.root.join("identity")
    }
    pub fn log(&self) -> PathBuf {
        self.root.join("raft.redb")
    }
    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }
    pub fn book(&self) -> PathBuf {
        self.root.join("peers")
    }
}

/// A node as the metadata log's membership knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Random id, made with the data directory.
    pub member: u64,
    /// The node whose data directory it is.
    pub node: NodeId,
}
