//! An S3 that can misbehave: moto's server from PyPI, behind a proxy that loses answers, answers errors
//! before or after the request took effect, waits, or refuses everything.

use crate::{ports, wait_until};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const VERSION: &str = "5.2.5";
const BUCKET: &str = "headwater";

/// A running moto.
pub struct Moto {
    child: Child,
    watchdog: Child,
    port: u16,
}

impl Moto {
    /// Starts it, installed beside the build when it is not there yet.
    pub async fn start(binary: &Path, folder: &Path) -> Result<Moto> {
        let server = installed(binary)?;
        let port = ports::free();
        let log = File::create(folder.join("moto.log"))?;
        let child = Command::new(&server)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone()?))
            .stderr(Stdio::from(log))
            .spawn()
            .with_context(|| format!("start {}", server.display()))?;
        let watchdog = Command::new("sh")
            .args(["-c", "read -r _; kill -KILL \"$0\"", &child.id().to_string()])
            .stdin(Stdio::piped())
            .spawn()?;
        let moto = Moto { child, watchdog, port };
        let client = crate::Client::new();
        wait_until("moto", Duration::from_secs(60), || async {
            let bucket = format!("http://127.0.0.1:{port}/{BUCKET}");
            client.put(bucket).limit(Duration::from_secs(5)).send().await?.expect(200)
        })
        .await?;
        Ok(moto)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        for child in [&mut self.child, &mut self.watchdog] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// `moto_server` in a virtual environment under the target directory.
fn installed(binary: &Path) -> Result<PathBuf> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let target = binary.parent().and_then(Path::parent).context("the binary is in no target directory")?;
    let folder = target.join(format!("moto-{VERSION}"));
    let server = folder.join("bin/moto_server");
    if server.exists() {
        return Ok(server);
    }
    step(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let installed = step(
        Command::new(folder.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .arg(format!("moto[server]=={VERSION}")),
    );
    if let Err(error) = installed {
        let _ = fs::remove_dir_all(&folder);
        return Err(error);
    }
    ensure!(server.exists(), "{} is not there after its installation", server.display());
    Ok(server)
}

fn step(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?} failed ({}): the tests against s3:// need python3 with venv and pip\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// What happens to a request that a [`Rule`] picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It takes effect; the connection ends without an answer.
    LoseAnswer,
    /// It takes effect; the answer is this status instead.
    AnswerAfter(u16),
    /// It takes no effect; the answer is this status.
    AnswerInstead(u16),
    /// It is held back for this long, then goes on.
    Delay(Duration),
    /// It takes no effect and gets no answer until the rules change.
    Hang,
}

type Matches = Box<dyn Fn(&Method, &str) -> bool + Send + Sync>;

/// Which requests a fault meets, and how many of them.
pub struct Rule {
    matches: Matches,
    percent: u64,
    left: u64,
    effect: Effect,
}

impl Rule {
    /// Every request that matches (method and path).
    pub fn new(effect: Effect, matches: impl Fn(&Method, &str) -> bool + Send + Sync + 'static) -> Rule {
        Rule { matches: Box::new(matches), percent: 100, left: u64::MAX, effect }
    }

    /// Every put.
    pub fn puts(effect: Effect) -> Rule {
        Rule::new(effect, |method, _| method == Method::PUT)
    }

    /// That many in a hundred, by a fixed sequence of random numbers.
    pub fn percent(mut self, percent: u64) -> Rule {
        self.percent = percent;
        self
    }

    /// The first that many only.
    pub fn times(mut self, times: u64) -> Rule {
        self.left = times;
        self
    }
}

#[derive(Default)]
struct Inner {
    rules: Vec<Rule>,
    random: u64,
    met: u64,
    requests: BTreeMap<String, u64>,
}

impl Inner {
    fn decide(&mut self, method: &Method, path: &str) -> Option<Effect> {
        *self.requests.entry(method.to_string()).or_default() += 1;
        // SplitMix64: the same rules meet the same sequence of requests alike.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let rule = self
            .rules
            .iter_mut()
            .find(|rule| rule.left > 0 && (rule.matches)(method, path) && mixed % 100 < rule.percent)?;
        rule.left -= 1;
        self.met += 1;
        Some(rule.effect)
    }
}

