//! JSON streams: a body is split into messages, a read is joined into an array again.
//!
//! A JSON stream stores each message as it was written, followed by a comma, so a read of any range
//! between messages is `[`, the bytes without the last comma, `]`. Tokens are never parsed and printed:
//! numbers, key order, duplicates and whitespace inside a message come back as they came. Next:
//! `serve.rs`.

use crate::messages::Scan;
use crate::stream::InvalidBody;
use bytes::Bytes;
use serde_json::value::RawValue;

/// Deepest nesting of a body.
pub const MAX_DEPTH: usize = 128;

/// What an empty array means: nothing to say (an append), or no first content (a create).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyArray {
    /// Refused.
    Refused,
    /// No messages.
    Allowed,
}

/// Splits a body into the stored form of its messages. One level of array is taken apart.
pub fn split(body: &[u8], empty: EmptyArray) -> Result<Bytes, InvalidBody> {
    check_depth(body)?;
    if body.trim_ascii_start().first() != Some(&b'[') {
        let message: &RawValue = serde_json::from_slice(body).map_err(|e| refused(&e))?;
        return Ok(stored([message.get()].into_iter(), body.len() + 1));
    }
    let messages: Vec<&RawValue> = serde_json::from_slice(body).map_err(|e| refused(&e))?;
    if messages.is_empty() && empty == EmptyArray::Refused {
        return Err(InvalidBody("an empty JSON array appends nothing".into()));
    }
    Ok(stored(messages.iter().map(|m| m.get()), body.len()))
}

fn stored<'a>(messages: impl Iterator<Item = &'a str>, capacity: usize) -> Bytes {
    let mut out = Vec::with_capacity(capacity);
    for message in messages {
        out.extend_from_slice(message.as_bytes());
        out.push(b',');
    }
    out.into()
}

fn refused(error: &serde_json::Error) -> InvalidBody {
    InvalidBody(format!("the body is not valid JSON: {error}"))
}

fn check_depth(body: &[u8]) -> Result<(), InvalidBody> {
    let mut scan = Scan::default();
    for byte in body {
        scan.step(*byte);
        if scan.depth > MAX_DEPTH {
            return Err(InvalidBody(format!("the body is nested deeper than {MAX_DEPTH} levels")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Boundaries;
    use proptest::prelude::*;

    fn split_text(body: &str) -> Result<String, InvalidBody> {
        split(body.as_bytes(), EmptyArray::Refused).map(|b| String::from_utf8(b.to_vec()).unwrap())
    }

    #[test]
    fn htp_07_messages_keep_their_tokens() {
        for (body, expected) in [
            (r#"{"a": 1}"#, r#"{"a": 1},"#),
            (r#" [ {"a":1} , {"b":2} ] "#, r#"{"a":1},{"b":2},"#),
            ("[[1,2],[3,4]]", "[1,2],[3,4],"),
            ("[[]]", "[],"),
            ("[[[1]]]", "[[1]],"),
            ("null", "null,"),
            (r#""x""#, r#""x","#),
            ("12345678901234567890", "12345678901234567890,"),
            ("[1e400,-0,1.10]", "1e400,-0,1.10,"),
            (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2},"#),
            (r#""\ud800\u0000,[""#, r#""\ud800\u0000,[","#),
        ] {
            assert_eq!(split_text(body).as_deref(), Ok(expected), "{body}");
        }
    }

    #[test]
    fn htp_07_what_is_refused() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for body in [
            "",
            " ",
            "[]",
            " [ ] ",
            "[1,]",
            "{\"a\":1}\n{\"a\":2}",
            "[1,2",
            "\u{feff}1",
            "1 // one",
            "[1,{bad}]",
            "nul",
            "[1] [2]",
            "'x'",
            deep.as_str(),
        ] {
            assert!(split_text(body).is_err(), "{body:?}");
        }
        assert!(split(b"\"\xff\"", EmptyArray::Refused).is_err());
        assert!(split(b"1\x002\x00", EmptyArray::Refused).is_err());
    }

    #[test]
    fn an_empty_array_creates_an_empty_stream() {
        assert_eq!(split(b" [ ] ", EmptyArray::Allowed), Ok(Bytes::new()));
    }

    #[test]
    fn nesting_up_to_the_limit() {
        let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(split_text(&nested(MAX_DEPTH)).is_ok());
        assert!(split_text(&nested(MAX_DEPTH + 1)).is_err());
    }

    proptest! {
        #[test]
        fn what_was_split_joins_again(values in proptest::collection::vec(value(), 1..6)) {
            let body = serde_json::to_vec(&values).unwrap();
            let stored = split(&body, EmptyArray::Refused).unwrap();
            let joined = [b"[", &stored[..stored.len() - 1], b"]"].concat();
            prop_assert_eq!(serde_json::from_slice::<Vec<serde_json::Value>>(&joined).unwrap(), values.clone());

            // Messages end where the scanner says, whatever the pieces.
            for cut in 0..=stored.len() {
                let mut boundaries = Boundaries::default();
                let first = boundaries.last_end(&stored[..cut]);
                let second = boundaries.last_end(&stored[cut..]).map(|end| cut + end);
                prop_assert_eq!(second.or(first), Some(stored.len()));
            }
        }

        #[test]
        fn never_panics(body: Vec<u8>) {
            let _ = split(&body, EmptyArray::Allowed);
            let _ = Boundaries::default().last_end(&body);
        }
    }

    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<i32>().prop_map(Into::into),
            "[a-z,\"\\\\\\[\\]{}\n]{0,6}".prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                proptest::collection::btree_map("[a-z]{1,3}", inner, 0..3)
                    .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
            ]
        })
    }
}
