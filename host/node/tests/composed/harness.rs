//! Starts, kills and restarts composed nodes, and is their client.

use bytes::Bytes;
use headwater_env::Env;
use headwater_env::sim::World;
use headwater_metadata::NodeId;
use headwater_node::cli::Exit;
use headwater_node::config::ServeConfig;
use headwater_node::node::{Node, NodeError, Parts, Phase};
use headwater_store::{Kind, Store};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use object_store::memory::InMemory;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const CLIENT_PORT: u16 = 4437;
pub const PEER_PORT: u16 = 4637;
pub const ADMIN_PORT: u16 = 4537;

/// Machines `n1`, `n2`, … over one store.
pub struct Cluster {
    pub world: World,
    pub objects: Arc<InMemory>,
    running: BTreeMap<u64, Running>,
    /// Processes whose id another one was started with.
    aside: Vec<Running>,
}

struct Running {
    parts: Arc<Parts>,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<Result<Exit, NodeError>>,
}

/// An answer, whole.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

impl Cluster {
    /// No node yet.
    pub fn new(seed: u64) -> Cluster {
        // Killed processes go on failing for a while, loudly: only for who asks.
        if std::env::var_os("HEADWATER_LOG").is_some() {
            headwater_node::cli::logging::init(headwater_node::config::LogFormat::Text);
        }
        Cluster {
            world: World::new(seed),
            objects: Arc::default(),
            running: BTreeMap::new(),
            aside: Vec::new(),
        }
    }

    /// A cluster of three that serve and vote.
    pub async fn three(seed: u64) -> Cluster {
        let mut cluster = Cluster::new(seed);
        for node in 1..=3 {
            cluster.start(node).await;
        }
        until(|| cluster.parts(1).metadata.status().voters.len() == 3).await;
        cluster
    }

    pub fn config(&self, node: u64) -> ServeConfig {
        let mut config = ServeConfig::local(NodeId(node), "/data", "s3://bucket");
        config.listen.set_port(CLIENT_PORT);
        config.peer.set_port(PEER_PORT);
        config.admin.set_port(ADMIN_PORT);
        if node > 1 {
            config.join = vec![format!("n1:{PEER_PORT}")];
        }
        config
    }

    /// The store as a process on the node's machine sees it.
    pub fn store(&self, env: &Env) -> Store {
        Store::from_object_store(self.objects.clone(), Kind::S3, env.clone())
    }

    /// Tries to start a node on its machine.
    pub async fn try_start(&mut self, config: ServeConfig) -> Result<(), NodeError> {
        let machine = format!("n{}", config.node.0);
        self.try_start_on(&machine, config).await
    }

