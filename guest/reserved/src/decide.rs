//! The rule, as pure functions: how well a node's reservation fits a name, and who fits best.

use headwater_policy_sdk::{Candidate, NodeId, least_ratio};

/// Label of a node: the path prefixes that it is reserved for, with commas between.
pub const RESERVED: &str = "reserved";

/// The least filled of the candidates that fit best: those reserved for the longest prefix of the name,
/// else those that are reserved for nothing. `None` when every candidate is reserved for something else.
pub fn by_prefix(name: &str, candidates: &[Candidate]) -> Option<NodeId> {
    let best = candidates.iter().filter_map(|candidate| fit(name, candidate)).max()?;
    least_ratio(candidates.iter().filter(|candidate| fit(name, candidate) == Some(best)))
}

/// Length of the longest of its prefixes that the name is below, 0 when it is reserved for nothing, `None`
/// when it is reserved for others.
fn fit(name: &str, candidate: &Candidate) -> Option<usize> {
    let Some(prefixes) = candidate.label(RESERVED) else { return Some(0) };
    let mut prefixes = prefixes.split(',').map(|prefix| prefix.trim().trim_matches('/'));
    let longest = prefixes.clone().filter(|prefix| below(name, prefix)).map(str::len).max();
    match longest {
        Some(length) => Some(length),
        None => prefixes.all(str::is_empty).then_some(0),
    }
}

/// The name is this prefix, or goes on from it with a new segment.
fn below(name: &str, prefix: &str) -> bool {
    let rest = name.trim_start_matches('/').strip_prefix(prefix);
    !prefix.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_policy_sdk::Label;
    use proptest::prelude::*;

    fn node(id: NodeId, assigned: u64, reserved: Option<&str>) -> Candidate {
        let label = |value: &str| Label { key: RESERVED.to_owned(), value: value.to_owned() };
        Candidate { id, slots: 1, assigned, labels: reserved.map(label).into_iter().collect() }
    }

    #[test]
    fn table() {
        let nodes = [
            node(1, 9, None),
            node(2, 8, Some("")),
            node(3, 5, Some("/billing")),
            node(4, 4, Some("/billing/,audit")),
            node(5, 0, Some("/billing/eu")),
        ];
        let cases = [
            ("no reservation: an unreserved node, and an empty label is none", "/orders/1", Some(2)),
            ("the emptier of those reserved for it", "/billing/us/1", Some(4)),
            ("the longest prefix wins", "/billing/eu/1", Some(5)),
            ("the prefix itself", "/billing", Some(4)),
            ("prefixes end with a segment", "/billing2/1", Some(2)),
            ("the second of two", "/audit/x", Some(4)),
        ];
        for (what, name, expected) in cases {
            assert_eq!(by_prefix(name, &nodes), expected, "{what}");
        }
        assert_eq!(by_prefix("/billing/1", &nodes[..2]), Some(2), "its nodes are gone: unreserved ones");
        assert_eq!(by_prefix("/orders/1", &nodes[2..]), None, "all are reserved for others");
        assert_eq!(by_prefix("/orders/1", &[]), None);
    }

    proptest! {
        /// A reserved node never gets a stream of others, and a stream with nodes of its own never goes
        /// elsewhere.
        #[test]
        fn reservations_hold(
            nodes in prop::collection::btree_map(any::<u64>(), (0u64..50, 0usize..4), 1..12),
            name in 0usize..4,
        ) {
            const PREFIXES: [Option<&str>; 4] = [None, Some("/a"), Some("/a/b"), Some("/c")];
            const NAMES: [(&str, &[usize]); 4] = [("/x/1", &[0]), ("/a/1", &[1, 0]), ("/a/b/1", &[2, 1, 0]), ("/c", &[3, 0])];
            let candidates: Vec<_> =
                nodes.iter().map(|(id, (assigned, prefix))| node(*id, *assigned, PREFIXES[*prefix])).collect();
            let (name, order) = NAMES[name];
            let kind = |id: NodeId| nodes[&id].1;
            let best = order.iter().find(|prefix| nodes.values().any(|(_, has)| has == *prefix));
            prop_assert_eq!(by_prefix(name, &candidates).map(kind), best.copied());
        }
    }
}
