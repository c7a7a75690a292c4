//! Which policy decides: `PutPolicy`, `ActivatePolicy`, `RemovePolicy`, `ResetPlacement`.

use super::{Apply, Done, Verdict};
use crate::command::{Answer, Outcome, Rejection};
use crate::digest::sha256;
use crate::model::*;
use crate::records::*;
use bytes::Bytes;
use std::sync::Arc;

/// Largest component, in bytes.
pub const MAX_COMPONENT: usize = 8 << 20;
/// So many policies can be in the log at once.
pub const MAX_POLICIES: usize = 32;
/// So many changes are remembered.
const MAX_AUDIT: usize = 256;

impl Apply<'_> {
    /// Adds a policy. The same one again is redundant while it is the newest of its name.
    pub(super) fn put_policy(
        &mut self,
        name: &Arc<str>,
        version: &Arc<str>,
        needs_labels: bool,
        component: &Bytes,
    ) -> Verdict {
        if component.len() > MAX_COMPONENT {
            return Err(Rejection::TooLarge(format!("the component has more than {MAX_COMPONENT} bytes")));
        }
        let digest = sha256(component);
        let known = self.state.policy(digest);
        if known.is_none() && self.state.policies().count() >= MAX_POLICIES {
            return Err(Rejection::TooLarge(format!("there are {MAX_POLICIES} policies, remove one first")));
        }
        let newest = self.state.policy_by_name(name).is_some_and(|policy| policy.digest == digest);
        let same = known.is_some_and(|it| it.version == *version && it.needs_labels == needs_labels);
        if newest && same {
            return Ok(Done::Redundant(Answer::Policy(digest)));
        }
        let policy = Policy {
            digest,
            name: name.clone(),
            version: version.clone(),
            needs_labels,
            put_index: self.index,
            component: component.clone(),
        };
        self.state.policies.insert(digest, policy);
        self.placement.arrived(digest, component);
        self.audit(PolicyChange::Put, digest);
        Ok(Done::Applied(Answer::Policy(digest)))
    }

    /// Makes a policy decide from this index on. The built-in rule can always be activated.
    pub(super) fn activate_policy(&mut self, policy: Digest) -> Verdict {
        if policy != Digest::BUILTIN && self.state.policy(policy).is_none() {
            return Err(Rejection::NoPolicy(policy));
        }
        let active = self.state.active;
        if active.policy == policy {
            return Ok(Done::Redundant(Answer::Policy(policy)));
        }
        self.state.active = Active { policy, index: self.index, previous: Some(active.policy) };
        self.audit(PolicyChange::Activated, policy);
        Ok(Done::Applied(Answer::Policy(policy)))
    }

    /// Removes a policy that neither decides nor is what a rollback goes back to.
    pub(super) fn remove_policy(&mut self, policy: Digest) -> Verdict {
        if self.state.policy(policy).is_none() {
            return Err(Rejection::NoPolicy(policy));
        }
        let active = self.state.active;
        if active.policy == policy || active.previous == Some(policy) {
            return Err(Rejection::PolicyInUse(policy));
        }
        self.audit(PolicyChange::Removed, policy);
        self.state.policies.remove(&policy);
        Ok(Done::Applied(Answer::Done))
    }

    /// Puts the placement half back to what follows from the fencing half, whatever it was: the built-in
    /// rule decides, nothing is placed, no remembered answer says where anything was.
    pub(super) fn reset_placement(&mut self) -> Verdict {
        self.state.active = Active { policy: Digest::BUILTIN, index: self.index, previous: None };
        self.audit(PolicyChange::Reset, Digest::BUILTIN);
        let placed: Vec<StreamId> =
            self.state.derived.placed.values().flat_map(|placed| placed.iter().copied()).collect();
        for stream in placed {
            self.state.change_stream(stream, |stream| stream.ownership = Ownership::Unplaced);
        }
        let live: Vec<Session> = self.state.live.map().keys().copied().collect();
        for session in live {
            self.state.live.modify(&session, forget_answers);
        }
        let retired: Vec<Session> = self.state.derived.unrecovered.iter().copied().collect();
        for session in retired {
            self.state.retired.modify(&session, |retired| forget_answers(&mut retired.progress));
        }
        Ok(Done::Applied(Answer::Done))
    }

    fn audit(&mut self, change: PolicyChange, policy: Digest) {
        let name = self.state.policy(policy).map_or_else(|| "".into(), |policy| policy.name.clone());
        let audit = Audit { index: self.index, by: self.by, change, policy, name };
        let trail = self.state.audit.map();
        let next = trail.get_max().map_or(0, |(number, _)| number + 1);
        let oldest = trail.get_min().map(|(number, _)| *number).filter(|_| trail.len() >= MAX_AUDIT);
        self.state.audit.insert(next, audit);
        if let Some(oldest) = oldest {
            self.state.audit.remove(&oldest);
        }
    }
}

fn forget_answers(progress: &mut Progress) {
    if let Some(last) = &mut progress.last {
        Arc::make_mut(last).answers.iter_mut().for_each(forget_placement);
    }
}

/// Whoever repeats a `Place` or `Transfer` after a reset learns that it was done and looks again.
pub(super) fn forget_placement(answer: &mut Answered) {
    if let Answered::Placement(outcome) = answer {
        *outcome = Outcome::Redundant(Answer::Done);
    }
}
