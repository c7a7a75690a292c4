//! Proposals: many callers, one flusher, entries numbered from 1 and one in flight.
//!
//! The flusher packs what waits into one entry, repeats it under its number until its outcome is known
//! or its session has ended, and answers each caller after the own view holds it. A command that got a
//! number is never taken back, and never moves to another session. `send.rs` brings an entry to the
//! leader, `flusher.rs` is the loop, `session.rs` the session that numbers belong to.

mod flusher;
mod request;
mod send;
mod session;

pub use request::{as_request, in_request};
pub(crate) use send::{Brought, on_leader};

use crate::core::Core;
use crate::error::{ProposeError, RegisterError};
use flusher::Waiting;
use headwater_metadata::{Command, Outcome, Register, RetiredBy, Session};
use session::Sessions;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::{mpsc, oneshot, watch};

/// So many commands wait at most.
const QUEUE: usize = 16_384;
/// An entry has room for this beside its commands.
const FRAME_BYTES: usize = 256;

/// Takes commands from everybody in the process.
#[derive(Clone)]
pub(crate) struct Proposer {
    core: Arc<Core>,
    sessions: Arc<Sessions>,
    queue: mpsc::Sender<Waiting>,
}

impl Proposer {
    pub(crate) fn start(core: Arc<Core>) -> Proposer {
        let sessions = Arc::new(Sessions::new(core.clone()));
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(flusher::run(core.clone(), sessions.clone(), waiting));
        tokio::spawn(sessions.clone().watch());
        Proposer { core, sessions, queue }
    }

    /// Starts a session.
    pub(crate) async fn register(&self, register: Register) -> Result<(), RegisterError> {
        self.sessions.register(register).await
    }

    /// Why the session ended.
    pub(crate) fn session_end(&self) -> watch::Receiver<Option<RetiredBy>> {
        self.sessions.end()
    }

    /// The session, as it changes.
    pub(crate) fn session(&self) -> watch::Receiver<Option<Session>> {
        self.sessions.session()
    }

    /// Proposes a command and waits for its outcome.
    pub(crate) async fn propose(&self, command: Command) -> Result<Outcome, ProposeError> {
        let limit = self.core.options.entry_limit;
        let size = postcard::experimental::serialized_size(&command).unwrap_or(usize::MAX);
        if size.saturating_add(FRAME_BYTES) > limit {
            return Err(ProposeError::TooLarge { size, limit });
        }
        if self.core.fatal.get().is_some() {
            return Err(self.stopped());
        }
        let session = self.sessions.current()?;
        let (reply, outcome) = oneshot::channel();
        let fate = Arc::new(AtomicU8::new(WAITS));
        let request = request::current();
        let waiting = Waiting { command, size, session, request, fate: fate.clone(), reply };
        if let Err(error) = self.queue.try_send(waiting) {
            return Err(match error {
                mpsc::error::TrySendError::Full(_) => {
                    ProposeError::Unavailable("too many proposals wait".to_owned())
                }
                mpsc::error::TrySendError::Closed(_) => self.stopped(),
            });
        }
        match self.core.env.timeout(self.core.options.deadline, outcome).await {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(self.stopped()),
            None if fate.swap(GIVEN_UP, Ordering::AcqRel) == WAITS => {
                Err(ProposeError::Unavailable(self.sessions.trouble()))
            }
            None => Err(ProposeError::Unknown),
        }
    }

    fn stopped(&self) -> ProposeError {
        let why = self.core.fatal.get().map_or_else(|| "shutdown".to_owned(), |fatal| fatal.to_string());
        ProposeError::Stopped(why)
    }
}

/// A command waits for a number: it can still be given up.
const WAITS: u8 = 0;
/// It has a number.
const TAKEN: u8 = 1;
/// Its caller gave up first.
const GIVEN_UP: u8 = 2;
