//! Inputs that a policy must stand before it is taken in: clusters of several sizes, up to ten times the
//! present one, and every kind of route. Each is asked on fresh instances of two engines, and each must
//! give one answer, the same everywhere.

use crate::bindings::PolicyPre;
use crate::engine::{Guest, Limits, cause_of};
use crate::placement::{self, Answer, PlaceError};
use crate::routing::{Decision, Operation, Ownership};
use headwater_metadata::{Candidate, NodeId, StreamId, Subject};
use std::collections::BTreeMap;

/// The most fuel that one call of each kind used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub place_fuel: u64,
    pub route_fuel: u64,
}

/// Runs everything; says in a sentence what went wrong.
pub(crate) fn stand(
    strict: &PolicyPre<Guest>,
    standard: &PolicyPre<Guest>,
    nodes: usize,
    labels: bool,
) -> Result<Used, String> {
    let mut used = Used::default();
    let largest = nodes.max(1) * 10;
    for size in [0, 1, 2, 3, 7, nodes, largest] {
        for variant in 0..4 {
            let (subject, candidates) = case(size, variant, labels);
            let asked = format!("asked to place a stream on one of {size} nodes");
            let answer =
                place(strict, Limits::STRICT, &subject, &candidates).map_err(|e| format!("{asked}, {e}"))?;
            let again =
                place(strict, Limits::STRICT, &subject, &candidates).map_err(|e| format!("{asked}, {e}"))?;
            let elsewhere = place(standard, Limits::STANDARD, &subject, &candidates)
                .map_err(|e| format!("{asked}, {e}"))?;
            if answer != again || answer.node != elsewhere.node {
                return Err(format!("{asked} repeatedly, it answers differently"));
            }
            if let Some(node) = answer.node.filter(|node| candidates.iter().all(|c| c.id != *node)) {
                return Err(format!("{asked}, it names node {node}, which is none of them"));
            }
            used.place_fuel = used.place_fuel.max(answer.fuel);
        }
    }
    used.route_fuel = routes(strict)?;
    Ok(used)
}

fn place(
    pre: &PolicyPre<Guest>,
    limits: Limits,
    subject: &Subject,
    candidates: &[Candidate],
) -> Result<Answer, String> {
    placement::place(pre, limits, subject, candidates).map_err(|error| match error {
        PlaceError::Guest(cause) => {
            format!("it fails within a quarter of the limits: {}", cause.as_str())
        }
        PlaceError::Host(missing) => format!("this host has not {missing}; try again"),
    })
}

/// A cluster of this size. Ids have gaps; slots and counts are spread, equal, or at the ends of their types.
fn case(size: usize, variant: u64, labels: bool) -> (Subject, Vec<Candidate>) {
    let label = |i: u64| match labels {
        true => BTreeMap::from([
            ("zone".to_owned(), ["a", "b", "c"][i as usize % 3].to_owned()),
            ("rack".to_owned(), format!("r{}", i % 7)),
        ]),
        false => BTreeMap::new(),
    };
    let candidates = (0..size as u64)
        .map(|i| {
            let spread = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ variant;
            let (slots, assigned) = match variant {
                0 => (1, 0),
                1 => (1 + (spread >> 8) as u32 % 16, (spread >> 16) % 1000),
                2 => (u32::MAX, u64::MAX - i),
                _ => (1 + i as u32 % 3, 1_000_000_000 + (spread >> 40)),
            };
            Candidate { id: NodeId(1 + i * (1 + variant)), slots, assigned, labels: label(i) }
        })
        .collect();
    let name = format!("/tenant-{variant}/{}", "streams%20with/a-name/".repeat(variant as usize * 4));
    let subject = Subject {
        id: StreamId(1 + variant * 1_000_003),
        name: name.into(),
        content_type: "application/json".into(),
        proposer: NodeId(1 + variant),
        proposer_labels: label(variant),
    };
    (subject, candidates)
}

/// Asks every kind of route, on an instance of its own and on one that is used for all.
fn routes(pre: &PolicyPre<Guest>) -> Result<u64, String> {
    let mut most = 0;
    let mut warm = None;
    for (here, operation, ownership) in every_route() {
        let asked = format!("asked to route {operation:?} of a stream that is {ownership:?} at node {here}");
        let mut fresh = None;
        let (decision, fuel) =
            route(pre, &mut fresh, here, operation, ownership).map_err(|e| format!("{asked}, {e}"))?;
        let (again, _) =
            route(pre, &mut warm, here, operation, ownership).map_err(|e| format!("{asked}, {e}"))?;
        if decision != again {
            return Err(format!("{asked} repeatedly, it answers differently"));
        }
        if let Decision::Redirect(node) | Decision::Forward(node) = decision
            && (node == here || !NODES.contains(&node))
        {
            return Err(format!("{asked}, it answers {decision:?}, which makes no sense"));
        }
        most = most.max(fuel);
    }
    Ok(most)
}

const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

fn every_route() -> impl Iterator<Item = (NodeId, Operation, Ownership)> {
    use Operation::{Append, Create, Delete, Inspect, Read, Tail};
    let owned = NODES.into_iter().flat_map(|node| {
        let moves = NODES.into_iter().filter(move |target| *target != node);
        let moves = moves.map(move |target| Ownership::Transferring { source: node, target });
        [Ownership::Placed(node), Ownership::Opened(node), Ownership::Closed(node)].into_iter().chain(moves)
    });
    [Ownership::Unregistered, Ownership::Unplaced].into_iter().chain(owned).flat_map(|ownership| {
        let operations = [Create, Append, Read, Tail, Inspect, Delete];
        operations.into_iter().flat_map(move |op| [NODES[0], NODES[1]].map(|here| (here, op, ownership)))
    })
}

type Instance = (wasmtime::Store<Guest>, crate::bindings::Policy);

fn route(
    pre: &PolicyPre<Guest>,
    instance: &mut Option<Instance>,
    here: NodeId,
    operation: Operation,
    ownership: Ownership,
) -> Result<(Decision, u64), String> {
    let limits = Limits::STRICT;
    let mut ask = || {
        if instance.is_none() {
            let mut store = Guest::store(pre.engine(), limits.memory, limits.route_fuel);
            let policy = pre.instantiate(&mut store)?;
            *instance = Some((store, policy));
        }
        let (store, policy) = instance.as_mut().expect("made above");
        store.set_fuel(limits.route_fuel)?;
        let decision = policy.headwater_policy_routing().call_route(
            &mut *store,
            here.0,
            operation.into(),
            ownership.into(),
        )?;
        Ok((decision.into(), limits.route_fuel - store.get_fuel()?))
    };
    ask().map_err(|error: wasmtime::Error| {
        format!("it fails within a quarter of the limits: {}", cause_of(&error).as_str())
    })
}
