//! Where a request goes: what the view says of the stream, and what the policy makes of it. Pure.
//!
//! A policy may misdirect a request, but not in circles and not to where it cannot be served. Its answer
//! stands when it sends the request to the node that has the stream, or, while nobody has it, to a node
//! at which the same policy would serve it; the node that has a stream serves it whatever the policy says.
//! Everything else is decided by the native rule, and counted. Next: `redirect.rs` and `forward.rs`, or
//! `serve.rs`.

use headwater_metadata::{Digest, Effective, NodeId};
use headwater_policy::{Decision, Operation, Ownership, Routed, native_route};

/// Where a request goes, and by whose word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where.
    pub decision: Decision,
    /// The policy that was asked.
    pub policy: Option<Digest>,
    /// The policy's answer led nowhere; the native rule decided.
    pub overruled: bool,
}

/// A stream's owner in the words of the policy.
pub fn ownership(effective: Effective) -> Ownership {
    match effective {
        Effective::Unregistered => Ownership::Unregistered,
        Effective::Unplaced => Ownership::Unplaced,
        Effective::Placed(node) => Ownership::Placed(node),
        Effective::Opened(session) => Ownership::Opened(session.node),
        Effective::Transferring(t) => Ownership::Transferring { source: t.source, target: t.target },
        Effective::Closed(node) => Ownership::Closed(node),
    }
}

/// Decides. `ask` asks the policy on behalf of a node.
pub fn route(here: NodeId, ownership: Ownership, ask: impl Fn(NodeId) -> Routed) -> Route {
    let routed = ask(here);
    let serves = |node| ask(node).decision == Decision::Here;
    let stands = match routed.decision {
        Decision::Here => owner(ownership).is_none_or(|owner| owner == here),
        Decision::Redirect(node) | Decision::Forward(node) => match owner(ownership) {
            Some(owner) => node == owner && owner != here,
            None => node != here && serves(node),
        },
    };
    let decision = if stands { routed.decision } else { native_route(here, ownership) };
    Route { decision, policy: routed.policy, overruled: !stands }
}

/// The one node that can serve the stream now, if there is just one.
fn owner(ownership: Ownership) -> Option<NodeId> {
    match ownership {
        Ownership::Unregistered | Ownership::Unplaced | Ownership::Closed(_) => None,
        Ownership::Placed(node) | Ownership::Opened(node) => Some(node),
        Ownership::Transferring { target, .. } => Some(target),
    }
}

/// Whether an operation needs an owner, so that a stream that has none is placed first.
pub fn needs_owner(operation: Operation) -> bool {
    matches!(operation, Operation::Append | Operation::Tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_metadata::{Epoch, Session, Transfer};

    const HERE: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);
    const THIRD: NodeId = NodeId(3);

    fn routed(decision: Decision) -> Routed {
        Routed { decision, policy: None, fallback: None }
    }

    fn every_effective() -> Vec<(Effective, Decision)> {
        let session = |node| Session { node, epoch: Epoch(7) };
        let transfer = |source, target| Effective::Transferring(Transfer { source, target });
        vec![
            (Effective::Unregistered, Decision::Here),
            (transfer(HERE, OTHER), Decision::Redirect(OTHER)),
            (transfer(OTHER, HERE), Decision::Here),
            (transfer(OTHER, THIRD), Decision::Redirect(THIRD)),
            (Effective::Opened(session(HERE)), Decision::Here),
            (Effective::Opened(session(OTHER)), Decision::Redirect(OTHER)),
            (Effective::Placed(HERE), Decision::Here),
            (Effective::Placed(OTHER), Decision::Redirect(OTHER)),
            (Effective::Unplaced, Decision::Here),
            (Effective::Closed(HERE), Decision::Here),
            (Effective::Closed(OTHER), Decision::Here),
        ]
    }

    #[test]
    fn the_native_rule_over_every_effective_owner() {
        for (effective, expected) in every_effective() {
            let ownership = ownership(effective);
            let route = route(HERE, ownership, |node| routed(native_route(node, ownership)));
            assert_eq!((route.decision, route.overruled), (expected, false), "{effective:?}");
        }
    }

    #[test]
    fn a_forward_to_the_owner_stands() {
        let forward = |node, ownership| match native_route(node, ownership) {
            Decision::Redirect(owner) => Decision::Forward(owner),
            other => other,
        };
        for (effective, expected) in every_effective() {
            let ownership = ownership(effective);
            let route = route(HERE, ownership, |node| routed(forward(node, ownership)));
            let expected = match expected {
                Decision::Redirect(node) => Decision::Forward(node),
                other => other,
            };
            assert_eq!((route.decision, route.overruled), (expected, false), "{effective:?}");
        }
    }

    #[test]
    fn rte_01_a_policy_that_always_says_somebody_else_makes_no_circle() {
        let elsewhere = |node| routed(Decision::Redirect(if node == HERE { OTHER } else { HERE }));
        for (effective, _) in every_effective() {
            let ownership = ownership(effective);
            // Follow the redirects from every node: there is an end, and it comes soon.
            for start in [HERE, OTHER, THIRD] {
                let mut at = start;
                let mut hops = 0;
                while let Decision::Redirect(node) = route(at, ownership, elsewhere).decision {
                    at = node;
                    hops += 1;
                    assert!(hops <= 2, "{effective:?} from {start}");
                }
            }
        }
    }

    #[test]
    fn a_policy_may_choose_who_serves_what_nobody_has() {
        let all_to_third =
            |node| routed(if node == THIRD { Decision::Here } else { Decision::Redirect(THIRD) });
        for ownership in [Ownership::Unregistered, Ownership::Unplaced, Ownership::Closed(OTHER)] {
            let route = route(HERE, ownership, all_to_third);
            assert_eq!(
                (route.decision, route.overruled),
                (Decision::Redirect(THIRD), false),
                "{ownership:?}"
            );
        }
        let route = route(HERE, Ownership::Opened(OTHER), all_to_third);
        assert_eq!((route.decision, route.overruled), (Decision::Redirect(OTHER), true));
    }

    #[test]
    fn serving_what_another_node_has_is_overruled() {
        let always_here = |_| routed(Decision::Here);
        let route = route(HERE, Ownership::Opened(OTHER), always_here);
        assert_eq!((route.decision, route.overruled), (Decision::Redirect(OTHER), true));
    }
}
