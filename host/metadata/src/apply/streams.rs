//! Streams come and go: `CreateStream`, `DeleteStream`, `AcceptLoss`.

use super::{Apply, Done, Verdict};
use crate::command::{Answer, CreateStream, ForkOf, Rejection};
use crate::model::*;
use crate::runs::Runs;

/// Longest name of a stream, in bytes.
pub const MAX_NAME: usize = 8 << 10;
/// Longest content type, in bytes.
pub const MAX_CONTENT_TYPE: usize = 1 << 10;

impl Apply<'_> {
    /// Creates a stream, with its first bytes when it has a body. The same again is redundant; whoever
    /// loses a race leaves an object that nothing refers to.
    pub(super) fn create_stream(&mut self, create: &CreateStream) -> Verdict {
        if create.name.len() > MAX_NAME {
            return Err(Rejection::TooLarge(format!("the name has more than {MAX_NAME} bytes")));
        }
        if create.content_type.len() > MAX_CONTENT_TYPE {
            return Err(Rejection::TooLarge(format!(
                "the content type has more than {MAX_CONTENT_TYPE} bytes"
            )));
        }
        if let Some(stream) = self.state.stream_by_name(&create.name) {
            return match same_configuration(stream, create) {
                true => Ok(Done::Redundant(Answer::Stream(stream.id))),
                false => Err(Rejection::NameTaken(stream.id)),
            };
        }
        let start = match create.fork {
            Some(fork) => self.fork_start(fork)?,
            None => Position(0),
        };
        let begin = create.fork.map_or(start, |fork| fork.at);
        if let Some(run) = &create.body {
            self.check_run(run)?;
            if run.start != begin {
                return Err(Rejection::NotContiguous { start: run.start, end: begin });
            }
        }
        if let Some(fork) = create.fork {
            self.state.change_stream(fork.source, |source| source.forks += 1);
        }
        let id = self.state.add_stream(Stream {
            id: StreamId(0),
            name: create.name.clone(),
            content_type: create.content_type.clone(),
            created_ms: create.now_ms,
            expiry: create.expiry,
            touched_ms: create.now_ms,
            ownership: Ownership::Unplaced,
            epoch: StreamEpoch(0),
            transfer: None,
            start,
            end: begin,
            eof: create.eof,
            runs: Runs::default(),
            checkpoint: None,
            damaged: false,
            fork: create.fork.map(|fork| Fork { source: fork.source, at: fork.at }),
            forks: 0,
            deleted: false,
        });
        if let Some(run) = create.body {
            self.state.push_run(id, run);
        }
        Ok(Done::Applied(Answer::Stream(id)))
    }

    /// First kept position of a fork's source, when the fork point is in what is committed. While the
    /// source is open only its owner knows its tail.
    fn fork_start(&self, fork: ForkOf) -> Result<Position, Rejection> {
        let source = self.stream_at(fork.source, fork.epoch)?;
        self.not_open_elsewhere(source)?;
        if fork.at < source.start || fork.at > source.end {
            return Err(Rejection::ForkPoint { start: source.start, end: source.end });
        }
        if source.forks == u32::MAX {
            return Err(Rejection::TooLarge("the source has too many forks".into()));
        }
        Ok(source.start)
    }

    /// Deletes a stream: an open one only by its owner, one of an ended session only after its recovery.
    /// While forks need its content it stays, deleted, under its name.
    pub(super) fn delete_stream(&mut self, id: StreamId, epoch: StreamEpoch) -> Verdict {
        let stream = self.stream_at(id, epoch)?;
        self.not_open_elsewhere(stream)?;
        if stream.forks > 0 {
            self.state.change_stream(id, |stream| {
                stream.deleted = true;
                stream.transfer = None;
                stream.ownership = Ownership::Unplaced;
            });
            return Ok(Done::Applied(Answer::Done));
        }
        let mut next = Some(id);
        while let Some(stream) = next.take().and_then(|id| self.state.stream(id)).cloned() {
            self.state.remove_stream(stream.id);
            let Some(Fork { source, .. }) = stream.fork else {
                break;
            };
            self.state.change_stream(source, |source| source.forks = source.forks.saturating_sub(1));
            next = self.state.stream(source).filter(|it| it.deleted && it.forks == 0).map(|it| it.id);
        }
        Ok(Done::Applied(Answer::Done))
    }

    /// A person accepts the loss in a damaged stream.
    pub(super) fn accept_loss(&mut self, id: StreamId, epoch: StreamEpoch) -> Verdict {
        if !self.stream_at(id, epoch)?.damaged {
            return Err(Rejection::NotDamaged);
        }
        self.state.change_stream(id, |stream| stream.damaged = false);
        Ok(Done::Applied(Answer::Done))
    }
}

/// Whether a create asks for what is there. A stream that is deleted and kept for its forks is never it.
fn same_configuration(stream: &Stream, create: &CreateStream) -> bool {
    !stream.deleted
        && stream.content_type == create.content_type
        && stream.expiry == create.expiry
        && stream.eof == create.eof
        && stream.fork == create.fork.map(|fork| Fork { source: fork.source, at: fork.at })
}
