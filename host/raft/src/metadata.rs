//! The handle of the replicated metadata: what the rest of the node knows of this crate, and where the
//! parts are put together.

use crate::barrier::Barrier;
use crate::core::Core;
use crate::counters::Counters;
use crate::dir::DataDir;
use crate::error::*;
use crate::fatal::FatalCell;
use crate::hooks::{Body, Hooks};
use crate::liveness::{self, Leader, Lease, Silent};
use crate::log_store::LogStore;
use crate::membership;
use crate::options::{Member, Options};
use crate::peer::auth::Auth;
use crate::peer::book::Book;
use crate::peer::network::Network;
use crate::peer::pool::Pool;
use crate::peer::receive::Receiver;
use crate::peer::{hello, server};
use crate::propose::Proposer;
use crate::state_machine::Machine;
use crate::status::{Peer, Status};
use crate::types::{MemberInfo, Raft, Runtime};
use headwater_env::{Env, Listener};
use headwater_metadata::{Command, NodeId, Outcome, Placement, Register, RetiredBy, View};
use openraft::SnapshotPolicy;
use openraft::async_runtime::WatchReceiver;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The replicated metadata. Cheap to clone.
#[derive(Clone)]
pub struct Metadata {
    core: Arc<Core>,
    proposer: Proposer,
    barrier: Barrier,
    lease: Lease,
    listening: SocketAddr,
    /// Holds the lock of the data directory until the member is shut down.
    dir: Arc<Mutex<Option<DataDir>>>,
}

impl Metadata {
    /// Opens the log, starts the raft member and the peer listener; founds the cluster when the
    /// directory did (`DataDir::found`), joins it when the directory is new.
    /// `epoch` orders the addresses that this node tells its peers.
    pub async fn start(
        mut dir: DataDir,
        options: Options,
        epoch: u64,
        env: Env,
        placement: Arc<dyn Placement>,
        hooks: Arc<dyn Hooks>,
    ) -> Result<Metadata, StartError> {
        let cluster = dir.cluster().ok_or(StartError::NothingToJoin)?;
        let me = Member { member: dir.member(), node: dir.node() };
        let counters = Arc::new(Counters::default());
        let fatal = FatalCell::new();
        let (theirs, cell) = (counters.clone(), fatal.clone());
        let open = move || {
            let log = LogStore::open(&mut dir, theirs.clone(), cell)?;
            let machine = Machine::open(&dir, log.purged(), placement, theirs.clone())?;
            let book = Book::open(&dir.env, &dir.paths, theirs);
            Ok::<_, DirError>((dir, log, machine, book))
        };
        let (dir, log, machine, book) = env.blocking(open).await?;
        let listener = env.net.bind(options.listen).await.map_err(StartError::Listen)?;
        let listening = listener.local();
        let address = options.advertise.clone().unwrap_or_else(|| listening.to_string());

        let published = machine.published();
        // Before raft: replaying the log may ask policies, which are compiled on this announcement.
        let stop = watch::Sender::new(false);
        let announcing = published.clone().announce_policies(env.clone(), hooks.clone(), stop.subscribe());
        tokio::spawn(announcing);
        let auth = Arc::new(Auth::new(cluster, &options.secret, me.member));
        let book = Arc::new(book);
        let pool = Arc::new(Pool::new(env.clone(), auth.clone(), book.clone(), counters.clone()));
        let network = Network { pool: pool.clone(), env: env.clone(), counters: counters.clone() };
        let pristine = log.is_pristine();
        let starting = Raft::new(me.member, config(&options)?, network, log.clone(), machine);
        let raft = Runtime::scope(env.entropy.u64(), starting)
            .await
            .map_err(|error| StartError::Raft(error.to_string()))?;

        let receiver = Receiver::new(env.clone(), dir.paths.clone(), counters.clone());
        let founder = dir.is_founder();
        let core = Arc::new(Core {
            raft,
            log,
            published,
            pool,
            book,
            auth,
            receiver,
            hooks,
            liveness: Leader::default(),
            env,
            options,
            counters,
            fatal,
            stop,
            cluster,
            me,
            epoch,
            address,
        });
        let metadata = Metadata {
            core: core.clone(),
            proposer: Proposer::start(core.clone()),
            barrier: Barrier::start(core.clone()),
            lease: Lease::new(core.clone()),
            listening,
            dir: Arc::new(Mutex::new(Some(dir))),
        };
        match metadata.settle_in(listener, founder, pristine).await {
            Ok(()) => Ok(metadata),
            Err(error) => {
                metadata.shutdown().await;
                Err(error)
            }
        }
    }

