//! Simulations: many streams onto described nodes, then nodes that join, leave, drain or change their
//! slots. Says how the streams spread, what moved, and what placing everything again would move.
//!
//! Nothing here is random or looks at a clock: the same setup gives the same answer. `parse.rs` reads
//! nodes and events as they are written on a command line, `spread.rs` measures a distribution.

mod parse;
mod spread;

pub use parse::{Unclear, parse_event, parse_nodes};
pub use spread::{Share, Spread};

use crate::check::Description;
use crate::counters::Cause;
use crate::trial::{Lacking, Node, Trial};
use headwater_metadata::{Candidate, NodeId, StreamId, Subject};
use serde::Serialize;
use std::collections::BTreeMap;

/// A node with what people call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name; its id in digits when it has no other.
    pub name: String,
    /// The node.
    pub node: Node,
}

/// Something that happens to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node is there.
    Join(Named),
    /// A node is gone; its streams are placed again.
    Leave(String),
    /// A node takes nothing new and keeps what it has.
    Drain(String),
    /// A node has another weight; nothing moves by that.
    Slots(String, u32),
}

/// What is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The cluster at the beginning.
    pub nodes: Vec<Named>,
    /// How many streams are placed on it.
    pub streams: u64,
    /// They belong to so many tenants, mixed: `/tenant-3/stream-1`, `/tenant-1/stream-2` and so on.
    pub tenants: u64,
    /// The node that all requests arrive at, by name; the nodes mixed when absent.
    pub proposer: Option<String>,
    /// What happens afterwards, in order.
    pub events: Vec<Event>,
    /// After each event every stream is placed again.
    pub rebalance: bool,
}

/// The cluster after one step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What happened, in words.
    pub what: String,
    /// How the streams are spread.
    pub spread: Spread,
    /// Streams that had an owner before and have another one now.
    pub moved: u64,
    /// Streams that placing everything again would move, from here.
    pub would_move: u64,
    /// Placements that the native rule decided, by cause.
    pub fallbacks: BTreeMap<&'static str, u64>,
    /// The owner of each stream, by node id.
    #[serde(skip)]
    pub owners: Vec<Option<u64>>,
}

/// A simulation that has run.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// The policy.
    pub policy: Description,
    /// The first is the placement of all streams, then one for each event.
    pub steps: Vec<Step>,
}

/// Why a simulation does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulateError {
    /// The setup or an event speaks of a node that is not there.
    #[error("there is no node {0:?}")]
    NoNode(String),
    /// A node is there twice.
    #[error("there is a node {0:?} already")]
    Twice(String),
    /// The machine's affair.
    #[error(transparent)]
    Lacking(#[from] Lacking),
}

/// Runs a simulation with a policy.
pub fn simulate(policy: &Trial, setup: &Setup) -> Result<Simulated, SimulateError> {
    let mut world = World { policy, nodes: Vec::new(), streams: Vec::new(), fallbacks: BTreeMap::new() };
    for named in &setup.nodes {
        world.join(named.clone())?;
    }
    world.create(setup)?;
    let mut steps = vec![world.step(format!("{} streams placed", setup.streams), 0)?];
    for event in &setup.events {
        let before = world.owners();
        let what = world.happen(event)?;
        if setup.rebalance {
            world.place_all_again()?;
        }
        let moved = before.iter().zip(world.owners()).filter(|(was, is)| was.is_some() && *was != is).count();
        steps.push(world.step(what, moved as u64)?);
    }
    Ok(Simulated { policy: policy.description().clone(), steps })
}

/// Streams that two simulations of one setup have on the same node after a step, of all.
pub fn agreement(one: &Step, other: &Step) -> u64 {
    one.owners.iter().zip(&other.owners).filter(|(a, b)| a == b).count() as u64
}

#[derive(Clone)]
struct Stream {
    name: String,
    tenant: u64,
    proposer: u64,
    owner: Option<u64>,
}

/// Numbers in an order without a pattern, the same in every run (splitmix64): taken in turn, tenants and
/// nodes would beat against a policy that goes round as well.
fn mixed(number: u64) -> u64 {
    let bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[derive(Clone)]
struct World<'a> {
    policy: &'a Trial,
    /// In id order.
    nodes: Vec<Named>,
    streams: Vec<Stream>,
    fallbacks: BTreeMap<Cause, u64>,
}

