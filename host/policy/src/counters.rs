//! What policies did on this node. Numbers of a node, never state of the cluster.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const CAUSES: usize = 7;

/// Why the native rule decided instead of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The component trapped: a panic, an access out of bounds, a stack overflow, no memory.
    Trap,
    /// The component used up its fuel.
    Fuel,
    /// The component left the choice to the native rule.
    NoAnswer,
    /// Placement named a node that is not a candidate.
    NotACandidate,
    /// Routing named a node that does not exist, or the node itself.
    Nonsense,
    /// The component does not compile or does not export what it must.
    Broken,
    /// Routing failed so often in a row that it is asked only now and then.
    Suspended,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; CAUSES] = [
        Cause::Trap,
        Cause::Fuel,
        Cause::NoAnswer,
        Cause::NotACandidate,
        Cause::Nonsense,
        Cause::Broken,
        Cause::Suspended,
    ];

    /// The cause as a label of a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Trap => "trap",
            Cause::Fuel => "fuel",
            Cause::NoAnswer => "no-answer",
            Cause::NotACandidate => "not-a-candidate",
            Cause::Nonsense => "nonsense",
            Cause::Broken => "broken",
            Cause::Suspended => "suspended",
        }
    }
}

/// A moment's reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Placements asked of a policy.
    pub placements: u64,
    /// Placements that fell back, by cause in the order of [`Cause::ALL`].
    pub placement_fallbacks: [u64; CAUSES],
    /// Routes asked of a policy.
    pub routes: u64,
    /// Routes that fell back, by cause in the order of [`Cause::ALL`].
    pub route_fallbacks: [u64; CAUSES],
    /// Instances made for routing.
    pub routing_instances: u64,
    /// Instances of routing thrown away because they had trapped.
    pub routing_discarded: u64,
    /// Components compiled.
    pub compiled: u64,
    /// Times that placement waited for the host: a component that had not arrived, or no free instance.
    pub waits: u64,
}

impl Counts {
    /// All fallbacks together.
    pub fn fallbacks(&self) -> u64 {
        self.placement_fallbacks.iter().chain(&self.route_fallbacks).sum()
    }

    /// Placements that fell back for this cause.
    pub fn placement_fallback(&self, cause: Cause) -> u64 {
        self.placement_fallbacks[cause as usize]
    }

    /// Routes that fell back for this cause.
    pub fn route_fallback(&self, cause: Cause) -> u64 {
        self.route_fallbacks[cause as usize]
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub placements: AtomicU64,
    pub placement_fallbacks: [AtomicU64; CAUSES],
    pub routes: AtomicU64,
    pub route_fallbacks: [AtomicU64; CAUSES],
    pub routing_instances: AtomicU64,
    pub routing_discarded: AtomicU64,
    pub compiled: AtomicU64,
    pub waits: AtomicU64,
}

impl Counters {
    /// Counts; answers how often that has happened now.
    pub(crate) fn placement_fell_back(&self, cause: Cause) -> u64 {
        self.placement_fallbacks[cause as usize].fetch_add(1, Relaxed) + 1
    }

    /// Counts; answers how often that has happened now.
    pub(crate) fn route_fell_back(&self, cause: Cause) -> u64 {
        self.route_fallbacks[cause as usize].fetch_add(1, Relaxed) + 1
    }

    pub(crate) fn snapshot(&self) -> Counts {
        let read = |all: &[AtomicU64; CAUSES]| std::array::from_fn(|i| all[i].load(Relaxed));
        Counts {
            placements: self.placements.load(Relaxed),
            placement_fallbacks: read(&self.placement_fallbacks),
            routes: self.routes.load(Relaxed),
            route_fallbacks: read(&self.route_fallbacks),
            routing_instances: self.routing_instances.load(Relaxed),
            routing_discarded: self.routing_discarded.load(Relaxed),
            compiled: self.compiled.load(Relaxed),
            waits: self.waits.load(Relaxed),
        }
    }
}
