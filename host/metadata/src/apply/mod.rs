//! Applying the log: one entry in, the state changed, one answer per command out.
//!
//! Here is what holds for every entry: who may propose, and that a repeat is answered from memory. Each
//! command's own rules are in the file of its group. Nothing here reads a clock, draws a random number, or
//! depends on the node that it runs on; the one question to the outside is `Placement`.
//!
//! A command is judged first and changes the state after its last check: a rejected one changes nothing.

mod commit;
mod nodes;
mod open_close;
mod place;
mod policies;
mod recover;
mod sessions;
mod streams;
mod transfer;

use crate::command::*;
use crate::digest::name_of;
use crate::model::*;
use crate::placement::Placement;
use crate::records::*;
use crate::state::State;
use std::sync::Arc;

pub use policies::{MAX_COMPONENT, MAX_POLICIES};
pub use streams::{MAX_CONTENT_TYPE, MAX_NAME};

/// What a command came to, before it is an outcome.
type Verdict = Result<Done, Rejection>;

enum Done {
    Applied(Answer),
    Redundant(Answer),
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Outcome {
        match verdict {
            Ok(Done::Applied(answer)) => Outcome::Applied(answer),
            Ok(Done::Redundant(answer)) => Outcome::Redundant(answer),
            Err(rejection) => Outcome::Rejected(rejection),
        }
    }
}

/// One command on its way into the state.
struct Apply<'a> {
    state: &'a mut State,
    /// Log index of the entry.
    index: u64,
    /// The proposing session.
    by: Session,
    placement: &'a dyn Placement,
}

impl State {
    /// Applies the entry at `index`. The answers are one per command; a `Register` has one.
    pub fn apply(&mut self, index: u64, entry: &Entry, placement: &dyn Placement) -> Vec<Outcome> {
        self.advance(index);
        match entry {
            Entry::Register(register) => vec![sessions::register(self, index, register).into()],
            Entry::Batch(batch) => self.apply_batch(index, batch, placement),
        }
    }

    /// Notes that the log was applied up to `index`, also when the entry there was not the state's.
    pub fn advance(&mut self, index: u64) {
        self.index = self.index.max(index);
    }

    /// The engine fingerprint that applying this entry runs a policy on; `None` when it asks no policy.
    /// May say more than is needed, never less.
    pub fn asks_policy(&self, entry: &Entry) -> Option<Digest> {
        let Entry::Batch(batch) = entry else {
            return None;
        };
        let mut policy = self.active.policy;
        let mut asks = false;
        for command in &batch.commands {
            match command {
                Command::ActivatePolicy { policy: next } => policy = *next,
                Command::Place { .. } => asks |= policy != Digest::BUILTIN,
                _ => {}
            }
        }
        self.common_engine().filter(|_| asks)
    }

    fn apply_batch(&mut self, index: u64, batch: &Batch, placement: &dyn Placement) -> Vec<Outcome> {
        let entry = name_of("entry", batch);
        if let Some(answers) = self.answered_before(batch, entry) {
            return answers;
        }
        let mut answers: Vec<Answered> = Vec::with_capacity(batch.commands.len());
        for command in &batch.commands {
            let outcome = self.apply_command(index, batch.session, command, placement);
            if matches!((command, &outcome), (Command::ResetPlacement, Outcome::Applied(_))) {
                answers.iter_mut().for_each(policies::forget_placement);
            }
            answers.push(match command {
                Command::Place { .. } | Command::Transfer { .. } => Answered::Placement(outcome),
                _ => Answered::Fencing(outcome),
            });
        }
        let outcomes = answers.iter().map(|answer| answer.outcome().clone()).collect();
        self.remember(batch, LastEntry { entry, answers });
        outcomes
    }

    /// The answers of a batch that is not applied: a repeat, or one that may not be proposed.
    fn answered_before(&self, batch: &Batch, entry: Digest) -> Option<Vec<Outcome>> {
        let reject = |why: Rejection| Some(vec![Outcome::Rejected(why); batch.commands.len()]);
        let state = self.session_state(batch.session);
        let progress = match state {
            SessionState::Registered => self.progress(batch.session),
            SessionState::Retired(_) => self.retired(batch.session).map(|retired| &retired.progress),
            SessionState::Unknown => None,
        };
        let number = progress.map_or(0, |progress| progress.number);
        let last = progress.and_then(|progress| progress.last.as_ref());
        if let Some(last) = last.filter(|_| number == batch.number) {
            return match last.entry == entry {
                true => Some(last.answers.iter().map(|answer| answer.outcome().clone()).collect()),
                false => reject(Rejection::Number { number: batch.number, last: number }),
            };
        }
        if state != SessionState::Registered {
            return reject(Rejection::NotRegistered { session: batch.session, why: state });
        }
        if number.checked_add(1) != Some(batch.number) {
            return reject(Rejection::Number { number: batch.number, last: number });
        }
        None
    }

