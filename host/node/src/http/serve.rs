//! The verbs, for a stream that this node serves: reads headers and body, asks the stream, answers.
//!
//! Knows nothing of who owns what: when the stream turns out to be elsewhere, the router hears of it
//! ([`Failure::Moved`]) and decides again. Next: `stream/mod.rs`.

use crate::http::answer;
use crate::http::body::{Body, Upload};
use crate::http::counters::Gauge;
use crate::http::error::Problem;
use crate::http::follow::Follower;
use crate::http::headers::{self, Fork, is_json, names};
use crate::http::json::{self, EmptyArray};
use crate::http::offset::Offset;
use crate::http::query::{Live, Query};
use crate::http::sse::Encoding;
use crate::http::{Shared, data, live};
use crate::stream::{Append, Create, Created, ForkFrom, From, Read, ReadLimits, StreamError, Streams};
use headwater_metadata::{NodeId, StreamId, View};
use http::{HeaderValue, Method, Response, StatusCode, header, request};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Why a request was not served here.
#[derive(Debug)]
pub enum Failure {
    /// The answer is no.
    Problem(Problem),
    /// The stream is on this node.
    Moved(NodeId),
}

impl<P: Into<Problem>> std::convert::From<P> for Failure {
    fn from(problem: P) -> Failure {
        Failure::Problem(problem.into())
    }
}

type Served = Result<Response<Body>, Failure>;

/// A stream as requests need it.
#[derive(Clone)]
pub struct Target {
    /// Its id.
    pub id: StreamId,
    /// What its offsets belong to: itself, or the first of its ancestors.
    pub family: StreamId,
    /// Its content type.
    pub content_type: Arc<str>,
}

impl Target {
    /// Finds a stream by name.
    pub fn find(view: &View, name: &str) -> Option<Target> {
        let stream = view.stream_by_name(name)?;
        let mut first = stream.clone();
        while let Some(source) = first.fork.and_then(|fork| view.stream(fork.source)) {
            first = source.clone();
        }
        Some(Target { id: stream.id, family: first.id, content_type: stream.content_type.clone() })
    }
}

/// One request at the node that serves it.
pub struct Serve<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) streams: &'a Streams,
    pub(super) head: &'a request::Parts,
}

