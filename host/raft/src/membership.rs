//! The leader's care for the membership: fills up the voters from learners that have caught up, and
//! takes out the old member of a node whose disk was lost, once its successor can stand in for it.
//!
//! One change at a time, and only changes that are safe to repeat. `plan` decides and is pure; the loop
//! around it looks at raft and acts.

use crate::core::Core;
use crate::counters::count;
use crate::options::Member;
use headwater_metadata::{NodeId, Session};
use openraft::ChangeMembers;
use openraft::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What the leader knows of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub node: NodeId,
    pub votes: bool,
    /// Its log is as long as the leader's, or nearly.
    pub caught_up: bool,
    /// How long it has not answered; `None` when it never did since this leader leads.
    pub silent: Option<Duration>,
    /// The process of this member is the registered session of its node.
    pub registered: bool,
}

/// A change of the membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A learner votes.
    Promote(u64),
    /// A learner votes in the place of a voter that is silent; that one stays a learner.
    Swap { out: u64, into: u64 },
    /// The successor of a lost member takes its place; the old one goes altogether.
    Succeed { old: u64, new: u64, votes: bool },
    /// Too many vote: one stops.
    Demote(u64),
}

/// So long a leader waits for its successor.
const HAND_OVER: Duration = Duration::from_secs(1);
/// A learner that lags by more than this does not vote yet.
const LAG: u64 = 128;

/// Chooses the next change, if one is due. `silence`: the eviction time. `me` is never touched.
pub(crate) fn plan(
    members: &BTreeMap<u64, Known>,
    me: u64,
    voters: usize,
    silence: Duration,
) -> Option<Change> {
    let is_silent = |known: &Known| known.silent.is_some_and(|silent| silent >= silence);
    let is_alive = |known: &Known| known.silent.is_some_and(|silent| silent < silence);
    let ready = |known: &Known| known.caught_up && is_alive(known);
    // A node with two members lost its disk: the one whose process is registered succeeds the other,
    // which is retired with that registration, once it has been silent for the eviction time.
    for (new, successor) in members.iter().filter(|(_, known)| known.registered && ready(known)) {
        let old = members
            .iter()
            .find(|(id, known)| *id != new && **id != me && known.node == successor.node && is_silent(known));
        if let Some((old, known)) = old {
            return Some(Change::Succeed { old: *old, new: *new, votes: known.votes && !successor.votes });
        }
    }
    let voting = members.values().filter(|known| known.votes).count();
    let candidate = members.iter().find(|(_, known)| !known.votes && ready(known)).map(|(id, _)| *id);
    if voting < voters {
        return candidate.map(Change::Promote);
    }
    if voting > voters {
        let out = members.iter().rfind(|(id, known)| known.votes && **id != me && !is_alive(known));
        let out = out.or_else(|| members.iter().rfind(|(id, known)| known.votes && **id != me));
        return out.map(|(id, _)| Change::Demote(*id));
    }
    // A voter that died makes room. With a grace beyond the eviction time, so that a restart is none.
    let dead = |known: &Known| known.silent.is_some_and(|silent| silent >= silence * 2);
    let out = members.iter().find(|(id, known)| known.votes && **id != me && dead(known))?;
    candidate.map(|into| Change::Swap { out: *out.0, into })
}

