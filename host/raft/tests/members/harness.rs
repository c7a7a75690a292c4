//! Members on fake machines. Each test runs on a paused clock, so minutes pass in milliseconds.

use headwater_env::BoxFuture;
use headwater_env::sim::World;
use headwater_metadata::*;
use headwater_raft::*;
use http_body_util::{BodyExt, Full};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

/// Leaves every choice to the built-in rule.
pub struct Rule;

impl Placement for Rule {
    fn place(&self, _: Digest, _: &Subject, _: &[Candidate]) -> Choice {
        Choice::None
    }
    fn not_a_candidate(&self, _: Digest, _: NodeId) {}
    fn engine(&self) -> Digest {
        Digest([1; 32])
    }
}

/// Notes what arrives.
#[derive(Default)]
pub struct Noting {
    pub policies: Mutex<Vec<Digest>>,
    pub forwards: Mutex<Vec<String>>,
}

impl Hooks for Noting {
    fn policy_arrived(&self, digest: Digest, _: &bytes::Bytes) {
        self.policies.lock().unwrap().push(digest);
    }

    fn serve_forward(
        &self,
        request: http::Request<hyper::body::Incoming>,
    ) -> BoxFuture<'static, http::Response<Body>> {
        self.forwards.lock().unwrap().push(request.uri().to_string());
        Box::pin(async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            http::Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync())
        })
    }
}

pub const DATA: &str = "/data";

/// A running member with its session.
pub struct Node {
    pub name: String,
    pub metadata: Metadata,
    pub hooks: Arc<Noting>,
    pub session: Session,
}

/// How to start a member.
#[derive(Clone)]
pub struct Setup {
    pub cluster: Option<ClusterId>,
    pub join: Vec<String>,
    pub change: fn(&mut Options),
    pub port: u16,
    pub placement: fn() -> Arc<dyn Placement>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            cluster: None,
            join: vec!["n1:4637".to_owned()],
            change: |_| {},
            port: 4637,
            placement: || Arc::new(Rule),
        }
    }
}

pub fn node_id(name: &str) -> NodeId {
    NodeId(name.trim_start_matches('n').split('.').next().unwrap().parse().unwrap())
}

pub fn info(name: &str) -> NodeInfo {
    NodeInfo {
        address: format!("http://{name}:4437"),
        slots: 1,
        labels: BTreeMap::new(),
        engine: Digest([1; 32]),
        protocol: 1,
        wal: WalForm::Objects,
        lock: LockIdentity { boot: "sim".to_owned(), device: 1, inode: 1 },
    }
}

/// Starts a member without a session.
pub async fn start_bare(
    world: &World,
    name: &str,
    setup: &Setup,
) -> Result<(Metadata, Arc<Noting>, u64), StartError> {
    let env = world.env(name);
    let mut dir = DataDir::open(&env, Path::new(DATA), node_id(name))?;
    match setup.cluster {
        Some(cluster) => dir.belong(cluster)?,
        None => {
            dir.found()?;
        }
    }
    let listen = format!("0.0.0.0:{}", setup.port).parse().unwrap();
    let mut options = Options::new(listen);
    options.advertise = Some(format!("{name}:{}", setup.port));
    options.join = setup.join.clone();
    (setup.change)(&mut options);
    let hooks = Arc::new(Noting::default());
    let epoch = env.now_ms();
    let metadata = Metadata::start(dir, options, epoch, env, (setup.placement)(), hooks.clone()).await?;
    Ok((metadata, hooks, epoch))
}

/// Starts a member and its session.
pub async fn start(world: &World, name: &str, setup: &Setup) -> Node {
    let (metadata, hooks, epoch) = start_bare(world, name, setup).await.unwrap();
    let session = Session { node: node_id(name), epoch: Epoch(epoch) };
    let nonce = u128::from(epoch) << 64 | u128::from(session.node.0);
    let register = Register { session, nonce, continues: None, info: info(name) };
    for _ in 0..10 {
        match metadata.register(register.clone()).await {
            Ok(()) => return Node { name: name.to_owned(), metadata, hooks, session },
            Err(RegisterError::Unavailable(_)) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
    panic!("{name} cannot register: {:?}", metadata.status());
}

/// Founds a cluster of three; everybody votes.
pub async fn three(world: &World, change: fn(&mut Options)) -> (Vec<Node>, Setup) {
    logging();
    let founding = Setup { join: Vec::new(), change, ..Setup::default() };
    let first = start(world, "n1", &founding).await;
    let cluster = Some(first.metadata.status().cluster);
    let joining = Setup { cluster, change, ..Setup::default() };
    let mut nodes = vec![first];
    for name in ["n2", "n3"] {
        nodes.push(start(world, name, &joining).await);
    }
    until(|| nodes.iter().all(|node| node.metadata.status().voters.len() == 3)).await;
    let everybody = ["n1:4637", "n2:4637", "n3:4637"].map(str::to_owned).to_vec();
    (nodes, Setup { join: everybody, ..joining })
}

/// Shows the log of a test that is run with `RUST_LOG` and `--nocapture`.
pub fn logging() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ = tracing_subscriber::fmt().with_env_filter(filter).without_time().with_test_writer().try_init();
}

/// Waits until something holds, within a minute of the world's time.
pub async fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come about within a minute");
}

pub fn create(name: &str) -> Command {
    Command::CreateStream(CreateStream {
        name: name.into(),
        content_type: "text/plain".into(),
        expiry: Expiry::Never,
        now_ms: 1,
        eof: false,
        body: None,
        fork: None,
    })
}

impl Node {
    /// Creates a stream and expects that it was new.
    pub async fn creates(&self, name: &str) -> StreamId {
        match self.metadata.propose(create(name)).await {
            Ok(Outcome::Applied(Answer::Stream(id))) => {
                // Who has an answer sees what it speaks of.
                assert!(self.metadata.view().stream(id).is_some());
                id
            }
            other => panic!("{}: {name}: {other:?}", self.name),
        }
    }

    pub fn digests(&self) -> Digests {
        self.metadata.view().digests()
    }

    pub fn leads(&self) -> bool {
        self.metadata.status().is_leader
    }
}

/// All views reach the same index and agree.
pub async fn agree(nodes: &[&Node]) {
    let newest = nodes.iter().map(|node| node.metadata.status().applied).max().unwrap();
    until(|| nodes.iter().all(|node| node.metadata.status().applied >= newest)).await;
    for node in nodes {
        assert_eq!(node.digests(), nodes[0].digests(), "{} differs", node.name);
    }
}

pub fn leader(nodes: &[Node]) -> usize {
    nodes.iter().position(Node::leads).expect("somebody leads")
}

pub fn file(name: &str) -> PathBuf {
    Path::new(DATA).join(name)
}
