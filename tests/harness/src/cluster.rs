//! A cluster of real processes on this machine. Two at most run at a time, so that a machine with few
//! cores is not asked for more than it has.

use crate::http::Client;
use crate::node::{self, Node, Settings};
use crate::proxy::{PeerProxy, Sources};
use crate::s3::{Moto, StoreProxy};
use crate::{eventually, ports, run};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::{Semaphore, SemaphorePermit};

static SLOTS: Semaphore = Semaphore::const_new(2);

/// Which store the nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// A directory, `file://`.
    File,
    /// moto from PyPI, behind a proxy that can plant faults, `s3://`.
    S3,
}

type Change = Box<dyn Fn(&mut Settings) + Send + Sync>;

/// How a cluster is made.
pub struct Builder {
    binary: PathBuf,
    nodes: u64,
    store: Store,
    peer_proxies: bool,
    change: Vec<Change>,
}

impl Builder {
    /// This many nodes, numbered from 1; three unless said.
    pub fn nodes(mut self, nodes: u64) -> Self {
        self.nodes = nodes;
        self
    }

    /// The store; a directory unless said.
    pub fn store(mut self, store: Store) -> Self {
        self.store = store;
        self
    }

    /// Puts a proxy before each peer listener, so that nodes can be cut from one another.
    pub fn peer_proxies(mut self) -> Self {
        self.peer_proxies = true;
        self
    }

    /// A flag for every node.
    pub fn arg(self, flag: &str, value: &str) -> Self {
        let (flag, value) = (flag.to_owned(), value.to_owned());
        self.each(move |settings| settings.args.extend([flag.clone(), value.clone()]))
    }

    /// An environment variable for every node.
    pub fn env(self, name: &str, value: &str) -> Self {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.each(move |settings| {
            settings.env.insert(name.clone(), value.clone());
        })
    }

    /// `--slots` of the nodes, in order of their ids.
    pub fn slots(self, slots: &'static [u32]) -> Self {
        self.each(move |settings| {
            settings.slots = usize::try_from(settings.id - 1).ok().and_then(|i| slots.get(i)).copied();
        })
    }

    /// Any change to the settings of every node.
    pub fn each(mut self, change: impl Fn(&mut Settings) + Send + Sync + 'static) -> Self {
        self.change.push(Box::new(change));
        self
    }

    /// Starts the nodes and waits until all serve.
    pub async fn start(self) -> Result<Cluster> {
        let permit = SLOTS.acquire().await?;
        let mut cluster = self.build().await?;
        cluster.permit = Some(permit);
        cluster.start_all().await?;
        cluster.formed().await?;
        Ok(cluster)
    }

    /// Makes everything ready and starts no node.
    pub async fn prepare(self) -> Result<Cluster> {
        let permit = SLOTS.acquire().await?;
        let mut cluster = self.build().await?;
        cluster.permit = Some(permit);
        Ok(cluster)
    }

    /// Starts a cluster that several tests share: it lives as long as the test process.
    pub fn start_shared(self) -> Cluster {
        let start = async {
            let cluster = self.build().await?;
            cluster.start_all().await?;
            cluster.formed().await?;
            anyhow::Ok(cluster)
        };
        // The caller is inside of a `run`: another thread has to wait.
        let started = std::thread::scope(|scope| scope.spawn(|| run::runtime().block_on(start)).join());
        match started {
            Ok(Ok(cluster)) => cluster,
            Ok(Err(error)) => panic!("the shared cluster does not start: {error:#}"),
            Err(_) => panic!("the shared cluster does not start"),
        }
    }

    async fn build(self) -> Result<Cluster> {
        let folder = new_folder(&self.binary)?;
        let secret = folder.join("secret");
        node::write(&secret, "a secret of this test, long enough to be one\n")?;
        let mut env = BTreeMap::new();
        let (store_url, moto, store_proxy) = match self.store {
            Store::File => {
                let path = folder.join("store");
                fs::create_dir_all(&path)?;
                (format!("file://{}", path.display()), None, None)
            }
            Store::S3 => {
                let moto = Moto::start(&self.binary, &folder).await?;
                let proxy = StoreProxy::start(moto.address()).await?;
                env = proxy.environment();
                ("s3://headwater/test".to_owned(), Some(moto), Some(proxy))
            }
        };
        let mut cluster = Cluster {
            binary: self.binary,
            folder,
            secret,
            store_url,
            client: Client::new(),
            sources: Sources::default(),
            nodes: Vec::new(),
            peer_proxies: BTreeMap::new(),
            with_peer_proxies: self.peer_proxies,
            env,
            change: self.change,
            store_proxy,
            _moto: moto,
            permit: None,
        };
        for id in 1..=self.nodes {
            cluster.add(id).await?;
        }
        Ok(cluster)
    }
}

