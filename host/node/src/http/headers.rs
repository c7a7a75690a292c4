//! The protocol's request headers, read strictly: each at most once, nothing guessed.
//!
//! `names` has every header name of the front end in one place. Next: `json.rs` for bodies, `route.rs`
//! for where a request goes.

use crate::http::name::{self, BadName};
use crate::http::offset::{self, BadOffset, Offset};
use crate::http::time;
use crate::stream::Producer;
use headwater_metadata::Expiry;
use http::{HeaderMap, HeaderName, header};
use std::sync::Arc;

/// Names of headers.
pub mod names {
    use http::HeaderName;

    /// The position to read from next.
    pub const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
    /// Everything there is was answered.
    pub const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
    /// The stream takes no more appends.
    pub const CLOSED: HeaderName = HeaderName::from_static("stream-closed");
    /// Cursor of a live read.
    pub const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");
    /// Sliding time to live, in seconds.
    pub const TTL: HeaderName = HeaderName::from_static("stream-ttl");
    /// Absolute end of life.
    pub const EXPIRES_AT: HeaderName = HeaderName::from_static("stream-expires-at");
    /// A writer's own order.
    pub const SEQ: HeaderName = HeaderName::from_static("stream-seq");
    /// Source of a fork.
    pub const FORKED_FROM: HeaderName = HeaderName::from_static("stream-forked-from");
    /// Where a fork begins.
    pub const FORK_OFFSET: HeaderName = HeaderName::from_static("stream-fork-offset");
    /// How far past that.
    pub const FORK_SUB_OFFSET: HeaderName = HeaderName::from_static("stream-fork-sub-offset");
    /// How SSE data is encoded.
    pub const SSE_ENCODING: HeaderName = HeaderName::from_static("stream-sse-data-encoding");
    /// Who sends.
    pub const PRODUCER_ID: HeaderName = HeaderName::from_static("producer-id");
    /// In which life.
    pub const PRODUCER_EPOCH: HeaderName = HeaderName::from_static("producer-epoch");
    /// The how manieth request of that life.
    pub const PRODUCER_SEQ: HeaderName = HeaderName::from_static("producer-seq");
    /// Which one is due.
    pub const PRODUCER_EXPECTED: HeaderName = HeaderName::from_static("producer-expected-seq");
    /// Which one came.
    pub const PRODUCER_RECEIVED: HeaderName = HeaderName::from_static("producer-received-seq");
    /// Id of a request, through all nodes that it passes.
    pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
    /// The node that a redirect leads to.
    pub const OWNER: HeaderName = HeaderName::from_static("headwater-owner");
    /// The policy that decided, shortened.
    pub const POLICY: HeaderName = HeaderName::from_static("headwater-policy");
}

/// Longest content type, in bytes.
pub const MAX_CONTENT_TYPE: usize = 1024;
/// Longest `Producer-Id` and `Stream-Seq`, in bytes.
pub const MAX_TOKEN: usize = 1024;
/// Largest number that every client can represent.
const MAX_SAFE: u64 = (1 << 53) - 1;
/// What a stream is when its creator does not say.
pub const DEFAULT_CONTENT_TYPE: &str = "application/octet-stream";

