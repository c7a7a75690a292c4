//! Sessions begin and end: `Register`, `Evict`, `Disown`.
//!
//! Ending a session is cheap however many streams it has open: they are judged when somebody asks
//! (`State::effective`) and let go by `RecoverSession`.

use super::{Apply, Done, Verdict};
use crate::command::{Answer, Register, Rejection, SessionState};
use crate::digest::name_of;
use crate::model::*;
use crate::records::*;
use crate::state::State;
use std::sync::Arc;

/// Starts a session. The epochs of a node only grow, a session is never registered twice, and a process
/// that continues an ended session gives way to any later one.
pub(super) fn register(state: &mut State, index: u64, register: &Register) -> Verdict {
    let registration = name_of("register", register);
    let session = register.session;
    let known = state.node(session.node).cloned();
    let highest = known.as_ref().map(|node| node.highest);
    if highest == Some(session.epoch) {
        let live = known.as_ref().and_then(|node| node.live.as_ref());
        return match live.is_some_and(|live| live.registration == registration) {
            true => Ok(Done::Redundant(Answer::Done)),
            false => Err(Rejection::EpochTaken(session.epoch)),
        };
    }
    match (register.continues, highest) {
        (Some(epoch), Some(highest)) if epoch != highest => return Err(Rejection::LaterProcess(highest)),
        (Some(epoch), None) => return Err(Rejection::NoSession(Session { epoch, ..session })),
        _ => {}
    }
    if let Some(highest) = highest.filter(|highest| session.epoch < *highest) {
        return Err(Rejection::LowerEpoch { offered: session.epoch, highest });
    }
    if known.as_ref().is_some_and(|node| node.live.is_some()) {
        retire(state, index, session.node, RetiredBy::Replaced);
    }
    let info = register.info.clone();
    let (slots, labels, draining) = match known {
        Some(node) => (node.slots, node.labels, node.draining),
        None => (info.slots, Arc::new(info.labels.clone()), false),
    };
    let live = Live { session, nonce: register.nonce, info, registered_index: index, registration };
    let live = Some(Arc::new(live));
    state.put_node(Node { id: session.node, highest: session.epoch, live, slots, labels, draining });
    state.live.insert(session, Progress::default());
    Ok(Done::Applied(Answer::Done))
}

/// Ends the registered session of a node.
fn retire(state: &mut State, index: u64, node: NodeId, why: RetiredBy) {
    let Some(mut node) = state.node(node).cloned() else {
        return;
    };
    let Some(live) = node.live.take() else {
        return;
    };
    let session = live.session;
    let progress = state.live.remove(&session).unwrap_or_default();
    state.put_node(node);
    state.put_retired(Retired {
        session,
        why,
        disowned: false,
        recovered: false,
        retired_index: index,
        nonce: live.nonce,
        wal: live.info.wal,
        lock: live.info.lock.clone(),
        progress,
    });
}

impl Apply<'_> {
    pub(super) fn evict(&mut self, session: Session, silent: bool) -> Verdict {
        match self.state.session_state(session) {
            SessionState::Registered => {}
            SessionState::Retired(_) => return Ok(Done::Redundant(Answer::Done)),
            SessionState::Unknown => return Err(Rejection::NoSession(session)),
        }
        let why = if silent { RetiredBy::Silent } else { RetiredBy::Evicted };
        retire(self.state, self.index, session.node, why);
        // A move to a node that is gone would wait for ever.
        let coming: Vec<StreamId> = self.state.coming(session.node).collect();
        for stream in coming {
            self.state.change_stream(stream, |stream| stream.transfer = None);
        }
        Ok(Done::Applied(Answer::Done))
    }

    pub(super) fn disown(&mut self, session: Session) -> Verdict {
        let retired = self.state.retired(session).ok_or(Rejection::NotRetired(session))?;
        if retired.recovered || !retired.keeps_streams() {
            return Ok(Done::Redundant(Answer::Done));
        }
        self.state.retired.modify(&session, |retired| retired.disowned = true);
        Ok(Done::Applied(Answer::Done))
    }
}
