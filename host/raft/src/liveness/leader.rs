//! The leader's side: answering heartbeats, and evicting who is silent.

use super::ledger::Ledger;
use super::moment::Moment;
use super::{Answered, Beat, Silent, beat, lease_length};
use crate::core::Core;
use crate::counters::count;
use crate::error::ProposeError;
use crate::membership;
use crate::propose::Proposer;
use headwater_metadata::{Command, Outcome, Session, SessionState};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A node whose store fails for so long, while most others' works, is heard no more.
const STORE_FAILS: u64 = 10_000;

/// A tick is late when it comes after so many intervals.
const LATE: u32 = 3;

/// What a member knows while it leads. Empty while it does not.
#[derive(Default)]
pub(crate) struct Leader {
    term: Mutex<Option<Term>>,
}

struct Term {
    number: u64,
    ledger: Ledger,
    /// The last tick.
    tick: Moment,
    /// Monotonic time of the last tick that found time missing: what a quorum confirmed before it is
    /// worth nothing.
    woke: Duration,
    /// Sessions whose eviction was proposed and has no outcome yet. They are not answered.
    evicting: BTreeSet<Session>,
    /// What each session says of its store.
    stores: BTreeMap<Session, Option<u64>>,
}

impl Leader {
    /// Answers a heartbeat.
    pub(crate) fn answer(&self, core: &Core, beat: &Beat) -> Answered {
        match self.judge(core, beat) {
            Ok(()) => {
                count(&core.counters.heartbeats_answered);
                Answered::Held
            }
            Err(why) => {
                count(&core.counters.heartbeats_refused);
                Answered::No(why.to_owned())
            }
        }
    }

    fn judge(&self, core: &Core, beat: &Beat) -> Result<(), &'static str> {
        let now = Moment::now(&core.env);
        let length = lease_length(core.options.evict_after);
        let mut term = self.term.lock();
        let term = term.as_mut().ok_or("this member does not lead, or does so only just now")?;
        let facts = core.leading().ok_or("this member does not lead")?;
        if facts.term != term.number {
            return Err("the leadership is new");
        }
        if core.published.view().session_state(beat.session) != SessionState::Registered {
            return Err("the session is not registered");
        }
        term.stores.insert(beat.session, beat.store_fails_ms);
        if term.store_fails(beat.session) {
            return Err("the store refuses this node while it serves the others");
        }
        // Heard, whether or not there is an answer: it is not the session's fault when this leader has
        // no quorum. Who was not heard was not answered either.
        term.ledger.heard(beat.session);
        // Everything that it has committed is applied, an entry of its own term included.
        if !facts.own_term_committed || core.published.applied() < facts.committed {
            return Err("the leader has not applied everything yet");
        }
        // Woken and not ticked yet: whatever was confirmed, was before the sleep.
        if term.tick.slept(&now) > length / 4 {
            return Err("the leader slept");
        }
        let confirmed = facts
            .quorum_acked
            .is_some_and(|ago| ago < length && now.monotonic().saturating_sub(ago) >= term.woke);
        if !confirmed && !facts.alone {
            return Err("no quorum has confirmed the leader lately");
        }
        // Again, in the state of now.
        if core.published.view().session_state(beat.session) != SessionState::Registered {
            return Err("the session is not registered");
        }
        if term.evicting.contains(&beat.session) {
            return Err("the session is being evicted");
        }
        if beat.evict_after != core.options.evict_after {
            return Err("the nodes have different --evict-after: without leases, reads ask each time");
        }
        Ok(())
    }

    /// Sessions that were not heard at the last tick.
    pub(crate) fn silent(&self, evict_after: Duration) -> Vec<Silent> {
        let term = self.term.lock();
        let silent = term.iter().flat_map(|term| term.ledger.silent());
        let silent = silent.filter(|(_, ticks)| *ticks > 1);
        silent.map(|(session, ticks)| Silent { session, silent: beat(evict_after) * ticks }).collect()
    }

    /// One tick. Answers who is to be evicted, and whether to hand over.
    fn tick(&self, core: &Core) -> (Vec<Session>, bool) {
        let mut term = self.term.lock();
        let Some(facts) = core.leading() else {
            *term = None;
            return (Vec::new(), false);
        };
        let now = Moment::now(&core.env);
        if term.as_ref().is_none_or(|term| term.number != facts.term) {
            *term = Some(Term {
                number: facts.term,
                ledger: Ledger::default(),
                tick: now,
                woke: Duration::ZERO,
                evicting: BTreeSet::new(),
                stores: BTreeMap::new(),
            });
        }
        let Some(term) = term.as_mut() else { return (Vec::new(), false) };
        let interval = beat(core.options.evict_after);
        if term.tick.slept(&now) > interval {
            term.woke = now.monotonic();
        }
        // A tick counts one interval, however long it took: being late is about fairness to those who
        // were not heard meanwhile, and a busy machine's hiccup is no reason to begin anew.
        let late = term.tick.passed(&now) > interval * LATE;
        if late {
            count(&core.counters.ticks_late);
        }
        term.tick = now;
        let view = core.published.view();
        let registered: BTreeSet<Session> = view.sessions().map(|live| live.session).collect();
        term.stores.retain(|session, _| registered.contains(session));
        term.ledger.tick(late, registered);
        let due = term.ledger.due();
        let due: Vec<Session> = due
            .into_iter()
            .filter(|session| session.node != core.me.node || term.store_fails(*session))
            .filter(|session| !term.evicting.contains(session))
            .collect();
        if core.options.evict {
            term.evicting.extend(&due);
        }
        (due, term.ledger.starves())
    }

    fn settled(&self, session: Session) {
        if let Some(term) = self.term.lock().as_mut() {
            term.evicting.remove(&session);
        }
    }
}