/// Why a header was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    /// It came more than once.
    #[error("the header `{0}` is given more than once")]
    Repeated(HeaderName),
    /// Its value is not visible text.
    #[error("the header `{0}` is not text")]
    NotText(HeaderName),
    /// Its value is longer than allowed.
    #[error("the header `{0}` is longer than {1} bytes")]
    TooLong(HeaderName, usize),
    /// Its value is empty.
    #[error("the header `{0}` is empty")]
    Empty(HeaderName),
    /// A time to live that is not a plain decimal number.
    #[error("Stream-TTL must be a number of seconds without sign, leading zeros, fraction or exponent")]
    Ttl,
    /// A moment that is not RFC 3339.
    #[error("Stream-Expires-At must be an RFC 3339 timestamp")]
    ExpiresAt,
    /// Both kinds of expiry.
    #[error("give Stream-TTL or Stream-Expires-At, not both")]
    BothExpiries,
    /// Not `type/subtype`.
    #[error("the Content-Type is not a media type")]
    ContentType,
    /// Some of the producer headers.
    #[error("Producer-Id, Producer-Epoch and Producer-Seq belong together")]
    IncompleteProducer,
    /// A producer number out of range.
    #[error("`{0}` must be a decimal number from 0 to 2^53-1")]
    ProducerNumber(HeaderName),
    /// A source that is not the path of a stream.
    #[error("Stream-Forked-From must be the path of a stream's URL: {0}")]
    ForkSource(BadName),
    /// Where a fork begins, without what it is a fork of.
    #[error("Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From")]
    ForkWithoutSource,
    /// An offset that no stream gave out.
    #[error("Stream-Fork-Offset: {0}")]
    ForkOffset(BadOffset),
    /// A sub-offset that is not a plain decimal number.
    #[error("Stream-Fork-Sub-Offset must be a number without sign, leading zeros, fraction or exponent")]
    ForkSubOffset,
    /// A sub-offset past nothing.
    #[error("a Stream-Fork-Sub-Offset above 0 needs a Stream-Fork-Offset")]
    ForkSubOffsetAlone,
}

/// What the headers of a PUT say of a fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Name of the source.
    pub source: Arc<str>,
    /// Where in the source the fork begins.
    pub offset: Offset,
    /// How far past that: bytes, or messages of JSON.
    pub sub_offset: u64,
}

/// The value of a header that may come once.
pub fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, BadHeader> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(BadHeader::Repeated(name.clone()));
    }
    value.to_str().map(Some).map_err(|_| BadHeader::NotText(name.clone()))
}

fn token<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, BadHeader> {
    match single(headers, name)? {
        Some("") => Err(BadHeader::Empty(name.clone())),
        Some(value) if value.len() > MAX_TOKEN => Err(BadHeader::TooLong(name.clone(), MAX_TOKEN)),
        value => Ok(value),
    }
}

/// The content type, as given; its form is checked.
pub fn content_type(headers: &HeaderMap) -> Result<Option<&str>, BadHeader> {
    let Some(value) = single(headers, &header::CONTENT_TYPE)?.map(str::trim).filter(|v| !v.is_empty()) else {
        return Ok(None);
    };
    if value.len() > MAX_CONTENT_TYPE {
        return Err(BadHeader::TooLong(header::CONTENT_TYPE, MAX_CONTENT_TYPE));
    }
    let well_formed = match essence(value).split_once('/') {
        Some((kind, subtype)) => is_token(kind) && is_token(subtype),
        None => false,
    };
    if well_formed { Ok(Some(value)) } else { Err(BadHeader::ContentType) }
}

/// The media type without its parameters.
pub fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Whether a stream of this content type holds JSON messages.
pub fn is_json(content_type: &str) -> bool {
    essence(content_type).eq_ignore_ascii_case("application/json")
}

/// Whether server-sent events carry this content type as text.
pub fn is_text(content_type: &str) -> bool {
    let essence = essence(content_type);
    is_json(essence) || essence.get(..5).is_some_and(|kind| kind.eq_ignore_ascii_case("text/"))
}

/// RFC 9110 `token`.
fn is_token(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(plain)
}

