//! A cluster of one state that answers at once, processes on it, and their deaths.

use super::super::*;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use headwater_env::BoxFuture;
use headwater_env::sim::World;
use headwater_metadata::*;
use headwater_raft::{ProposeError, Unavailable};
use headwater_store::Kind;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use parking_lot::Mutex;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// The metadata and the store that processes share.
pub struct Cluster {
    world: World,
    state: Mutex<State>,
    view: Mutex<Arc<View>>,
    views: watch::Sender<u64>,
    objects: Arc<InMemory>,
}

/// One process: its session and its streams.
pub struct Process {
    pub session: Session,
    pub streams: Streams,
    pub log: Arc<FakeLog>,
    pub crash: Arc<Crash>,
}

struct Builtin;

impl Placement for Builtin {
    fn place(&self, _: Digest, _: &Subject, _: &[Candidate]) -> Choice {
        Choice::None
    }
    fn not_a_candidate(&self, _: Digest, _: NodeId) {}
    fn engine(&self) -> Digest {
        Digest([0; 32])
    }
}

pub fn options() -> Options {
    Options {
        idle_close: Duration::from_secs(3600),
        commit_age: Duration::from_secs(3600),
        wait: Duration::from_secs(10),
        ..Options::default()
    }
}

impl Cluster {
    pub fn new() -> Arc<Cluster> {
        let state = State::new();
        let view = Mutex::new(Arc::new(state.view()));
        Arc::new(Cluster {
            world: World::new(1),
            state: Mutex::new(state),
            view,
            views: watch::Sender::new(0),
            objects: Arc::default(),
        })
    }

    fn apply(&self, entry: &Entry) -> Vec<Outcome> {
        let mut state = self.state.lock();
        let index = state.index() + 1;
        let outcomes = state.apply(index, entry, &Builtin);
        *self.view.lock() = Arc::new(state.view());
        self.views.send_replace(index);
        outcomes
    }

    pub fn view(&self) -> Arc<View> {
        self.view.lock().clone()
    }

    pub fn env(&self) -> Env {
        self.world.env("n")
    }

    /// Proposes as an operator would, through another session.
    pub fn evict(&self, by: &Process, session: Session) {
        let outcome = by.log.now(Command::Evict { session, silent: false });
        assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
    }

    /// Starts a process: registers its session and starts its streams.
    pub fn start(self: &Arc<Self>, node: u64, epoch: u64, options: Options, crash: Arc<Crash>) -> Process {
        let session = Session { node: NodeId(node), epoch: Epoch(epoch) };
        let nonce = u128::from(epoch) + (u128::from(node) << 64);
        let info = NodeInfo {
            address: format!("http://n{node}"),
            slots: 1,
            labels: Default::default(),
            engine: Digest([0; 32]),
            protocol: 1,
            wal: WalForm::Objects,
            lock: LockIdentity { boot: "b".into(), device: 1, inode: node },
        };
        let outcomes = self.apply(&Entry::Register(Register { session, nonce, continues: None, info }));
        assert!(matches!(outcomes[..], [Outcome::Applied(_)]), "{outcomes:?}");
        let log = Arc::new(FakeLog {
            cluster: self.clone(),
            session,
            number: AtomicU64::new(0),
            crash: crash.clone(),
            quorum: AtomicBool::new(true),
            lose_answers: AtomicI64::new(0),
            ended: watch::Sender::new(None),
        });
        let objects = Arc::new(Mortal { inner: self.objects.clone(), crash: crash.clone() });
        let store = Store::from_object_store(objects, Kind::Memory, self.env());
        let streams = Streams::start(Start {
            log: log.clone(),
            cache: BlockCache::new(&store, 1 << 20, 1 << 16),
            store,
            session,
            nonce,
            env: self.env(),
            lease: None,
            options,
        });
        Process { session, streams, log, crash }
    }

    /// Overwrites an object with something else.
    pub async fn spoil(&self, key: &str) {
        let spoiled = self.objects.put_opts(&Path::from(key), "spoiled".into(), PutOptions::default()).await;
        spoiled.expect("memory");
    }

    /// Every key in the store.
    pub async fn keys(&self) -> Vec<String> {
        let all: Vec<_> = self.objects.list(None).collect().await;
        all.into_iter().map(|meta| meta.expect("memory").location.to_string()).collect()
    }
}

/// A process's end of the metadata log.
pub struct FakeLog {
    cluster: Arc<Cluster>,
    session: Session,
    number: AtomicU64,
    crash: Arc<Crash>,
    pub quorum: AtomicBool,
    /// So many proposals apply without the proposer hearing of it.
    pub lose_answers: AtomicI64,
    ended: watch::Sender<Option<RetiredBy>>,
}

impl FakeLog {
    /// Proposes and applies at once.
    pub fn now(&self, command: Command) -> Outcome {
        let number = self.number.fetch_add(1, Ordering::SeqCst) + 1;
        let batch = Batch { session: self.session, number, commands: vec![command] };
        self.cluster.apply(&Entry::Batch(batch)).remove(0)
    }

    /// The process learns that its session has ended.
    pub fn hear(&self, why: RetiredBy) {
        self.ended.send_replace(Some(why));
    }
}

impl Log for FakeLog {
    fn view(&self) -> Arc<View> {
        self.cluster.view()
    }