impl Term {
    /// Whether a session's store has failed for long while most others' works.
    fn store_fails(&self, session: Session) -> bool {
        let fails = |said: &Option<u64>| said.is_some_and(|ms| ms >= STORE_FAILS);
        let works = self.stores.values().filter(|said| said.is_none()).count();
        self.stores.get(&session).is_some_and(fails) && works * 2 > self.stores.len()
    }
}

/// Ticks while the member lives; evicts while it leads.
pub(crate) async fn watch(core: Arc<Core>, proposer: Proposer) {
    let interval = beat(core.options.evict_after);
    let mut stop = core.stop.subscribe();
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = core.env.clock.sleep(interval) => {}
        }
        let (due, starves) = core.liveness.tick(&core);
        if !core.options.evict {
            continue;
        }
        if starves {
            tracing::warn!("this leader is late too often to judge others; it hands over");
            membership::hand_over(&core).await;
        }
        for session in due {
            count(&core.counters.evictions_proposed);
            tracing::warn!(%session, "evicting a silent session");
            tokio::spawn(evict(core.clone(), proposer.clone(), session));
        }
    }
}

/// Proposes an eviction. Only a known outcome ends the silence towards the session: an eviction of
/// unknown outcome may still apply.
async fn evict(core: Arc<Core>, proposer: Proposer, session: Session) {
    match proposer.propose(Command::Evict { session, silent: true }).await {
        Ok(Outcome::Applied(_) | Outcome::Redundant(_)) => core.liveness.settled(session),
        Ok(Outcome::Rejected(why)) => {
            tracing::warn!(%session, %why, "not evicted");
            core.liveness.settled(session);
        }
        Err(error @ (ProposeError::Unavailable(_) | ProposeError::NoSession)) => {
            // Never proposed, so it can be decided anew.
            tracing::warn!(%session, %error, "not evicted");
            core.liveness.settled(session);
        }
        Err(error) => tracing::warn!(%session, %error, "the eviction has no outcome"),
    }
}