/// Whether `Stream-Closed` says so. Any other value is as if the header were absent.
pub fn closes(headers: &HeaderMap) -> bool {
    headers.get(names::CLOSED).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

/// When the stream shall end by itself.
pub fn expiry(headers: &HeaderMap) -> Result<Expiry, BadHeader> {
    let ttl = single(headers, &names::TTL)?;
    let at = single(headers, &names::EXPIRES_AT)?;
    match (ttl, at) {
        (None, None) => Ok(Expiry::Never),
        (Some(_), Some(_)) => Err(BadHeader::BothExpiries),
        (Some(ttl), None) => plain_decimal(ttl).map(Expiry::Ttl).ok_or(BadHeader::Ttl),
        (None, Some(at)) => time::parse(at).map(Expiry::At).ok_or(BadHeader::ExpiresAt),
    }
}

/// What the stream shall be a fork of.
pub fn fork(headers: &HeaderMap) -> Result<Option<Fork>, BadHeader> {
    let source = single(headers, &names::FORKED_FROM)?;
    let offset = single(headers, &names::FORK_OFFSET)?;
    let sub_offset = single(headers, &names::FORK_SUB_OFFSET)?;
    let Some(source) = source else {
        let alone = offset.is_some() || sub_offset.is_some();
        return if alone { Err(BadHeader::ForkWithoutSource) } else { Ok(None) };
    };
    name::check(source).map_err(BadHeader::ForkSource)?;
    let sub_offset = sub_offset.map_or(Some(0), plain_decimal).ok_or(BadHeader::ForkSubOffset)?;
    let offset = match offset {
        Some(text) => offset::parse_fork(text).map_err(BadHeader::ForkOffset)?,
        None if sub_offset > 0 => return Err(BadHeader::ForkSubOffsetAlone),
        None => Offset::Now,
    };
    Ok(Some(Fork { source: source.into(), offset, sub_offset }))
}

/// `Stream-Seq`.
pub fn seq(headers: &HeaderMap) -> Result<Option<&str>, BadHeader> {
    token(headers, &names::SEQ)
}

/// The idempotent producer that sends the request.
pub fn producer(headers: &HeaderMap) -> Result<Option<Producer>, BadHeader> {
    let id = token(headers, &names::PRODUCER_ID)?;
    let epoch = single(headers, &names::PRODUCER_EPOCH)?;
    let seq = single(headers, &names::PRODUCER_SEQ)?;
    match (id, epoch, seq) {
        (None, None, None) => Ok(None),
        (Some(id), Some(epoch), Some(seq)) => Ok(Some(Producer {
            id: Arc::from(id),
            epoch: safe_number(epoch, names::PRODUCER_EPOCH)?,
            seq: safe_number(seq, names::PRODUCER_SEQ)?,
        })),
        _ => Err(BadHeader::IncompleteProducer),
    }
}

fn safe_number(text: &str, name: HeaderName) -> Result<u64, BadHeader> {
    plain_decimal(text).filter(|n| *n <= MAX_SAFE).ok_or(BadHeader::ProducerNumber(name))
}

/// Digits only, without leading zeros.
fn plain_decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    #[test]
    fn content_types() {
        for good in ["text/plain", "TEXT/PLAIN; charset=utf-8", "application/vnd.api+json", "a/b;c"] {
            assert_eq!(content_type(&map(&[("content-type", good)])), Ok(Some(good)));
        }
        for bad in ["text", "/plain", "text/", "text/ plain", "text/plain/x", "te xt/plain"] {
            assert_eq!(content_type(&map(&[("content-type", bad)])), Err(BadHeader::ContentType), "{bad}");
        }
        assert_eq!(content_type(&map(&[])), Ok(None));
        assert_eq!(content_type(&map(&[("content-type", "")])), Ok(None));
        let twice = map(&[("content-type", "a/b"), ("content-type", "a/b")]);
        assert_eq!(content_type(&twice), Err(BadHeader::Repeated(header::CONTENT_TYPE)));
        assert!(is_json("Application/JSON; charset=utf-8") && !is_json("application/vnd.api+json"));
        assert!(is_text("TEXT/html") && is_text("application/json") && !is_text("application/x"));
    }

    #[test]
    fn expiries() {
        assert_eq!(expiry(&map(&[])), Ok(Expiry::Never));
        assert_eq!(expiry(&map(&[("stream-ttl", "0")])), Ok(Expiry::Ttl(0)));
        assert_eq!(expiry(&map(&[("stream-ttl", "3600")])), Ok(Expiry::Ttl(3600)));
        for bad in ["", "abc", "-1", "+60", "007", "60.5", "1e3", " 5x", "18446744073709551616"] {
            assert_eq!(expiry(&map(&[("stream-ttl", bad)])), Err(BadHeader::Ttl), "{bad}");
        }
        assert_eq!(expiry(&map(&[("stream-expires-at", "1970-01-01T00:00:01Z")])), Ok(Expiry::At(1000)));
        assert_eq!(expiry(&map(&[("stream-expires-at", "soon")])), Err(BadHeader::ExpiresAt));
        let both = map(&[("stream-ttl", "1"), ("stream-expires-at", "1970-01-01T00:00:01Z")]);
        assert_eq!(expiry(&both), Err(BadHeader::BothExpiries));
    }

    #[test]
    fn forks() {
        assert_eq!(fork(&map(&[])), Ok(None));
        let from = ("stream-forked-from", "/a%20b");
        let plain = Fork { source: "/a%20b".into(), offset: Offset::Now, sub_offset: 0 };
        assert_eq!(fork(&map(&[from])), Ok(Some(plain.clone())));
        let offset = ("stream-fork-offset", "-1");
        let sub = ("stream-fork-sub-offset", "7");
        let full = Fork { offset: Offset::Start, sub_offset: 7, ..plain.clone() };
        assert_eq!(fork(&map(&[from, offset, sub])), Ok(Some(full)));
        assert_eq!(fork(&map(&[from, ("stream-fork-sub-offset", "0")])), Ok(Some(plain)));
        for (pairs, why) in [
            (vec![offset], BadHeader::ForkWithoutSource),
            (vec![("stream-fork-sub-offset", "0")], BadHeader::ForkWithoutSource),
            (vec![from, sub], BadHeader::ForkSubOffsetAlone),
            (vec![from, ("stream-fork-offset", "7")], BadHeader::ForkOffset(BadOffset::Malformed)),
            (vec![("stream-forked-from", "a")], BadHeader::ForkSource(BadName::NotAPath)),
            (vec![("stream-forked-from", "")], BadHeader::ForkSource(BadName::NotAPath)),
            (vec![from, from], BadHeader::Repeated(names::FORKED_FROM)),
        ] {
            assert_eq!(fork(&map(&pairs)), Err(why), "{pairs:?}");
        }
        for bad in ["-1", "abc", "1.5", "05", "+1", "", "18446744073709551616"] {
            let pairs = map(&[from, offset, ("stream-fork-sub-offset", bad)]);
            assert_eq!(fork(&pairs), Err(BadHeader::ForkSubOffset), "{bad}");
        }
    }

    #[test]
    fn producers() {
        let full = [("producer-id", "p"), ("producer-epoch", "0"), ("producer-seq", "9007199254740991")];
        let expected = Producer { id: Arc::from("p"), epoch: 0, seq: (1 << 53) - 1 };
        assert_eq!(producer(&map(&full)), Ok(Some(expected)));
        assert_eq!(producer(&map(&[])), Ok(None));
        assert_eq!(producer(&map(&full[..2])), Err(BadHeader::IncompleteProducer));
        for bad in ["-1", "1.5", "x", "", "9007199254740992", "01"] {
            let pairs = [("producer-id", "p"), ("producer-epoch", bad), ("producer-seq", "0")];
            assert_eq!(
                producer(&map(&pairs)),
                Err(BadHeader::ProducerNumber(names::PRODUCER_EPOCH)),
                "{bad}"
            );
        }
        let empty = [("producer-id", ""), ("producer-epoch", "0"), ("producer-seq", "0")];
        assert_eq!(producer(&map(&empty)), Err(BadHeader::Empty(names::PRODUCER_ID)));
    }

    #[test]
    fn closing_takes_exactly_true() {
        for (value, closed) in [("true", true), ("TRUE", true), ("false", false), ("1", false), ("", false)] {
            assert_eq!(closes(&map(&[("stream-closed", value)])), closed, "{value}");
        }
        assert!(!closes(&map(&[])));
    }
}
