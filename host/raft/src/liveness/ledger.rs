//! The leader's ledger: for how many of its own on-time ticks each session has been silent. Pure.
//!
//! A late tick says that the leader slept or starved, not that the others are silent: it counts for
//! nothing, and after it everybody has 2 L to be heard. A leader that is late in three of ten ticks is
//! no judge: it hands over.

use super::{BEATS, LEASES};
use headwater_metadata::Session;
use std::collections::{BTreeMap, VecDeque};

/// On-time ticks of silence after which a session is evicted.
const EVICT_TICKS: u32 = BEATS * LEASES;
/// Ticks that everybody has after a late one.
const GRACE_TICKS: u32 = BEATS * 2;

/// What a leader has heard since it leads.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    silent: BTreeMap<Session, u32>,
    late: VecDeque<bool>,
}

impl Ledger {
    /// A session was heard.
    pub(crate) fn heard(&mut self, session: Session) {
        if let Some(ticks) = self.silent.get_mut(&session) {
            *ticks = 0;
        }
    }

    /// One tick has passed; `registered` are the sessions of now. One that is new begins at nothing.
    pub(crate) fn tick(&mut self, late: bool, registered: impl IntoIterator<Item = Session>) {
        let before = std::mem::take(&mut self.silent);
        for session in registered {
            let ticks = match before.get(&session) {
                None => 0,
                Some(ticks) if late => (*ticks).min(EVICT_TICKS - GRACE_TICKS),
                Some(ticks) => ticks.saturating_add(1),
            };
            self.silent.insert(session, ticks);
        }
        self.late.push_back(late);
        if self.late.len() > 10 {
            self.late.pop_front();
        }
    }

    /// Sessions that have been silent for the eviction time.
    pub(crate) fn due(&self) -> Vec<Session> {
        self.silent.iter().filter(|(_, ticks)| **ticks > EVICT_TICKS).map(|(session, _)| *session).collect()
    }

    /// Sessions and the on-time ticks since they were heard.
    pub(crate) fn silent(&self) -> impl Iterator<Item = (Session, u32)> + '_ {
        self.silent.iter().map(|(session, ticks)| (*session, *ticks))
    }

    /// Whether this leader is late too often to judge others.
    pub(crate) fn starves(&self) -> bool {
        self.late.iter().filter(|late| **late).count() >= 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_metadata::{Epoch, NodeId};

    fn session(node: u64) -> Session {
        Session { node: NodeId(node), epoch: Epoch(1) }
    }

    fn ticks(ledger: &mut Ledger, n: u32, late: bool) {
        for _ in 0..n {
            ledger.tick(late, [session(1), session(2)]);
        }
    }

    #[test]
    fn silence_counts_from_the_last_heartbeat_and_from_the_election() {
        let mut ledger = Ledger::default();
        ticks(&mut ledger, EVICT_TICKS + 1, false);
        // The first tick is the one that the sessions were first seen at.
        assert_eq!(ledger.due(), []);
        ledger.heard(session(1));
        ticks(&mut ledger, 1, false);
        assert_eq!(ledger.due(), [session(2)]);
        ticks(&mut ledger, EVICT_TICKS - 1, false);
        assert_eq!(ledger.due(), [session(2)]);
        ticks(&mut ledger, 1, false);
        assert_eq!(ledger.due(), [session(1), session(2)]);
    }

    #[test]
    fn a_late_tick_counts_for_nothing_and_gives_everybody_two_leases() {
        let mut ledger = Ledger::default();
        ticks(&mut ledger, EVICT_TICKS + 1, false);
        ticks(&mut ledger, 1, true);
        ticks(&mut ledger, GRACE_TICKS, false);
        assert_eq!(ledger.due(), []);
        ticks(&mut ledger, 1, false);
        assert_eq!(ledger.due().len(), 2);
    }

    #[test]
    fn a_leader_late_in_three_of_ten_ticks_is_no_judge() {
        let mut ledger = Ledger::default();
        ticks(&mut ledger, 2, true);
        ticks(&mut ledger, 8, false);
        assert!(!ledger.starves());
        let mut ledger = Ledger::default();
        ticks(&mut ledger, 2, true);
        ticks(&mut ledger, 7, false);
        ticks(&mut ledger, 1, true);
        assert!(ledger.starves());
        ticks(&mut ledger, 3, false);
        assert!(!ledger.starves());
    }

    #[test]
    fn a_session_that_ended_is_forgotten_and_its_successor_begins_anew() {
        let mut ledger = Ledger::default();
        ticks(&mut ledger, EVICT_TICKS + 2, false);
        assert_eq!(ledger.due().len(), 2);
        let later = Session { node: NodeId(2), epoch: Epoch(9) };
        ledger.tick(false, [session(1), later]);
        assert_eq!(ledger.due(), [session(1)]);
    }
}
