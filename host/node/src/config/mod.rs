//! What `headwater serve` may be told: the flags, and the settings that follow from them.
//!
//! [`ServeArgs`] is what a person writes, [`ServeConfig`] what the node runs on: parsed once, checked
//! once, no options left open. Never reads a file and never touches the network; `values.rs` has the
//! single values, `node.rs` is where the settings are used.

mod values;

pub use values::*;

use clap::Args;
use headwater_metadata::NodeId;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The flags of `headwater serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Stable id of this node, unique in its cluster.
    #[arg(long, env = "HEADWATER_NODE_ID", value_name = "N")]
    pub node_id: u64,
    /// Data directory: raft log and snapshots. One process at a time.
    #[arg(long, env = "HEADWATER_DATA", value_name = "DIR")]
    pub data: PathBuf,
    /// The shared store: file:///path, s3://bucket/prefix, or memory:// (a single node, nothing kept).
    #[arg(long, env = "HEADWATER_STORE", value_name = "URL")]
    pub store: String,
    /// Where clients connect.
    #[arg(long, env = "HEADWATER_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:4437", value_parser = listen)]
    pub listen: SocketAddr,
    /// The base URL under which clients reach this node. Default: the listening address.
    #[arg(long, env = "HEADWATER_ADVERTISE", value_name = "URL", value_parser = advertised)]
    pub advertise: Option<String>,
    /// Where the admin API listens.
    #[arg(long, env = "HEADWATER_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:4537", value_parser = listen)]
    pub admin: SocketAddr,
    /// Where other nodes connect.
    #[arg(long, env = "HEADWATER_PEER", value_name = "ADDR", default_value = "127.0.0.1:4637", value_parser = listen)]
    pub peer: SocketAddr,
    /// The address under which other nodes reach the peer listener. Default: the listening address.
    #[arg(long, env = "HEADWATER_ADVERTISE_PEER", value_name = "URL", value_parser = peer)]
    pub advertise_peer: Option<String>,
    /// Peer address of a node of the cluster to join; may be given several times.
    #[arg(long, env = "HEADWATER_JOIN", value_name = "URL", value_delimiter = ',', value_parser = peer)]
    pub join: Vec<String>,
    /// Capacity weight at the first registration; 0 takes no streams.
    #[arg(long, env = "HEADWATER_SLOTS", value_name = "N", default_value_t = 1)]
    pub slots: u32,
    /// A label at the first registration; may be given several times.
    #[arg(long, env = "HEADWATER_LABEL", value_name = "K=V", value_delimiter = ',', value_parser = label)]
    pub label: Vec<(String, String)>,
    /// Send clients to the owner, or relay to it.
    #[arg(long, env = "HEADWATER_ROUTING", value_enum, default_value_t)]
    pub routing: Routing,
    /// How many nodes vote; the rest learn.
    #[arg(long, env = "HEADWATER_VOTERS", value_name = "N", default_value_t = 3)]
    pub voters: usize,
    /// Silence after which a node is evicted, from 1s.
    #[arg(long, env = "HEADWATER_EVICT_AFTER", value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub evict_after: Duration,
    /// End with exit code 4 when the session was evicted or sealed, instead of registering again.
    #[arg(long, env = "HEADWATER_NO_REJOIN", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_rejoin: bool,
    /// An open stream that nobody asks for is closed after this time.
    #[arg(long, env = "HEADWATER_IDLE_CLOSE", value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub idle_close: Duration,
    /// Form of the write-ahead log on a file:// store.
    #[arg(long, env = "HEADWATER_WAL_FORM", value_enum, default_value_t)]
    pub wal_form: WalForm,
    /// Open streams at most; the ones that rested longest are closed first.
    #[arg(long, env = "HEADWATER_MAX_OPEN", value_name = "N", default_value_t = 100_000)]
    pub max_open: usize,
    /// How long a long-poll waits for data.
    #[arg(long, env = "HEADWATER_LONG_POLL", value_name = "TIME", default_value = "25s", value_parser = duration)]
    pub long_poll: Duration,
    /// Time that a node takes at most to flush and close its streams when it is told to stop.
    #[arg(long, env = "HEADWATER_DRAIN_TIMEOUT", value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub drain_timeout: Duration,
    /// File with the secret that the nodes of a cluster share; required when a peer listener can be
    /// reached from other machines.
    #[arg(long, env = "HEADWATER_CLUSTER_SECRET_FILE", value_name = "FILE")]
    pub cluster_secret_file: Option<PathBuf>,
    /// File with the token that admin requests must bear; required off loopback.
    #[arg(long, env = "HEADWATER_ADMIN_TOKEN_FILE", value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,
    /// A snapshot of the metadata is made each time its log has grown by so many entries.
    #[arg(long, env = "HEADWATER_SNAPSHOT_EVERY", value_name = "N", default_value_t = 5_000, hide = true)]
    pub snapshot_every: u64,
    /// How log lines are written to stderr. What is logged: HEADWATER_LOG, for example `info` or `headwater=debug`.
    #[arg(long, env = "HEADWATER_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// Print the settings that follow from flags and environment, as JSON, and end.
    #[arg(long)]
    pub dump_config: bool,
    /// End when stdin ends: a child goes with its parent.
    #[arg(long, hide = true)]
    pub exit_with_stdin: bool,
}

/// The settings of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServeConfig {
    /// Stable id.
    pub node: NodeId,
    /// Data directory.
    pub data: PathBuf,
    /// URL of the shared store.
    pub store: String,
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Base URL for clients; `None` until the listener has its port.
    pub advertise: Option<String>,
    /// Where the admin API listens.
    pub admin: SocketAddr,
    /// Where other nodes connect.
    pub peer: SocketAddr,
    /// `HOST:PORT` for other nodes; `None` until the listener has its port.
    pub advertise_peer: Option<String>,
    /// `HOST:PORT` of nodes to join through.
    pub join: Vec<String>,
    /// Capacity weight at the first registration.
    pub slots: u32,
    /// Labels at the first registration.
    pub labels: BTreeMap<String, String>,
    /// How requests reach the owner.
    pub routing: Routing,
    /// How many nodes vote.
    pub voters: usize,
    /// Silence after which a node is evicted.
    #[serde(serialize_with = "as_text")]
    pub evict_after: Duration,
    /// Exit instead of registering again.
    pub no_rejoin: bool,
    /// Rest after which an open stream is closed.
    #[serde(serialize_with = "as_text")]
    pub idle_close: Duration,
    /// Form of the write-ahead log on a `file://` store.
    pub wal_form: WalForm,
    /// Open streams at most.
    pub max_open: usize,
    /// How long a long-poll waits.
    #[serde(serialize_with = "as_text")]
    pub long_poll: Duration,
    /// Time for flushing and closing at the end.
    #[serde(serialize_with = "as_text")]
    pub drain_timeout: Duration,
    /// File with the cluster's secret.
    pub cluster_secret_file: Option<PathBuf>,
    /// File with the admin token.
    pub admin_token_file: Option<PathBuf>,
    /// Entries of the metadata log from one snapshot to the next.
    pub snapshot_every: u64,
    /// How log lines are written.
    pub log_format: LogFormat,
}

