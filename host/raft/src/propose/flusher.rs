//! The one loop that gives commands their numbers.

use super::request::{self, Ids};
use super::send::{self, Tried};
use super::session::{self, Pause, Sessions};
use super::{FRAME_BYTES, TAKEN, WAITS};
use crate::core::Core;
use crate::counters::{add, count};
use crate::error::{Fatal, ProposeError};
use headwater_metadata::{Batch, Command, Entry, Outcome, Rejection, RetiredBy, Session, SessionState};
use http::HeaderValue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::{mpsc, oneshot};

/// A command and who waits for it.
pub(super) struct Waiting {
    pub command: Command,
    pub size: usize,
    /// The session of the moment it was proposed: it never moves to another one.
    pub session: Session,
    /// The id of the request that it is part of.
    pub request: Option<HeaderValue>,
    pub fate: Arc<AtomicU8>,
    pub reply: oneshot::Sender<Result<Outcome, ProposeError>>,
}

impl Waiting {
    /// Takes the command for an entry, unless its caller has gone.
    fn take(&self) -> bool {
        let taken = self.fate.compare_exchange(WAITS, TAKEN, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok() && !self.reply.is_closed()
    }
}

type Reply = oneshot::Sender<Result<Outcome, ProposeError>>;

/// Commands of one entry at most.
const COMMANDS: usize = 256;

/// The contents of one entry, and who waits for them.
#[derive(Default)]
struct Packed {
    commands: Vec<Command>,
    /// Ids of the requests that the commands are part of.
    requests: Vec<String>,
    replies: Vec<Reply>,
    /// What did not fit.
    left: Option<Waiting>,
}

/// What became of an entry.
enum Settled {
    Outcomes(Vec<Outcome>),
    Ended(RetiredBy),
    Stopped(String),
}

pub(super) async fn run(core: Arc<Core>, sessions: Arc<Sessions>, mut queue: mpsc::Receiver<Waiting>) {
    let mut held: Option<Waiting> = None;
    let mut last: Option<(Session, u64)> = None;
    let mut stop = core.stop.subscribe();
    loop {
        let first = match held.take() {
            Some(first) => first,
            None => tokio::select! {
                biased;
                next = queue.recv() => match next {
                    Some(next) => next,
                    None => return,
                },
                _ = stop.wait_for(|stop| *stop) => return,
            },
        };
        let session = first.session;
        if let Some(error) = refusal(&sessions, session) {
            let _ = first.reply.send(Err(error));
            continue;
        }
        let Packed { commands, requests, replies, left } = pack(&core, first, &mut queue);
        held = left;
        if commands.is_empty() {
            continue;
        }
        let number = match last {
            Some((of, number)) if of == session => number + 1,
            // A session begins at what the state knows of it: 0, unless its registration was a repeat.
            _ => core.published.view().progress(session).map_or(0, |progress| progress.number) + 1,
        };
        last = Some((session, number));
        count(&core.counters.entries_proposed);
        add(&core.counters.commands_proposed, commands.len());
        tracing::debug!(%session, number, commands = commands.len(), requests = %Ids(&requests), "proposes");
        let settled = tokio::select! {
            biased;
            settled = settle(&core, &sessions, Batch { session, number, commands }, &requests) => settled,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        answer(&core, &sessions, session, settled, replies);
    }
}

fn refusal(sessions: &Sessions, session: Session) -> Option<ProposeError> {
    match sessions.current() {
        Ok(current) if current == session => None,
        // Another session has begun since the command was proposed.
        Ok(_) => Some(ProposeError::SessionEnded(RetiredBy::Replaced)),
        Err(error) => Some(error),
    }
}

/// Packs what waits into one entry, within its limits.
fn pack(core: &Core, first: Waiting, queue: &mut mpsc::Receiver<Waiting>) -> Packed {
    let (session, mut bytes) = (first.session, FRAME_BYTES);
    let mut packed = Packed::default();
    let mut next = Some(first);
    while let Some(waiting) = next.take().or_else(|| queue.try_recv().ok()) {
        let full = packed.commands.len() == COMMANDS || bytes + waiting.size > core.options.entry_limit;
        if waiting.session != session || full {
            packed.left = Some(waiting);
            return packed;
        }
        if waiting.take() {
            bytes += waiting.size;
            packed.commands.push(waiting.command);
            packed.requests.extend(waiting.request.as_ref().and_then(request::text));
            packed.replies.push(waiting.reply);
        }
    }
    packed
}

/// Repeats an entry under its number until its outcome is known or its session has ended.
async fn settle(core: &Arc<Core>, sessions: &Sessions, batch: Batch, requests: &[String]) -> Settled {
    let (session, number) = (batch.session, batch.number);
    let entry = Arc::new(Entry::Batch(batch));
    let mut pause = Pause::new();
    let mut first = true;
    loop {
        if !std::mem::take(&mut first) {
            count(&core.counters.repeats);
        }
        let tried = tokio::select! {
            biased;
            tried = send::once(core, &entry, requests) => tried,
            settled = shown(core, session, number) => return settled,
        };
        match tried {
            Tried::Applied { index, outcomes } => {
                core.published.reach(index).await;
                return judge(core, session, outcomes);
            }
            Tried::Again(why) => sessions.set_trouble(why),
            Tried::Stopped(why) => return Settled::Stopped(why),
        }
        tokio::select! {
            biased;
            () = pause.wait(core) => {}
            settled = shown(core, session, number) => return settled,
        }
    }
}

/// Waits until the own view shows the entry's answers, or that its session has ended without them.
async fn shown(core: &Arc<Core>, session: Session, number: u64) -> Settled {
    let mut views = core.published.subscribe();
    loop {
        views.mark_unchanged();
        let view = core.published.view();
        let state = view.session_state(session);
        let progress = match state {
            SessionState::Retired(_) => view.retired(session).map(|retired| &retired.progress),
            _ => view.progress(session),
        };
        let last = progress.filter(|progress| progress.number == number);
        if let Some(last) = last.and_then(|progress| progress.last.as_ref()) {
            let outcomes = last.answers.iter().map(|answer| answer.outcome().clone());
            return Settled::Outcomes(outcomes.collect());
        }
        if let SessionState::Retired(by) = state {
            return Settled::Ended(by);
        }
        if views.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// What the outcomes say of the entry as a whole.
fn judge(core: &Core, session: Session, outcomes: Vec<Outcome>) -> Settled {
    match session::turned_away(&outcomes) {
        Some(Rejection::NotRegistered { why: SessionState::Retired(by), .. }) => Settled::Ended(*by),
        Some(Rejection::NotRegistered { .. }) => {
            Settled::Ended(session::retired(core, session).unwrap_or(RetiredBy::Evicted))
        }
        Some(rejection @ Rejection::Number { .. }) => {
            let why = format!("session {session}: {rejection}");
            core.fatal.report(Fatal::Cloned(why.clone()));
            Settled::Stopped(why)
        }
        _ => Settled::Outcomes(outcomes),
    }
}

fn answer(core: &Core, sessions: &Sessions, session: Session, settled: Settled, replies: Vec<Reply>) {
    match settled {
        Settled::Outcomes(outcomes) => {
            debug_assert_eq!(outcomes.len(), replies.len());
            for (outcome, reply) in outcomes.into_iter().zip(replies) {
                let _ = reply.send(Ok(outcome));
            }
        }
        Settled::Ended(by) => {
            sessions.ended(session, by);
            for reply in replies {
                let _ = reply.send(Err(ProposeError::SessionEnded(by)));
            }
        }
        Settled::Stopped(why) => {
            core.fatal.report(Fatal::Raft(why.clone()));
            for reply in replies {
                let _ = reply.send(Err(ProposeError::Stopped(why.clone())));
            }
        }
    }
}
