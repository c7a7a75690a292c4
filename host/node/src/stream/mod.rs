//! The streams that this session serves: what an open stream is, who may append, what readers see.
//!
//! Invariant: a byte is readable and acknowledged when it is durable in this session's log, never
//! before; and only the session that has a stream open assigns positions in it.
//!
//! A request goes `owner.rs` (open it, or say who has it) → `append.rs` with `tail.rs` (judge, assign,
//! log, wait), or `read.rs` and `follow.rs`; `create.rs`, `delete.rs` and `close.rs` change what is
//! registered, with `fork.rs` for what a fork begins with (`chain.rs` says where its bytes are) and
//! `sweep.rs` for what is over; `commit.rs` moves durable bytes into data objects, `compact.rs` joins
//! small ones; `recover.rs` does that for a session
//! that ended. `api.rs` is what callers see. Nothing here knows HTTP.

pub mod api;
mod append;
mod chain;
pub mod checkpoint;
mod close;
mod commit;
mod compact;
mod counters;
mod create;
mod delete;
mod expiry;
mod follow;
mod fork;
mod fresh;
pub mod log;
mod open;
mod owner;
mod read;
pub mod recover;
mod registry;
mod settings;
mod step;
mod sweep;
pub mod tail;
mod uses;

pub use api::*;
pub use counters::{CounterSnapshot, Counters};
pub use fresh::Lease;
pub use log::Log;
pub use recover::{RecoverError, Recovery};
pub use settings::Options;

use commit::Signal;
use fresh::NextBarrier;
use headwater_env::Env;
use headwater_metadata::{NodeId, Position, Session, StreamId};
use headwater_store::cache::BlockCache;
use headwater_store::object::Keys;
use headwater_store::tail::TailBudget;
use headwater_store::{Store, Wal};
use open::Ended;
use owner::Openers;
use registry::Registry;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// The streams of one session. Cheap to clone.
#[derive(Clone)]
pub struct Streams {
    inner: Arc<Inner>,
}

/// What the parts share.
struct Inner {
    log: Arc<dyn Log>,
    store: Store,
    cache: BlockCache,
    wal: Wal,
    keys: Keys,
    session: Session,
    env: Env,
    options: Options,
    lease: Option<Arc<dyn Lease>>,
    next_barrier: NextBarrier,
    registry: Arc<Registry>,
    openers: Openers,
    tails: Arc<TailBudget>,
    /// Bytes that are logged and not committed.
    memory: Arc<Semaphore>,
    signal: Arc<Signal>,
    counters: Arc<Counters>,
    /// Set once the session is over: nothing is taken any more.
    over: watch::Sender<bool>,
    /// Set at an orderly end: nothing new is opened.
    stopping: watch::Sender<bool>,
}

/// What a session brings with it.
pub struct Start {
    /// The replicated metadata, registered.
    pub log: Arc<dyn Log>,
    /// The shared store.
    pub store: Store,
    /// Blocks of data objects in memory.
    pub cache: BlockCache,
    /// The registered session.
    pub session: Session,
    /// The nonce that it registered with.
    pub nonce: u128,
    /// The surroundings.
    pub env: Env,
    /// Says whether this session is known to be alive; without one, freshness is asked for each time.
    pub lease: Option<Arc<dyn Lease>>,
    /// Settings.
    pub options: Options,
}

impl Streams {
    /// Starts the session's write-ahead log and the tasks around it. Call it once in a session, after
    /// it was registered.
    pub fn start(start: Start) -> Streams {
        let Start { log, store, cache, session, nonce, env, lease, options } = start;
        let signal = Arc::new(Signal::default());
        let registry = Arc::new(Registry::new(signal.clone()));
        let wal = Wal::start(&store, session, nonce, options.wal.clone(), registry.clone());
        let inner = Arc::new(Inner {
            log,
            cache,
            wal,
            keys: Keys::new(session, nonce),
            session,
            env,
            lease,
            next_barrier: NextBarrier::default(),
            registry,
            openers: Openers::default(),
            tails: TailBudget::new(options.tail_bytes),
            memory: Arc::new(Semaphore::new(options.uncommitted_bytes)),
            signal,
            counters: Arc::default(),
            over: watch::Sender::new(false),
            stopping: watch::Sender::new(false),
            store,
            options,
        });
        tokio::spawn(inner.clone().watch_session());
        tokio::spawn(inner.clone().commit_loop());
        tokio::spawn(inner.clone().idle_loop());
        tokio::spawn(inner.clone().compact_loop());
        Streams { inner }
    }

