//! What a node serves, session by session: registers, opens for clients, and says why it ended.
//!
//! A session that was evicted or sealed is followed by another one of the same process, unless a later
//! process of the node exists or `--no-rejoin` says otherwise. Nothing moves from one session to the
//! next: the new one recovers what the old one left.

use super::session::{SessionError, register};
use super::{NodeError, Parts, Phase};
use crate::cli::Exit;
use crate::control;
use crate::stream::{Options, Start, Streams};
use headwater_env::Listener;
use headwater_metadata::{Command, Epoch, RetiredBy, Session};
use headwater_raft::Fatal;
use headwater_store::cache::BlockCache;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a stopping node waits for the log to take its farewell.
const FAREWELL: Duration = Duration::from_secs(2);

/// A node that is done goes on voting for so long: when all are told to stop at once, the others close
/// their streams in this time.
const LINGER: Duration = Duration::from_millis(700);

/// Memory for committed bytes that readers ask for again, and the size of its blocks.
const CACHE_BYTES: u64 = 128 << 20;
const CACHE_BLOCK: u64 = 256 << 10;

/// Two nodes with one address send clients in circles. Told, not refused: after a restart with other
/// addresses the record of the other node may merely be old.
fn warn_of_shared_address(parts: &Parts, session: Session) {
    let view = parts.metadata.view();
    let same = |node: &&headwater_metadata::Node| {
        node.id != session.node && node.live.as_ref().is_some_and(|live| live.info.address == parts.address)
    };
    for other in view.nodes().filter(same) {
        tracing::warn!(
            "node {} advertises the same address {}: clients may be sent in circles. Give one of the two \
             another --advertise",
            other.id,
            parts.address
        );
    }
}

/// Why a session does not go on.
enum End {
    /// Somebody wants the node to stop.
    Stop,
    /// The session is over.
    Over(Option<RetiredBy>),
    /// The raft member has stopped.
    Fatal(Fatal),
}

/// The lease of one session, as its streams ask for it.
struct SessionLease {
    lease: headwater_raft::Lease,
    session: Session,
}

impl crate::stream::Lease for SessionLease {
    fn holds(&self) -> bool {
        self.lease.holds(self.session)
    }
}

/// Serves until `stop` resolves or the node may not serve any more.
pub async fn serve(
    parts: &Arc<Parts>,
    client: Box<dyn Listener>,
    mut epoch: Epoch,
    founder: bool,
    stop: impl Future<Output = ()>,
) -> Result<Exit, NodeError> {
    let mut stop = pin!(stop);
    let cache = BlockCache::new(&parts.store, CACHE_BYTES, CACHE_BLOCK);
    let mut continues = None;
    // Accepted from now on: what comes before there is a session is answered 503, not left hanging.
    let mut front = JoinSet::new();
    front.spawn(crate::http::listen(client, parts.frontend.clone()));
    loop {
        parts.phase.send_replace(Phase::Registering);
        let session = match start_session(parts, epoch, continues, stop.as_mut()).await {
            Ok(Some(session)) => session,
            Ok(None) => return Ok(Exit::Done),
            Err(NodeError::Session(e @ SessionError::Replaced { .. })) => {
                tracing::error!("{e}: this process ends");
                return Ok(Exit::Replaced);
            }
            Err(e) => return Err(e),
        };
        parts.tell_differences();
        if founder {
            parts.embed_policy().await;
        }
        let streams = Streams::start(Start {
            log: Arc::new(parts.metadata.clone()),
            store: parts.store.clone(),
            cache: cache.clone(),
            session,
            nonce: parts.nonce,
            env: parts.env.clone(),
            lease: Some(Arc::new(SessionLease { lease: parts.metadata.lease(), session })),
            options: stream_options(parts),
        });
        parts.streams.store(Some(Arc::new(streams.clone())));
        parts.frontend.set_streams(Some(streams.clone()));
        parts.phase.send_replace(Phase::Serving(session));
        let peer = parts.metadata.listening();
        tracing::info!(%session, address = %parts.address, %peer, "serves");
        warn_of_shared_address(parts, session);
        let mut tasks = JoinSet::new();
        tasks.spawn(control::run(parts.clone(), streams.clone(), session));
        tasks.spawn(control::watch_store(parts.clone(), streams.clone()));
        let end = session_ends(parts, &streams, stop.as_mut()).await;
        tasks.shutdown().await;
        if !matches!(end, End::Stop) {
            parts.frontend.set_streams(None);
            parts.streams.store(None);
        }
        let why = match end {
            End::Stop => {
                drain(parts, &streams, session, &mut front).await;
                return Ok(Exit::Done);
            }
            End::Fatal(why) => {
                streams.shutdown(Duration::ZERO).await;
                return Err(NodeError::Stopped(why.to_string()));
            }
            End::Over(why) => why,
        };
        parts.phase.send_replace(Phase::Registering);
        streams.shutdown(Duration::ZERO).await;
        match why {
            Some(RetiredBy::Replaced) => {
                tracing::error!(%session, "a later process of this node has registered: this one ends");
                return Ok(Exit::Replaced);
            }
            _ if parts.config.no_rejoin => {
                tracing::error!(%session, "the session was evicted or sealed, and --no-rejoin is given");
                return Ok(Exit::Fenced);
            }
            why => tracing::warn!(%session, ?why, "the session is over: this process registers anew"),
        }
        continues = Some(session.epoch);
        epoch = Epoch(parts.env.now_ms().max(session.epoch.0 + 1));
    }
}

