//! One decision of placement: a fresh instance, so that nothing of an earlier call can matter.
//!
//! Says whose affair a failure is: the guest's (the native rule decides, on every node alike) or the
//! host's (apply waits). Looks at no clock.

use crate::bindings::{self, PolicyPre};
use crate::counters::Cause;
use crate::engine::{Guest, Limits, cause_of, is_host_affair};
use headwater_metadata::{Candidate, NodeId, Subject};

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum PlaceError {
    /// The guest's own fault.
    Guest(Cause),
    /// The host's affair; what it lacked.
    Host(String),
}

/// An answer and what it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// `None` leaves the choice to the native rule.
    pub node: Option<NodeId>,
    /// Fuel used. Never part of the state: engines may differ in it.
    pub fuel: u64,
}

/// Asks the policy on a fresh instance.
pub(crate) fn place(
    pre: &PolicyPre<Guest>,
    limits: Limits,
    subject: &Subject,
    candidates: &[Candidate],
) -> Result<Answer, PlaceError> {
    let fuel = limits.place_fuel(candidates.len());
    let mut store = Guest::store(pre.engine(), limits.memory, fuel);
    let subject = bindings::subject(subject);
    let candidates: Vec<_> = candidates.iter().map(bindings::candidate).collect();
    let answer = pre
        .instantiate(&mut store)
        .and_then(|policy| policy.headwater_policy_placement().call_place(&mut store, &subject, &candidates));
    if store.data().host_failed {
        return Err(PlaceError::Host("memory for a guest".to_owned()));
    }
    match answer {
        Ok(node) => Ok(Answer { node: node.map(NodeId), fuel: fuel - store.get_fuel().unwrap_or(0) }),
        Err(error) if is_host_affair(&error) => Err(PlaceError::Host(format!("a free instance: {error:#}"))),
        Err(error) => Err(PlaceError::Guest(cause_of(&error))),
    }
}
