//! How evenly streams are spread over nodes, by their slots; and how many nodes a tenant reaches. Pure.

use super::Named;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One node's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// What people call it.
    pub name: String,
    /// Its id.
    pub id: u64,
    /// Its weight.
    pub slots: u32,
    /// It takes nothing new.
    pub draining: bool,
    /// The streams on it.
    pub streams: u64,
    /// Its streams against its part of all slots: 1.0 is exactly that; `None` when that part is nothing.
    pub of_its_share: Option<f64>,
}

/// A distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Each node, in id order.
    pub nodes: Vec<Share>,
    /// Streams that nobody has.
    pub unplaced: u64,
    /// How far the fullest node is above its share: 0.0 is even, 1.0 is twice its share.
    pub skew: f64,
    /// The fewest, the mean and the most nodes that a tenant's streams are on.
    pub nodes_of_a_tenant: (u64, f64, u64),
}

impl Spread {
    /// Measures streams, each with its tenant and its owner.
    pub(super) fn of(nodes: &[Named], streams: impl Iterator<Item = (u64, Option<u64>)>) -> Spread {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        let mut tenants: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let mut unplaced = 0;
        for (tenant, owner) in streams {
            let reached = tenants.entry(tenant).or_default();
            match owner {
                Some(node) => {
                    reached.insert(node);
                    *counts.entry(node).or_default() += 1;
                }
                None => unplaced += 1,
            }
        }
        let placed: u64 = counts.values().sum();
        let slots: u64 = nodes.iter().map(|named| u64::from(weight(named))).sum();
        let shares: Vec<Share> = nodes
            .iter()
            .map(|named| {
                let streams = counts.get(&named.node.id).copied().unwrap_or_default();
                let share = placed as f64 * f64::from(weight(named)) / slots.max(1) as f64;
                Share {
                    name: named.name.clone(),
                    id: named.node.id,
                    slots: named.node.slots,
                    draining: named.node.draining,
                    streams,
                    of_its_share: (share > 0.0).then(|| streams as f64 / share),
                }
            })
            .collect();
        let fullest = shares.iter().filter_map(|share| share.of_its_share).fold(1.0, f64::max);
        let reached = || tenants.values().map(|nodes| nodes.len() as u64);
        let mean = reached().sum::<u64>() as f64 / tenants.len().max(1) as f64;
        Spread {
            nodes: shares,
            unplaced,
            skew: fullest - 1.0,
            nodes_of_a_tenant: (reached().min().unwrap_or(0), mean, reached().max().unwrap_or(0)),
        }
    }
}

/// What a node is meant to take.
fn weight(named: &Named) -> u32 {
    if named.node.draining { 0 } else { named.node.slots }
}
