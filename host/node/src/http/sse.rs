//! Server-sent events: the bytes of a stream as `data` events, each followed by a `control` event.
//!
//! [`Encoder`] is pure: pieces of a stream in, events out. Text never breaks a character, JSON never
//! breaks a message, everything else travels as base64. A line break in the data begins another `data:`
//! line, so nothing in a stream can look like an event (a carriage return arrives as a line break: the
//! format has no other way). Bytes that are not UTF-8 in a text stream arrive as U+FFFD. An event ends where
//! a piece ends; where that is says nothing. Next: `follow` in `serve.rs`.

use crate::http::headers::{is_json, is_text};
use crate::http::offset;
use crate::messages::Boundaries;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use headwater_metadata::{Position, StreamId};
use std::fmt::Write;

/// How a stream's bytes become text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    Text,
    /// Messages, as arrays.
    Json,
    /// Base64.
    Binary,
}

impl Encoding {
    /// The encoding for a content type.
    pub fn of(content_type: &str) -> Encoding {
        match content_type {
            json if is_json(json) => Encoding::Json,
            text if is_text(text) => Encoding::Text,
            _ => Encoding::Binary,
        }
    }
}

/// What a control event says beside the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Everything there is was sent.
    pub up_to_date: bool,
    /// The stream is closed, and everything was sent.
    pub closed: bool,
    /// Cursor to come back with.
    pub cursor: u64,
}

/// Turns pieces of a stream into events.
#[derive(Debug)]
pub struct Encoder {
    encoding: Encoding,
    family: StreamId,
    /// After the last byte sent.
    sent: Position,
    /// Bytes that wait for the rest of their character or message.
    held: Vec<u8>,
    boundaries: Boundaries,
}

impl Encoder {
    /// An encoder that begins at a position.
    pub fn new(encoding: Encoding, family: StreamId, from: Position) -> Encoder {
        Encoder { encoding, family, sent: from, held: Vec::new(), boundaries: Boundaries::default() }
    }

    /// Takes a piece. `last` is the state after it when it is the last one of a read: then a control event
    /// comes in any case.
    pub fn piece(&mut self, piece: &[u8], last: Option<State>, cursor: u64) -> String {
        let mut out = String::new();
        let closed = last.is_some_and(|state| state.closed);
        let begun = self.sent;
        match self.encoding {
            Encoding::Binary => self.binary(piece, &mut out),
            Encoding::Text => self.text(piece, closed, &mut out),
            Encoding::Json => self.json(piece, &mut out),
        }
        if last.is_some() || self.sent != begun {
            self.control(last.unwrap_or(State { up_to_date: false, closed: false, cursor }), &mut out);
        }
        out
    }

    fn binary(&mut self, piece: &[u8], out: &mut String) {
        if !piece.is_empty() {
            out.push_str("event: data\ndata:");
            STANDARD.encode_string(piece, out);
            out.push_str("\n\n");
            self.sent.0 += piece.len() as u64;
        }
    }

    fn text(&mut self, piece: &[u8], flush: bool, out: &mut String) {
        self.held.extend_from_slice(piece);
        let whole = if flush { self.held.len() } else { whole_characters(&self.held) };
        if whole > 0 {
            data(&String::from_utf8_lossy(&self.held[..whole]), out);
            self.held.drain(..whole);
            self.sent.0 += whole as u64;
        }
    }

    fn json(&mut self, piece: &[u8], out: &mut String) {
        let before = self.held.len();
        self.held.extend_from_slice(piece);
        let Some(end) = self.boundaries.last_end(piece).map(|end| before + end) else { return };
        // Every message ends with a comma; the last one of an array has none.
        data(&format!("[{}]", String::from_utf8_lossy(&self.held[..end - 1])), out);
        self.held.drain(..end);
        self.sent.0 += end as u64;
    }

    fn control(&self, state: State, out: &mut String) {
        let offset = offset::encode(self.family, self.sent);
        // Writing to a string cannot fail.
        let _ = write!(out, "event: control\ndata:{{\"streamNextOffset\":\"{offset}\"");
        if state.closed {
            out.push_str(",\"streamClosed\":true,\"upToDate\":true");
        } else {
            let _ = write!(out, ",\"streamCursor\":\"{}\"", state.cursor);
            if state.up_to_date {
                out.push_str(",\"upToDate\":true");
            }
        }
        out.push_str("}\n\n");
    }
}

/// One `data` event.
fn data(text: &str, out: &mut String) {
    out.push_str("event: data\n");
    let mut rest = text;
    loop {
        let end = rest.find(['\r', '\n']).unwrap_or(rest.len());
        // One space after the colon is taken off by readers: a line that begins with one needs another.
        out.push_str(if rest.starts_with(' ') { "data: " } else { "data:" });
        out.push_str(&rest[..end]);
        out.push('\n');
        rest = &rest[end..];
        match rest.as_bytes() {
            [] => break,
            [b'\r', b'\n', ..] => rest = &rest[2..],
            _ => rest = &rest[1..],
        }
    }
    out.push('\n');
}

