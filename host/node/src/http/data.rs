//! Answers that carry a stream's state or bytes: headers, entity tags, what caches may keep. Pure.

use crate::http::answer;
use crate::http::body::{Body, BoxError};
use crate::http::headers::{self, is_json, names};
use crate::http::{offset, time};
use crate::stream::{self, Appended, Info, Read, StreamError};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use headwater_metadata::{Expiry, StreamId};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

/// The answer to an append. `sends_data`: it came from a producer, with a body.
pub fn appended(appended: Appended, family: StreamId, sends_data: bool) -> Response<Body> {
    let fresh = sends_data && !appended.duplicate;
    let mut answer = answer::empty(if fresh { StatusCode::OK } else { StatusCode::NO_CONTENT });
    let headers = answer.headers_mut();
    headers.insert(names::NEXT_OFFSET, offset::header(family, appended.tail));
    if appended.eof {
        headers.insert(names::CLOSED, answer::TRUE);
    }
    if let Some((epoch, seq)) = appended.producer {
        headers.insert(names::PRODUCER_EPOCH, epoch.into());
        headers.insert(names::PRODUCER_SEQ, seq.into());
    }
    answer
}

/// What PUT and HEAD say of a stream.
pub fn describe(info: &Info, family: StreamId, answer: &mut Response<Body>) {
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type(&info.content_type));
    headers.insert(names::NEXT_OFFSET, offset::header(family, info.tail));
    if info.eof {
        headers.insert(names::CLOSED, answer::TRUE);
    }
    match info.expiry {
        Expiry::Never => {}
        Expiry::Ttl(seconds) => {
            headers.insert(names::TTL, seconds.into());
        }
        Expiry::At(ms) => {
            let at = HeaderValue::try_from(time::format(ms)).expect("a timestamp is a header value");
            headers.insert(names::EXPIRES_AT, at);
        }
    }
}

fn content_type(text: &str) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(headers::DEFAULT_CONTENT_TYPE))
}

/// The answer that carries what was read.
pub fn data(read: Read, family: StreamId) -> Response<Body> {
    let mut answer = answer::empty(StatusCode::OK);
    position(&read, family, &mut answer);
    let json = is_json(&read.content_type);
    let length = match (json, read.len()) {
        (true, 0) => 2,
        (true, stored) => stored + 1,
        (false, stored) => stored,
    };
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type(&read.content_type));
    headers.insert(header::CONTENT_LENGTH, length.into());
    *answer.body_mut() = match (json, read.is_empty()) {
        (true, true) => Body::Full(Bytes::from_static(b"[]")),
        (false, true) => Body::Empty,
        (true, false) => boxed(as_array(read.len(), read.body)),
        (false, false) => boxed(read.body),
    };
    answer
}

fn boxed(pieces: impl Stream<Item = Result<Bytes, StreamError>> + Send + 'static) -> Body {
    let frames = pieces.map(|piece| piece.map(Frame::data).map_err(BoxError::from));
    Body::Stream(StreamBody::new(frames).boxed_unsync())
}

/// Stored messages as a JSON array: the last comma becomes the closing bracket.
fn as_array(stored: u64, pieces: stream::Body) -> impl Stream<Item = Result<Bytes, StreamError>> {
    let open = futures_util::stream::iter([Ok(Bytes::from_static(b"["))]);
    let close = futures_util::stream::iter([Ok(Bytes::from_static(b"]"))]);
    let mut left = stored.saturating_sub(1);
    let messages = pieces.map(move |piece| {
        piece.map(|mut bytes| {
            bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= bytes.len() as u64;
            bytes
        })
    });
    open.chain(messages).chain(close)
}

/// The answer to a reader who has these bytes.
pub fn not_modified(read: &Read, family: StreamId) -> Response<Body> {
    let mut answer = answer::empty(StatusCode::NOT_MODIFIED);
    position(read, family, &mut answer);
    answer
}

fn position(read: &Read, family: StreamId, answer: &mut Response<Body>) {
    let headers = answer.headers_mut();
    headers.insert(names::NEXT_OFFSET, offset::header(family, read.next));
    if read.up_to_date {
        headers.insert(names::UP_TO_DATE, answer::TRUE);
    }
    if read.eof {
        headers.insert(names::CLOSED, answer::TRUE);
    }
}

/// Changes with every byte and with the closing of the stream.
pub fn etag(read: &Read) -> HeaderValue {
    let closed = if read.eof { ":c" } else { "" };
    let text = format!("\"{}:{}:{}{closed}\"", read.id, read.start, read.next);
    HeaderValue::try_from(text).expect("digits and colons are a header value")
}

/// Whether an entity tag is among those that a client has.
pub fn matches(asked: &HeaderValue, etag: &HeaderValue) -> bool {
    let Ok(asked) = asked.to_str() else { return false };
    let same = |one: &str| one == "*" || one.strip_prefix("W/").unwrap_or(one).as_bytes() == etag.as_bytes();
    asked.split(',').any(|one| same(one.trim()))
}

/// Bytes before the tail never change; an answer that reaches the tail is checked again each time.
pub fn cache_control(up_to_date: bool, lifetime: Option<u64>) -> HeaderValue {
    const WHOLE: HeaderValue = HeaderValue::from_static("public, max-age=60, stale-while-revalidate=300");
    match (up_to_date, lifetime) {
        (true, _) => HeaderValue::from_static("public, no-cache"),
        (false, Some(seconds)) if seconds < 360 => {
            HeaderValue::try_from(format!("public, max-age={}", seconds.min(60))).unwrap_or(WHOLE)
        }
        (false, _) => WHOLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn array(pieces: &[&'static str]) -> String {
        let stored = pieces.iter().map(|p| p.len() as u64).sum();
        let pieces: Vec<_> = pieces.iter().map(|p| Ok(Bytes::from_static(p.as_bytes()))).collect();
        let body: stream::Body = futures_util::stream::iter(pieces).boxed();
        let joined: Vec<Bytes> = as_array(stored, body).map(Result::unwrap).collect().await;
        String::from_utf8(joined.concat()).unwrap()
    }

    #[tokio::test]
    async fn messages_join_to_an_array_wherever_the_pieces_end() {
        assert_eq!(array(&["1,"]).await, "[1]");
        assert_eq!(array(&["1,{\"a\":", "2},"]).await, "[1,{\"a\":2}]");
        assert_eq!(array(&["1,2", ","]).await, "[1,2]");
        assert_eq!(array(&["1", ",2,", ""]).await, "[1,2]");
    }

    #[test]
    fn etags_are_compared_weakly_and_in_lists() {
        let etag = HeaderValue::from_static("\"1:0:5\"");
        for asked in ["\"1:0:5\"", "W/\"1:0:5\"", "\"x\", \"1:0:5\"", "*"] {
            assert!(matches(&HeaderValue::from_static(asked), &etag), "{asked}");
        }
        for asked in ["\"1:0:6\"", "1:0:5", "", "\"1:0:5:c\""] {
            assert!(!matches(&HeaderValue::from_static(asked), &etag), "{asked}");
        }
    }

    #[test]
    fn caches_keep_what_never_changes() {
        assert_eq!(cache_control(true, None), "public, no-cache");
        assert_eq!(cache_control(false, None), "public, max-age=60, stale-while-revalidate=300");
        assert_eq!(cache_control(false, Some(5)), "public, max-age=5");
    }
}
