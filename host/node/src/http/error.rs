//! The only table from errors to statuses. Bodies are `application/problem+json` (RFC 9457); the headers
//! that the protocol asks for come with them.
//!
//! Of the answers here a 503 is safe to repeat for a reader, and for a writer that has a producer id; a
//! 502 says that a relayed request was sent and nobody knows what became of it. Next: `serve.rs`.

use crate::http::answer;
use crate::http::body::{Body, UploadError};
use crate::http::headers::{BadHeader, names};
use crate::http::name::BadName;
use crate::http::offset::{self, BadOffset};
use crate::http::query::BadQuery;
use crate::stream::StreamError;
use headwater_metadata::StreamId;
use headwater_raft::PeerError;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use std::borrow::Cow;
use std::time::Duration;

/// An answer that says no.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: Cow<'static, str>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem without special headers.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem { status, code, detail: detail.into(), headers: Vec::new() }
    }

    fn bad(code: &'static str, error: impl ToString) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, error.to_string())
    }

    fn with(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Problem {
        self.headers.push((name, value.into()));
        self
    }

    /// Not now; try again.
    pub fn unavailable(detail: impl Into<Cow<'static, str>>, retry_after: Duration) -> Problem {
        let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
            .with(header::RETRY_AFTER, seconds.max(1))
    }

    /// The name leads nowhere.
    pub fn not_found() -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not-found", "the stream does not exist")
    }

    /// What was to be forked does not exist.
    pub fn source_not_found() -> Problem {
        let text = StreamError::SourceNotFound.to_string();
        Problem::new(StatusCode::NOT_FOUND, "source-not-found", text)
    }

    /// What the method cannot be used for.
    pub fn method(method: &Method) -> Problem {
        let detail = format!("streams know GET, HEAD, POST, PUT, DELETE and OPTIONS, not {method}");
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
            .with(header::ALLOW, HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, OPTIONS"))
    }

    /// An expectation other than `100-continue`.
    pub fn expectation() -> Problem {
        Problem::new(StatusCode::EXPECTATION_FAILED, "expectation", "only `Expect: 100-continue` is known")
    }

    /// The request target is too long.
    pub fn target_too_long(limit: usize) -> Problem {
        Problem::new(
            StatusCode::URI_TOO_LONG,
            "target-too-long",
            format!("path and query together are longer than {limit} bytes"),
        )
    }

    /// What a stream answered. `family` is what its offsets belong to.
    pub fn stream(error: &StreamError, family: StreamId, method: &Method) -> Problem {
        let text = error.to_string();
        let conflict = |code| Problem::new(StatusCode::CONFLICT, code, text.clone());
        match error {
            StreamError::NotFound => Problem::not_found(),
            // A name that is kept for forks is gone for everything but a create, which finds it taken.
            StreamError::Deleted if method == Method::PUT => conflict("name-taken"),
            StreamError::Deleted => Problem::new(StatusCode::GONE, "deleted", text),
            StreamError::SourceNotFound => Problem::source_not_found(),
            StreamError::SourceDeleted => conflict("source-deleted"),
            StreamError::ForkBeyondTail { .. } => Problem::bad("fork-beyond-tail", text),
            StreamError::ConfigMismatch { .. } => conflict("config-mismatch"),
            StreamError::Gone { .. } => Problem::new(StatusCode::GONE, "trimmed", text),
            StreamError::BeyondTail { .. } => Problem::bad("beyond-tail", text),
            StreamError::ContentTypeMissing => Problem::bad("content-type-missing", text),
            StreamError::ContentType { .. } => conflict("content-type-mismatch"),
            StreamError::Closed { tail } => conflict("closed")
                .with(names::CLOSED, answer::TRUE)
                .with(names::NEXT_OFFSET, offset::header(family, *tail)),
            StreamError::EmptyBody => Problem::bad("empty-body", text),
            StreamError::InvalidBody(_) => Problem::bad("invalid-body", text),
            StreamError::TooLarge { .. } => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", text),
            StreamError::ProducerFenced { epoch } => {
                Problem::new(StatusCode::FORBIDDEN, "producer-fenced", text)
                    .with(names::PRODUCER_EPOCH, *epoch)
            }
            StreamError::ProducerStart => Problem::bad("producer-start", text),
            StreamError::ProducerGap { expected, received } => conflict("producer-gap")
                .with(names::PRODUCER_EXPECTED, *expected)
                .with(names::PRODUCER_RECEIVED, *received),
            StreamError::SeqConflict { .. } => conflict("seq-conflict"),
            StreamError::Damaged { .. } => conflict("damaged"),
            StreamError::Unavailable { reason, retry_after } => Problem::unavailable(*reason, *retry_after),
            StreamError::NoCandidate
            | StreamError::Moved(_)
            | StreamError::Fenced
            | StreamError::Store(_) => Problem::unavailable(text, Duration::from_secs(1)),
        }
    }

    /// The answer. HEAD gets no body, and none is announced.
    pub fn answer(self, method: &Method) -> Response<Body> {
        let mut answer = answer::empty(self.status);
        if method != Method::HEAD {
            let problem = serde_json::json!({
                "type": "about:blank",
                "title": self.status.canonical_reason().unwrap_or_default(),
                "status": self.status.as_u16(),
                "code": self.code,
                "detail": self.detail,
            });
            *answer.body_mut() = Body::Full(problem.to_string().into());
            let kind = HeaderValue::from_static("application/problem+json");
            answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        }
        answer.headers_mut().insert(header::CACHE_CONTROL, answer::NO_STORE);
        answer.headers_mut().extend(self.headers);
        answer
    }
}

impl From<BadHeader> for Problem {
    fn from(error: BadHeader) -> Problem {
        Problem::bad("header", error)
    }
}

impl From<BadOffset> for Problem {
    fn from(error: BadOffset) -> Problem {
        Problem::bad("offset", error)
    }
}

impl From<BadQuery> for Problem {
    fn from(error: BadQuery) -> Problem {
        match error {
            BadQuery::Offset(error) => error.into(),
            other => Problem::bad("query", other),
        }
    }
}

impl From<BadName> for Problem {
    fn from(error: BadName) -> Problem {
        match error {
            BadName::TooLong => Problem::new(StatusCode::URI_TOO_LONG, "name-too-long", error.to_string()),
            BadName::Reserved => Problem::new(StatusCode::NOT_FOUND, "reserved", error.to_string()),
            _ => Problem::bad("name", error),
        }
    }
}

impl From<UploadError> for Problem {
    fn from(error: UploadError) -> Problem {
        let text = error.to_string();
        match error {
            UploadError::TooLarge { .. } => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", text),
            UploadError::Stalled => Problem::new(StatusCode::REQUEST_TIMEOUT, "stalled", text),
            UploadError::Broken(_) => Problem::bad("broken-body", text),
            UploadError::Busy => Problem::unavailable(text, Duration::from_secs(1)),
        }
    }
}

impl From<PeerError> for Problem {
    fn from(error: PeerError) -> Problem {
        let second = Duration::from_secs(1);
        match error {
            PeerError::UnknownNode(_) | PeerError::NotSent { .. } | PeerError::Refused { .. } => {
                Problem::unavailable(format!("the stream's node cannot be reached: {error}"), second)
            }
            PeerError::Broken { .. } => Problem::new(
                StatusCode::BAD_GATEWAY,
                "relay-broken",
                format!("the request was relayed and no answer came; it may have taken effect: {error}"),
            ),
        }
    }
}
