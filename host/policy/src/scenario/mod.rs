//! Scenarios: the state of a cluster in, the decisions that are expected out, written by people as TOML
//! or JSON. Here is the format; `expect.rs` compares, `run.rs` asks the policy.
//!
//! ```toml
//! policy = "zone-affinity"                # optional: what this is about
//!
//! [[nodes]]
//! id = 1
//! slots = 4                               # 1 when absent
//! assigned = 7                            # 0 when absent
//! labels = { zone = "a" }
//!
//! [[place]]
//! name = "in the zone of the request"
//! stream = "/orders/1"
//! proposer = 1
//! expect = 1                              # or [1, 2], "none", { 1 = 80, 2 = 20 } with count = 100
//!
//! [[route]]
//! name = "to the owner"
//! here = 1
//! operation = "append"
//! ownership = { opened = 2 }
//! expect = { redirect = 2 }
//! ```

mod expect;
mod run;

pub use expect::{Expected, Line};
pub use run::{Outcome, run};

use crate::routing::{Decision, Operation, Ownership};
use crate::trial::Node;
use headwater_metadata::NodeId;
use serde::Deserialize;
use std::collections::BTreeSet;

/// A file of scenarios about one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it shows, for people.
    #[serde(default)]
    pub about: String,
    /// The policy that it is about, by the name in its description; any when absent.
    pub policy: Option<String>,
    /// The cluster that each case starts from.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// Streams that need an owner.
    #[serde(default)]
    pub place: Vec<Place>,
    /// Requests that need a way.
    #[serde(default)]
    pub route: Vec<Route>,
}

/// Streams that need an owner, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// What it shows.
    pub name: String,
    /// The stream's path; `{n}` in it is its number, from 1.
    pub stream: String,
    /// Its content type.
    #[serde(default = "json", rename = "content-type")]
    pub content_type: String,
    /// The node that asks; the first one when absent.
    pub proposer: Option<u64>,
    /// How many streams are placed; each counts for the next.
    #[serde(default = "once")]
    pub count: u64,
    /// The cluster of this case, instead of the file's.
    pub nodes: Option<Vec<Node>>,
    /// Who shall take them.
    pub expect: Expected,
    /// How far each count may be off.
    #[serde(default)]
    pub within: u64,
    /// The policy is expected to fail in this way (a cause of fallbacks) and the native rule to decide.
    pub fallback: Option<String>,
}

/// A request that needs a way.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// What it shows.
    pub name: String,
    /// The node that the request is at.
    pub here: u64,
    /// What is asked of the stream.
    pub operation: Asked,
    /// Who has the stream.
    pub ownership: Owned,
    /// Where the request shall go.
    pub expect: Way,
}

/// An operation, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Asked {
    Create,
    Append,
    Read,
    Tail,
    Inspect,
    Delete,
}

/// An ownership, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Owned {
    Unregistered,
    Unplaced,
    Placed(u64),
    Opened(u64),
    /// From the first to the second.
    Transferring(u64, u64),
    Closed(u64),
}

/// A decision about a route, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Way {
    Here,
    Redirect(u64),
    Forward(u64),
}

fn json() -> String {
    "application/json".to_owned()
}

fn once() -> u64 {
    1
}

/// A file that is no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// Not TOML, or not of this form.
    #[error("{0}")]
    Form(String),
    /// Well-formed, and still without a meaning.
    #[error("{case:?}: {what}")]
    Meaning {
        /// The case that it is in.
        case: String,
        /// What is wrong.
        what: String,
    },
}

impl Scenario {
    /// Reads one: JSON when it begins like an object, TOML otherwise.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text).map_err(|error| ScenarioError::Form(error.to_string()))?,
            false => toml::from_str(text).map_err(|error| ScenarioError::Form(error.to_string()))?,
        };
        scenario.means_something()?;
        Ok(scenario)
    }

    fn means_something(&self) -> Result<(), ScenarioError> {
        let wrong = |case: &str, what: String| Err(ScenarioError::Meaning { case: case.to_owned(), what });
        if self.place.is_empty() && self.route.is_empty() {
            return Err(ScenarioError::Form(
                "it has neither [[place]] nor [[route]]: nothing to test".to_owned(),
            ));
        }
        for place in &self.place {
            let nodes = place.nodes.as_ref().unwrap_or(&self.nodes);
            let mut ids = BTreeSet::new();
            if let Some(twice) = nodes.iter().find(|node| !ids.insert(node.id)) {
                return wrong(&place.name, format!("node {} is there twice", twice.id));
            }
            if let Err(what) = place.expect.means_something(&ids, place.count) {
                return wrong(&place.name, what);
            }
            if place.count == 0 {
                return wrong(&place.name, "a count of 0 places nothing".to_owned());
            }
            if let Some(cause) = &place.fallback
                && crate::Cause::ALL.iter().all(|known| known.as_str() != cause)
            {
                return wrong(&place.name, format!("no fallback has the cause {cause:?}"));
            }
        }
        Ok(())
    }
}

impl From<Asked> for Operation {
    fn from(asked: Asked) -> Operation {
        match asked {
            Asked::Create => Operation::Create,
            Asked::Append => Operation::Append,
            Asked::Read => Operation::Read,
            Asked::Tail => Operation::Tail,
            Asked::Inspect => Operation::Inspect,
            Asked::Delete => Operation::Delete,
        }
    }
}

impl From<Owned> for Ownership {
    fn from(owned: Owned) -> Ownership {
        match owned {
            Owned::Unregistered => Ownership::Unregistered,
            Owned::Unplaced => Ownership::Unplaced,
            Owned::Placed(node) => Ownership::Placed(NodeId(node)),
            Owned::Opened(node) => Ownership::Opened(NodeId(node)),
            Owned::Transferring(source, target) => {
                Ownership::Transferring { source: NodeId(source), target: NodeId(target) }
            }
            Owned::Closed(node) => Ownership::Closed(NodeId(node)),
        }
    }
}

impl From<Way> for Decision {
    fn from(way: Way) -> Decision {
        match way {
            Way::Here => Decision::Here,
            Way::Redirect(node) => Decision::Redirect(NodeId(node)),
            Way::Forward(node) => Decision::Forward(NodeId(node)),
        }
    }
}

#[cfg(test)]
#[path = "scenario_test.rs"]
mod tests;
