//! The composition root: builds a node from its settings, runs it, and takes it down in reverse.
//!
//! In the order of a start: data directory (its lock is the first thing taken) → store, proven →
//! which cluster (`belong.rs`) → policies → metadata log and peer listener → session (`session.rs`) →
//! streams → client listener. The admin listener is up from the beginning, so that whoever waits for
//! the node sees what it waits for. `serving.rs` is what a session serves, until it ends.

mod belong;
mod hooks;
pub mod peer;
mod routing;
mod serving;
mod session;

pub use belong::BelongError;
pub use session::SessionError;

use crate::admin::Admin;
use crate::cli::Exit;
use crate::cli::client::read_secret;
use crate::config::{ConfigError, ServeConfig};
use crate::http::Frontend;
use crate::stream::Streams;
use arc_swap::ArcSwapOption;
use headwater_env::Env;
use headwater_metadata::{Command, Digest, Epoch, LockIdentity, NodeInfo, Session};
use headwater_policy::Policies;
use headwater_raft::{DataDir, DirError, Metadata, StartError};
use headwater_store::{Store, StoreError};
use hooks::NodeHooks;
use session::Applicant;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Where a node is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for the metadata log.
    Registering,
    /// It serves.
    Serving(Session),
    /// It flushes and closes its streams.
    Draining,
    /// Its session is over, and it does not get another one.
    Ended(Exit),
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Registering => "the node is not registered yet: it waits for the metadata log",
            Phase::Serving(_) => "the node serves",
            Phase::Draining => "the node is stopping",
            Phase::Ended(_) => "the node's session has ended",
        })
    }
}

/// What the parts of a running node share.
pub struct Parts {
    /// Its settings.
    pub config: ServeConfig,
    /// Its surroundings.
    pub env: Env,
    /// The replicated metadata.
    pub metadata: Metadata,
    /// The policies.
    pub policies: Arc<Policies>,
    /// The shared store.
    pub store: Store,
    /// Where the node is in its life.
    pub phase: watch::Sender<Phase>,
    /// The streams of the session; `None` between two sessions.
    pub streams: ArcSwapOption<Streams>,
    /// What answers clients.
    pub frontend: Frontend,
    /// Base URL for clients.
    pub address: String,
    /// Identity of the held data-directory lock.
    pub lock: LockIdentity,
    /// Random number of the process.
    pub nonce: u128,
}

/// Why a node did not start, or ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The settings.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file with a secret.
    #[error("{0}")]
    Secret(String),
    /// The data directory.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// A listener.
    #[error("{flag}: {error}")]
    Listen {
        /// The setting that named the address.
        flag: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Which cluster it belongs to.
    #[error(transparent)]
    Belong(#[from] BelongError),
    /// The engines of policies.
    #[error("policies: {0}")]
    Policies(String),
    /// The metadata log.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// It stopped while it ran.
    #[error("the node has stopped: {0}")]
    Stopped(String),
}

/// A node that has started and waits to be run.
pub struct Node {
    parts: Arc<Parts>,
    client: Box<dyn headwater_env::Listener>,
    epoch: Epoch,
    founder: bool,
    tasks: JoinSet<()>,
}

/// The addresses that a node really listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// For clients.
    pub client: SocketAddr,
    /// For other nodes.
    pub peer: SocketAddr,
}

impl Node {
    /// Builds everything up to the metadata log. `store`: one that is there already, for tests;
    /// otherwise the one that the settings name.
    pub async fn start(config: ServeConfig, env: Env, store: Option<Store>) -> Result<Node, NodeError> {
        config.check()?;
        let epoch = Epoch(env.now_ms());
        let secret = match &config.cluster_secret_file {
            Some(file) => read_file(&env, file)?.into_bytes(),
            None => Vec::new(),
        };
        let token = config.admin_token_file.as_deref().map(|file| read_file(&env, file)).transpose()?;
        let mut dir = DataDir::open(&env, &config.data, config.node)?;
        let client = listen(&env, config.listen, "--listen").await?;
        let address = config.advertise_for(client.local())?;
        let mut tasks = JoinSet::new();
        let admin = Admin::new(env.clone(), token);
        let admin_listener = listen(&env, config.admin, "--admin").await?;
        tasks.spawn(admin.clone().serve(admin_listener));
        let store = match store {
            Some(store) => store,
            None => Store::open(&config.store, env.clone())?,
        };
        store.probe().await?;
        let peers = belong::settle(&env, &mut dir, &store, &config.join).await?;
        let policies = Arc::new(policies()?);
        let hooks = Arc::new(NodeHooks::new(policies.clone()));
        let (lock, founder) = (dir.lock(), dir.is_founder());
        let options = raft_options(&config, peers, secret);
        let metadata =
            Metadata::start(dir, options, epoch.0, env.clone(), policies.clone(), hooks.clone()).await?;
        let told = config.advertise_peer_for(metadata.listening())?;
        store.put_peer(config.node, &told).await?;
        tasks.spawn(routing::follow(metadata.clone(), policies.clone(), hooks.compiled.clone()));
        let nonce = env.entropy.u128();
        let phase = watch::Sender::new(Phase::Registering);
        let streams = ArcSwapOption::empty();
        let frontend = frontend(&config, &env, &metadata, &policies);
        let front = frontend.clone();
        hooks.serve_with(Box::new(move |request| {
            let front = front.clone();
            Box::pin(async move { front.serve_forward(request).await })
        }));
        let parts = Arc::new(Parts {
            config,
            env,
            metadata,
            policies,
            store,
            phase,
            streams,
            frontend,
            address,
            lock,
            nonce,
        });
        admin.show(parts.clone());
        Ok(Node { parts, client, epoch, founder, tasks })
    }