    /// Keeps the answers, also when the session was ended by its own entry.
    fn remember(&mut self, batch: &Batch, last: LastEntry) {
        let note = |progress: &mut Progress| {
            progress.number = batch.number;
            progress.last = Some(Arc::new(last));
        };
        if self.live.get(&batch.session).is_some() {
            self.live.modify(&batch.session, note);
        } else {
            self.retired.modify(&batch.session, |retired| note(&mut retired.progress));
        }
    }

    pub(crate) fn apply_command(
        &mut self,
        index: u64,
        by: Session,
        command: &Command,
        placement: &dyn Placement,
    ) -> Outcome {
        let why = self.session_state(by);
        if why != SessionState::Registered {
            return Outcome::Rejected(Rejection::NotRegistered { session: by, why });
        }
        Apply { state: self, index, by, placement }.command(command).into()
    }
}

impl Apply<'_> {
    fn command(&mut self, command: &Command) -> Verdict {
        use Command::*;
        match command {
            SetNode { node, slots, labels, draining } => {
                self.set_node(*node, *slots, labels.as_ref(), *draining)
            }
            Evict { session, silent } => self.evict(*session, *silent),
            Disown { session } => self.disown(*session),
            CreateStream(create) => self.create_stream(create),
            DeleteStream { stream, epoch } => self.delete_stream(*stream, *epoch),
            Place { stream } => self.place(*stream),
            Open { stream, epoch } => self.open(*stream, *epoch),
            Close { stream, epoch, end, touched_ms } => self.close(*stream, *epoch, *end, *touched_ms),
            Commit { runs, trim } => self.commit(runs, *trim),
            Transfer { stream, epoch, target } => self.transfer(*stream, *epoch, *target),
            CompleteTransfer { stream, epoch } => self.complete_transfer(*stream, *epoch),
            CancelTransfer { stream, epoch } => self.cancel_transfer(*stream, *epoch),
            RecoverSession { session, streams, last } => self.recover_session(*session, streams, *last),
            Replace { stream, epoch, run } => self.replace(*stream, *epoch, run),
            Forget { objects } => self.forget(objects),
            AcceptLoss { stream, epoch } => self.accept_loss(*stream, *epoch),
            PutPolicy { name, version, needs_labels, component } => {
                self.put_policy(name, version, *needs_labels, component)
            }
            ActivatePolicy { policy } => self.activate_policy(*policy),
            RemovePolicy { policy } => self.remove_policy(*policy),
            ResetPlacement => self.reset_placement(),
        }
    }

    /// A stream that exists, at the epoch that the command names.
    fn stream_at(&self, id: StreamId, named: StreamEpoch) -> Result<&Arc<Stream>, Rejection> {
        let stream = self.existing(id)?;
        match stream.epoch == named {
            true => Ok(stream),
            false => Err(Rejection::StreamEpoch { named, actual: stream.epoch }),
        }
    }

    /// A stream that exists and is not deleted.
    fn existing(&self, id: StreamId) -> Result<&Arc<Stream>, Rejection> {
        self.state.stream(id).filter(|stream| !stream.deleted).ok_or(Rejection::NoStream(id))
    }

    /// A stream that the proposer has open, at the epoch that the command names.
    fn opened(&self, id: StreamId, named: StreamEpoch) -> Result<&Arc<Stream>, Rejection> {
        let stream = self.existing(id)?;
        if stream.ownership != Ownership::Opened(self.by) {
            return Err(Rejection::NotOpen(self.by));
        }
        self.stream_at(id, named)
    }

    /// Refuses while the stream is open in another session, or in one that is not recovered.
    fn not_open_elsewhere(&self, stream: &Stream) -> Result<(), Rejection> {
        match (self.state.waits_for_recovery(stream), stream.ownership) {
            (Some(session), _) => Err(Rejection::WaitsForRecovery(session)),
            (None, Ownership::Opened(session)) if session != self.by => {
                Err(Rejection::OpenElsewhere(session))
            }
            _ => Ok(()),
        }
    }
}