    /// Tries to start a node on any machine; a process that runs under its id is set aside.
    pub async fn try_start_on(&mut self, machine: &str, config: ServeConfig) -> Result<(), NodeError> {
        let id = config.node.0;
        let env = self.world.env(machine);
        let store = self.store(&env);
        let node = Node::start(config, env, Some(store)).await?;
        let parts = node.parts().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(node.run(async move {
            // A dropped sender is a killed process, not one that is told to stop.
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        let running = Running { parts, stop: Some(stop), ended };
        self.aside.extend(self.running.insert(id, running));
        Ok(())
    }

    /// Starts a node and waits until it serves.
    pub async fn start(&mut self, node: u64) {
        self.try_start(self.config(node)).await.unwrap();
        self.serves(node).await;
    }

    /// Waits until the node serves.
    pub async fn serves(&self, node: u64) {
        let phase = &self.parts(node).phase;
        until(|| matches!(*phase.borrow(), Phase::Serving(_))).await;
    }

    pub fn parts(&self, node: u64) -> &Arc<Parts> {
        &self.running[&node].parts
    }

    /// Ends the process as a kill does.
    pub fn kill(&mut self, node: u64) {
        let running = self.running.remove(&node).unwrap();
        running.ended.abort();
        self.world.kill(&format!("n{node}"));
    }

    /// Tells the node to stop and gives its exit code.
    pub async fn stop(&mut self, node: u64) -> Exit {
        let mut running = self.running.remove(&node).unwrap();
        running.stop.take().unwrap().send(()).unwrap();
        running.ended.await.unwrap().unwrap()
    }

    /// Waits until the node ends by itself.
    pub async fn ends(&mut self, node: u64) -> Result<Exit, NodeError> {
        self.running.remove(&node).unwrap().ended.await.unwrap()
    }

    /// Waits until the process that was set aside ends by itself.
    pub async fn first_ends(&mut self) -> Result<Exit, NodeError> {
        self.aside.remove(0).ended.await.unwrap()
    }

    /// Sends a request to a node and gives its own answer.
    pub async fn ask(&self, node: u64, method: Method, path: &str, body: &str) -> Answer {
        self.send(&format!("n{node}:{CLIENT_PORT}"), method, path, body, None).await
    }

    /// Sends a request to a node's admin API.
    pub async fn admin(&self, node: u64, method: Method, path: &str, body: &str) -> Answer {
        self.send(&format!("n{node}:{ADMIN_PORT}"), method, path, body, None).await
    }

    /// The same with a token.
    pub async fn admin_with(&self, node: u64, path: &str, token: &str) -> Answer {
        self.send(&format!("n{node}:{ADMIN_PORT}"), Method::GET, path, "", Some(token)).await
    }

    /// Sends a request to a node and follows redirects.
    pub async fn follow(&self, node: u64, method: Method, path: &str, body: &str) -> Answer {
        let mut authority = format!("n{node}:{CLIENT_PORT}");
        for _ in 0..5 {
            let answer = self.send(&authority, method.clone(), path, body, None).await;
            if answer.status != StatusCode::TEMPORARY_REDIRECT {
                return answer;
            }
            let location = answer.headers["location"].to_str().unwrap();
            let rest = location.strip_prefix("http://").unwrap();
            let (host, target) = rest.split_at(rest.find('/').unwrap());
            assert_eq!(target, path, "the target is passed on as it was sent");
            authority = host.to_owned();
        }
        panic!("redirects without end");
    }

    /// Follows redirects and comes again while the answer is 503.
    pub async fn insist(&self, node: u64, method: Method, path: &str, body: &str) -> Answer {
        for _ in 0..100 {
            let answer = self.follow(node, method.clone(), path, body).await;
            if answer.status != StatusCode::SERVICE_UNAVAILABLE {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{method} {path}: nothing but 503");
    }

    async fn send(
        &self,
        authority: &str,
        method: Method,
        path: &str,
        body: &str,
        token: Option<&str>,
    ) -> Answer {
        let env = self.world.env("client");
        // Nobody listens: as little as a 503.
        let Ok(connection) = env.net.connect(authority).await else {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Answer { status, headers: HeaderMap::new(), body: Bytes::new() };
        };
        let (mut sender, driver) =
            hyper::client::conn::http1::handshake(TokioIo::new(connection)).await.unwrap();
        tokio::spawn(driver);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", authority)
            .header("content-type", "text/plain")
            .header("authorization", token.map_or_else(String::new, |token| format!("Bearer {token}")))
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        let (head, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: head.status, headers: head.headers, body }
    }

    /// Creates a stream.
    pub async fn create(&self, node: u64, path: &str) {
        assert_eq!(self.insist(node, Method::PUT, path, "").await.status, StatusCode::CREATED);
    }

    /// Appends and expects that it was taken.
    pub async fn append(&self, node: u64, path: &str, body: &str) {
        let answer = self.insist(node, Method::POST, path, body).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{answer:?}");
    }

    /// The whole stream, read through a node.
    pub async fn read(&self, node: u64, path: &str) -> String {
        let answer = self.insist(node, Method::GET, path, "").await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        String::from_utf8(answer.body.to_vec()).unwrap()
    }

    /// The node that has the stream open.
    pub fn owner(&self, seen_by: u64, path: &str) -> Option<u64> {
        use headwater_metadata::Ownership::Opened;
        match self.parts(seen_by).metadata.view().stream_by_name(path)?.ownership {
            Opened(session) => Some(session.node.0),
            _ => None,
        }
    }
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
