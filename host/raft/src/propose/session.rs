//! The session that this process proposes under: how it starts, and how the process learns that it
//! has ended.

use super::send::{self, Tried};
use crate::core::Core;
use crate::error::{ProposeError, RegisterError};
use headwater_metadata::{Entry, Outcome, Register, Rejection, RetiredBy, Session, SessionState};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The session of this process, one after the other.
pub(crate) struct Sessions {
    core: Arc<Core>,
    session: watch::Sender<Option<Session>>,
    end: watch::Sender<Option<RetiredBy>>,
    trouble: Mutex<String>,
}

impl Sessions {
    pub(super) fn new(core: Arc<Core>) -> Sessions {
        Sessions {
            core,
            session: watch::Sender::new(None),
            end: watch::Sender::new(None),
            trouble: Mutex::new("no answer from a leader".to_owned()),
        }
    }

    /// The session, or why there is none.
    pub(super) fn current(&self) -> Result<Session, ProposeError> {
        let session = self.session.borrow().ok_or(ProposeError::NoSession)?;
        match *self.end.borrow() {
            Some(by) => Err(ProposeError::SessionEnded(by)),
            None => Ok(session),
        }
    }

    pub(super) fn session(&self) -> watch::Receiver<Option<Session>> {
        self.session.subscribe()
    }

    pub(super) fn end(&self) -> watch::Receiver<Option<RetiredBy>> {
        self.end.subscribe()
    }

    /// Notes that a session ended, unless another one has begun.
    pub(super) fn ended(&self, session: Session, by: RetiredBy) {
        if *self.session.borrow() == Some(session) {
            self.end.send_if_modified(|end| {
                let first = end.is_none();
                *end = end.or(Some(by));
                first
            });
        }
    }

    /// Why proposals do not get through at the moment.
    pub(super) fn trouble(&self) -> String {
        self.trouble.lock().clone()
    }

    pub(super) fn set_trouble(&self, why: String) {
        *self.trouble.lock() = why;
    }

    /// Proposes the registration until its outcome is known or the deadline has passed.
    pub(super) async fn register(&self, register: Register) -> Result<(), RegisterError> {
        let session = register.session;
        let entry = Arc::new(Entry::Register(register));
        let tries = self.try_register(&entry);
        let answered = self.core.env.timeout(self.core.options.deadline, tries).await;
        match answered.unwrap_or_else(|| Err(RegisterError::Unavailable(self.trouble())))? {
            Outcome::Applied(_) | Outcome::Redundant(_) => {}
            Outcome::Rejected(rejection) => return Err(RegisterError::Rejected(rejection)),
        }
        self.end.send_replace(None);
        self.session.send_replace(Some(session));
        Ok(())
    }

    async fn try_register(&self, entry: &Arc<Entry>) -> Result<Outcome, RegisterError> {
        let mut pause = Pause::new();
        loop {
            match send::once(&self.core, entry, &[]).await {
                Tried::Applied { index, outcomes } => {
                    self.core.published.reach(index).await;
                    if let Some(outcome) = outcomes.into_iter().next() {
                        return Ok(outcome);
                    }
                }
                Tried::Again(why) => self.set_trouble(why),
                Tried::Stopped(why) => return Err(RegisterError::Stopped(why)),
            }
            pause.wait(&self.core).await;
        }
    }

    /// Follows the own view, and notes when it says that the session has ended.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut views = self.core.published.subscribe();
        let mut sessions = self.session.subscribe();
        let mut stop = self.core.stop.subscribe();
        loop {
            if let Some(session) = *sessions.borrow_and_update()
                && let Some(by) = retired(&self.core, session)
            {
                self.ended(session, by);
            }
            tokio::select! {
                biased;
                changed = views.changed() => if changed.is_err() { return },
                changed = sessions.changed() => if changed.is_err() { return },
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }
}

/// Why a session ended, if the own view says that it did.
pub(super) fn retired(core: &Core, session: Session) -> Option<RetiredBy> {
    match core.published.view().session_state(session) {
        SessionState::Retired(by) => Some(by),
        SessionState::Registered | SessionState::Unknown => None,
    }
}

/// Why every command of an entry was turned away before it was applied, if so.
pub(super) fn turned_away(outcomes: &[Outcome]) -> Option<&Rejection> {
    let whole = |rejection: &Rejection| {
        matches!(rejection, Rejection::NotRegistered { .. } | Rejection::Number { .. })
    };
    match outcomes.first() {
        Some(Outcome::Rejected(rejection)) if whole(rejection) => Some(rejection),
        _ => None,
    }
}

/// Pauses between tries, longer each time.
pub(super) struct Pause {
    next: Duration,
}

impl Pause {
    pub(super) fn new() -> Pause {
        Pause { next: Duration::from_millis(10) }
    }

    pub(super) async fn wait(&mut self, core: &Core) {
        core.env.clock.sleep(self.next).await;
        self.next = (self.next * 2).min(Duration::from_millis(250));
    }
}