    /// The addresses that it really listens on.
    pub fn addresses(&self) -> Addresses {
        Addresses { client: self.client.local(), peer: self.parts.metadata.listening() }
    }

    /// What its parts share.
    pub fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }

    /// Serves until `stop` resolves or the node may not serve any more.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<Exit, NodeError> {
        let Node { parts, client, epoch, founder, mut tasks } = self;
        let ended = serving::serve(&parts, client, epoch, founder, stop).await;
        parts.frontend.stop();
        if let Ok(exit) = &ended {
            parts.phase.send_replace(Phase::Ended(*exit));
        }
        tasks.abort_all();
        parts.metadata.shutdown().await;
        ended
    }
}

impl Parts {
    /// What this process says of itself when it registers.
    fn applicant(&self) -> Applicant {
        let config = &self.config;
        let info = NodeInfo {
            address: self.address.clone(),
            slots: config.slots,
            labels: config.labels.clone(),
            engine: headwater_metadata::Placement::engine(&*self.policies),
            protocol: u32::from(headwater_raft::PROTOCOL),
            wal: config.wal_form.into(),
            lock: self.lock.clone(),
        };
        Applicant { node: config.node, nonce: self.nonce, info }
    }

    /// Says where the settings of the log differ from the flags: those of the log count.
    fn tell_differences(&self) {
        let view = self.metadata.view();
        let Some(node) = view.node(self.config.node) else { return };
        if node.slots != self.config.slots {
            tracing::info!(
                flag = self.config.slots,
                cluster = node.slots,
                "--slots counts at the first registration; the cluster's value stays in force"
            );
        }
        if *node.labels != self.config.labels {
            tracing::info!(
                flags = ?self.config.labels, cluster = ?node.labels,
                "--label counts at the first registration; the cluster's values stay in force"
            );
        }
    }

    /// The first node of a cluster gives it the embedded policy; later changes are the operators'.
    async fn embed_policy(&self) {
        let view = self.metadata.view();
        if view.audit().next().is_some() || view.active_policy().policy != Digest::BUILTIN {
            return;
        }
        let (digest, component) = headwater_policy::builtin();
        let checked = tokio::task::spawn_blocking(move || headwater_policy::check(component, 3)).await;
        let Ok(Ok(report)) = checked else {
            tracing::error!("the embedded policy does not pass its own check; the native rule stays");
            return;
        };
        let put = Command::PutPolicy {
            name: report.description.name.as_str().into(),
            version: report.description.version.as_str().into(),
            needs_labels: report.description.needs_labels,
            component: component.into(),
        };
        for command in [put, Command::ActivatePolicy { policy: digest }] {
            if let Err(why) = self.metadata.propose(command).await {
                tracing::warn!(%why, "the embedded policy is not active yet; the native rule decides");
                return;
            }
        }
    }
}

async fn listen(
    env: &Env,
    address: SocketAddr,
    flag: &'static str,
) -> Result<Box<dyn headwater_env::Listener>, NodeError> {
    env.net.bind(address).await.map_err(|error| NodeError::Listen { flag, error })
}

fn read_file(env: &Env, file: &std::path::Path) -> Result<String, NodeError> {
    read_secret(env, file).map_err(|e| NodeError::Secret(format!("{e:#}")))
}

fn policies() -> Result<Policies, NodeError> {
    let options = headwater_policy::Options {
        // To answer otherwise than the other nodes would fork the state: better no node than a wrong one.
        on_host_failure: Arc::new(|failure| {
            eprintln!("headwater: {failure}: the node stops");
            std::process::exit(1);
        }),
        ..headwater_policy::Options::default()
    };
    Policies::new(options).map_err(|e| NodeError::Policies(e.to_string()))
}

fn frontend(config: &ServeConfig, env: &Env, metadata: &Metadata, policies: &Arc<Policies>) -> Frontend {
    let options = crate::http::Options {
        routing: config.routing,
        long_poll: config.long_poll,
        ..crate::http::Options::default()
    };
    Frontend::new(crate::http::Parts {
        node: config.node,
        log: Arc::new(metadata.clone()),
        peers: Arc::new(metadata.clone()),
        policies: policies.clone(),
        env: env.clone(),
        options,
    })
}

fn raft_options(config: &ServeConfig, join: Vec<String>, secret: Vec<u8>) -> headwater_raft::Options {
    headwater_raft::Options {
        advertise: config.advertise_peer.clone(),
        join,
        secret,
        voters: config.voters,
        evict_after: config.evict_after,
        evict: true,
        snapshot_every: config.snapshot_every,
        keep_entries: (config.snapshot_every / 5).min(1_000),
        ..headwater_raft::Options::new(config.peer)
    }
}