    fn views(&self) -> watch::Receiver<u64> {
        self.cluster.views.subscribe()
    }

    fn propose(&self, command: Command) -> BoxFuture<'_, Result<Outcome, ProposeError>> {
        Box::pin(self.crash.run(async move {
            tokio::task::yield_now().await;
            if !self.quorum.load(Ordering::SeqCst) {
                return Err(ProposeError::Unavailable("no leader".into()));
            }
            let outcome = self.now(command);
            if self.lose_answers.fetch_sub(1, Ordering::SeqCst) > 0 {
                return Err(ProposeError::Unknown);
            }
            Ok(outcome)
        }))
    }

    fn barrier(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(self.crash.run(async move {
            tokio::task::yield_now().await;
            match self.quorum.load(Ordering::SeqCst) {
                true => Ok(()),
                false => Err(Unavailable("no leader".into())),
            }
        }))
    }

    fn session_end(&self) -> watch::Receiver<Option<RetiredBy>> {
        self.ended.subscribe()
    }
}

/// When a process dies: at its n-th request to the outside, with or without that one being done.
pub struct Crash {
    left: AtomicI64,
    done: bool,
    dead: watch::Sender<bool>,
}

impl Crash {
    pub fn never() -> Arc<Crash> {
        Crash::at(i64::MAX, false)
    }

    pub fn at(request: i64, done: bool) -> Arc<Crash> {
        Arc::new(Crash { left: AtomicI64::new(request), done, dead: watch::Sender::new(false) })
    }

    /// Dies at the n-th request from now on.
    pub fn die_after(&self, requests: i64) {
        self.left.store(requests - 1, Ordering::SeqCst);
    }

    /// Dies now.
    pub fn now(&self) {
        self.left.store(0, Ordering::SeqCst);
        self.dead.send_replace(true);
    }

    pub async fn died(&self) {
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    pub fn requests_left(&self) -> i64 {
        self.left.load(Ordering::SeqCst)
    }

    async fn run<T>(&self, request: impl Future<Output = T>) -> T {
        // Requests take different times, so that they overtake each other.
        let nth = self.left.load(Ordering::SeqCst).unsigned_abs();
        super::pause(Duration::from_millis(nth.wrapping_mul(0x9e37_79b9) >> 16 & 3)).await;
        match self.left.fetch_sub(1, Ordering::SeqCst) {
            left if left > 0 => return request.await,
            0 if self.done => drop(request.await),
            _ => {}
        }
        self.dead.send_replace(true);
        std::future::pending().await
    }
}

struct Mortal {
    inner: Arc<InMemory>,
    crash: Arc<Crash>,
}

impl fmt::Debug for Mortal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mortal")
    }
}

impl fmt::Display for Mortal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mortal")
    }
}

#[async_trait]
impl ObjectStore for Mortal {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.crash.run(self.inner.put_opts(path, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.crash.run(self.inner.put_multipart_opts(path, options)).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.crash.run(self.inner.get_opts(path, options)).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        let (inner, crash) = (self.inner.clone(), self.crash.clone());
        let deleted = paths.then(move |path| {
            let (inner, crash) = (inner.clone(), crash.clone());
            async move {
                let path = path?;
                let one = futures_util::stream::iter([Ok(path.clone())]).boxed();
                crash.run(async { inner.delete_stream(one).next().await.unwrap_or(Ok(path.clone())) }).await
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.crash.run(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.crash.run(self.inner.copy_opts(from, to, options)).await
    }
}

pub fn create(name: &str, body: &'static str) -> Create {
    Create {
        name: name.into(),
        content_type: "text/plain".into(),
        expiry: Expiry::Never,
        eof: false,
        body: Bytes::from_static(body.as_bytes()),
        fork: None,
    }
}

pub fn text(body: &str) -> Append {
    Append {
        content_type: Some("text/plain".into()),
        body: Ok(Bytes::copy_from_slice(body.as_bytes())),
        eof: false,
        producer: None,
        seq: None,
    }
}

/// Reads the whole body of an answer.
pub async fn bytes_of(read: Read) -> Result<String, StreamError> {
    let mut body = read.body;
    let mut all = Vec::new();
    while let Some(piece) = body.next().await {
        all.extend_from_slice(&piece?);
    }
    Ok(String::from_utf8(all).expect("tests write text"))
}

impl Process {
    /// Creates a stream that must be new.
    pub async fn new_stream(&self, name: &str, body: &'static str) -> StreamId {
        match self.streams.create(create(name, body)).await {
            Ok(Created::New(info)) => info.id,
            other => panic!("{other:?}"),
        }
    }

    /// Appends text that must be taken.
    pub async fn put(&self, id: StreamId, body: &str) -> Position {
        self.streams.append(id, text(body)).await.expect("an append").tail
    }

    /// Everything in the stream.
    pub async fn all(&self, id: StreamId) -> String {
        let mut from = From::Start;
        let mut all = String::new();
        loop {
            let read = self.streams.read(id, from, ReadLimits::default()).await.expect("a read");
            from = From::At(read.next);
            let done = read.up_to_date;
            all.push_str(&bytes_of(read).await.expect("its bytes"));
            if done {
                return all;
            }
        }
    }
}
