//! Requests to other members: one HTTP/2 connection per address and lane, kept open, dialled anew when
//! it broke. The bulk lane carries snapshots and relayed client requests, so that they never stand
//! before a vote or a heartbeat.

use super::auth::Auth;
use super::book::Book;
use crate::counters::{Counters, count};
use crate::error::PeerError;
use crate::hooks::Body;
use bytes::Bytes;
use headwater_env::Env;
use headwater_metadata::NodeId;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Small requests that must be quick.
    Control,
    /// Bodies of any size.
    Bulk,
}

/// Answers of members are never larger.
const ANSWER_LIMIT: usize = 64 << 20;
const CONNECT: Duration = Duration::from_secs(2);
/// A peer that does not answer a ping for so long is gone: a relayed request must not hang on it.
const ALIVE: Duration = Duration::from_secs(4);
/// A connection on which nothing was answered for so long, while something was asked, is given up.
const STALE: Duration = Duration::from_millis(1_500);

/// Connections to other members.
pub(crate) struct Pool {
    env: Env,
    auth: Arc<Auth>,
    book: Arc<Book>,
    counters: Arc<Counters>,
    slots: Mutex<BTreeMap<(String, Lane), Arc<Slot>>>,
}

#[derive(Default)]
struct Slot {
    open: tokio::sync::Mutex<Option<SendRequest<Body>>>,
    answered: Mutex<Duration>,
}

/// Why a request got no answer.
enum Failure {
    NotSent(String),
    Broken(String),
}

impl Pool {
    pub(crate) fn new(env: Env, auth: Arc<Auth>, book: Arc<Book>, counters: Arc<Counters>) -> Pool {
        Pool { env, auth, book, counters, slots: Mutex::default() }
    }

    /// Asks a member. The answer's body is read whole.
    pub(crate) async fn ask(
        &self,
        member: u64,
        lane: Lane,
        path: &str,
        message: Vec<u8>,
        limit: Duration,
    ) -> Result<Bytes, PeerError> {
        let Some(peer) = self.book.get(member) else {
            let why = "its address is not known".to_owned();
            return Err(PeerError::NotSent { peer: format!("member {member}"), why });
        };
        self.ask_at(&peer.address, Some(member), lane, path, message, limit).await
    }

    /// Asks whoever listens at an address.
    pub(crate) async fn ask_at(
        &self,
        address: &str,
        member: Option<u64>,
        lane: Lane,
        path: &str,
        message: Vec<u8>,
        limit: Duration,
    ) -> Result<Bytes, PeerError> {
        let slot = self.slot(address, lane);
        let whole = async {
            let body = Full::new(Bytes::from(message)).map_err(|never| match never {}).boxed_unsync();
            let mut request = Request::new(body);
            *request.method_mut() = Method::POST;
            *request.uri_mut() = uri(address, path).map_err(Failure::NotSent)?;
            self.auth.sign(request.headers_mut(), member);
            let answer = self.send(&slot, address, request).await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_LIMIT).collect().await;
            let body = body.map_err(|e| Failure::Broken(e.to_string()))?.to_bytes();
            Ok::<_, Failure>((status, body))
        };
        let outcome = match self.env.timeout(limit, whole).await {
            Some(outcome) => outcome,
            None => Err(Failure::Broken(format!("no answer within {limit:?}"))),
        };
        let peer = address.to_owned();
        let failure = match outcome {
            Ok((StatusCode::OK, body)) => return Ok(body),
            Ok((_, body)) => {
                count(&self.counters.peer_failures);
                let why = String::from_utf8_lossy(&body).into_owned();
                return Err(PeerError::Refused { peer, why });
            }
            Err(failure) => failure,
        };
        count(&self.counters.peer_failures);
        self.give_up(&slot).await;
        Err(match failure {
            Failure::NotSent(why) => PeerError::NotSent { peer, why },
            Failure::Broken(why) => PeerError::Broken { peer, why },
        })
    }

    /// Relays a request to a node. Its body and the answer's are streamed.
    pub(crate) async fn forward(
        &self,
        node: NodeId,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, PeerError> {
        let peer = self.book.of_node(node).ok_or(PeerError::UnknownNode(node))?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let address = peer.address;
        let not_sent = |why| PeerError::NotSent { peer: address.clone(), why };
        *request.uri_mut() = uri(&address, &format!("/forward{path}")).map_err(not_sent)?;
        *request.version_mut() = http::Version::HTTP_2;
        self.auth.sign(request.headers_mut(), Some(peer.member));
        let slot = self.slot(&address, Lane::Bulk);
        match self.send(&slot, &address, request).await {
            Ok(answer) if answer.headers().contains_key(super::server::REFUSED) => {
                Err(PeerError::Refused { peer: address, why: answer.status().to_string() })
            }
            Ok(answer) => Ok(answer),
            Err(failure) => {
                count(&self.counters.peer_failures);
                self.give_up(&slot).await;
                Err(match failure {
                    Failure::NotSent(why) => PeerError::NotSent { peer: address, why },
                    Failure::Broken(why) => PeerError::Broken { peer: address, why },
                })
            }
        }
    }

    fn slot(&self, address: &str, lane: Lane) -> Arc<Slot> {
        self.slots.lock().entry((address.to_owned(), lane)).or_default().clone()
    }

    async fn send(
        &self,
        slot: &Slot,
        address: &str,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut connection = self.connection(slot, address).await.map_err(Failure::NotSent)?;
        connection.ready().await.map_err(|e| Failure::NotSent(e.to_string()))?;
        match connection.try_send_request(request).await {
            Ok(answer) => {
                *slot.answered.lock() = self.env.clock.monotonic();
                Ok(answer)
            }
            Err(mut error) => match error.take_message() {
                Some(_) => Err(Failure::NotSent(error.error().to_string())),
                None => Err(Failure::Broken(error.error().to_string())),
            },
        }
    }

    async fn connection(&self, slot: &Slot, address: &str) -> Result<SendRequest<Body>, String> {
        let mut open = slot.open.lock().await;
        if let Some(connection) = open.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(connection.clone());
        }
        count(&self.counters.peer_connects);
        let dial = async {
            let stream = self.env.net.connect(address).await.map_err(|e| e.to_string())?;
            http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .initial_stream_window_size(1 << 20)
                .initial_connection_window_size(8 << 20)
                .max_frame_size(256 << 10)
                .keep_alive_interval(ALIVE)
                .keep_alive_timeout(ALIVE)
                .handshake(TokioIo::new(stream))
                .await
                .map_err(|e| e.to_string())
        };
        let dialled = self.env.timeout(CONNECT, dial).await;
        let (sender, connection) = dialled.unwrap_or_else(|| Err("no connection in time".to_owned()))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "peer connection ended");
            }
        });
        *slot.answered.lock() = self.env.clock.monotonic();
        *open = Some(sender.clone());
        Ok(sender)
    }

    /// After a failure: a connection that has been silent too long is dialled anew next time, because
    /// after a partition the old one may hang for minutes.
    async fn give_up(&self, slot: &Slot) {
        let silent = self.env.clock.monotonic().saturating_sub(*slot.answered.lock());
        if silent >= STALE
            && let Ok(mut open) = slot.open.try_lock()
        {
            *open = None;
        }
    }

    /// Drops every connection.
    pub(crate) fn close(&self) {
        self.slots.lock().clear();
    }
}

fn uri(address: &str, path: &str) -> Result<Uri, String> {
    let built = Uri::builder().scheme("http").authority(address).path_and_query(path).build();
    built.map_err(|e| format!("not an address: {e}"))
}