impl Serve<'_> {
    fn failed(&self, error: StreamError, family: StreamId) -> Failure {
        match error {
            StreamError::Moved(node) => Failure::Moved(node),
            error => Failure::Problem(Problem::stream(&error, family, &self.head.method)),
        }
    }

    /// PUT.
    pub async fn create(&self, upload: &mut Upload, known: Option<&Target>, fork: Option<&Fork>) -> Served {
        let asked = &self.head.headers;
        let source = fork.and_then(|fork| Target::find(&self.shared.log.view(), &fork.source));
        let given = headers::content_type(asked)?;
        let content_type: Arc<str> = match (given, &source) {
            (None, Some(source)) => source.content_type.clone(),
            (given, _) => given.unwrap_or(headers::DEFAULT_CONTENT_TYPE).into(),
        };
        let expiry = headers::expiry(asked)?;
        let eof = headers::closes(asked);
        let mut body = upload.read().await?;
        if is_json(&content_type) && !body.is_empty() {
            let split = json::split(&body, EmptyArray::Allowed);
            body = split.map_err(|e| Problem::stream(&e.into(), StreamId::default(), &self.head.method))?;
        }
        let name: Arc<str> = self.head.uri.path().into();
        let fork = match fork {
            None => None,
            Some(fork) => Some(ForkFrom {
                source: fork.source.clone(),
                at: match (fork.offset, &source) {
                    (Offset::Now, _) => From::Now,
                    (Offset::Token(token), Some(source)) => From::At(token.position(source.family)?),
                    // Without a source there is no place in it to be wrong about.
                    (Offset::Start | Offset::Token(_), _) => From::Start,
                },
                past: fork.sub_offset,
                inherits_content_type: given.is_none(),
            }),
        };
        let create = Create { name, content_type, expiry, eof, body, fork };
        let family = known.map_or(StreamId::default(), |target| target.family);
        let created = self.streams.create(create).await.map_err(|e| self.failed(e, family))?;
        let (status, info) = match created {
            Created::New(info) => (StatusCode::CREATED, info),
            Created::Existing(info) => (StatusCode::OK, info),
        };
        let mut answer = answer::empty(status);
        let now = Target::find(&self.shared.log.view(), self.head.uri.path());
        let family = now.filter(|t| t.id == info.id).map_or(info.id, |target| target.family);
        data::describe(&info, family, &mut answer);
        if status == StatusCode::CREATED
            && let Some(location) = self.own_url()
        {
            answer.headers_mut().insert(header::LOCATION, location);
        }
        Ok(answer)
    }

    /// The URL that the client used, for 201.
    fn own_url(&self) -> Option<HeaderValue> {
        let host = self.head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let asked = self.head.uri.authority().map(|a| a.as_str()).or(host);
        let address = match asked.filter(|a| a.parse::<http::uri::Authority>().is_ok()) {
            Some(authority) => format!("http://{authority}"),
            None => self.shared.log.view().node(self.shared.node)?.live.as_ref()?.info.address.clone(),
        };
        HeaderValue::from_bytes(format!("{address}{}", self.head.uri.path()).as_bytes()).ok()
    }

    /// POST.
    pub async fn append(&self, upload: &mut Upload, target: &Target) -> Served {
        let asked = &self.head.headers;
        let producer = headers::producer(asked)?;
        let seq = headers::seq(asked)?.map(str::to_owned);
        let eof = headers::closes(asked);
        let body = upload.read().await?;
        // A close without a body may name any content type, or none, or nonsense.
        let content_type = if body.is_empty() { None } else { headers::content_type(asked)? };
        let body = match content_type {
            Some(kind) if is_json(kind) && is_json(&target.content_type) => {
                json::split(&body, EmptyArray::Refused)
            }
            _ => Ok(body),
        };
        // A producer hears 200 for new data; a close without any is 204 like everybody's.
        let sends_data = producer.is_some() && !body.as_ref().is_ok_and(bytes::Bytes::is_empty);
        let append = Append { content_type: content_type.map(str::to_owned), body, eof, producer, seq };
        let appended = self.streams.append(target.id, append).await;
        Ok(data::appended(appended.map_err(|e| self.failed(e, target.family))?, target.family, sends_data))
    }

    /// HEAD.
    pub async fn inspect(&self, target: &Target) -> Served {
        let info = self.streams.info(target.id).await.map_err(|e| self.failed(e, target.family))?;
        let mut answer = answer::empty(StatusCode::OK);
        data::describe(&info, target.family, &mut answer);
        answer.headers_mut().insert(header::CACHE_CONTROL, answer::NO_STORE);
        Ok(answer)
    }

    /// DELETE.
    pub async fn delete(&self, target: &Target) -> Served {
        self.streams.delete(target.id).await.map_err(|e| self.failed(e, target.family))?;
        Ok(answer::empty(StatusCode::NO_CONTENT))
    }

    /// GET.
    pub async fn read(&self, query: Query, target: &Target) -> Served {
        let from = match query.offset {
            Offset::Start => From::Start,
            Offset::Now => From::Now,
            Offset::Token(token) => From::At(token.position(target.family)?),
        };
        match query.live {
            Live::No => self.catch_up(from, target).await,
            Live::LongPoll => self.long_poll(from, query.cursor, target).await,
            Live::Sse => self.sse(from, query.cursor, target).await,
        }
    }

    async fn catch_up(&self, from: From, target: &Target) -> Served {
        let read = self.streams.read(target.id, from, self.shared.options.read_limits).await;
        let read = read.map_err(|e| self.failed(e, target.family))?;
        if from == From::Now {
            let mut answer = data::data(read, target.family);
            answer.headers_mut().insert(header::CACHE_CONTROL, answer::NO_STORE);
            return Ok(answer);
        }
        let etag = data::etag(&read);
        let kept =
            self.head.headers.get_all(header::IF_NONE_MATCH).iter().any(|asked| data::matches(asked, &etag));
        let lifetime = read.expires_ms.map(|at| at.saturating_sub(self.shared.env.now_ms()) / 1000);
        let cache = data::cache_control(read.up_to_date, lifetime);
        let mut answer =
            if kept { data::not_modified(&read, target.family) } else { data::data(read, target.family) };
        answer.headers_mut().insert(header::ETAG, etag);
        answer.headers_mut().insert(header::CACHE_CONTROL, cache);
        Ok(answer)
    }

    fn cursor(&self, client: Option<u64>) -> u64 {
        live::cursor(self.shared.env.now_ms(), client, self.shared.env.entropy.u64())
    }

    /// What is there for a live reader that has just come.
    async fn first(&self, from: From, limits: ReadLimits, target: &Target) -> Result<Read, Failure> {
        let read = match from {
            From::Start | From::Now => self.streams.read(target.id, from, limits).await,
            From::At(position) => self.streams.follow(target.id, position, limits, Duration::ZERO).await,
        };
        read.map_err(|e| self.failed(e, target.family))
    }

    async fn long_poll(&self, from: From, client: Option<u64>, target: &Target) -> Served {
        self.shared.counters.long_polls.fetch_add(1, Relaxed);
        let _waiting = Gauge::new(&self.shared.counters, |c| &c.live_readers);
        let limits = self.shared.options.read_limits;
        let mut read = self.first(from, limits, target).await?;
        if read.is_empty() && !read.eof {
            let mut stop = self.shared.stop.subscribe();
            let wait = self.streams.follow(target.id, read.next, limits, self.shared.options.long_poll);
            read = tokio::select! {
                read = wait => read.map_err(|e| self.failed(e, target.family))?,
                _ = stop.wait_for(|stop| *stop) => return Err(stopping().into()),
            };
        }
        let cursor = self.cursor(client);
        if read.is_empty() {
            return Ok(live::nothing_new(&read, target.family, cursor));
        }
        let etag = data::etag(&read);
        let cache = data::cache_control(false, None);
        let open = !read.eof;
        let mut answer = data::data(read, target.family);
        let headers = answer.headers_mut();
        if open {
            headers.insert(names::CURSOR, HeaderValue::from(cursor));
        }
        headers.insert(header::ETAG, etag);
        headers.insert(header::CACHE_CONTROL, cache);
        Ok(answer)
    }

    async fn sse(&self, from: From, client: Option<u64>, target: &Target) -> Served {
        let read = self.first(from, self.shared.options.sse_limits, target).await?;
        let encoding = Encoding::of(&read.content_type);
        self.shared.counters.sse_streams.fetch_add(1, Relaxed);
        let cursor = self.cursor(client);
        let follower = Follower::new(self.shared.clone(), self.streams.clone(), target, read, cursor);
        let mut answer = Response::new(follower.into_body());
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        if encoding == Encoding::Binary {
            headers.insert(names::SSE_ENCODING, HeaderValue::from_static("base64"));
        }
        Ok(answer)
    }
}

fn stopping() -> Problem {
    Problem::unavailable("the node is stopping", Duration::from_secs(1))
}

/// The operation of a method, in the policy's words.
pub fn operation(method: &Method, live: Live) -> Option<headwater_policy::Operation> {
    use headwater_policy::Operation;
    match *method {
        Method::PUT => Some(Operation::Create),
        Method::POST => Some(Operation::Append),
        Method::GET if live != Live::No => Some(Operation::Tail),
        Method::GET => Some(Operation::Read),
        Method::HEAD => Some(Operation::Inspect),
        Method::DELETE => Some(Operation::Delete),
        _ => None,
    }
}
