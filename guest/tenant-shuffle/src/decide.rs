//! The rule, as pure functions: whose stream it is, which nodes are the tenant's, and which of them takes it.

use headwater_policy_sdk::draw::{Lot, hash};
use headwater_policy_sdk::{Candidate, NodeId, least_ratio};

/// Nodes of a tenant. More spread its load wider and let two tenants meet more often.
pub const SHARD: usize = 2;

/// The least filled node of the tenant's set.
pub fn within_the_shard(name: &str, candidates: &[Candidate]) -> Option<NodeId> {
    let shard = shard(tenant(name), candidates);
    least_ratio(candidates.iter().filter(|candidate| shard.contains(&Some(candidate.id))))
}

/// The first segment of the path, as the client spelled it; the whole root for a name without one.
pub fn tenant(name: &str) -> &str {
    name.split('/').find(|segment| !segment.is_empty()).unwrap_or_default()
}

/// The nodes of a tenant: those with the lowest lots, which hardly change when nodes come and go.
pub fn shard(tenant: &str, candidates: &[Candidate]) -> [Option<NodeId>; SHARD] {
    let key = hash(tenant);
    let mut lowest: [Option<Lot>; SHARD] = [None; SHARD];
    for candidate in candidates.iter().filter(|candidate| candidate.slots > 0) {
        let mut next = Some(Lot::draw(key, candidate));
        for place in &mut lowest {
            if place.is_none() || next.is_some_and(|lot| Some(lot) < *place) {
                std::mem::swap(place, &mut next);
            }
        }
    }
    lowest.map(|lot| lot.map(|lot| lot.node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn node(id: NodeId, slots: u32) -> Candidate {
        Candidate { id, slots, assigned: 0, labels: Vec::new() }
    }

    fn set(tenant: &str, candidates: &[Candidate]) -> BTreeSet<NodeId> {
        shard(tenant, candidates).into_iter().flatten().collect()
    }

    #[test]
    fn tenants_are_first_segments() {
        for (name, expected) in
            [("/a/b/c", "a"), ("/a", "a"), ("//a//b", "a"), ("a/b", "a"), ("/", ""), ("", "")]
        {
            assert_eq!(tenant(name), expected, "{name}");
        }
    }

    #[test]
    fn small_clusters() {
        assert_eq!(within_the_shard("/t/s", &[]), None);
        assert_eq!(within_the_shard("/t/s", &[node(9, 1)]), Some(9));
        assert_eq!(within_the_shard("/t/s", &[node(9, 0)]), None);
        assert_eq!(set("t", &[node(1, 1), node(2, 1)]), BTreeSet::from([1, 2]));
    }

    #[test]
    fn the_emptier_of_the_two_takes_it() {
        let mut nodes: Vec<_> = (1..9).map(|id| node(id, 1)).collect();
        let [Some(a), Some(b)] = shard("t", &nodes) else { panic!("two nodes") };
        nodes[a as usize - 1].assigned = 3;
        assert_eq!(within_the_shard("/t/s", &nodes), Some(b));
        nodes[b as usize - 1].assigned = 4;
        assert_eq!(within_the_shard("/t/s", &nodes), Some(a));
    }

    /// The probabilities of the table in `README.md`: of `n` nodes with equal slots, two sets of two are
    /// apart with `(n-2)(n-3) / n(n-1)` and the same with `2 / n(n-1)`.
    #[test]
    fn two_tenants_are_apart_as_often_as_claimed() {
        const PAIRS: u32 = 20_000;
        for (nodes, apart, same) in
            [(4u32, 0.167, 0.167), (6, 0.4, 0.067), (8, 0.536, 0.036), (12, 0.682, 0.015), (20, 0.805, 0.005)]
        {
            let pairs = f64::from(nodes * (nodes - 1));
            let exact = [f64::from((nodes - 2) * (nodes - 3)) / pairs, 2.0 / pairs];
            let candidates: Vec<_> = (1..=u64::from(nodes)).map(|id| node(id, 3)).collect();
            let mut found = [0, 0];
            for pair in 0..PAIRS {
                let a = set(&format!("tenant-{pair}"), &candidates);
                let b = set(&format!("other-{pair}"), &candidates);
                found[0] += u32::from(a.is_disjoint(&b));
                found[1] += u32::from(a == b);
            }
            for ((claimed, exact), found) in [apart, same].into_iter().zip(exact).zip(found) {
                assert!(
                    f64::abs(claimed - exact) < 0.0006,
                    "{nodes} nodes: {claimed} is claimed, {exact} is right"
                );
                let (found, deviation) =
                    (f64::from(found) / f64::from(PAIRS), (exact * (1.0 - exact) / f64::from(PAIRS)).sqrt());
                assert!(
                    (found - exact).abs() < 4.5 * deviation,
                    "{nodes} nodes: {found} found, {exact} expected"
                );
            }
        }
    }

    proptest! {
        /// The set is that of the lowest lots, and the chosen node is in it.
        #[test]
        fn the_chosen_one_is_in_the_set(
            nodes in prop::collection::btree_map(any::<u64>(), (1u32..9, 0u64..50), 1..12),
            tenant in "[a-z]{1,8}",
        ) {
            let candidates: Vec<_> = nodes
                .iter()
                .map(|(id, (slots, assigned))| Candidate { assigned: *assigned, ..node(*id, *slots) })
                .collect();
            let mut lots: Vec<_> = candidates.iter().map(|c| Lot::draw(hash(&tenant), c)).collect();
            lots.sort();
            let lowest: BTreeSet<_> = lots.iter().take(SHARD).map(|lot| lot.node).collect();
            prop_assert_eq!(&set(&tenant, &candidates), &lowest);
            let chosen = within_the_shard(&format!("/{tenant}/s"), &candidates).expect("there are candidates");
            prop_assert!(lowest.contains(&chosen));
        }

        /// A node that leaves is replaced in the sets that it was in; the other sets stay as they are.
        #[test]
        fn one_that_leaves_changes_only_its_own_sets(
            ids in prop::collection::btree_set(any::<u64>(), 3..12),
            which in any::<prop::sample::Index>(),
        ) {
            let all: Vec<_> = ids.iter().map(|id| node(*id, 1)).collect();
            let mut fewer = all.clone();
            let left = fewer.remove(which.index(all.len())).id;
            for tenant in 0..50 {
                let (before, after) = (set(&format!("t{tenant}"), &all), set(&format!("t{tenant}"), &fewer));
                let stayed: BTreeSet<_> = before.iter().copied().filter(|id| *id != left).collect();
                prop_assert!(stayed.is_subset(&after));
                prop_assert!(before.contains(&left) || before == after);
            }
        }
    }
}
