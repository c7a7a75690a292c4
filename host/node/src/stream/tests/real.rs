//! Streams over a real raft member on a fake machine: life, a power cut under load, recovery.

use super::super::*;
use super::fake::{bytes_of, create, text};
use headwater_env::BoxFuture;
use headwater_env::sim::World;
use headwater_metadata::*;
use headwater_raft::{Body as PeerBody, DataDir, Hooks, Metadata};
use headwater_store::Kind;
use object_store::memory::InMemory;
use parking_lot::Mutex;
use std::path::Path;

struct Builtin;

impl Placement for Builtin {
    fn place(&self, _: Digest, _: &Subject, _: &[Candidate]) -> Choice {
        Choice::None
    }
    fn not_a_candidate(&self, _: Digest, _: NodeId) {}
    fn engine(&self) -> Digest {
        Digest([1; 32])
    }
}

struct NoHooks;

impl Hooks for NoHooks {
    fn policy_arrived(&self, _: Digest, _: &bytes::Bytes) {}
    fn serve_forward(
        &self,
        _: http::Request<hyper::body::Incoming>,
    ) -> BoxFuture<'static, http::Response<PeerBody>> {
        Box::pin(std::future::pending())
    }
}

struct Node {
    metadata: Metadata,
    streams: Streams,
    session: Session,
}

async fn start(world: &World, objects: &Arc<InMemory>) -> Node {
    let env = world.env("n1");
    let epoch = env.now_ms();
    let mut dir = DataDir::open(&env, Path::new("/data"), NodeId(1)).expect("the data directory");
    dir.found().expect("its cluster");
    let lock = dir.lock();
    let raft = headwater_raft::Options::new("0.0.0.0:4637".parse().expect("an address"));
    let started = Metadata::start(dir, raft, epoch, env.clone(), Arc::new(Builtin), Arc::new(NoHooks)).await;
    let metadata = started.expect("raft starts");
    let session = Session { node: NodeId(1), epoch: Epoch(epoch) };
    let nonce = env.entropy.u128();
    let info = NodeInfo {
        address: "http://n1".into(),
        slots: 1,
        labels: Default::default(),
        engine: Digest([1; 32]),
        protocol: 1,
        wal: WalForm::Objects,
        lock,
    };
    let register = Register { session, nonce, continues: None, info };
    while let Err(error) = metadata.register(register.clone()).await {
        assert!(matches!(error, headwater_raft::RegisterError::Unavailable(_)), "{error}");
    }
    let store = Store::from_object_store(objects.clone(), Kind::Memory, env.clone());
    let cache = BlockCache::new(&store, 1 << 20, 1 << 16);
    let options = Options { commit_age: Duration::from_millis(300), ..Options::default() };
    let log = Arc::new(metadata.clone());
    let streams = Streams::start(Start { log, store, cache, session, nonce, env, lease: None, options });
    for retired in metadata.view().unrecovered().map(|retired| retired.session).collect::<Vec<_>>() {
        streams.recover(retired).await.expect("recovers");
    }
    Node { metadata, streams, session }
}

async fn all(streams: &Streams, id: StreamId) -> String {
    let read = streams.read(id, From::Start, ReadLimits::default()).await.expect("a read");
    bytes_of(read).await.expect("bytes")
}

#[tokio::test(start_paused = true)]
async fn streams_live_on_a_real_log() {
    let (world, objects) = (World::new(7), Arc::new(InMemory::new()));
    let node = start(&world, &objects).await;
    let Ok(Created::New(info)) = node.streams.create(create("/a", "head")).await else { panic!() };
    for i in 0..20 {
        node.streams.append(info.id, text(&format!("<{i}>"))).await.expect("taken");
    }
    node.streams.close(info.id).await.expect("closes");
    let view = node.metadata.view();
    let ownership = view.stream(info.id).expect("it").ownership;
    assert_eq!(ownership, Ownership::Closed(node.session.node));
    node.streams.append(info.id, text("!")).await.expect("revived");
    assert!(all(&node.streams, info.id).await.ends_with("<19>!"));
    node.streams.delete(info.id).await.expect("deletes");
    assert_eq!(node.streams.info(info.id).await, Err(StreamError::NotFound));
    assert!(node.streams.shutdown(Duration::from_secs(5)).await);
    node.metadata.shutdown().await;
}

/// Power cuts in the middle of appends, again and again, each followed by a restart.
#[tokio::test(start_paused = true)]
async fn power_cuts_lose_nothing_that_was_acknowledged() {
    let (world, objects) = (World::new(8), Arc::new(InMemory::new()));
    let mut node = start(&world, &objects).await;
    let mut ids = Vec::new();
    for i in 0..4 {
        let Ok(Created::New(info)) = node.streams.create(create(&format!("/{i}"), "")).await else {
            panic!()
        };
        ids.push(info.id);
    }
    let acknowledged: Arc<Mutex<Vec<(StreamId, String)>>> = Arc::default();
    for round in 0..6u64 {
        let mut writers = tokio::task::JoinSet::new();
        for (i, id) in ids.iter().copied().enumerate() {
            let (streams, acknowledged) = (node.streams.clone(), acknowledged.clone());
            writers.spawn(async move {
                for n in 0.. {
                    let word = format!("<{round}-{i}-{n}>");
                    if streams.append(id, text(&word)).await.is_err() {
                        break;
                    }
                    acknowledged.lock().push((id, word));
                    super::pause(Duration::from_millis(3)).await;
                }
            });
        }
        super::pause(Duration::from_millis(100 + round * 137)).await;
        world.crash("n1");
        writers.shutdown().await;
        node = start(&world, &objects).await;
        for id in &ids {
            let there = all(&node.streams, *id).await;
            for (_, word) in acknowledged.lock().iter().filter(|(to, _)| to == id) {
                assert_eq!(there.matches(word.as_str()).count(), 1, "round {round}: {word} in {there}");
            }
        }
    }
    assert!(acknowledged.lock().len() > 100);
}
