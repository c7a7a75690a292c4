//! Long-polls, and the cursors that keep caches from answering live reads for ever. `sse.rs` has the
//! other kind of live read.

use crate::http::answer;
use crate::http::body::Body;
use crate::http::headers::names;
use crate::http::offset;
use crate::stream::Read;
use headwater_metadata::StreamId;
use http::{HeaderValue, Response, StatusCode, header};

/// Cursors count from here: 2024-10-09, as the protocol's default.
const CURSOR_EPOCH_MS: u64 = 1_728_432_000_000;
/// Length of a cursor's interval.
const INTERVAL_MS: u64 = 20_000;
/// A cursor that would not move is moved by up to an hour.
const JITTER_INTERVALS: u64 = 3600 * 1000 / INTERVAL_MS;

/// The cursor of a live answer: the number of the present interval, or when the client has that already, a
/// later one.
pub fn cursor(now_ms: u64, client: Option<u64>, random: u64) -> u64 {
    let interval = now_ms.saturating_sub(CURSOR_EPOCH_MS) / INTERVAL_MS;
    match client {
        Some(client) if client >= interval => client.saturating_add(1 + random % JITTER_INTERVALS),
        _ => interval,
    }
}

/// The answer to a long-poll that saw nothing new, or the end.
pub fn nothing_new(read: &Read, family: StreamId, cursor: u64) -> Response<Body> {
    let mut answer = answer::empty(StatusCode::NO_CONTENT);
    let headers = answer.headers_mut();
    headers.insert(names::NEXT_OFFSET, offset::header(family, read.next));
    headers.insert(names::UP_TO_DATE, answer::TRUE);
    headers.insert(header::CACHE_CONTROL, answer::NO_STORE);
    if read.eof {
        headers.insert(names::CLOSED, answer::TRUE);
    } else {
        headers.insert(names::CURSOR, HeaderValue::from(cursor));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_interval_is_twenty_seconds() {
        assert_eq!(cursor(CURSOR_EPOCH_MS, None, 0), 0);
        assert_eq!(cursor(CURSOR_EPOCH_MS + 59_999, None, 0), 2);
        assert_eq!(cursor(CURSOR_EPOCH_MS + 60_000, Some(2), 0), 3);
        assert_eq!(cursor(0, None, 0), 0);
    }

    proptest! {
        #[test]
        fn cursors_only_grow(now in CURSOR_EPOCH_MS..CURSOR_EPOCH_MS * 2, client: u32, random: u64) {
            let next = cursor(now, Some(u64::from(client)), random);
            prop_assert!(next > u64::from(client) || next == (now - CURSOR_EPOCH_MS) / INTERVAL_MS);
            prop_assert!(next >= (now - CURSOR_EPOCH_MS) / INTERVAL_MS);
            prop_assert!(next > u64::from(client));
        }
    }
}
