//! What is in data objects: `Commit`, `Replace`, `Forget`.
//!
//! The trim point is what a successor seals and replays from, so it may pass a record only when the record
//! is committed or its stream is gone.

use super::{Apply, Done, Verdict};
use crate::command::{Answer, Rejection, StreamRun};
use crate::model::*;

impl Apply<'_> {
    pub(super) fn commit(&mut self, runs: &[StreamRun], trim: WalSeq) -> Verdict {
        let mut refused = Vec::new();
        for run in runs {
            // What follows a refused run of a stream would stand at the wrong place.
            let earlier: Option<&(StreamId, Rejection)> = refused.iter().find(|(id, _)| *id == run.stream);
            let result = match earlier {
                Some((_, why)) => Err(why.clone()),
                None => self.commit_run(run),
            };
            if let Err(why) = result {
                refused.push((run.stream, why));
            }
        }
        let covered = refused.iter().all(|(_, why)| matches!(why, Rejection::NoStream(_)));
        let before = self.state.progress(self.by).map_or(WalSeq(0), |progress| progress.trim);
        if covered && trim > before {
            self.state.live.modify(&self.by, |progress| progress.trim = trim);
        } else if runs.is_empty() {
            return Ok(Done::Redundant(Answer::Refused(refused)));
        }
        Ok(Done::Applied(Answer::Refused(refused)))
    }

    fn commit_run(&mut self, commit: &StreamRun) -> Result<(), Rejection> {
        let stream = self.opened(commit.stream, commit.epoch)?;
        self.check_commit(stream, commit)?;
        self.add_run(commit);
        Ok(())
    }

    /// Whether a run may be added at the stream's committed end. Says nothing about who has the stream.
    pub(super) fn check_commit(&self, stream: &Stream, commit: &StreamRun) -> Result<(), Rejection> {
        if let Some(run) = &commit.run {
            self.check_run(run)?;
            if stream.eof {
                return Err(Rejection::Eof);
            }
            if run.start != stream.end {
                return Err(Rejection::NotContiguous { start: run.start, end: stream.end });
            }
        }
        match &commit.checkpoint {
            Some(checkpoint) => self.check_object(checkpoint.object),
            None => Ok(()),
        }
    }

    /// Adds what `check_commit` found right.
    pub(super) fn add_run(&mut self, commit: &StreamRun) {
        if let Some(run) = commit.run {
            self.state.push_run(commit.stream, run);
        }
        if let Some(checkpoint) = commit.checkpoint {
            self.state.set_checkpoint(commit.stream, checkpoint);
        }
        if commit.eof {
            self.state.change_stream(commit.stream, |stream| stream.eof = true);
        }
    }

    /// A run has bytes and is in an object of the proposer.
    pub(super) fn check_run(&self, run: &Run) -> Result<(), Rejection> {
        let len = run.end.0.checked_sub(run.start.0).filter(|len| *len > 0);
        if len.and_then(|len| run.offset.checked_add(len)).is_none() {
            return Err(Rejection::MalformedRun);
        }
        self.check_object(run.object)
    }

    /// Objects of other sessions, and those that nothing refers to any more, may be deleted at any time.
    fn check_object(&self, object: ObjectKey) -> Result<(), Rejection> {
        if object.session != self.by {
            return Err(Rejection::ForeignObject(object.session));
        }
        match self.state.unlinked.get(&object) {
            Some(()) => Err(Rejection::UnlinkedObject(object)),
            None => Ok(()),
        }
    }

    /// Compaction: one run in the place of those that it covers exactly.
    pub(super) fn replace(&mut self, id: StreamId, epoch: StreamEpoch, run: &Run) -> Verdict {
        let stream = self.opened(id, epoch)?;
        self.check_run(run)?;
        let first = stream.runs.index_of(run.start);
        let last = stream.runs.index_of(Position(run.end.0 - 1));
        let (Some(from), Some(to)) = (stream.runs.get(first), stream.runs.get(last)) else {
            return Err(Rejection::NotCovering);
        };
        if from == run {
            return Ok(Done::Redundant(Answer::Done));
        }
        if from.start != run.start || to.end != run.end {
            return Err(Rejection::NotCovering);
        }
        self.state.replace_runs(id, first..last + 1, *run);
        Ok(Done::Applied(Answer::Done))
    }

    /// Objects that are gone from the store.
    pub(super) fn forget(&mut self, objects: &[ObjectKey]) -> Verdict {
        let mut forgotten = false;
        for object in objects {
            forgotten |= self.state.unlinked.remove(object).is_some();
        }
        match forgotten {
            true => Ok(Done::Applied(Answer::Done)),
            false => Ok(Done::Redundant(Answer::Done)),
        }
    }
}