type Upstream = hyper_util::client::legacy::Client<HttpConnector, Full<Bytes>>;

/// The proxy between the nodes and the store.
pub struct StoreProxy {
    address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
    changed: Arc<tokio::sync::Notify>,
    task: JoinHandle<()>,
}

impl StoreProxy {
    /// Listens on a port of its own and relays to the store.
    pub async fn start(target: SocketAddr) -> Result<StoreProxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let inner = Arc::new(Mutex::new(Inner::default()));
        let changed = Arc::new(tokio::sync::Notify::new());
        let exchange = Exchange {
            target,
            inner: inner.clone(),
            changed: changed.clone(),
            upstream: hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http(),
            one_put_at_a_time: Arc::new(tokio::sync::Mutex::new(())),
        };
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let exchange = exchange.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let exchange = exchange.clone();
                        async move { exchange.answer(request).await }
                    });
                    let _ = stream.set_nodelay(true);
                    // An error here is a lost answer, planted or not.
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(StoreProxy { address, inner, changed, task })
    }

    /// The environment that leads a node here.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let endpoint = format!("http://{}", self.address);
        [
            ("AWS_ENDPOINT", endpoint.as_str()),
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
    }

    /// Plants these faults in place of those before.
    pub fn plant(&self, rules: Vec<Rule>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.rules = rules;
        drop(inner);
        self.changed.notify_waiters();
    }

    /// No fault any more.
    pub fn mend(&self) {
        self.plant(Vec::new());
    }

    /// How many requests met a fault so far.
    pub fn met(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).met
    }

    /// How many requests of this method came so far.
    pub fn requests(&self, method: &str) -> u64 {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.requests.get(method).copied().unwrap_or(0)
    }
}

impl Drop for StoreProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Exchange {
    target: SocketAddr,
    inner: Arc<Mutex<Inner>>,
    changed: Arc<tokio::sync::Notify>,
    upstream: Upstream,
    one_put_at_a_time: Arc<tokio::sync::Mutex<()>>,
}

/// The connection ends without an answer.
#[derive(Debug)]
struct Lost;

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the answer is lost")
    }
}

impl std::error::Error for Lost {}

impl Exchange {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Lost> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
        let path = parts.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
        let changed = self.changed.notified();
        let effect = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.decide(&parts.method, &path)
        };
        match effect {
            Some(Effect::AnswerInstead(status)) => return Ok(refusal(status)),
            Some(Effect::Delay(time)) => tokio::time::sleep(time).await,
            Some(Effect::Hang) => {
                changed.await;
                return Err(Lost);
            }
            _ => {}
        }
        let answer = self.relay(parts.method, &path, parts.headers, body).await.map_err(|_| Lost)?;
        match effect {
            Some(Effect::LoseAnswer) => Err(Lost),
            Some(Effect::AnswerAfter(status)) => Ok(refusal(status)),
            _ => Ok(answer),
        }
    }

    async fn relay(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Full<Bytes>>> {
        // moto checks a condition and stores in two steps; the real service does it in one.
        let _turn = match method == Method::PUT {
            true => Some(self.one_put_at_a_time.lock().await),
            false => None,
        };
        let uri: Uri = format!("http://{}{path}", self.target).parse()?;
        let mut request = Request::builder().method(method).uri(uri).body(Full::new(body))?;
        *request.headers_mut() = headers;
        let (parts, body) = self.upstream.request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        let mut answer = Response::new(Full::new(body));
        *answer.status_mut() = parts.status;
        *answer.headers_mut() = parts.headers;
        answer.headers_mut().remove("transfer-encoding");
        answer.headers_mut().remove("connection");
        Ok(answer)
    }
}

fn refusal(status: u16) -> Response<Full<Bytes>> {
    let code = match status {
        409 => "ConditionalRequestConflict",
        412 => "PreconditionFailed",
        503 => "SlowDown",
        _ => "InternalError",
    };
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>planted</Message></Error>");
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
}
