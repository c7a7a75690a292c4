//! The query of a read: `offset`, `live`, `cursor`. Unknown parameters are ignored, known ones may
//! come once. Reads the query and never writes one: redirects pass it on as it came. Next: `headers.rs`.

use crate::http::offset::{self, BadOffset, Offset};
use percent_encoding::percent_decode_str;

/// How a reader wants to wait for what is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// Not at all.
    No,
    /// One answer, after at most the long-poll timeout.
    LongPoll,
    /// Server-sent events.
    Sse,
}

/// What the query of a read says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Where to begin.
    pub offset: Offset,
    /// How to wait.
    pub live: Live,
    /// The cursor of an earlier answer.
    pub cursor: Option<u64>,
}

/// Why a query was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuery {
    /// A known parameter came twice.
    #[error("the query parameter `{0}` is given more than once")]
    Repeated(&'static str),
    /// Its escapes do not decode to text.
    #[error("the query parameter `{0}` is not text")]
    NotText(&'static str),
    /// The offset.
    #[error(transparent)]
    Offset(#[from] BadOffset),
    /// `live` with another value.
    #[error("the query parameter `live` must be `long-poll` or `sse`")]
    Live,
    /// A live read that does not say where from.
    #[error("a live read needs the query parameter `offset`")]
    LiveWithoutOffset,
}

/// Reads a query.
pub fn parse(query: Option<&str>) -> Result<Query, BadQuery> {
    let (mut offset, mut live, mut cursor) = (None, None, None);
    for pair in query.unwrap_or_default().split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, slot) = match decoded_key(key).as_deref() {
            Some("offset") => ("offset", &mut offset),
            Some("live") => ("live", &mut live),
            Some("cursor") => ("cursor", &mut cursor),
            _ => continue,
        };
        let value = percent_decode_str(value).decode_utf8().map_err(|_| BadQuery::NotText(name))?;
        if slot.replace(value).is_some() {
            return Err(BadQuery::Repeated(name));
        }
    }
    let live = match live.as_deref() {
        None => Live::No,
        Some("long-poll") => Live::LongPoll,
        Some("sse") => Live::Sse,
        Some(_) => return Err(BadQuery::Live),
    };
    if live != Live::No && offset.is_none() {
        return Err(BadQuery::LiveWithoutOffset);
    }
    Ok(Query {
        offset: offset.as_deref().map_or(Ok(Offset::Start), offset::parse)?,
        live,
        // A cursor that is not one of ours says nothing: it is as if there were none.
        cursor: cursor.as_deref().and_then(|c| c.parse().ok()),
    })
}

fn decoded_key(key: &str) -> Option<std::borrow::Cow<'_, str>> {
    percent_decode_str(key).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_metadata::{Position, StreamId};
    use proptest::prelude::*;

    fn query(offset: Offset, live: Live, cursor: Option<u64>) -> Result<Query, BadQuery> {
        Ok(Query { offset, live, cursor })
    }

    #[test]
    fn rte_06_what_is_read() {
        let token = offset::encode(StreamId(3), Position(99));
        let parsed = offset::parse(&token).unwrap();
        let eight_kb = format!("x={}&offset=-1", "y".repeat(8192));
        assert_eq!(parse(None), query(Offset::Start, Live::No, None));
        assert_eq!(parse(Some("")), query(Offset::Start, Live::No, None));
        assert_eq!(parse(Some("offset=-1")), query(Offset::Start, Live::No, None));
        assert_eq!(parse(Some(&format!("offset={token}"))), query(parsed, Live::No, None));
        assert_eq!(
            parse(Some("offset=now&live=long-poll&cursor=123")),
            query(Offset::Now, Live::LongPoll, Some(123))
        );
        assert_eq!(parse(Some("live=sse&offset=-1")), query(Offset::Start, Live::Sse, None));
        assert_eq!(parse(Some("x=%26%3D&offset=-1&foo")), query(Offset::Start, Live::No, None));
        assert_eq!(parse(Some("%6fffset=%2d1")), query(Offset::Start, Live::No, None));
        assert_eq!(parse(Some("cursor=abc")), query(Offset::Start, Live::No, None));
        assert_eq!(parse(Some(&eight_kb)), query(Offset::Start, Live::No, None));
    }

    #[test]
    fn rte_06_what_is_refused() {
        for (text, why) in [
            ("offset=", BadQuery::Offset(BadOffset::Malformed)),
            ("offset", BadQuery::Offset(BadOffset::Malformed)),
            ("offset=1&offset=2", BadQuery::Repeated("offset")),
            ("offset=-1&offset=-1", BadQuery::Repeated("offset")),
            ("live=sse&live=sse&offset=-1", BadQuery::Repeated("live")),
            ("live=sse", BadQuery::LiveWithoutOffset),
            ("live=long-poll", BadQuery::LiveWithoutOffset),
            ("live=yes&offset=-1", BadQuery::Live),
            ("live=&offset=-1", BadQuery::Live),
            ("offset=%ff", BadQuery::NotText("offset")),
            ("offset=%00", BadQuery::Offset(BadOffset::Malformed)),
            ("offset=0+1", BadQuery::Offset(BadOffset::Malformed)),
        ] {
            assert_eq!(parse(Some(text)), Err(why), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "(offset|live|cursor|[a-z%&=+,/\\-0-9_]){0,20}") {
            let _ = parse(Some(&text));
        }
    }
}