/// Why settings were refused; the text is for the person who wrote them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

impl ServeArgs {
    /// Checks the flags against each other.
    pub fn config(self) -> Result<ServeConfig, ConfigError> {
        let mut labels = BTreeMap::new();
        for (key, value) in self.label {
            if let Some(first) = labels.insert(key.clone(), value.clone()) {
                return refuse(format!("label `{key}` is given twice, as `{first}` and as `{value}`"));
            }
        }
        let config = ServeConfig {
            node: NodeId(self.node_id),
            data: self.data,
            store: self.store,
            listen: self.listen,
            advertise: self.advertise,
            admin: self.admin,
            peer: self.peer,
            advertise_peer: self.advertise_peer,
            join: self.join,
            slots: self.slots,
            labels,
            routing: self.routing,
            voters: self.voters,
            evict_after: self.evict_after,
            no_rejoin: self.no_rejoin,
            idle_close: self.idle_close,
            wal_form: self.wal_form,
            max_open: self.max_open,
            long_poll: self.long_poll,
            drain_timeout: self.drain_timeout,
            cluster_secret_file: self.cluster_secret_file,
            admin_token_file: self.admin_token_file,
            snapshot_every: self.snapshot_every,
            log_format: self.log_format,
        };
        config.check()?;
        Ok(config)
    }
}

