//! The rule, as a pure function: the lowest lot wins. What lots are is in the SDK's `draw.rs`.

use headwater_policy_sdk::draw::{Lot, hash};
use headwater_policy_sdk::{Candidate, NodeId};

/// The candidate with the lowest lot for this name, whatever it carries already.
pub fn lowest_lot(name: &str, candidates: &[Candidate]) -> Option<NodeId> {
    let key = hash(name);
    let able = candidates.iter().filter(|candidate| candidate.slots > 0);
    able.map(|candidate| Lot::draw(key, candidate)).min().map(|lot| lot.node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAMS: usize = 2000;

    fn node(id: NodeId, slots: u32) -> Candidate {
        Candidate { id, slots, assigned: 0, labels: Vec::new() }
    }

    fn owners(candidates: &[Candidate]) -> Vec<NodeId> {
        let owner = |i| lowest_lot(&format!("/tenant/{i}"), candidates).expect("there are candidates");
        (0..STREAMS).map(owner).collect()
    }

    /// Seven standard deviations around a share of the streams.
    fn around(share: f64) -> std::ops::RangeInclusive<f64> {
        let (mean, most) = (share * STREAMS as f64, 7.0 * (share * (1.0 - share) * STREAMS as f64).sqrt());
        (mean - most - 1.0)..=(mean + most + 1.0)
    }

    #[test]
    fn what_is_assigned_does_not_matter() {
        let mut nodes = [node(1, 1), node(2, 1), node(3, 1)];
        let before = lowest_lot("/a", &nodes);
        nodes.iter_mut().for_each(|node| node.assigned = node.id * 1000);
        assert_eq!(lowest_lot("/a", &nodes), before);
        assert_eq!(lowest_lot("/a", &[]), None);
        assert_eq!(lowest_lot("/a", &[node(1, 0)]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A node that joins takes its share, and nothing moves between the others. The other way round
        /// that is a node that leaves.
        #[test]
        fn one_that_joins_or_leaves_moves_its_share_and_nothing_else(
            nodes in prop::collection::btree_map(any::<u64>(), 1u32..9, 2..9),
            which in any::<prop::sample::Index>(),
        ) {
            let all: Vec<_> = nodes.iter().map(|(id, slots)| node(*id, *slots)).collect();
            let total: u32 = all.iter().map(|node| node.slots).sum();
            let mut fewer = all.clone();
            let joins = fewer.remove(which.index(all.len()));
            let mut moved = 0;
            for (before, after) in owners(&fewer).into_iter().zip(owners(&all)) {
                if before != after {
                    prop_assert_eq!(after, joins.id);
                    moved += 1;
                }
            }
            let share = f64::from(joins.slots) / f64::from(total);
            prop_assert!(around(share).contains(&f64::from(moved)), "moved {} for a share of {}", moved, share);
        }

        /// More slots only draw streams to the node, fewer only let them go.
        #[test]
        fn a_change_of_slots_moves_one_way(
            nodes in prop::collection::btree_map(any::<u64>(), 1u32..9, 2..9),
            which in any::<prop::sample::Index>(),
            more in 1u32..9,
        ) {
            let before: Vec<_> = nodes.iter().map(|(id, slots)| node(*id, *slots)).collect();
            let mut after = before.clone();
            let changed = which.index(before.len());
            after[changed].slots += more;
            for (was, is) in owners(&before).into_iter().zip(owners(&after)) {
                prop_assert!(was == is || is == after[changed].id);
            }
        }
    }
}