/// Looks and acts while this member leads.
pub(crate) async fn care(core: Arc<Core>) {
    let mut stop = core.stop.subscribe();
    let pause = core.options.raft_heartbeat * 5;
    let mut led_since = None;
    loop {
        tokio::select! {
            biased;
            () = core.env.clock.sleep(pause) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        if !core.is_leader() {
            led_since = None;
            continue;
        }
        let now = core.env.clock.monotonic();
        let since = *led_since.get_or_insert(now);
        let members = look(&core, now.saturating_sub(since));
        let due = plan(&members, core.me.member, core.options.voters, core.options.evict_after);
        if let Some(change) = due {
            act(&core, change).await;
        }
    }
}

/// What this leader knows of each member. `led`: since when it leads.
fn look(core: &Core, led: Duration) -> BTreeMap<u64, Known> {
    let metrics = core.metrics();
    let membership = metrics.membership_config.membership().clone();
    let voters: BTreeSet<u64> = membership.voter_ids().collect();
    let last = metrics.last_log_index.unwrap_or(0);
    let view = core.published.view();
    let known = membership.nodes().map(|(id, info)| {
        let me = *id == core.me.member;
        let replicated = metrics.replication.as_ref().and_then(|all| all.get(id)).copied().flatten();
        let heard = metrics.heartbeat.as_ref().and_then(|all| all.get(id)).cloned().flatten();
        let session = view.session_of(info.node);
        let known = Known {
            node: info.node,
            votes: voters.contains(id),
            caught_up: me || replicated.is_some_and(|at| at.index + LAG >= last),
            silent: match heard {
                _ if me => Some(Duration::ZERO),
                Some(heard) => Some(heard.elapsed()),
                // Never heard since this leader leads: silent for as long as that.
                None => Some(led),
            },
            registered: session.is_some_and(|session| registered_by(core, *id, session)),
        };
        (*id, known)
    });
    known.collect()
}

/// Whether a member's process is the one that registered its node's session: the newest member of the
/// node, which started no later than the session.
fn registered_by(core: &Core, member: u64, session: Session) -> bool {
    let newest = core.book.of_node(session.node);
    newest.is_some_and(|peer| peer.member == member && peer.epoch <= session.epoch.0)
}

async fn act(core: &Core, change: Change) {
    tracing::info!(?change, "changing the membership");
    let one = |id: u64| BTreeSet::from([id]);
    let (changes, retain) = match change {
        Change::Promote(id) => (ChangeMembers::AddVoterIds(one(id)), true),
        Change::Demote(id) => (ChangeMembers::RemoveVoters(one(id)), true),
        Change::Swap { out, into } => {
            let swap = vec![ChangeMembers::AddVoterIds(one(into)), ChangeMembers::RemoveVoters(one(out))];
            (ChangeMembers::Batch(swap), true)
        }
        Change::Succeed { old, new, votes: true } => {
            let swap = vec![ChangeMembers::AddVoterIds(one(new)), ChangeMembers::RemoveVoters(one(old))];
            (ChangeMembers::Batch(swap), false)
        }
        Change::Succeed { old, votes: false, .. } => {
            let out = vec![ChangeMembers::RemoveVoters(one(old)), ChangeMembers::RemoveNodes(one(old))];
            (ChangeMembers::Batch(out), false)
        }
    };
    match core.raft.change_membership(changes, retain).await {
        Ok(_) => count(&core.counters.membership_changes),
        Err(error) => tracing::warn!(%error, "the membership was not changed"),
    }
}

/// Gives the leadership to the voter with the longest log, and waits a moment for it to take it. True
/// when this member does not lead (any more).
pub(crate) async fn hand_over(core: &Core) -> bool {
    let me = core.me.member;
    if !core.is_leader() {
        return true;
    }
    let members = look(core, Duration::ZERO);
    let metrics = core.metrics();
    let log = |id: &u64| metrics.replication.as_ref().and_then(|all| all.get(id)).copied().flatten();
    let able = members.iter().filter(|(id, known)| **id != me && known.votes && known.caught_up);
    let Some(next) = able.map(|(id, _)| *id).max_by_key(|id| log(id)) else {
        return false;
    };
    if let Err(error) = core.raft.trigger().transfer_leader(next).await {
        tracing::warn!(%error, "the leadership was not handed over");
        return false;
    }
    core.env.timeout(HAND_OVER, core.leader_changes(Some(me))).await.is_some()
}

/// Members by id, for people.
pub(crate) fn list(core: &Core) -> (Vec<Member>, Vec<Member>) {
    let config = core.metrics().membership_config;
    let membership = config.membership();
    let voters: BTreeSet<u64> = membership.voter_ids().collect();
    let all = membership.nodes().map(|(id, info)| Member { member: *id, node: info.node });
    all.partition(|member| voters.contains(&member.member))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(5);

    fn member(node: u64, votes: bool) -> Known {
        let silent = Some(Duration::ZERO);
        Known { node: NodeId(node), votes, caught_up: true, silent, registered: true }
    }

    fn silent(known: Known, seconds: u64) -> Known {
        Known { silent: Some(Duration::from_secs(seconds)), ..known }
    }

    fn next(members: &[(u64, Known)]) -> Option<Change> {
        plan(&members.iter().copied().collect(), 1, 3, SILENCE)
    }

    #[test]
    fn learners_fill_up_the_voters_when_they_have_caught_up() {
        let lagging = Known { caught_up: false, ..member(2, false) };
        assert_eq!(next(&[(1, member(1, true)), (2, lagging)]), None);
        assert_eq!(next(&[(1, member(1, true)), (2, member(2, false))]), Some(Change::Promote(2)));
        let full = [(1, member(1, true)), (2, member(2, true)), (3, member(3, true))];
        assert_eq!(next(&[&full[..], &[(4, member(4, false))]].concat()), None);
    }

    #[test]
    fn a_dead_voter_makes_room_for_a_live_learner() {
        let two = [(1, member(1, true)), (2, member(2, true))];
        let dead = silent(member(3, true), 11);
        assert_eq!(next(&[&two[..], &[(3, dead)]].concat()), None);
        let with = [&two[..], &[(3, dead), (4, member(4, false))]].concat();
        assert_eq!(next(&with), Some(Change::Swap { out: 3, into: 4 }));
        let restarting = [&two[..], &[(3, silent(member(3, true), 6)), (4, member(4, false))]].concat();
        assert_eq!(next(&restarting), None);
    }

    #[test]
    fn a_lost_disk_is_succeeded_in_one_change_and_only_after_silence() {
        let two = [(1, member(1, true)), (2, member(2, true))];
        let old = Known { registered: false, ..member(3, true) };
        let lost = |seconds| [&two[..], &[(3, silent(old, seconds)), (9, member(3, false))]].concat();
        assert_eq!(next(&lost(1)), None);
        assert_eq!(next(&lost(6)), Some(Change::Succeed { old: 3, new: 9, votes: true }));
        // Not before the new process is registered: a mistyped id removes nobody.
        let unregistered = Known { registered: false, ..member(3, false) };
        let mistyped = [&two[..], &[(3, silent(old, 6)), (9, unregistered)]].concat();
        assert_eq!(next(&mistyped), None);
    }
}
