//! Where messages end in the stored form of a JSON stream: each is followed by a comma.
//!
//! Follows nesting and strings byte by byte, through pieces that end anywhere; never parses. Used by
//! `http/json.rs` and `http/sse.rs` for what is answered, by `stream/fork.rs` to count messages.

/// Follows nesting and strings through bytes of JSON.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    /// Brackets that are open.
    pub depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// Takes in one byte.
    pub fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

/// Finds where messages end in bytes of a JSON stream that come in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Boundaries {
    scan: Scan,
}

impl Boundaries {
    /// Reads on; answers the length up to and with the last comma between messages in this piece.
    pub fn last_end(&mut self, piece: &[u8]) -> Option<usize> {
        let mut end = None;
        for (at, byte) in piece.iter().enumerate() {
            if self.ends(*byte) {
                end = Some(at + 1);
            }
        }
        end
    }

    /// Reads on until `count` more messages have ended, and counts down; answers the length up to and
    /// with the last of them, if it ends in this piece.
    pub fn skip(&mut self, piece: &[u8], count: &mut u64) -> Option<usize> {
        for (at, byte) in piece.iter().enumerate() {
            if self.ends(*byte) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    return Some(at + 1);
                }
            }
        }
        None
    }

    /// Whether this byte is the comma after a message.
    fn ends(&mut self, byte: u8) -> bool {
        self.scan.step(byte);
        byte == b',' && self.scan.depth == 0 && !self.scan.in_string
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_wherever_the_pieces_end() {
        let stored = br#"{"a":[1,2]},"x,\",y",3,"#;
        for (wanted, expected) in [(1, Some(12)), (2, Some(21)), (3, Some(23)), (4, None)] {
            for cut in 0..=stored.len() {
                let (mut boundaries, mut left) = (Boundaries::default(), wanted);
                let first = boundaries.skip(&stored[..cut], &mut left);
                let second = || boundaries.skip(&stored[cut..], &mut left).map(|end| cut + end);
                assert_eq!(first.or_else(second), expected, "{wanted} messages, cut at {cut}");
            }
        }
    }
}