/// Length without a character that is cut off at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let width = match bytes[at] {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if width > back { at } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAMILY: StreamId = StreamId(5);
    const END: Option<State> = Some(State { up_to_date: true, closed: false, cursor: 9 });
    const CLOSED: Option<State> = Some(State { up_to_date: true, closed: true, cursor: 9 });

    /// Reads events as a browser does.
    fn events(text: &str) -> Vec<(String, String)> {
        let mut events = Vec::new();
        for block in text.replace("\r\n", "\n").replace('\r', "\n").split("\n\n").filter(|b| !b.is_empty()) {
            let mut kind = String::new();
            let mut data = Vec::new();
            for line in block.split('\n') {
                if let Some(value) = line.strip_prefix("event:") {
                    kind = value.trim().to_owned();
                } else if let Some(value) = line.strip_prefix("data:") {
                    data.push(value.strip_prefix(' ').unwrap_or(value).to_owned());
                }
            }
            events.push((kind, data.join("\n")));
        }
        events
    }

    fn decoded(pieces: &[&[u8]], encoding: Encoding) -> Vec<String> {
        let mut encoder = Encoder::new(encoding, FAMILY, Position(0));
        let mut text = String::new();
        for (at, piece) in pieces.iter().enumerate() {
            let last = if at + 1 == pieces.len() { CLOSED } else { None };
            text += &encoder.piece(piece, last, 1);
        }
        let all = events(&text);
        for pair in all.windows(2) {
            assert!(pair[0].0 != "data" || pair[1].0 == "control", "{all:?}");
        }
        all.into_iter().filter(|(kind, _)| kind == "data").map(|(_, data)| data).collect()
    }

    #[test]
    fn htp_08_hostile_text_stays_data() {
        for text in [
            "a\n\nevent: control\ndata: {}\n\n",
            " leading space",
            "",
            "\n",
            "\n\n",
            "tail\n",
            "x\u{2028}y",
            "data: x",
            ":comment",
            "\u{feff}bom",
        ] {
            let expected: Vec<&str> = if text.is_empty() { vec![] } else { vec![text] };
            assert_eq!(decoded(&[text.as_bytes()], Encoding::Text), expected, "{text:?}");
        }
        assert_eq!(decoded(&[b"a\rb\r\nc"], Encoding::Text), ["a\nb\nc"]);
        assert_eq!(decoded(&[b"a\xffb"], Encoding::Text), ["a\u{fffd}b"]);
        assert_eq!(decoded(&[b"cut \xf0\x9f"], Encoding::Text), ["cut \u{fffd}"]);
    }

    #[test]
    fn htp_08_a_character_over_two_pieces_comes_whole() {
        let mut encoder = Encoder::new(Encoding::Text, FAMILY, Position(10));
        let first = encoder.piece(b"ab\xf0\x9f", END, 1);
        assert!(first.contains("data:ab\n"), "{first}");
        assert!(first.contains(&offset::encode(FAMILY, Position(12))), "{first}");
        let second = encoder.piece(b"\x98\x80c", END, 1);
        assert!(second.contains("data:\u{1f600}c\n"), "{second}");
        assert!(second.contains(&offset::encode(FAMILY, Position(17))), "{second}");
    }

    #[test]
    fn binary_is_base64_event_by_event() {
        assert_eq!(decoded(&[b"", b"\0", b"\0\x01\x02\x03", b""], Encoding::Binary), ["AA==", "AAECAw=="]);
    }

    #[test]
    fn json_messages_come_whole() {
        assert_eq!(decoded(&[b"{\"a\":1},2,"], Encoding::Json), ["[{\"a\":1},2]"]);
        assert_eq!(
            decoded(&[b"{\"a\":", b"1},2", b",\"x,\",3,"], Encoding::Json),
            ["[{\"a\":1}]", "[2,\"x,\",3]"]
        );
        assert_eq!(decoded(&[b""], Encoding::Json), Vec::<String>::new());
    }

    #[test]
    fn control_events_say_what_they_must() {
        let mut encoder = Encoder::new(Encoding::Text, FAMILY, Position(0));
        let control = |text: String| {
            let (kind, data) = events(&text).pop().unwrap();
            assert_eq!(kind, "control");
            serde_json::from_str::<serde_json::Value>(&data).unwrap()
        };
        let at = |p| offset::encode(FAMILY, Position(p));
        let up_to_date =
            serde_json::json!({"streamNextOffset": at(0), "streamCursor": "9", "upToDate": true});
        assert_eq!(control(encoder.piece(b"", END, 1)), up_to_date);
        let more = serde_json::json!({"streamNextOffset": at(1), "streamCursor": "1"});
        assert_eq!(control(encoder.piece(b"x", None, 1)), more);
        let closed = serde_json::json!({"streamNextOffset": at(1), "streamClosed": true, "upToDate": true});
        assert_eq!(control(encoder.piece(b"", CLOSED, 1)), closed);
    }

    proptest! {
        #[test]
        fn text_survives_any_cut(text in "[a\n \u{e9}\u{20ac}\u{1f600}:]{0,12}", cuts in proptest::collection::vec(0usize..40, 0..4)) {
            let bytes = text.as_bytes();
            let mut at: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            at.sort_unstable();
            at.insert(0, 0);
            at.push(bytes.len());
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(decoded(&pieces, Encoding::Text).concat(), text);
        }
    }
}
