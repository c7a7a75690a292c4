//! One decision of routing, on the path of every request: a pooled instance, flat arguments, fuel per call.
//!
//! An instance that trapped is thrown away, since a component may not be entered again after a trap.
//! Never blocks; never waits for an instance, it makes one. A policy that keeps failing is asked only now
//! and then, so that requests do not pay for it; it is back with its first answer.

use crate::bindings::{Policy, PolicyPre};
use crate::counters::{Cause, Counters};
use crate::engine::{Guest, Limits, cause_of};
use crossbeam_queue::ArrayQueue;
use headwater_metadata::NodeId;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wasmtime::Store;

/// What is asked of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Create it.
    Create,
    /// Append to it, or close it.
    Append,
    /// Read what is there.
    Read,
    /// Read and wait for more.
    Tail,
    /// Ask for its state.
    Inspect,
    /// Delete it.
    Delete,
}

/// Who has a stream, as the asking node sees it; it may lag by a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The name is not registered.
    Unregistered,
    /// Registered, nothing asked of it yet.
    Unplaced,
    /// Chosen, not open.
    Placed(NodeId),
    /// Being served.
    Opened(NodeId),
    /// On its way.
    Transferring {
        /// Who has it.
        source: NodeId,
        /// Who shall have it.
        target: NodeId,
    },
    /// Let go by this node.
    Closed(NodeId),
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Serve it here.
    Here,
    /// Answer 307 with this node's address.
    Redirect(NodeId),
    /// Relay it to this node.
    Forward(NodeId),
}

/// The rule that decides when no policy does: pending transfer to its target, placed and opened to the
/// owner, everything else here.
pub fn native_route(here: NodeId, ownership: Ownership) -> Decision {
    let owner = match ownership {
        Ownership::Unregistered | Ownership::Unplaced | Ownership::Closed(_) => return Decision::Here,
        Ownership::Placed(node) | Ownership::Opened(node) => node,
        Ownership::Transferring { target, .. } => target,
    };
    if owner == here { Decision::Here } else { Decision::Redirect(owner) }
}

/// Refuses a decision that cannot be followed: to a node that does not exist, or to the node itself.
pub(crate) fn sensible(
    decision: Decision,
    here: NodeId,
    is_node: impl Fn(NodeId) -> bool,
) -> Result<Decision, Cause> {
    match decision {
        Decision::Redirect(node) | Decision::Forward(node) if node == here || !is_node(node) => {
            Err(Cause::Nonsense)
        }
        decision => Ok(decision),
    }
}

/// Faults in a row after which a policy is suspended.
const FAULTS: u32 = 100;
/// A suspended policy is asked once in so many requests.
const PROBE: u32 = 1000;

/// One instance, kept warm.
struct Warm {
    store: Store<Guest>,
    policy: Policy,
}

/// The warm instances of one policy.
pub(crate) struct Pool {
    pre: PolicyPre<Guest>,
    warm: ArrayQueue<Box<Warm>>,
    limits: Limits,
    /// Faults in a row; counts on through a suspension.
    faults: AtomicU32,
}

impl Pool {
    pub(crate) fn new(pre: PolicyPre<Guest>, limits: Limits, keep: usize) -> Pool {
        Pool { pre, warm: ArrayQueue::new(keep.max(1)), limits, faults: AtomicU32::new(0) }
    }

    /// Asks the policy.
    pub(crate) fn route(
        &self,
        counters: &Counters,
        here: NodeId,
        operation: Operation,
        ownership: Ownership,
    ) -> Result<Decision, Cause> {
        let faults = self.faults.load(Relaxed);
        if faults >= FAULTS && !self.faults.fetch_add(1, Relaxed).is_multiple_of(PROBE) {
            return Err(Cause::Suspended);
        }
        let answer = self.ask(counters, here, operation, ownership);
        match answer {
            Ok(_) if faults != 0 => self.faults.store(0, Relaxed),
            Ok(_) => {}
            Err(_) => {
                self.faults.fetch_add(1, Relaxed);
            }
        }
        answer
    }

    fn ask(
        &self,
        counters: &Counters,
        here: NodeId,
        operation: Operation,
        ownership: Ownership,
    ) -> Result<Decision, Cause> {
        let mut warm = match self.warm.pop() {
            Some(warm) => warm,
            None => self.instance(counters)?,
        };
        match self.call(&mut warm, here, operation, ownership) {
            Ok(decision) => {
                // A full pool drops it: more threads asked at once than we keep instances for.
                let _ = self.warm.push(warm);
                Ok(decision)
            }
            Err(error) => {
                counters.routing_discarded.fetch_add(1, Relaxed);
                Err(cause_of(&error))
            }
        }
    }

    fn call(
        &self,
        warm: &mut Warm,
        here: NodeId,
        operation: Operation,
        ownership: Ownership,
    ) -> wasmtime::Result<Decision> {
        warm.store.set_fuel(self.limits.route_fuel)?;
        let routing = warm.policy.headwater_policy_routing();
        Ok(routing.call_route(&mut warm.store, here.0, operation.into(), ownership.into())?.into())
    }

    fn instance(&self, counters: &Counters) -> Result<Box<Warm>, Cause> {
        let mut store = Guest::store(self.pre.engine(), self.limits.memory, self.limits.route_fuel);
        let policy = self.pre.instantiate(&mut store).map_err(|error| cause_of(&error))?;
        counters.routing_instances.fetch_add(1, Relaxed);
        Ok(Box::new(Warm { store, policy }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_native_rule() {
        let (here, other) = (NodeId(1), NodeId(2));
        let cases = [
            (Ownership::Unregistered, Decision::Here),
            (Ownership::Unplaced, Decision::Here),
            (Ownership::Closed(other), Decision::Here),
            (Ownership::Placed(here), Decision::Here),
            (Ownership::Placed(other), Decision::Redirect(other)),
            (Ownership::Opened(here), Decision::Here),
            (Ownership::Opened(other), Decision::Redirect(other)),
            (Ownership::Transferring { source: here, target: other }, Decision::Redirect(other)),
            (Ownership::Transferring { source: other, target: here }, Decision::Here),
        ];
        for (ownership, expected) in cases {
            assert_eq!(native_route(here, ownership), expected, "{ownership:?}");
        }
    }
}
