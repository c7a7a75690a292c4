//! Answers: the headers that each of them carries, and the small ones that are made in several places.
//!
//! CORS and browser-security headers are put on here, once, for every answer, redirects and errors
//! included. Next: `route.rs`.

use crate::http::body::Body;
use crate::http::headers::names;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

/// What a page of another origin may do, and what it may see.
const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, OPTIONS");
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "content-type, authorization, if-none-match, stream-seq, stream-ttl, stream-expires-at, stream-closed, \
     stream-forked-from, stream-fork-offset, stream-fork-sub-offset, producer-id, producer-epoch, \
     producer-seq, x-request-id, last-event-id",
);
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "stream-next-offset, stream-up-to-date, stream-closed, stream-cursor, stream-ttl, stream-expires-at, \
     stream-sse-data-encoding, producer-epoch, producer-seq, producer-expected-seq, producer-received-seq, \
     location, retry-after, etag, content-type, content-encoding, vary, x-request-id, headwater-owner, \
     headwater-policy",
);
const ANY: HeaderValue = HeaderValue::from_static("*");
const A_DAY: HeaderValue = HeaderValue::from_static("86400");
/// For answers that must not be kept.
pub const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// For header values that say yes.
pub const TRUE: HeaderValue = HeaderValue::from_static("true");

/// An answer without a body.
pub fn empty(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Body::Empty);
    *answer.status_mut() = status;
    answer
}

/// The answer to a preflight: any node gives it, for any name.
pub fn preflight(asked: &HeaderMap) -> Response<Body> {
    let mut answer = empty(StatusCode::NO_CONTENT);
    let headers = answer.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
    // What the page wants to send it may send: nothing is decided by a header that a page could not set.
    let wanted = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.unwrap_or(ALLOWED_HEADERS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, A_DAY);
    headers.insert(header::ALLOW, ALLOWED_METHODS);
    answer
}

/// Puts on what every answer carries.
pub fn finish(answer: &mut Response<Body>, request_id: HeaderValue) {
    let headers = answer.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("cross-origin"));
    headers.insert(names::REQUEST_ID, request_id);
}

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
