//! The peer listener. Every request is checked before its body is read; each path has one message in
//! and one out, but `/forward`, which relays a client's request to the node above.

use super::hello;
use super::receive::Part;
use crate::core::Core;
use crate::counters::count;
use crate::error::BoxError;
use crate::hooks::Body;
use crate::{barrier, propose, wire};
use bytes::Bytes;
use headwater_env::{Connection, Listener};
use http::{HeaderName, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Marks an answer that comes from the listener itself, not from the node that a request was relayed to.
pub(crate) const REFUSED: HeaderName = HeaderName::from_static("headwater-refused");
/// Messages are never larger: an entry has a limit, a snapshot comes in parts.
const MESSAGE_LIMIT: usize = 64 << 20;

/// A peer that does not answer a ping for so long is gone.
const ALIVE: Duration = Duration::from_secs(10);

/// Accepts connections until the member stops.
pub(crate) async fn listen(core: Arc<Core>, listener: Box<dyn Listener>) {
    let mut stop = core.stop.subscribe();
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((connection, _)) => {
                tokio::spawn(serve(core.clone(), connection));
            }
            Err(error) => {
                // Out of descriptors, say: others may go away.
                tracing::warn!(%error, "the peer listener cannot accept");
                core.env.clock.sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(core: Arc<Core>, connection: Box<dyn Connection>) {
    let mut stop = core.stop.subscribe();
    let service = service_fn(move |request| {
        let core = core.clone();
        async move { Ok::<_, Infallible>(handle(core, request).await) }
    });
    let serving = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(8 << 20)
        .max_frame_size(256 << 10)
        .keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(connection), service);
    tokio::select! {
        biased;
        served = serving => if let Err(error) = served {
            tracing::debug!(%error, "peer connection ended");
        },
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

async fn handle(core: Arc<Core>, mut request: Request<Incoming>) -> Response<Body> {
    if let Err(refusal) = core.auth.check(request.headers_mut()) {
        count(&core.counters.peer_refusals);
        tracing::warn!(path = request.uri().path(), why = refusal.text, "refused a peer request");
        return refuse(refusal.status, refusal.text);
    }
    match request.uri().path() {
        "/raft/append" => {
            answer(request, async |rpc| core.raft.append_entries(rpc).await.map_err(|e| e.to_string())).await
        }
        "/raft/vote" => {
            answer(request, async |rpc| core.raft.vote(rpc).await.map_err(|e| e.to_string())).await
        }
        "/raft/prevote" => {
            answer(request, async |rpc| core.raft.pre_vote(rpc).await.map_err(|e| e.to_string())).await
        }
        "/raft/snapshot" => {
            answer(request, async |part: Part| core.receiver.receive(&core.raft, part).await).await
        }
        "/raft/transfer" => {
            let take = async |rpc| core.raft.handle_transfer_leader(rpc).await.map_err(|e| e.to_string());
            answer(request, take).await
        }
        "/propose" => {
            let take = async |brought: propose::Brought| {
                count(&core.counters.forwards_served);
                Ok::<_, String>(propose::on_leader(&core, brought).await)
            };
            answer(request, take).await
        }
        "/barrier" => answer(request, async |()| Ok::<_, String>(barrier::on_leader(&core).await)).await,
        "/heartbeat" => {
            answer(request, async |beat| Ok::<_, String>(core.liveness.answer(&core, &beat))).await
        }
        "/hello" => answer(request, async |hello| hello::greet(&core, hello).await).await,
        path if path.starts_with("/forward/") => match client_uri(request.uri()) {
            Some(uri) => {
                count(&core.counters.requests_forwarded);
                *request.uri_mut() = uri;
                core.hooks.serve_forward(request).await
            }
            None => refuse(StatusCode::BAD_REQUEST, "not a client's request".to_owned()),
        },
        _ => refuse(StatusCode::NOT_FOUND, "no such peer request".to_owned()),
    }
}

/// The path and query that the client sent.
fn client_uri(uri: &Uri) -> Option<Uri> {
    uri.path_and_query()?.as_str().strip_prefix("/forward")?.parse().ok()
}

async fn answer<Q, A, F>(request: Request<Incoming>, take: impl FnOnce(Q) -> F) -> Response<Body>
where
    Q: DeserializeOwned,
    A: Serialize,
    F: Future<Output = Result<A, String>>,
{
    let body = match Limited::new(request.into_body(), MESSAGE_LIMIT).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return refuse(StatusCode::BAD_REQUEST, error.to_string()),
    };
    match wire::read_message(&body) {
        Ok(message) => {
            let result: Result<A, String> = take(message).await;
            Response::new(full(wire::message(&result).into()))
        }
        Err(why) => refuse(StatusCode::BAD_REQUEST, format!("unreadable message: {why}")),
    }
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| -> BoxError { match never {} }).boxed_unsync()
}

fn refuse(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(full(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(REFUSED, http::HeaderValue::from_static("1"));
    response
}