/// A cluster under test.
pub struct Cluster {
    binary: PathBuf,
    folder: PathBuf,
    secret: PathBuf,
    store_url: String,
    client: Client,
    sources: Sources,
    nodes: Vec<Node>,
    peer_proxies: BTreeMap<u64, PeerProxy>,
    with_peer_proxies: bool,
    env: BTreeMap<String, String>,
    change: Vec<Change>,
    store_proxy: Option<StoreProxy>,
    _moto: Option<Moto>,
    permit: Option<SemaphorePermit<'static>>,
}

impl Cluster {
    /// A cluster of three nodes of this binary: `env!("CARGO_BIN_EXE_headwater")`.
    pub fn builder(binary: &str) -> Builder {
        Builder {
            binary: PathBuf::from(binary),
            nodes: 3,
            store: Store::File,
            peer_proxies: false,
            change: Vec::new(),
        }
    }

    /// The HTTP client of this cluster.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The folder of this cluster: data directories, store, logs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The store's URL.
    pub fn store_url(&self) -> &str {
        &self.store_url
    }

    /// The directory behind a `file://` store.
    pub fn store_dir(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// The proxy before an `s3://` store.
    pub fn store_proxy(&self) -> Result<&StoreProxy> {
        self.store_proxy.as_ref().context("this cluster's store has no proxy")
    }

    /// The proxy before a node's peer listener.
    pub fn peer_proxy(&self, id: u64) -> Result<&PeerProxy> {
        self.peer_proxies.get(&id).context("this cluster's peers have no proxies")
    }

    /// Cuts one node from all others, in both directions.
    pub fn isolate(&self, id: u64) -> Result<()> {
        for (owner, proxy) in &self.peer_proxies {
            if *owner == id { proxy.cut_all() } else { proxy.cut_from(id) }
        }
        ensure!(!self.peer_proxies.is_empty(), "this cluster's peers have no proxies");
        Ok(())
    }

    /// Mends every cut between nodes.
    pub fn heal(&self) {
        self.peer_proxies.values().for_each(PeerProxy::mend);
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The ids of all nodes.
    pub fn ids(&self) -> Vec<u64> {
        self.nodes.iter().map(Node::id).collect()
    }

    /// The nodes whose process runs.
    pub fn running(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    /// One node.
    pub fn node(&self, id: u64) -> &Node {
        self.nodes.iter().find(|node| node.id() == id).expect("a node of this cluster")
    }

    /// The URL of a stream at one node.
    pub fn url(&self, id: u64, path: &str) -> String {
        self.node(id).url(path)
    }

    /// Adds a node that is not started yet.
    pub async fn add(&mut self, id: u64) -> Result<&Node> {
        let settings = self.settings(id, &format!("node-{id}")).await?;
        let node = self.make(settings);
        self.nodes.push(node);
        Ok(self.node(id))
    }

    /// A second process of a node id: other ports and an own data directory, outside [`Cluster::nodes`].
    pub async fn twin(&self, id: u64) -> Result<Node> {
        let settings = Settings {
            port: ports::free(),
            admin_port: ports::free(),
            peer_port: ports::free(),
            advertise_peer: None,
            data: self.folder.join(format!("twin-{id}")),
            join: self.joins(),
            ..self.node(id).settings()
        };
        Ok(self.make(settings))
    }

    fn make(&self, settings: Settings) -> Node {
        let (binary, secret) = (self.binary.clone(), self.secret.clone());
        Node::new(binary, &self.folder, secret, settings, self.client.clone(), self.sources.clone())
    }

    fn joins(&self) -> Vec<String> {
        self.nodes.first().map(Node::peer_url).into_iter().collect()
    }

    async fn settings(&mut self, id: u64, name: &str) -> Result<Settings> {
        let peer_port = ports::free();
        let advertise_peer = if self.with_peer_proxies {
            let proxy = PeerProxy::start(peer_port, self.sources.clone()).await?;
            let url = proxy.url();
            self.peer_proxies.insert(id, proxy);
            Some(url)
        } else {
            None
        };
        let mut settings = Settings {
            id,
            port: ports::free(),
            admin_port: ports::free(),
            peer_port,
            advertise_peer,
            data: self.folder.join(name),
            store: self.store_url.clone(),
            join: self.joins(),
            slots: None,
            args: Vec::new(),
            env: self.env.clone(),
        };
        for change in &self.change {
            change(&mut settings);
        }
        Ok(settings)
    }

    /// Starts all nodes that do not run and waits until all serve.
    pub async fn start_all(&self) -> Result<()> {
        for node in self.nodes.iter().filter(|node| !node.is_running()) {
            node.spawn()?;
        }
        for node in &self.nodes {
            node.wait_ready().await?;
        }
        Ok(())
    }

    /// Waits until a new cluster can lose a node: three vote, or all of fewer, and the change that made
    /// it so is applied everywhere. Before that the old majority of two is needed too.
    async fn formed(&self) -> Result<()> {
        // Of two only one votes.
        let voters = if self.nodes.len() < 3 { 1 } else { 3 };
        eventually("the voters", || async {
            for node in &self.nodes {
                let view = node.admin().cluster().await?;
                let found = view["voters"].as_array().map_or(0, Vec::len);
                ensure!(found >= voters, "node {} sees {found} voters", node.id());
            }
            let mut ends = Vec::new();
            for node in &self.nodes {
                for name in ["headwater_raft_last_log", "headwater_raft_applied"] {
                    ends.push(node.admin().metric(name).await?);
                }
            }
            let settled = ends.windows(2).all(|pair| (pair[0] - pair[1]).abs() < 0.5);
            ensure!(settled, "logs and states of the nodes end at {ends:?}");
            Ok(())
        })
        .await
    }

    /// Kills all nodes at once.
    pub async fn kill_all(&self) -> Result<()> {
        let nodes: Vec<&Node> = self.running().collect();
        for node in &nodes {
            node.send_kill()?;
        }
        for node in nodes {
            node.wait_exit(crate::wait::SOON).await?;
        }
        Ok(())
    }

    /// Gives a node's listeners other ports; it must not run.
    pub async fn move_addresses(&self, id: u64) -> Result<()> {
        let node = self.node(id);
        ensure!(!node.is_running() && !self.with_peer_proxies, "node {id} cannot move now");
        node.configure(|settings| {
            settings.port = ports::free();
            settings.admin_port = ports::free();
            settings.peer_port = ports::free();
        });
        Ok(())
    }

    /// Asks any running node for the owner of a stream.
    pub async fn owner(&self, stream: &str) -> Result<Option<u64>> {
        let node = self.running().next().context("no node runs")?;
        Ok(node.admin().stream(stream).await?["owner"].as_u64())
    }

    /// Waits until all running nodes name the same owner of a stream that is open or placed.
    pub async fn agreed_owner(&self, stream: &str) -> Result<u64> {
        eventually(&format!("one owner of {stream}"), || async {
            let mut owners = Vec::new();
            for node in self.running() {
                owners.push(node.admin().stream(stream).await?["owner"].as_u64());
            }
            match owners.split_first() {
                Some((Some(first), rest)) if rest.iter().all(|o| *o == Some(*first)) => Ok(*first),
                _ => bail!("the nodes name {owners:?}"),
            }
        })
        .await
    }

    /// A running node that is not this one.
    pub fn other_than(&self, id: u64) -> Result<&Node> {
        self.running().find(|node| node.id() != id).context("no other node runs")
    }

    /// Waits until all running nodes have applied the same entries, and checks that they have the same
    /// digests. Returns `GET /admin/cluster` of the first.
    pub async fn settled(&self) -> Result<Value> {
        let views = eventually("all nodes at one index", || async {
            let mut views = Vec::new();
            for node in self.running() {
                views.push((node.id(), node.admin().cluster().await?));
            }
            let indexes: Vec<_> = views.iter().map(|(id, v)| (*id, v["applied_index"].as_u64())).collect();
            ensure!(indexes.iter().all(|(_, i)| i.is_some()), "no applied index: {indexes:?}");
            ensure!(indexes.windows(2).all(|pair| pair[0].1 == pair[1].1), "the nodes are at {indexes:?}");
            Ok(views)
        })
        .await?;
        let (_, first) = views.first().context("no node runs")?;
        for (id, view) in &views {
            let (own, others) = (&view["state_digest"], &first["state_digest"]);
            ensure!(own == others, "node {id} has the digest {own}, others have {others}");
            ensure!(!own.is_null(), "node {id} shows no digest");
        }
        Ok(first.clone())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.iter().for_each(Node::kill_now);
        run::ended(self.folder.clone());
    }
}

fn new_folder(binary: &Path) -> Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let target = binary.parent().and_then(Path::parent).context("the binary is in no target directory")?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = target.join("tmp").join(format!("cluster-{}-{number}", std::process::id()));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
