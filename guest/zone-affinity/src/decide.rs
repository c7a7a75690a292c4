//! The rule, as a pure function of the labels: which zones are near, in order, and who is there.

use headwater_policy_sdk::{Candidate, NodeId, Subject, least_ratio};

/// Label of every node: its zone.
pub const ZONE: &str = "zone";
/// Label of a node: the zones to try when its own has no candidate, nearest first, with commas between.
pub const FALLBACK: &str = "zone-fallback";

/// The least filled candidate of the nearest zone that has any; of all candidates when no near zone has.
pub fn nearest(subject: &Subject, candidates: &[Candidate]) -> Option<NodeId> {
    let within = |zone| least_ratio(candidates.iter().filter(|c| c.label(ZONE) == Some(zone)));
    zones(subject).find_map(within).or_else(|| least_ratio(candidates))
}

/// Zones near the node that the request arrived at, nearest first.
fn zones(subject: &Subject) -> impl Iterator<Item = &str> {
    let next = subject.proposer_label(FALLBACK).unwrap_or_default().split(',').map(str::trim);
    subject.proposer_label(ZONE).into_iter().chain(next).filter(|zone| !zone.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_policy_sdk::{Label, by_ratio};
    use proptest::prelude::*;

    fn label(key: &str, value: &str) -> Label {
        Label { key: key.to_owned(), value: value.to_owned() }
    }

    fn node(id: NodeId, assigned: u64, zone: &str) -> Candidate {
        Candidate { id, slots: 1, assigned, labels: vec![label(ZONE, zone)] }
    }

    fn at(zone: &str, fallback: &str) -> Subject {
        Subject { proposer_labels: vec![label(FALLBACK, fallback), label(ZONE, zone)], ..Subject::default() }
    }

    #[test]
    fn table() {
        let nodes = [node(1, 5, "a"), node(2, 9, "a"), node(3, 2, "b"), node(4, 1, "c"), node(5, 0, "d")];
        let cases = [
            ("the zone itself, though others are emptier", at("a", ""), Some(1)),
            ("the order of the fallback counts, not the ratio", at("x", "b,c"), Some(3)),
            ("and the other way round", at("x", "c,b"), Some(4)),
            ("zones that are not there are passed over", at("x", "y, z ,c"), Some(4)),
            ("nothing near: anywhere", at("x", "y"), Some(5)),
            ("no labels: anywhere", Subject::default(), Some(5)),
            ("empty words are no zone", at("", ",,"), Some(5)),
        ];
        for (what, subject, expected) in cases {
            assert_eq!(nearest(&subject, &nodes), expected, "{what}");
            assert_eq!(nearest(&subject, &[]), None, "{what}");
        }
    }

    proptest! {
        /// Nobody is in a nearer zone than the chosen one, and nobody in the same zone is less filled.
        #[test]
        fn nothing_is_nearer_and_nothing_as_near_is_emptier(
            nodes in prop::collection::btree_map(1u64..99, (1u32..5, 0u64..20, 0usize..5), 1..12),
            own in 0usize..5,
            fallback in prop::collection::vec(0usize..5, 0..4),
        ) {
            const ZONES: [&str; 5] = ["a", "b", "c", "d", "e"];
            let candidates: Vec<_> = nodes
                .iter()
                .map(|(id, (slots, assigned, zone))| Candidate { slots: *slots, ..node(*id, *assigned, ZONES[*zone]) })
                .collect();
            let order: Vec<_> = fallback.iter().map(|zone| ZONES[*zone]).collect();
            let subject = at(ZONES[own], &order.join(","));
            let near: Vec<_> = std::iter::once(ZONES[own]).chain(order).collect();
            let distance = |c: &Candidate| near.iter().position(|zone| c.label(ZONE) == Some(*zone)).unwrap_or(near.len());
            let chosen = nearest(&subject, &candidates).expect("there are candidates");
            let chosen = candidates.iter().find(|c| c.id == chosen).expect("a candidate");
            for other in &candidates {
                prop_assert!((distance(chosen), std::cmp::Ordering::Equal) <= (distance(other), by_ratio(other, chosen)));
            }
        }
    }
}