impl ServeConfig {
    /// Settings of a node that listens on loopback, on ports that the system chooses.
    pub fn local(node: NodeId, data: impl Into<PathBuf>, store: impl Into<String>) -> ServeConfig {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        ServeConfig {
            node,
            data: data.into(),
            store: store.into(),
            listen: any,
            advertise: None,
            admin: any,
            peer: any,
            advertise_peer: None,
            join: Vec::new(),
            slots: 1,
            labels: BTreeMap::new(),
            routing: Routing::Redirect,
            voters: 3,
            evict_after: Duration::from_secs(5),
            no_rejoin: false,
            idle_close: Duration::from_secs(600),
            wal_form: WalForm::Files,
            max_open: 100_000,
            long_poll: Duration::from_secs(25),
            drain_timeout: Duration::from_secs(15),
            cluster_secret_file: None,
            admin_token_file: None,
            snapshot_every: 5_000,
            log_format: LogFormat::Text,
        }
    }

    /// What single values cannot show: settings that do not go together.
    pub fn check(&self) -> Result<(), ConfigError> {
        // Refused before anything is bound: the answer does not depend on the port.
        self.advertise_for(self.listen)?;
        self.advertise_peer_for(self.peer)?;
        if self.evict_after < Duration::from_secs(1) {
            let given = show_duration(self.evict_after);
            return refuse(format!("--evict-after {given} is below 1s: a busy machine would be evicted"));
        }
        if self.voters == 0 || self.voters > 9 || self.voters.is_multiple_of(2) {
            return refuse(format!(
                "--voters {} is not an odd number from 1 to 9: an even one bears no more failures than the \
                 odd one below it",
                self.voters
            ));
        }
        if self.max_open == 0 {
            return refuse("--max-open 0 would never open a stream; use --slots 0 for a node that owns none");
        }
        if self.store.starts_with("memory:") && !self.join.is_empty() {
            return refuse(
                "memory:// is a store of one process: it cannot be shared with the nodes of --join",
            );
        }
        if !self.peer.ip().is_loopback() && self.cluster_secret_file.is_none() {
            return refuse(format!(
                "the peer listener {} can be reached from other machines: give every node the same secret \
                 with --cluster-secret-file",
                self.peer
            ));
        }
        if !self.admin.ip().is_loopback() && self.admin_token_file.is_none() {
            return refuse(format!(
                "the admin listener {} can be reached from other machines: protect it with --admin-token-file, \
                 or listen on 127.0.0.1",
                self.admin
            ));
        }
        Ok(())
    }

    /// The base URL for clients, once the listener is bound.
    pub fn advertise_for(&self, bound: SocketAddr) -> Result<String, ConfigError> {
        match &self.advertise {
            Some(url) => advertised(url).map_err(ConfigError),
            None => advertise_listener(bound, "--advertise").map_err(ConfigError),
        }
    }

    /// `HOST:PORT` for other nodes, once the peer listener is bound.
    pub fn advertise_peer_for(&self, bound: SocketAddr) -> Result<String, ConfigError> {
        match &self.advertise_peer {
            Some(address) => peer(address).map_err(ConfigError),
            None => {
                advertise_listener(bound, "--advertise-peer").map_err(ConfigError)?;
                Ok(bound.to_string())
            }
        }
    }
}

fn refuse<T>(why: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError(why.into()))
}

fn as_text<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&show_duration(*duration))
}

#[cfg(test)]
#[path = "config_test.rs"]
mod tests;
