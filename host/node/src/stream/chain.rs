//! Where the committed bytes of a stream are: in its own runs, and for a fork below where it begins in
//! those of its source, and so on. Pure.
//!
//! A source is never shorter than its forks need, and its bytes never change; it may be deleted, and
//! is kept then for its forks.

use headwater_metadata::{Position, Run, Stream, View};

/// Part of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The run.
    pub run: Run,
    /// The first position that is wanted.
    pub from: Position,
    /// The position after the last.
    pub to: Position,
}

/// The pieces that have the bytes from `position` on, up to `end` or the piece in which `limit` bytes
/// are reached. `None`: the view lacks some, because it is not of the time of `stream`.
pub fn pieces(
    view: &View,
    stream: &Stream,
    position: Position,
    end: Position,
    limit: u64,
) -> Option<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut at = position;
    for (part, to) in parts(view, stream, position, end)?.iter().rev() {
        for run in part.runs.from(at) {
            let to = run.end.min(*to);
            if at >= to {
                break;
            }
            if !pieces.is_empty() && to.0 - position.0 > limit {
                return Some(pieces);
            }
            pieces.push(Piece { run: *run, from: at, to });
            at = to;
        }
        if at != *to {
            return None;
        }
    }
    Some(pieces)
}

/// The streams that have the bytes from `position` to `end`, the last bytes first, each with where its
/// part ends.
fn parts<'a>(
    view: &'a View,
    stream: &'a Stream,
    position: Position,
    end: Position,
) -> Option<Vec<(&'a Stream, Position)>> {
    let mut parts = Vec::new();
    let (mut part, mut to) = (stream, end.min(stream.end));
    while position < to {
        let begin = part.fork.map_or(part.start, |fork| fork.at);
        if begin < to {
            parts.push((part, to));
        }
        let Some(fork) = part.fork.filter(|_| position < begin) else { break };
        to = to.min(begin);
        part = view.stream(fork.source)?;
    }
    Some(parts)
}