/// The next session; `None` when the node shall stop before it has one.
async fn start_session(
    parts: &Parts,
    epoch: Epoch,
    continues: Option<Epoch>,
    stop: Pin<&mut impl Future<Output = ()>>,
) -> Result<Option<Session>, NodeError> {
    let applicant = parts.applicant();
    let mut fatal = parts.metadata.fatal();
    tokio::select! {
        session = register(&parts.env, &parts.metadata, &parts.store, &applicant, epoch, continues) => Ok(Some(session?)),
        () = stop => Ok(None),
        why = fatal.wait_for(Option::is_some) => Err(stopped(why.ok().and_then(|why| why.clone()))),
    }
}

fn stopped(why: Option<Fatal>) -> NodeError {
    NodeError::Stopped(why.map_or_else(|| "the metadata log is gone".to_owned(), |why| why.to_string()))
}

async fn session_ends(parts: &Parts, streams: &Streams, stop: Pin<&mut impl Future<Output = ()>>) -> End {
    let (mut end, mut over, mut fatal) =
        (parts.metadata.session_end(), streams.over(), parts.metadata.fatal());
    tokio::select! {
        biased;
        Ok(why) = end.wait_for(Option::is_some) => End::Over(*why),
        // The write-ahead log was sealed, or failed. Which later process did it, if any, is what the
        // next registration learns.
        Ok(_) = over.wait_for(|over| *over) => End::Over(None),
        Ok(why) = fatal.wait_for(Option::is_some) => {
            End::Fatal(why.clone().unwrap_or_else(|| Fatal::Raft("unknown".to_owned())))
        }
        () = stop => End::Stop,
    }
}

/// Lets requests end, flushes and closes within the deadline, then says farewell: a session that ends in order leaves
/// nothing to wait for.
async fn drain(parts: &Parts, streams: &Streams, session: Session, front: &mut JoinSet<()>) {
    parts.phase.send_replace(Phase::Draining);
    let limit = parts.config.drain_timeout;
    tracing::info!(%session, open = streams.open_count(), "stops: flushes and closes its streams");
    parts.frontend.stop();
    parts.env.timeout(limit, front.join_next()).await;
    let closed = tokio::select! {
        closed = streams.shutdown(limit) => closed,
        () = quorum_lost(parts) => false,
    };
    if !closed {
        tracing::warn!("some streams could not be closed in time: the next session recovers them");
        return;
    }
    let farewell = parts.metadata.propose(Command::Evict { session, silent: false });
    if !matches!(parts.env.timeout(FAREWELL, farewell).await, Some(Ok(_))) {
        tracing::debug!("the farewell was not heard");
    }
    if parts.metadata.view().sessions().next().is_some() {
        parts.env.clock.sleep(LINGER).await;
    }
}

/// Resolves when nothing can be closed any more, as when all nodes stop at once.
async fn quorum_lost(parts: &Parts) {
    while parts.metadata.barrier().await.is_ok() {
        parts.env.clock.sleep(Duration::from_millis(500)).await;
    }
}

fn stream_options(parts: &Parts) -> Options {
    Options { idle_close: parts.config.idle_close, max_open: parts.config.max_open, ..Options::default() }
}
