//! The way of a request, top to bottom:
//!
//! 1. `listener.rs` accepts connections and hands each request to [`Frontend::handle`], in this file.
//! 2. `name.rs`, `query.rs`, `headers.rs` read it, strictly; nothing is decoded that is passed on.
//! 3. `route.rs` decides from the view and the policy: here, redirect (`redirect.rs`) or relay (`forward.rs`).
//! 4. `serve.rs` asks the stream, with `json.rs`, `live.rs` and `sse.rs` for what the protocol makes of bytes.
//! 5. `error.rs` is the only table from errors to statuses; `answer.rs` puts on what every answer carries.
//!
//! A request that another node relayed comes in at [`Frontend::serve_forward`] and is served here or
//! refused. Never decides who owns a stream, never writes to the metadata except to have a stream placed.

mod answer;
mod body;
mod counters;
mod data;
mod error;
mod follow;
mod forward;
pub mod headers;
mod json;
mod listener;
mod live;
pub mod name;
pub mod offset;
pub mod query;
mod redirect;
mod route;
mod serve;
mod settings;
mod sse;
pub mod time;

pub use body::{Body, BoxError};
pub use counters::{CounterSnapshot, Counters};
pub use forward::{Peers, Relayed};
pub use listener::listen;
pub use settings::Options;

use crate::config::Routing;
use crate::stream::{Log, Streams};
use arc_swap::ArcSwapOption;
use body::Upload;
use error::Problem;
use headers::{Fork, names};
use headwater_env::Env;
use headwater_metadata::{Command, Effective, NodeId, Outcome, Rejection, StreamId, View};
use headwater_policy::{Decision, Operation, Policies};
use http::{HeaderMap, HeaderValue, Method, Request, Response, header, request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use query::Query;
use route::Route;
use serve::{Failure, Serve, Target};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tracing::Instrument;

/// What a front end is made of.
pub struct Parts {
    /// This node.
    pub node: NodeId,
    /// The replicated metadata.
    pub log: Arc<dyn Log>,
    /// The other nodes.
    pub peers: Arc<dyn Peers>,
    /// The policies of this node.
    pub policies: Arc<Policies>,
    /// The surroundings.
    pub env: Env,
    /// Settings.
    pub options: Options,
}

/// The front end of a node. Cheap to clone.
#[derive(Clone)]
pub struct Frontend {
    shared: Arc<Shared>,
}

/// What the parts of the front end share.
pub(crate) struct Shared {
    node: NodeId,
    log: Arc<dyn Log>,
    peers: Arc<dyn Peers>,
    policies: Arc<Policies>,
    env: Env,
    options: Options,
    /// The streams of the present session; none before the node is registered and after its session ended.
    streams: ArcSwapOption<Streams>,
    uploads: Arc<Semaphore>,
    counters: Arc<Counters>,
    stop: watch::Sender<bool>,
    /// First half of the ids of requests that came without one.
    id_prefix: u64,
}

/// How a request came in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// From a client.
    Client,
    /// Relayed by another node: served here or refused.
    Relayed,
}

/// A request that was read and is well formed.
struct Asked {
    operation: Operation,
    query: Query,
    fork: Option<Fork>,
}

impl Frontend {
    /// A front end without streams: everything is answered 503 until it is given some.
    pub fn new(parts: Parts) -> Frontend {
        let Parts { node, log, peers, policies, env, options } = parts;
        let uploads = Arc::new(Semaphore::new(options.max_uploads.min(Semaphore::MAX_PERMITS)));
        let id_prefix = env.entropy.u64();
        let shared = Shared {
            node,
            log,
            peers,
            policies,
            env,
            options,
            streams: ArcSwapOption::empty(),
            uploads,
            counters: Arc::default(),
            stop: watch::Sender::new(false),
            id_prefix,
        };
        Frontend { shared: Arc::new(shared) }
    }

    /// Serves the streams of this session from now on; `None` when it has ended.
    pub fn set_streams(&self, streams: Option<Streams>) {
        self.shared.streams.store(streams.map(Arc::new));
    }