impl World<'_> {
    fn create(&mut self, setup: &Setup) -> Result<(), SimulateError> {
        let proposers: Vec<u64> = match &setup.proposer {
            Some(name) => vec![self.find(name)?.node.id],
            None => self.nodes.iter().map(|named| named.node.id).collect(),
        };
        for number in 0..setup.streams {
            let tenant = mixed(2 * number) % setup.tenants.max(1);
            let proposer = mixed(2 * number + 1) % (proposers.len() as u64).max(1);
            self.streams.push(Stream {
                name: format!("/tenant-{}/stream-{}", tenant + 1, number + 1),
                tenant,
                proposer: proposers.get(proposer as usize).copied().unwrap_or_default(),
                owner: None,
            });
            self.place(number as usize)?;
        }
        Ok(())
    }

    fn happen(&mut self, event: &Event) -> Result<String, SimulateError> {
        Ok(match event {
            Event::Join(named) => {
                self.join(named.clone())?;
                format!("{} joins with slots {}", named.name, named.node.slots)
            }
            Event::Leave(name) => {
                let id = self.find(name)?.node.id;
                self.nodes.retain(|named| named.node.id != id);
                self.place_those_of(id)?;
                format!("{name} leaves")
            }
            Event::Drain(name) => {
                self.find(name)?.node.draining = true;
                format!("{name} drains")
            }
            Event::Slots(name, slots) => {
                self.find(name)?.node.slots = *slots;
                format!("{name} has slots {slots} now")
            }
        })
    }

    fn join(&mut self, named: Named) -> Result<(), SimulateError> {
        if self.nodes.iter().any(|known| known.name == named.name || known.node.id == named.node.id) {
            return Err(SimulateError::Twice(named.name));
        }
        self.nodes.push(named);
        self.nodes.sort_by_key(|named| named.node.id);
        Ok(())
    }

    fn find(&mut self, name: &str) -> Result<&mut Named, SimulateError> {
        let found = self.nodes.iter_mut().find(|named| named.name == name);
        found.ok_or_else(|| SimulateError::NoNode(name.to_owned()))
    }

    fn place_those_of(&mut self, node: u64) -> Result<(), SimulateError> {
        for index in 0..self.streams.len() {
            if self.streams[index].owner == Some(node) {
                self.place(index)?;
            }
        }
        Ok(())
    }

    /// One after the other, each counted where it is until it moves. A stream that is on a node which
    /// takes nothing new is asked about like the others.
    fn place_all_again(&mut self) -> Result<(), SimulateError> {
        (0..self.streams.len()).try_for_each(|index| self.place(index))
    }

    fn place(&mut self, index: usize) -> Result<(), SimulateError> {
        let stream = &mut self.streams[index];
        let before = stream.owner.take();
        let labels = self.nodes.iter().find(|named| named.node.id == stream.proposer);
        let subject = Subject {
            id: StreamId(index as u64 + 1),
            name: stream.name.as_str().into(),
            content_type: "application/json".into(),
            proposer: NodeId(stream.proposer),
            proposer_labels: labels.map(|named| self.policy.visible(&named.node.labels)).unwrap_or_default(),
        };
        self.count(before, -1);
        let placed = self.policy.place(&subject, &self.candidates())?;
        let owner = placed.node.map(|node| node.0);
        self.count(owner, 1);
        self.streams[index].owner = owner;
        if let Some(cause) = placed.fallback {
            *self.fallbacks.entry(cause).or_default() += 1;
        }
        Ok(())
    }

    fn candidates(&self) -> Vec<Candidate> {
        let nodes: Vec<Node> = self.nodes.iter().map(|named| named.node.clone()).collect();
        self.policy.candidates(&nodes)
    }

    fn count(&mut self, node: Option<u64>, by: i64) {
        let found = self.nodes.iter_mut().find(|named| Some(named.node.id) == node);
        if let Some(named) = found {
            named.node.assigned = named.node.assigned.saturating_add_signed(by);
        }
    }

    fn owners(&self) -> Vec<Option<u64>> {
        self.streams.iter().map(|stream| stream.owner).collect()
    }

    fn step(&mut self, what: String, moved: u64) -> Result<Step, SimulateError> {
        let owners = self.owners();
        let mut again = self.clone();
        again.place_all_again()?;
        let would_move = owners.iter().zip(again.owners()).filter(|(is, would)| *is != would).count() as u64;
        let fallbacks = std::mem::take(&mut self.fallbacks);
        Ok(Step {
            what,
            spread: Spread::of(&self.nodes, self.streams.iter().map(|stream| (stream.tenant, stream.owner))),
            moved,
            would_move,
            fallbacks: fallbacks.into_iter().map(|(cause, n)| (cause.as_str(), n)).collect(),
            owners,
        })
    }
}

#[cfg(test)]
#[path = "simulate_test.rs"]
mod tests;
