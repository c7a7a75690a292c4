//! A policy without a cluster: loaded from a file, asked about nodes that are only described, with the
//! limits and the fallback of a cluster. `scenario/` and `simulate/` are made of it.

use crate::bindings::PolicyPre;
use crate::check::{Description, Refused, load_for_trial};
use crate::counters::{Cause, Counters};
use crate::engine::{Guest, Limits};
use crate::placement::{self, PlaceError};
use crate::routing::{Decision, Operation, Ownership, Pool, native_route, sensible};
use headwater_metadata::{Candidate, NodeId, Subject, least_ratio};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A node as a person describes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its id.
    pub id: u64,
    /// Capacity weight; with 0 it is no candidate.
    #[serde(default = "one")]
    pub slots: u32,
    /// Streams placed or open on it.
    #[serde(default)]
    pub assigned: u64,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// It is no candidate, but requests arrive at it.
    #[serde(default)]
    pub draining: bool,
}

fn one() -> u32 {
    1
}

impl Node {
    /// One that takes streams, with nothing on it.
    pub fn new(id: u64, slots: u32) -> Node {
        Node { id, slots, assigned: 0, labels: BTreeMap::new(), draining: false }
    }

    /// May be given streams.
    pub fn is_candidate(&self) -> bool {
        self.slots > 0 && !self.draining
    }
}

/// Who takes a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The node; `None` when there is no candidate.
    pub node: Option<NodeId>,
    /// Why it was the native rule that decided, when it was.
    pub fallback: Option<Cause>,
}

/// The machine has no memory or instance to run the policy with: nothing that the policy did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this machine lacks {0}")]
pub struct Lacking(String);

/// A policy to try out.
pub struct Trial {
    placement: PolicyPre<Guest>,
    routing: Pool,
    counters: Counters,
    description: Description,
}

impl Trial {
    /// Loads a component. Blocks: it compiles.
    pub fn load(component: &[u8]) -> Result<Trial, Refused> {
        let (placement, description) = load_for_trial(component)?;
        let routing = Pool::new(placement.clone(), Limits::STANDARD, 1);
        Ok(Trial { placement, routing, counters: Counters::default(), description })
    }

    /// What it says of itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The candidates among these nodes, as this policy sees them: in id order, labels only if it asks.
    pub fn candidates(&self, nodes: &[Node]) -> Vec<Candidate> {
        let mut candidates: Vec<_> = nodes
            .iter()
            .filter(|node| node.is_candidate())
            .map(|node| Candidate {
                id: NodeId(node.id),
                slots: node.slots,
                assigned: node.assigned,
                labels: self.visible(&node.labels),
            })
            .collect();
        candidates.sort_by_key(|candidate| candidate.id);
        candidates
    }

    /// Labels as this policy sees them.
    pub fn visible(&self, labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        if self.description.needs_labels { labels.clone() } else { BTreeMap::new() }
    }

    /// Asks for an owner as apply does: without candidates nobody is asked, and when the policy fails the
    /// native rule decides.
    pub fn place(&self, subject: &Subject, candidates: &[Candidate]) -> Result<Placed, Lacking> {
        if candidates.is_empty() {
            return Ok(Placed { node: None, fallback: None });
        }
        let cause = match placement::place(&self.placement, Limits::STANDARD, subject, candidates) {
            Ok(answer) => match answer.node {
                Some(node) if candidates.iter().any(|candidate| candidate.id == node) => {
                    return Ok(Placed { node: Some(node), fallback: None });
                }
                Some(_) => Cause::NotACandidate,
                None => Cause::NoAnswer,
            },
            Err(PlaceError::Guest(cause)) => cause,
            Err(PlaceError::Host(missing)) => return Err(Lacking(missing)),
        };
        Ok(Placed { node: least_ratio::choose(candidates), fallback: Some(cause) })
    }

    /// Asks where a request goes, among these nodes.
    pub fn route(
        &self,
        here: NodeId,
        operation: Operation,
        ownership: Ownership,
        is_node: impl Fn(NodeId) -> bool,
    ) -> (Decision, Option<Cause>) {
        let answer = self.routing.route(&self.counters, here, operation, ownership);
        match answer.and_then(|decision| sensible(decision, here, is_node)) {
            Ok(decision) => (decision, None),
            Err(cause) => (native_route(here, ownership), Some(cause)),
        }
    }
}