    /// Ends live reads and [`listen`]; requests under way are finished.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
    }

    /// What happened so far.
    pub fn counters(&self) -> CounterSnapshot {
        self.shared.counters.snapshot()
    }

    /// Answers a client.
    pub async fn handle(&self, request: Request<Incoming>) -> Response<Body> {
        self.shared.counters.requests.fetch_add(1, Relaxed);
        self.answer(Entry::Client, request).await
    }

    /// Answers a request that another node relayed.
    pub async fn serve_forward(&self, request: Request<Incoming>) -> Response<Relayed> {
        self.shared.counters.relayed_here.fetch_add(1, Relaxed);
        self.answer(Entry::Relayed, request).await.map(BodyExt::boxed_unsync)
    }

    async fn answer(&self, entry: Entry, request: Request<Incoming>) -> Response<Body> {
        let (head, incoming) = request.into_parts();
        let id = self.request_id(&head.headers);
        let mut upload = Upload::new(&head, incoming, self.shared.clone());
        let span = tracing::debug_span!(
            "request",
            id = id.to_str().unwrap_or_default(),
            method = %head.method,
            target = %head.uri,
            relayed = entry == Entry::Relayed,
        );
        let decided = self.decide(entry, &head, &mut upload, &id).instrument(span);
        // What is proposed for the request carries its id to the leader's log.
        let answered = headwater_raft::as_request(id.clone(), decided).await;
        let mut answer = answered.unwrap_or_else(|problem| problem.answer(&head.method));
        if answer.status().as_u16() >= 400 {
            self.shared.counters.refused.fetch_add(1, Relaxed);
        }
        if answer.status().is_server_error() {
            self.shared.counters.failed.fetch_add(1, Relaxed);
        }
        answer::finish(&mut answer, id);
        upload.finish().await;
        answer
    }

    /// The id that the client gave, if it can be logged and passed on, or a new one.
    fn request_id(&self, headers: &HeaderMap) -> HeaderValue {
        let usable = |id: &&HeaderValue| id.len() <= 128 && !id.is_empty() && id.to_str().is_ok();
        headers.get(names::REQUEST_ID).filter(usable).cloned().unwrap_or_else(|| {
            let text = format!("{:x}", self.shared.id_prefix ^ self.shared.env.entropy.u64());
            HeaderValue::try_from(text).expect("hex digits are a header value")
        })
    }

    /// Reads the head and finds out where the request goes, until somebody serves it.
    async fn decide(
        &self,
        entry: Entry,
        head: &request::Parts,
        upload: &mut Upload,
        id: &HeaderValue,
    ) -> Result<Response<Body>, Problem> {
        if head.method == Method::OPTIONS {
            return Ok(answer::preflight(&head.headers));
        }
        let asked = self.read(head)?;
        let until = self.shared.env.clock.monotonic() + self.shared.options.wait;
        let mut moves = 0;
        loop {
            let view = self.shared.log.view();
            let known = Target::find(&view, head.uri.path());
            // A new fork is made by who has its source.
            let source = asked.fork.as_ref().filter(|_| known.is_none());
            let source = source.and_then(|fork| Target::find(&view, &fork.source));
            let subject = known.as_ref().or(source.as_ref());
            let effective = subject.and_then(|t| view.stream(t.id)).map(|s| view.effective(s));
            let effective = effective.unwrap_or(Effective::Unregistered);
            let route = self.route(&view, asked.operation, effective);
            tracing::debug!(?effective, decision = ?route.decision, "routed");
            let owner = match route.decision {
                Decision::Redirect(node) | Decision::Forward(node) => node,
                Decision::Here => {
                    match self.serve(&view, &asked, effective, known.as_ref(), head, upload).await {
                        Ok(answer) => return Ok(answer),
                        Err(Failure::Problem(problem)) => return Err(problem),
                        Err(Failure::Moved(node)) => {
                            self.shared.counters.moved.fetch_add(1, Relaxed);
                            moves += 1;
                            if self.shared.env.clock.monotonic() >= until {
                                let detail = "the stream is on its way to another node";
                                return Err(Problem::unavailable(detail, SOON));
                            }
                            if node == self.shared.node || moves < 2 {
                                // The own view knows by now, or will: decide again.
                                self.shared.env.clock.sleep(AGAIN * (moves - 1)).await;
                                continue;
                            }
                            node
                        }
                    }
                }
            };
            return self.send_on(entry, &view, &asked, route, owner, head, upload, id).await;
        }
    }

    fn read(&self, head: &request::Parts) -> Result<Asked, Problem> {
        let target = head.uri.path_and_query().map_or("", |target| target.as_str());
        if target.len() > self.shared.options.max_target {
            return Err(Problem::target_too_long(self.shared.options.max_target));
        }
        let expect = head.headers.get(header::EXPECT);
        if expect.is_some_and(|expect| !expect.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
            return Err(Problem::expectation());
        }
        name::check(head.uri.path())?;
        let query = match head.method {
            Method::GET => query::parse(head.uri.query())?,
            _ => query::parse(None)?,
        };
        let operation = serve::operation(&head.method, query.live);
        let operation = operation.ok_or_else(|| Problem::method(&head.method))?;
        let fork = match operation {
            Operation::Create => headers::fork(&head.headers)?,
            _ => None,
        };
        Ok(Asked { operation, query, fork })
    }

    fn route(&self, view: &View, operation: Operation, effective: Effective) -> Route {
        let ownership = route::ownership(effective);
        let lives = |node| view.session_of(node).is_some();
        let ask = |node| self.shared.policies.route(node, operation, ownership, lives);
        let route = route::route(self.shared.node, ownership, ask);
        if route.overruled {
            self.shared.counters.overruled.fetch_add(1, Relaxed);
        }
        route
    }

    async fn serve(
        &self,
        view: &View,
        asked: &Asked,
        effective: Effective,
        known: Option<&Target>,
        head: &request::Parts,
        upload: &mut Upload,
    ) -> Result<Response<Body>, Failure> {
        let Some(streams) = self.shared.streams.load_full() else {
            return Err(Problem::unavailable("this node is not serving: it has no session", SOON).into());
        };
        self.shared.counters.served.fetch_add(1, Relaxed);
        let serve = Serve { shared: &self.shared, streams: &streams, head };
        if asked.operation == Operation::Create {
            if let (Some(fork), None) = (&asked.fork, known)
                && view.stream_by_name(&fork.source).is_none()
            {
                return Err(self.missing(&fork.source, Problem::source_not_found()).await);
            }
            return serve.create(upload, known, asked.fork.as_ref()).await;
        }
        let Some(target) = known else {
            return Err(self.missing(head.uri.path(), Problem::not_found()).await);
        };
        // Placed before the body is read, so that it is not sent twice.
        if route::needs_owner(asked.operation) && self.has_to_be_placed(view, effective) {
            self.place(target.id).await?;
        }
        match asked.operation {
            Operation::Create | Operation::Append => serve.append(upload, target).await,
            Operation::Inspect => serve.inspect(target).await,
            Operation::Delete => serve.delete(target).await,
            Operation::Read => serve.read(asked.query, target).await,
            Operation::Tail => {
                if self.shared.counters.live_readers.load(Relaxed) >= self.shared.options.max_live {
                    return Err(Problem::unavailable("too many live readers", SOON).into());
                }
                serve.read(asked.query, target).await
            }
        }
    }

    /// The own view has no such name: true, unless the view is late.
    async fn missing(&self, name: &str, problem: Problem) -> Failure {
        if let Err(error) = self.shared.log.barrier().await {
            let detail = format!("whether the stream exists cannot be said: {error}");
            return Problem::unavailable(detail, SOON).into();
        }
        match self.shared.log.view().stream_by_name(name) {
            // Decide again, with the view that has it.
            Some(_) => Failure::Moved(self.shared.node),
            None => problem.into(),
        }
    }

    fn has_to_be_placed(&self, view: &View, effective: Effective) -> bool {
        match effective {
            Effective::Unplaced => true,
            // A draining node revives nothing that another one can.
            Effective::Closed(_) => {
                view.node(self.shared.node).is_some_and(|node| node.draining) && view.has_candidate()
            }
            _ => false,
        }
    }

    /// Has the stream placed; fails with `Moved` when that is elsewhere.
    async fn place(&self, stream: StreamId) -> Result<(), Failure> {
        use headwater_metadata::Answer;
        let outcome = self.shared.log.propose(Command::Place { stream }).await;
        let counters = &self.shared.counters;
        match &outcome {
            Ok(Outcome::Applied(_)) => counters.places.fetch_add(1, Relaxed),
            Ok(Outcome::Redundant(_)) => counters.places_redundant.fetch_add(1, Relaxed),
            _ => 0,
        };
        match outcome {
            Ok(Outcome::Applied(Answer::Owner(node)) | Outcome::Redundant(Answer::Owner(node)))
                if node != self.shared.node =>
            {
                Err(Failure::Moved(node))
            }
            Ok(Outcome::Rejected(Rejection::NoCandidate)) => {
                Err(Problem::unavailable(Rejection::NoCandidate.to_string(), SOON).into())
            }
            // Here, or something that the stream itself will find and say.
            Ok(_) => Ok(()),
            Err(error) => {
                Err(Problem::unavailable(format!("the stream cannot be placed: {error}"), SOON).into())
            }
        }
    }

    /// The request belongs to another node: the client is sent there, or the request is.
    #[allow(clippy::too_many_arguments, reason = "one request, and what is known of it")]
    async fn send_on(
        &self,
        entry: Entry,
        view: &View,
        asked: &Asked,
        route: Route,
        owner: NodeId,
        head: &request::Parts,
        upload: &mut Upload,
        id: &HeaderValue,
    ) -> Result<Response<Body>, Problem> {
        let counters = &self.shared.counters;
        if entry == Entry::Relayed {
            counters.relays_refused.fetch_add(1, Relaxed);
            return Err(Problem::unavailable(
                "the stream is not on the node that the request was relayed to",
                SOON,
            ));
        }
        let live = view.node(owner).and_then(|node| node.live.as_ref());
        let Some(live) = live else {
            return Err(Problem::unavailable("the stream's node is not registered", SOON));
        };
        let own = view.node(self.shared.node).and_then(|node| node.live.as_ref());
        let relay = matches!(route.decision, Decision::Forward(_))
            || self.shared.options.routing == Routing::Forward
            // Two nodes with one address: a redirect would come back here.
            || own.is_some_and(|own| own.info.address == live.info.address);
        let unsafe_to_follow = may_lose_body(asked.operation, &head.headers, upload);
        if relay || unsafe_to_follow {
            counters.forwards.fetch_add(1, Relaxed);
            counters.forwards_for_safety.fetch_add(u64::from(!relay), Relaxed);
            return forward::forward(self.shared.peers.as_ref(), owner, head, upload, id).await;
        }
        counters.redirects.fetch_add(1, Relaxed);
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let redirect = redirect::redirect(owner, &live.info.address, target, route.policy);
        redirect.ok_or_else(|| Problem::unavailable("the stream's node has no usable address", SOON))
    }
}

/// Whether a client that follows a redirect with an empty or cut body would be thanked for it: a close
/// needs no body, and neither does a create.
fn may_lose_body(operation: Operation, headers: &HeaderMap, upload: &Upload) -> bool {
    let body_is_optional =
        operation == Operation::Create || (operation == Operation::Append && headers::closes(headers));
    body_is_optional && !upload.is_empty()
}

/// When to come again after a 503.
const SOON: Duration = Duration::from_secs(1);
/// Pause before a stream that moved is looked for again.
const AGAIN: Duration = Duration::from_millis(20);