    /// Registers a stream, or finds it with the same configuration.
    pub async fn create(&self, create: Create) -> Result<Created, StreamError> {
        self.inner.create(create).await
    }

    /// Appends; answers when the record is durable.
    pub async fn append(&self, stream: StreamId, append: Append) -> Result<Appended, StreamError> {
        self.inner.append(stream, append).await
    }

    /// What the stream is now. Does not touch it.
    pub async fn info(&self, stream: StreamId) -> Result<Info, StreamError> {
        self.inner.info(stream).await
    }

    /// Reads what is there.
    pub async fn read(&self, stream: StreamId, from: From, limits: ReadLimits) -> Result<Read, StreamError> {
        self.inner.read(stream, from, limits).await
    }

    /// Reads from a position, waiting up to `wait` for something to be there: data, or the end of a
    /// closed stream. When the time is over the answer is empty and up to date.
    pub async fn follow(
        &self,
        stream: StreamId,
        from: Position,
        limits: ReadLimits,
        wait: Duration,
    ) -> Result<Read, StreamError> {
        self.inner.follow(stream, from, limits, wait).await
    }

    /// Deletes the stream.
    pub async fn delete(&self, stream: StreamId) -> Result<(), StreamError> {
        self.inner.delete(stream).await
    }

    /// Opens the stream here, or says which node has it.
    pub async fn open(&self, stream: StreamId) -> Result<(), StreamError> {
        self.inner.open(stream).await.map(drop)
    }

    /// Flushes the stream and lets go of it; nothing to do when it is not open here. With a transfer
    /// pending it is the target's from then on.
    pub async fn close(&self, stream: StreamId) -> Result<(), StreamError> {
        self.inner.close(stream).await
    }

    /// Whether this session serves the stream at the moment.
    pub fn is_open(&self, stream: StreamId) -> bool {
        self.inner.registry.get(stream).is_some()
    }

    /// How many streams are open.
    pub fn open_count(&self) -> usize {
        self.inner.registry.len()
    }

    /// Recovers a retired session: seals its log, and lets go of its streams with what was in it.
    pub async fn recover(&self, retired: Session) -> Result<Recovery, RecoverError> {
        self.inner.recover(retired).await
    }

    /// Ends in order: takes nothing new, flushes and closes every stream, ends the log. What does not
    /// get done within `limit` is left to a recovery; false then.
    pub async fn shutdown(&self, limit: Duration) -> bool {
        self.inner.shutdown(limit).await
    }

    /// Deletes streams that nobody has open and whose life is over, a part of them; how many it judged.
    /// One node at a time is enough, a second one does no harm.
    pub async fn sweep(&self) -> Result<usize, StreamError> {
        self.inner.sweep().await
    }

    /// The session.
    pub fn session(&self) -> Session {
        self.inner.session
    }

    /// Becomes true once the session is over, by the metadata log's word or the write-ahead log's.
    pub fn over(&self) -> watch::Receiver<bool> {
        self.inner.over.subscribe()
    }

    /// The write-ahead log.
    pub fn wal(&self) -> &Wal {
        &self.inner.wal
    }

    /// The keys of this session's data objects, for whoever else writes some.
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// What happened so far.
    pub fn counters(&self) -> CounterSnapshot {
        self.inner.counters.snapshot()
    }
}

impl Inner {
    /// This node.
    fn me(&self) -> NodeId {
        self.session.node
    }

    /// Fails once the session is over.
    fn check(&self) -> Result<(), StreamError> {
        if *self.over.borrow() { Err(StreamError::Fenced) } else { Ok(()) }
    }

    /// Wall clock, and the monotonic one.
    fn now(&self) -> (u64, Duration) {
        (self.env.clock.wall_ms(), self.env.clock.monotonic())
    }

    /// Ends everything when the metadata log or the write-ahead log says that the session is over.
    async fn watch_session(self: Arc<Self>) {
        let mut retired = self.log.session_end();
        let mut wal = self.wal.ended();
        let mut stopping = self.stopping.subscribe();
        tokio::select! {
            _ = retired.wait_for(Option::is_some) => {}
            _ = wal.wait_for(Option::is_some) => {
                if *stopping.borrow_and_update() {
                    return;
                }
            }
        }
        self.end_session();
    }

    /// The session is over: nothing is acknowledged and nobody waits any more.
    fn end_session(&self) {
        if self.over.send_replace(true) {
            return;
        }
        tracing::warn!(session = %self.session, "the session is over: its streams end here");
        self.memory.close();
        let ended = self.registry.end_all(Ended::Fenced);
        counters::add(&self.counters.fenced, ended);
        self.signal.request();
    }
}

#[cfg(test)]
mod tests;
