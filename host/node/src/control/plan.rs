//! Decides what this node shall do unasked. Pure: a view, who this is, and for how long it has known of
//! each ended session.
//!
//! `execute.rs` carries the actions out. The same action comes again until the view shows that it is
//! done, so nothing is lost when an attempt fails.

use headwater_metadata::{LockIdentity, NodeId, Ownership, Retired, RetiredBy, Session, StreamId, View};
use std::collections::BTreeMap;
use std::time::Duration;

/// So many streams are handed over at a time.
const AT_A_TIME: usize = 64;
/// After so many eviction periods a restarted node loses its claim on its own streams.
const CLAIM: u32 = 3;

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Seal the log of an ended session, replay it, let go of its streams.
    Recover(Session),
    /// The node of a replaced session did not recover it in time: its streams are anybody's.
    Disown(Session),
    /// Flush and close an open stream, so that another node can have it.
    HandOver(StreamId),
}

/// What the decision rests on.
pub struct Facts<'a> {
    /// The published view.
    pub view: &'a View,
    /// This session.
    pub me: Session,
    /// The data-directory lock that this process holds.
    pub lock: &'a LockIdentity,
    /// For how long this process has known that a session ended; one that is not here ended just now.
    pub known_for: &'a BTreeMap<Session, Duration>,
    /// Silence after which a node is evicted; a lease is a third of it.
    pub evict_after: Duration,
}

/// What there is to do now, in order.
pub fn plan(facts: &Facts<'_>) -> Vec<Action> {
    let mut actions = Vec::new();
    for ended in facts.view.unrecovered() {
        let known_for = facts.known_for.get(&ended.session).copied().unwrap_or_default();
        if ended.keeps_streams() && known_for >= facts.evict_after * CLAIM {
            actions.push(Action::Disown(ended.session));
        }
        if due(facts, ended).is_some_and(|after| known_for >= after) {
            actions.push(Action::Recover(ended.session));
        }
    }
    actions.extend(hand_over(facts).take(AT_A_TIME).map(Action::HandOver));
    actions
}

/// When it is this node's turn to recover the session, counted from when it heard of its end.
///
/// A lease of the session may still run for two lease times, unless the session was evicted for
/// silence, or this process holds the very lock that the session held: then its process is gone. A
/// restarted node comes first for its own session; the others follow one eviction period apart,
/// beginning with another node for each session.
fn due(facts: &Facts<'_>, ended: &Retired) -> Option<Duration> {
    // Who was evicted for silence had no lease left.
    let leases = if ended.why == RetiredBy::Silent { Duration::ZERO } else { facts.evict_after / 3 * 2 };
    if ended.session.node == facts.me.node {
        let same_lock = ended.lock == *facts.lock;
        return Some(if same_lock { Duration::ZERO } else { leases });
    }
    let registered = facts.view.sessions().map(|live| live.session.node);
    let others: Vec<NodeId> = registered.filter(|node| *node != ended.session.node).collect();
    let place = others.iter().position(|node| *node == facts.me.node)?;
    let first = usize::try_from(ended.session.epoch.0 % others.len() as u64).unwrap_or(0);
    let turn = u32::try_from((place + others.len() - first) % others.len()).unwrap_or(u32::MAX);
    // A node that came back takes care of what it left.
    let own_first = ended.why == RetiredBy::Replaced || facts.view.session_of(ended.session.node).is_some();
    Some(leases + facts.evict_after.saturating_mul(turn.saturating_add(u32::from(own_first))))
}

/// Open streams that shall go elsewhere: those on their way to another node, and all of a draining one
/// while another node could take them.
fn hand_over<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = StreamId> + 'a {
    let (view, me) = (facts.view, facts.me);
    let open_here =
        move |id: &StreamId| view.stream(*id).is_some_and(|it| it.ownership == Ownership::Opened(me));
    let staying = move |id: &StreamId| view.stream(*id).is_some_and(|it| it.transfer.is_none());
    let draining = view.node(me.node).is_some_and(|node| node.draining) && view.has_candidate();
    let leaving = view.leaving(me.node).filter(open_here);
    leaving.chain(view.open_in(me).filter(move |id| draining && staying(id)))
}

#[cfg(test)]
#[path = "plan_test.rs"]
mod tests;
