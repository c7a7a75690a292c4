//! Offset tokens: what the protocol's `Stream-Next-Offset` carries and `?offset=` brings back.
//!
//! A token is the position as 16 hex digits, `_`, and 8 hex digits that tie it to the stream: fixed
//! width, so that tokens sort as their positions do, and never `-1` or `now`. A token that this stream
//! did not give out (another stream's, one of a deleted namesake, one with a digit changed) is refused
//! rather than read from the middle of a record. It is a guard against mistakes, not a secret.
//! Next: `request.rs`.

use headwater_metadata::{Position, StreamId};
use http::HeaderValue;
use std::fmt::Write;

/// Where a read begins, as the client asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// `-1` or nothing: from the first position kept.
    Start,
    /// `now`: from the tail.
    Now,
    /// A token.
    Token(Token),
}

/// A well-formed token, not yet compared with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    position: Position,
    check: u32,
}

/// Why an offset was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOffset {
    /// Not a token, `-1` or `now`.
    #[error("the offset is malformed: use `-1`, `now`, or a value of Stream-Next-Offset as it was given")]
    Malformed,
    /// Well formed, and given out by something else.
    #[error("the offset was not given out by this stream")]
    Alien,
}

/// Length of a token.
pub const TOKEN_LEN: usize = 25;

/// Reads what a client sent.
pub fn parse(text: &str) -> Result<Offset, BadOffset> {
    match text {
        "-1" => Ok(Offset::Start),
        "now" => Ok(Offset::Now),
        _ => token(text).map(Offset::Token).ok_or(BadOffset::Malformed),
    }
}

/// The beginning of every stream, as a fork may name it: what the protocol's own servers give out for
/// it, and clients have learnt.
const ORIGIN: &str = "0000000000000000_0000000000000000";

/// Reads where a fork shall begin.
pub fn parse_fork(text: &str) -> Result<Offset, BadOffset> {
    if text == ORIGIN { Ok(Offset::Start) } else { parse(text) }
}

fn token(text: &str) -> Option<Token> {
    if text.len() != TOKEN_LEN {
        return None;
    }
    let (position, check) = text.split_once('_')?;
    let position = Position(hex(position, 16)?);
    let check = u32::try_from(hex(check, 8)?).ok()?;
    Some(Token { position, check })
}

/// Lower-case hex of exactly this many digits: one spelling for one value.
fn hex(text: &str, digits: usize) -> Option<u64> {
    let plain = text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    plain.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

impl Token {
    /// The position, if this family of streams gave the token out.
    pub fn position(self, family: StreamId) -> Result<Position, BadOffset> {
        if self.check == check(family, self.position) { Ok(self.position) } else { Err(BadOffset::Alien) }
    }
}

/// The token of a position. `family` is the stream, or for a fork the first of its ancestors: forks
/// share the offsets of what they inherit.
pub fn encode(family: StreamId, position: Position) -> String {
    let mut text = String::with_capacity(TOKEN_LEN);
    // Writing to a string cannot fail.
    let _ = write!(text, "{:016x}_{:08x}", position.0, check(family, position));
    text
}

/// The token as a header value.
pub fn header(family: StreamId, position: Position) -> HeaderValue {
    HeaderValue::try_from(encode(family, position)).expect("hex digits are a header value")
}

fn check(family: StreamId, position: Position) -> u32 {
    let mixed = mix(mix(family.0) ^ position.0);
    u32::try_from(mixed >> 32).unwrap_or_default()
}

/// The finaliser of SplitMix64.
fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sentinels_are_read() {
        assert_eq!(parse("-1"), Ok(Offset::Start));
        assert_eq!(parse("now"), Ok(Offset::Now));
    }

    #[test]
    fn a_fork_may_name_the_origin() {
        assert_eq!(parse_fork(ORIGIN), Ok(Offset::Start));
        assert_eq!(parse_fork("now"), Ok(Offset::Now));
        assert_eq!(parse_fork("9999999999999999_9999999999999999"), Err(BadOffset::Malformed));
        assert_eq!(parse(ORIGIN), Err(BadOffset::Malformed));
    }

    #[test]
    fn anything_else_is_refused() {
        let long = "0".repeat(1024);
        let forty = "1".repeat(40);
        let upper = encode(StreamId(7), Position(0xabcdef)).to_uppercase();
        for text in [
            "",
            "-2",
            "-1 ",
            "NOW",
            "+1",
            "0x10",
            "0",
            "1",
            "9223372036854775808",
            "18446744073709551615",
            "0,1",
            "0 1",
            "\0",
            "../x",
            "now ",
            "é",
            "0000000000000000-00000000",
            long.as_str(),
            forty.as_str(),
            upper.as_str(),
        ] {
            assert_eq!(parse(text), Err(BadOffset::Malformed), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(stream: u64, position: u64) {
            let text = encode(StreamId(stream), Position(position));
            prop_assert_eq!(text.len(), TOKEN_LEN);
            let Ok(Offset::Token(token)) = parse(&text) else { panic!("{text}") };
            prop_assert_eq!(token.position(StreamId(stream)), Ok(Position(position)));
        }

        #[test]
        fn sorted_as_positions(stream: u64, a: u64, b: u64) {
            let (ta, tb) = (encode(StreamId(stream), Position(a)), encode(StreamId(stream), Position(b)));
            prop_assert_eq!(ta.cmp(&tb), a.cmp(&b));
        }

        #[test]
        fn alien_tokens_are_refused(stream in 0u64..1000, position in 0u64..1_000_000, step in 1u64..5) {
            let Ok(Offset::Token(token)) = parse(&encode(StreamId(stream), Position(position))) else { panic!() };
            prop_assert_eq!(token.position(StreamId(stream + step)), Err(BadOffset::Alien));
            let moved = Token { position: Position(position + step), ..token };
            prop_assert_eq!(moved.position(StreamId(stream)), Err(BadOffset::Alien));
        }

        #[test]
        fn never_panics(text: String) {
            let _ = parse(&text);
        }
    }
}
