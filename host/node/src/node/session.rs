//! Starts a session: registers the process in the metadata log, and says in plain words why that was
//! refused.
//!
//! An epoch is the wall clock at the start of the process, so a clock that went backwards shows here
//! and nowhere else. `mod.rs` runs what a session serves.

use headwater_env::Env;
use headwater_metadata::{Epoch, NodeId, NodeInfo, Register, Rejection, Session, WalForm};
use headwater_raft::{Metadata, RegisterError};
use headwater_store::{Store, StoreError};
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(500);

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The clock of this machine is behind the one that the last process of this node had.
    #[error(
        "this machine's clock went backwards: it gives epoch {offered}, but node {node} has already had \
         epoch {highest}, {ahead} later. A lower epoch is never registered, since it would bring an ended \
         session back. Ways out: mend the clock, wait until it has passed {highest}, or start with a new \
         --node-id and an empty data directory"
    )]
    ClockWentBackwards {
        /// The node.
        node: NodeId,
        /// What the clock gives.
        offered: Epoch,
        /// What is recorded.
        highest: Epoch,
        /// The difference, for people.
        ahead: String,
    },
    /// Another process of this node exists.
    #[error("node {node} was taken over by a later process, at epoch {epoch}")]
    Replaced {
        /// The node.
        node: NodeId,
        /// Of the later process.
        epoch: Epoch,
    },
    /// Anything else that the log said.
    #[error("the registration of node {0} was rejected: {1}")]
    Rejected(NodeId, Rejection),
    /// The raft member ended.
    #[error("{0}")]
    Stopped(String),
}

/// What a process says of itself whenever it registers.
#[derive(Clone, Debug)]
pub struct Applicant {
    /// The node.
    pub node: NodeId,
    /// Random number of the process.
    pub nonce: u128,
    /// Address, slots, labels, engine, and the form of the write-ahead log that it wishes.
    pub info: NodeInfo,
}

/// Registers at `epoch`, or at the next free one when a process of the same millisecond has it.
/// Waits for a quorum as long as it takes.
pub async fn register(
    env: &Env,
    metadata: &Metadata,
    store: &Store,
    who: &Applicant,
    mut epoch: Epoch,
    continues: Option<Epoch>,
) -> Result<Session, SessionError> {
    let mut told = false;
    let mut info = who.info.clone();
    let mut prepared = None;
    loop {
        let session = Session { node: who.node, epoch };
        if prepared != Some(session) {
            // The log of append files needs its folder before anybody may look for it.
            info.wal = match store.prepare_log(session, who.info.wal).await {
                Ok(form) => form,
                Err(StoreError::Taken { .. }) => {
                    epoch = Epoch(epoch.0 + 1);
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, "the write-ahead log will be objects");
                    WalForm::Objects
                }
            };
            prepared = Some(session);
        }
        let register = Register { session, nonce: who.nonce, continues, info: info.clone() };
        match metadata.register(register).await {
            Ok(()) => return Ok(session),
            Err(RegisterError::Rejected(Rejection::EpochTaken(taken))) => epoch = Epoch(taken.0 + 1),
            Err(RegisterError::Rejected(why)) => return Err(refusal(who.node, why)),
            Err(RegisterError::Stopped(why)) => return Err(SessionError::Stopped(why)),
            Err(RegisterError::Unavailable(why)) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(%why, "cannot register yet: waits for a quorum");
                }
                env.clock.sleep(PAUSE).await;
            }
        }
    }
}

fn refusal(node: NodeId, why: Rejection) -> SessionError {
    match why {
        Rejection::LowerEpoch { offered, highest } => SessionError::ClockWentBackwards {
            node,
            offered,
            highest,
            ahead: apart(highest.0.saturating_sub(offered.0)),
        },
        Rejection::LaterProcess(epoch) => SessionError::Replaced { node, epoch },
        why => SessionError::Rejected(node, why),
    }
}

/// A difference of milliseconds for people.
fn apart(ms: u64) -> String {
    match ms / 1_000 {
        0 => format!("{ms} ms"),
        s @ 1..=119 => format!("{s} s"),
        s @ 120..=7_199 => format!("{} min", s / 60),
        s @ 7_200..=172_799 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_went_backwards_is_explained() {
        let why = Rejection::LowerEpoch { offered: Epoch(1_000), highest: Epoch(3_601_000 + 3_600_000) };
        let text = refusal(NodeId(7), why).to_string();
        for word in ["epoch 1000", "epoch 7201000", "2 h later", "mend the clock", "--node-id"] {
            assert!(text.contains(word), "{word} is missing: {text}");
        }
    }
}