    /// Founds, joins, or goes on; then the tasks that run for as long as the member does.
    async fn settle_in(
        &self,
        listener: Box<dyn Listener>,
        founder: bool,
        pristine: bool,
    ) -> Result<(), StartError> {
        let core = &self.core;
        core.book.learn([core.my_peer()]).await;
        tokio::spawn(server::listen(core.clone(), listener));
        tokio::spawn(watch_raft(core.clone()));
        if founder && pristine {
            let members = BTreeMap::from([(core.me.member, MemberInfo { node: core.me.node })]);
            core.raft.initialize(members).await.map_err(|error| StartError::Raft(error.to_string()))?;
        }
        if !founder && pristine {
            self.join().await?;
        }
        tokio::spawn(hello::keep_saying(core.clone()));
        tokio::spawn(membership::care(core.clone()));
        tokio::spawn(self.lease.clone().keep(self.proposer.session()));
        tokio::spawn(liveness::watch(core.clone(), self.proposer.clone()));
        Ok(())
    }

    async fn join(&self) -> Result<(), StartError> {
        let core = &self.core;
        if core.options.join.is_empty() && core.book.all().len() <= 1 {
            return Err(StartError::NothingToJoin);
        }
        let trouble = Mutex::new("nobody answers".to_owned());
        let joining = async {
            loop {
                let round = hello::round(core, &BTreeSet::new()).await;
                if let Some(why) = round.refused {
                    return Err(StartError::Refused(why));
                }
                let member = round.member;
                if let Some(why) = round.trouble {
                    *trouble.lock() = why;
                }
                // The membership arrives through the log a moment after the leader took this one in.
                let arrived = async {
                    while !core.has_member(core.me.member) {
                        core.env.clock.sleep(Duration::from_millis(20)).await;
                    }
                };
                let patience = if member { Duration::from_secs(5) } else { Duration::from_millis(300) };
                if core.env.timeout(patience, arrived).await.is_some() {
                    return Ok(());
                }
            }
        };
        let joined = core.env.timeout(core.options.join_deadline, joining).await;
        joined.unwrap_or_else(|| Err(StartError::Join(trouble.lock().clone())))
    }

    /// The newest view.
    pub fn view(&self) -> Arc<View> {
        self.core.published.view()
    }

