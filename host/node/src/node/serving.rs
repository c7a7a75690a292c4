//! What a node serves, session by session: registers, opens for clients, and says why it ended.
//!
//! A session that was evicted or sealed is followed by another one of the same process, unless a later
//! process of the node exists or `--no-rejoin` says otherwise. Nothing moves from one session to the
//! next: the new one recovers what the old one left.

use super::hooks::NodeHooks;
use super::session::{SessionError, register};
use super::{NodeError, Parts, Phase};
use crate::cli::Exit;
use crate::control;
use crate::http::{self, Frontend};
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

/// Memory for committed bytes that readers ask for again, and the size of its blocks.
const CACHE_BYTES: u64 = 128 << 20;
const CACHE_BLOCK: u64 = 256 << 10;

/// Why a session does not go on.
enum End {
    /// Somebody wants the node to stop.
    Stop,
    /// The session is over.
    Over(Option<RetiredBy>),
    /// The raft member has stopped.
    Fatal(Fatal),
}

/// Serves until `stop` resolves or the node may not serve any more.
pub async fn serve(
    parts: &Arc<Parts>,
    hooks: &Arc<NodeHooks>,
    client: Box<dyn Listener>,
    mut epoch: Epoch,
    founder: bool,
    stop: impl Future<Output = ()>,
) -> Result<Exit, NodeError> {
    let mut stop = pin!(stop);
    let frontend = frontend(parts, hooks);
    let mut listening = JoinSet::new();
    listening.spawn(http::listen(client, frontend.clone()));
    let cache = BlockCache::new(&parts.store, CACHE_BYTES, CACHE_BLOCK);
    let mut continues = None;
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
            lease: None,
            options: stream_options(parts),
        });
        parts.streams.store(Some(Arc::new(streams.clone())));
        frontend.set_streams(Some(streams.clone()));
        parts.phase.send_replace(Phase::Serving(session));
        let peer = parts.metadata.listening();
        tracing::info!(%session, address = %parts.address, %peer, "serves");
        let mut tasks = JoinSet::new();
        tasks.spawn(control::run(parts.clone(), streams.clone(), session));
        let end = session_ends(parts, &streams, stop.as_mut()).await;
        tasks.shutdown().await;
        let why = match end {
            End::Stop => {
                frontend.stop();
                drain(parts, &streams, session).await;
                listening.join_next().await;
                return Ok(Exit::Done);
            }
            End::Fatal(why) => {
                streams.shutdown(Duration::ZERO).await;
                return Err(NodeError::Stopped(why.to_string()));
            }
            End::Over(why) => why,
        };
        parts.phase.send_replace(Phase::Registering);
        frontend.set_streams(None);
        parts.streams.store(None);
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

/// The client's side of the node; relayed requests come to it from now on.
fn frontend(parts: &Arc<Parts>, hooks: &Arc<NodeHooks>) -> Frontend {
    let frontend = Frontend::new(http::Parts {
        node: parts.config.node,
        log: Arc::new(parts.metadata.clone()),
        peers: Arc::new(parts.metadata.clone()),
        policies: parts.policies.clone(),
        env: parts.env.clone(),
        options: http::Options {
            routing: parts.config.routing,
            long_poll: parts.config.long_poll,
            ..http::Options::default()
        },
    });
    let relayed = frontend.clone();
    hooks.serve_with(Box::new(move |request| {
        let frontend = relayed.clone();
        Box::pin(async move { frontend.serve_forward(request).await })
    }));
    frontend
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
        session = register(&parts.env, &parts.metadata, &applicant, epoch, continues) => Ok(Some(session?)),
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

/// Flushes and closes within the deadline, then says farewell: a session that ends in order leaves
/// nothing to wait for.
async fn drain(parts: &Parts, streams: &Streams, session: Session) {
    parts.phase.send_replace(Phase::Draining);
    let limit = parts.config.drain_timeout;
    tracing::info!(%session, open = streams.open_count(), "stops: flushes and closes its streams");
    if !streams.shutdown(limit).await {
        tracing::warn!(?limit, "some streams could not be closed in time: the next session recovers them");
        return;
    }
    let farewell = parts.metadata.propose(Command::Evict { session });
    if !matches!(parts.env.timeout(FAREWELL, farewell).await, Some(Ok(_))) {
        tracing::debug!("the farewell was not heard");
    }
}

fn stream_options(parts: &Parts) -> Options {
    Options { idle_close: parts.config.idle_close, max_open: parts.config.max_open, ..Options::default() }
}
