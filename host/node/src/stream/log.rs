//! What the streams ask of the replicated metadata, as a trait so that tests run on one in memory; and
//! how a command is brought to a known outcome.
//!
//! A command whose caller must know what became of it is proposed until an answer comes. Every such
//! command names ids and epochs, and entries of one session are applied in order, so a repeat does no
//! harm and its answer comes after the fate of the first is in the own view: that is where the callers
//! look, never at the answer alone.

use headwater_env::{BoxFuture, Env};
use headwater_metadata::{Command, Outcome, RetiredBy, View};
use headwater_raft::{Metadata, ProposeError, Unavailable};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The replicated metadata.
pub trait Log: Send + Sync + 'static {
    /// The own view.
    fn view(&self) -> Arc<View>;
    /// Wakes at each publication of a view.
    fn views(&self) -> watch::Receiver<u64>;
    /// Proposes a command under the session; answers after the own view has it.
    fn propose(&self, command: Command) -> BoxFuture<'_, Result<Outcome, ProposeError>>;
    /// Waits until the own view contains everything committed before the call.
    fn barrier(&self) -> BoxFuture<'_, Result<(), Unavailable>>;
    /// Why the session ended.
    fn session_end(&self) -> watch::Receiver<Option<RetiredBy>>;
}

impl Log for Metadata {
    fn view(&self) -> Arc<View> {
        Metadata::view(self)
    }

    fn views(&self) -> watch::Receiver<u64> {
        Metadata::views(self)
    }

    fn propose(&self, command: Command) -> BoxFuture<'_, Result<Outcome, ProposeError>> {
        Box::pin(Metadata::propose(self, command))
    }

    fn barrier(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(Metadata::barrier(self))
    }

    fn session_end(&self) -> watch::Receiver<Option<RetiredBy>> {
        Metadata::session_end(self)
    }
}

/// The session is over, or the command can never be proposed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no outcome: {0}")]
pub struct NoOutcome(pub ProposeError);

/// Proposes until the outcome is known. What it says of a repeat is not the fate of the first: callers
/// look at the view.
pub async fn settle(log: &dyn Log, env: &Env, command: Command) -> Result<Outcome, NoOutcome> {
    let mut pause = Duration::from_millis(50);
    loop {
        match log.propose(command.clone()).await {
            Ok(outcome) => return Ok(outcome),
            Err(ProposeError::Unavailable(_) | ProposeError::Unknown) => {
                env.clock.sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
            Err(error) => return Err(NoOutcome(error)),
        }
    }
}