    /// Waits until a view fits; looks at each one that is published, beginning with the newest.
    pub async fn wait_for(&self, mut fits: impl FnMut(&View) -> bool) {
        let mut views = self.views();
        loop {
            views.mark_unchanged();
            if fits(&self.view()) {
                return;
            }
            if views.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Index of the last entry in the published view; wakes at each publication.
    pub fn views(&self) -> watch::Receiver<u64> {
        self.core.published.subscribe()
    }

    /// Starts a session. From then on proposals go out under it. Repeating it with the same nonce is
    /// harmless.
    pub async fn register(&self, register: Register) -> Result<(), RegisterError> {
        self.proposer.register(register).await
    }

    /// Proposes a command under the session: exactly once, answered after the own view has it. When
    /// the caller goes away after the command got its number, it still gets its outcome.
    pub async fn propose(&self, command: Command) -> Result<Outcome, ProposeError> {
        self.proposer.propose(command).await
    }

    /// Waits until the own view contains everything that was committed anywhere before this call.
    pub async fn barrier(&self) -> Result<(), Unavailable> {
        self.barrier.wait().await
    }

    /// Why the registered session ended, as soon as the own view or the log says so. Back to `None`
    /// with the next registration.
    pub fn session_end(&self) -> watch::Receiver<Option<RetiredBy>> {
        self.proposer.session_end()
    }

    /// The lease of the registered session.
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Sessions that this member, as leader, has not heard of at its last tick. Empty when it does not
    /// lead.
    pub fn silent_sessions(&self) -> Vec<Silent> {
        self.core.liveness.silent(self.core.options.evict_after)
    }

    /// Set when the member has stopped for good.
    pub fn fatal(&self) -> watch::Receiver<Option<Fatal>> {
        self.core.fatal.subscribe()
    }

    /// The raft member now.
    pub fn status(&self) -> Status {
        let core = &self.core;
        let metrics = core.metrics();
        let (voters, learners) = membership::list(core);
        let leader = metrics.current_leader.and_then(|leader| {
            voters.iter().chain(&learners).find(|member| member.member == leader).copied()
        });
        Status {
            cluster: core.cluster,
            me: core.me,
            leader,
            is_leader: metrics.current_leader == Some(core.me.member),
            term: metrics.current_term,
            voters,
            learners,
            last_log: metrics.last_log_index.unwrap_or(0),
            applied: core.published.applied(),
            snapshot: metrics.snapshot.map(|id| id.index),
            purged: metrics.purged.map(|id| id.index),
            peers: core.book.all(),
            fatal: core.fatal.get().map(|fatal| fatal.to_string()),
            counters: core.counters.snapshot(),
        }
    }

    /// This member.
    pub fn me(&self) -> Member {
        self.core.me
    }

    /// The address that the peer listener really has.
    pub fn listening(&self) -> SocketAddr {
        self.listening
    }

    /// The address book: to be kept in the store, so that new nodes find somebody to join.
    pub fn peers(&self) -> Vec<Peer> {
        self.core.book.all()
    }

    /// Relays a client's request to a node, once. Its path, query and headers arrive there unchanged,
    /// at [`Hooks::serve_forward`].
    pub async fn forward(
        &self,
        node: NodeId,
        request: http::Request<Body>,
    ) -> Result<http::Response<hyper::body::Incoming>, PeerError> {
        self.core.pool.forward(node, request).await
    }

    /// Gives up the leadership, if this member leads and another voter has caught up. True when it does
    /// not lead (any more).
    pub async fn hand_over(&self) -> bool {
        membership::hand_over(&self.core).await
    }

    /// Hands over, stops the member and its listener, and waits until the log is closed and the lock of the data
    /// directory is free.
    pub async fn shutdown(&self) {
        if self.core.fatal.get().is_none() {
            self.hand_over().await;
        }
        self.core.stop.send_replace(true);
        if let Err(error) = self.core.raft.shutdown().await {
            tracing::warn!(%error, "raft did not stop in order");
        }
        self.core.log.close().await;
        self.core.pool.close();
        drop(self.dir.lock().take());
    }
}

fn config(options: &Options) -> Result<Arc<openraft::Config>, StartError> {
    let heartbeat = u64::try_from(options.raft_heartbeat.as_millis()).unwrap_or(100).max(10);
    let config = openraft::Config {
        cluster_name: "headwater".to_owned(),
        heartbeat_interval: heartbeat,
        election_timeout_min: heartbeat * 6,
        election_timeout_max: heartbeat * 12,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(options.snapshot_every),
        max_in_snapshot_log_to_keep: options.keep_entries,
        replication_lag_threshold: options.snapshot_every + options.keep_entries + 1,
        max_payload_entries: 256,
        backoff: "50ms 100ms 200ms ...500ms".to_owned(),
        enable_pre_vote: Some(true),
        enable_leader_restore: Some(false),
        // A member restored from an old copy of its directory, or whose disk lost its last flush, is
        // sent again what it once had; otherwise the leader would repeat itself for ever.
        allow_log_reversion: Some(true),
        ..openraft::Config::default()
    };
    config.validate().map(Arc::new).map_err(|error| StartError::Raft(error.to_string()))
}

/// Reports it when raft stops by itself.
async fn watch_raft(core: Arc<Core>) {
    let mut metrics = core.raft.metrics();
    let mut stop = core.stop.subscribe();
    loop {
        let state = metrics.borrow_watched().running_state.clone();
        if let Err(error) = state {
            if !*core.stop.borrow() {
                tracing::error!(%error, "raft stopped");
                core.fatal.report(Fatal::Raft(error.to_string()));
            }
            return;
        }
        tokio::select! {
            biased;
            changed = metrics.changed() => if changed.is_err() { return },
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}
