//! What is expected, what was found, and the lines in which the two differ. Pure; asks nobody.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Who shall take streams.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a node's id, a list of ids, a table of ids and counts, or \"none\"")]
pub enum Expected {
    /// This node, all of them.
    Node(u64),
    /// Each of them one of these nodes.
    Any(Vec<u64>),
    /// These nodes, so many each.
    Counts(BTreeMap<String, u64>),
    /// `none`: there is nobody who could.
    Word(String),
}

/// A line of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Line {
    /// As expected.
    Same {
        /// What was expected and found.
        same: String,
    },
    /// Not as expected.
    Differs {
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
}

impl Line {
    fn new(right: bool, expected: String, found: String) -> Line {
        if right { Line::Same { same: found } } else { Line::Differs { expected, found } }
    }

    /// It is as expected.
    pub fn is_same(&self) -> bool {
        matches!(self, Line::Same { .. })
    }
}

/// Streams by the node that took them; `None` for those that nobody took.
pub(super) type Taken = BTreeMap<Option<u64>, u64>;

impl Expected {
    pub(super) fn means_something(&self, nodes: &BTreeSet<u64>, count: u64) -> Result<(), String> {
        let ids: Vec<u64> = match self {
            Expected::Node(node) => vec![*node],
            Expected::Any(ids) if ids.is_empty() => {
                return Err("it expects one of no nodes; write \"none\"".into());
            }
            Expected::Any(ids) => ids.clone(),
            Expected::Counts(counts) => {
                let total: u64 = counts.values().sum();
                if total != count {
                    return Err(format!("it places {count} and expects {total}"));
                }
                let ids = counts.keys().map(|id| id.parse().map_err(|_| format!("{id:?} is no node's id")));
                ids.collect::<Result<_, _>>()?
            }
            Expected::Word(word) if word == "none" => Vec::new(),
            Expected::Word(word) => return Err(format!("it expects {word:?}; the only word is \"none\"")),
        };
        match ids.iter().find(|id| !nodes.contains(id)) {
            Some(stranger) => Err(format!("it expects node {stranger}, which is none of its nodes")),
            None => Ok(()),
        }
    }

    /// Compares with who took the streams; each count may be off by `within`.
    pub(super) fn compare(&self, taken: &Taken, within: u64) -> Vec<Line> {
        match self {
            Expected::Counts(counts) => by_count(counts, taken, within),
            Expected::Node(node) => vec![self.all_of_them(taken, |who| who == Some(*node))],
            Expected::Any(ids) => {
                vec![self.all_of_them(taken, |who| who.is_some_and(|id| ids.contains(&id)))]
            }
            Expected::Word(_) => vec![self.all_of_them(taken, |who| who.is_none())],
        }
    }

    fn all_of_them(&self, taken: &Taken, right: impl Fn(Option<u64>) -> bool) -> Line {
        let all = taken.values().sum::<u64>();
        let found = match all {
            1 => taken.keys().map(|who| name(*who)).collect(),
            _ => taken
                .iter()
                .map(|(who, count)| format!("{}: {count}", name(*who)))
                .collect::<Vec<_>>()
                .join(", "),
        };
        Line::new(taken.keys().all(|who| right(*who)), self.in_words(), found)
    }

    fn in_words(&self) -> String {
        match self {
            Expected::Node(node) => name(Some(*node)),
            Expected::Any(ids) => {
                let ids: Vec<_> = ids.iter().map(u64::to_string).collect();
                format!("one of the nodes {}", ids.join(", "))
            }
            Expected::Counts(_) => "counts".to_owned(),
            Expected::Word(_) => name(None),
        }
    }
}

fn by_count(counts: &BTreeMap<String, u64>, taken: &Taken, within: u64) -> Vec<Line> {
    let mut wanted: BTreeMap<Option<u64>, u64> =
        counts.iter().filter_map(|(id, count)| Some((Some(id.parse().ok()?), *count))).collect();
    for who in taken.keys() {
        wanted.entry(*who).or_default();
    }
    let lines = wanted.into_iter().map(|(who, expected)| {
        let found = taken.get(&who).copied().unwrap_or_default();
        let tolerance = if within > 0 { format!(" (within {within})") } else { String::new() };
        let (expected_line, found_line) =
            (format!("{}: {expected}{tolerance}", name(who)), format!("{}: {found}", name(who)));
        Line::new(found.abs_diff(expected) <= within, expected_line, found_line)
    });
    lines.collect()
}

fn name(who: Option<u64>) -> String {
    who.map_or("nobody".to_owned(), |id| format!("node {id}"))
}
