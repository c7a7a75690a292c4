//! Asks a policy what a scenario asks, and says where it decides otherwise. Each case starts from the
//! nodes of the file again.

use super::expect::{Line, Taken};
use super::{Place, Route, Scenario};
use crate::counters::Cause;
use crate::routing::Decision;
use crate::trial::{Lacking, Node, Trial};
use headwater_metadata::{NodeId, StreamId, Subject};
use serde::Serialize;
use std::collections::BTreeMap;

/// What came of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The case.
    pub name: String,
    /// What was asked, in words.
    pub asked: String,
    /// What was expected beside what was found.
    pub lines: Vec<Line>,
}

impl Outcome {
    /// All is as expected.
    pub fn passed(&self) -> bool {
        self.lines.iter().all(Line::is_same)
    }
}

/// Asks the policy everything, in the order of the file.
pub fn run(policy: &Trial, scenario: &Scenario) -> Result<Vec<Outcome>, Lacking> {
    let mut outcomes = Vec::new();
    if let Some(name) = scenario.policy.as_ref().filter(|name| **name != policy.description().name) {
        outcomes.push(Outcome {
            name: "the policy is the one that this is about".to_owned(),
            asked: "its name".to_owned(),
            lines: vec![Line::Differs { expected: name.clone(), found: policy.description().name.clone() }],
        });
    }
    for case in &scenario.place {
        outcomes.push(place(policy, case, case.nodes.as_ref().unwrap_or(&scenario.nodes))?);
    }
    outcomes.extend(scenario.route.iter().map(|case| route(policy, case, &scenario.nodes)));
    Ok(outcomes)
}

fn place(policy: &Trial, case: &Place, nodes: &[Node]) -> Result<Outcome, Lacking> {
    let mut nodes = nodes.to_vec();
    let asked = format!("{} for {}", described(&nodes), streams(case));
    let proposer = case.proposer.or(nodes.first().map(|node| node.id)).unwrap_or_default();
    let proposer_labels =
        nodes.iter().find(|node| node.id == proposer).map(|node| policy.visible(&node.labels));
    let mut subject = Subject {
        id: StreamId(0),
        name: case.stream.as_str().into(),
        content_type: case.content_type.as_str().into(),
        proposer: NodeId(proposer),
        proposer_labels: proposer_labels.unwrap_or_default(),
    };
    let mut taken = Taken::new();
    let mut fallbacks: BTreeMap<Cause, u64> = BTreeMap::new();
    for number in 1..=case.count {
        subject.id = StreamId(number);
        subject.name = case.stream.replace("{n}", &number.to_string()).into();
        let placed = policy.place(&subject, &policy.candidates(&nodes))?;
        let who = placed.node.map(|node| node.0);
        nodes.iter_mut().filter(|node| Some(node.id) == who).for_each(|node| node.assigned += 1);
        *taken.entry(who).or_default() += 1;
        if let Some(cause) = placed.fallback {
            *fallbacks.entry(cause).or_default() += 1;
        }
    }
    let mut lines = case.expect.compare(&taken, case.within);
    lines.extend(who_decided(case, &fallbacks));
    Ok(Outcome { name: case.name.clone(), asked, lines })
}

/// A line about who decided, unless it was the policy and that was expected.
fn who_decided(case: &Place, fallbacks: &BTreeMap<Cause, u64>) -> Option<Line> {
    let in_words = |cause: &str| format!("the native rule decided: {cause}");
    let policy = || "the policy decided".to_owned();
    let found = match fallbacks.is_empty() {
        true => policy(),
        false => in_words(
            &fallbacks
                .iter()
                .map(|(cause, n)| format!("{} ({n})", cause.as_str()))
                .collect::<Vec<_>>()
                .join(", "),
        ),
    };
    match &case.fallback {
        None if fallbacks.is_empty() => None,
        None => Some(Line::Differs { expected: policy(), found }),
        Some(cause) => {
            let only = fallbacks.iter().all(|(found, n)| found.as_str() == cause && *n == case.count);
            Some(match only && !fallbacks.is_empty() {
                true => Line::Same { same: in_words(cause) },
                false => Line::Differs { expected: in_words(cause), found },
            })
        }
    }
}

fn route(policy: &Trial, case: &Route, nodes: &[Node]) -> Outcome {
    let ownership = case.ownership.into();
    let is_node = |id: NodeId| nodes.is_empty() || nodes.iter().any(|node| node.id == id.0);
    let (decision, fallback) = policy.route(NodeId(case.here), case.operation.into(), ownership, is_node);
    let expected = Decision::from(case.expect);
    let found = match fallback {
        None => way(decision),
        Some(cause) => format!("{}, by the native rule: {}", way(decision), cause.as_str()),
    };
    let line = match fallback.is_none() && decision == expected {
        true => Line::Same { same: found },
        false => Line::Differs { expected: way(expected), found },
    };
    Outcome {
        name: case.name.clone(),
        asked: format!("{:?} at node {} of a stream that is {}", case.operation, case.here, owned(case)),
        lines: vec![line],
    }
}

fn way(decision: Decision) -> String {
    match decision {
        Decision::Here => "here".to_owned(),
        Decision::Redirect(node) => format!("redirect to node {node}"),
        Decision::Forward(node) => format!("forward to node {node}"),
    }
}

fn owned(case: &Route) -> String {
    use super::Owned::{Closed, Opened, Placed, Transferring, Unplaced, Unregistered};
    match case.ownership {
        Unregistered => "unregistered".to_owned(),
        Unplaced => "unplaced".to_owned(),
        Placed(node) => format!("placed on node {node}"),
        Opened(node) => format!("opened by node {node}"),
        Transferring(source, target) => format!("moving from node {source} to node {target}"),
        Closed(node) => format!("closed by node {node}"),
    }
}

fn streams(case: &Place) -> String {
    let from = case.proposer.map(|node| format!(", asked for at node {node}")).unwrap_or_default();
    match case.count {
        1 => format!("{}{from}", case.stream),
        count => format!("{count} streams {}{from}", case.stream),
    }
}

/// The nodes in a line, with what is not as a node is by default: `1 (4 slots, 7 streams), 2, 3 (draining)`.
fn described(nodes: &[Node]) -> String {
    let described = nodes.iter().map(|node| {
        let plural = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let mut facts = Vec::new();
        facts.extend((node.slots != 1).then(|| plural(node.slots.into(), "slot")));
        facts.extend((node.assigned > 0).then(|| plural(node.assigned, "stream")));
        facts.extend(node.labels.iter().map(|(key, value)| format!("{key}={value}")));
        facts.extend(node.draining.then(|| "draining".to_owned()));
        match facts.is_empty() {
            true => node.id.to_string(),
            false => format!("{} ({})", node.id, facts.join(", ")),
        }
    });
    let described: Vec<_> = described.collect();
    if described.is_empty() { "no nodes".to_owned() } else { format!("nodes {}", described.join(", ")) }
}
