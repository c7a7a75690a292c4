//! What `wit/policy.wit` gives on the host's side, and the way from and to the metadata's types.

#[allow(missing_docs, clippy::all)]
mod generated {
    wasmtime::component::bindgen!({ path: "../../wit", world: "policy" });
}

pub(crate) use generated::exports::headwater::policy::about;
pub(crate) use generated::exports::headwater::policy::placement as wit_placement;
pub(crate) use generated::exports::headwater::policy::routing as wit_routing;
pub(crate) use generated::{Policy, PolicyPre};

use crate::routing::{Decision, Operation, Ownership};
use headwater_metadata::{Candidate, NodeId, Subject};
use std::collections::BTreeMap;

/// The package that the host speaks.
pub(crate) const PACKAGE: &str = "headwater:policy";
/// The version of the package that the host speaks.
pub(crate) const VERSION: &str = "0.1.0";

fn labels(from: &BTreeMap<String, String>) -> Vec<wit_placement::Label> {
    from.iter().map(|(key, value)| wit_placement::Label { key: key.clone(), value: value.clone() }).collect()
}

pub(crate) fn subject(from: &Subject) -> wit_placement::Subject {
    wit_placement::Subject {
        id: from.id.0,
        name: from.name.to_string(),
        content_type: from.content_type.to_string(),
        proposer: from.proposer.0,
        proposer_labels: labels(&from.proposer_labels),
    }
}

pub(crate) fn candidate(from: &Candidate) -> wit_placement::Candidate {
    wit_placement::Candidate {
        id: from.id.0,
        slots: from.slots,
        assigned: from.assigned,
        labels: labels(&from.labels),
    }
}

impl From<Operation> for wit_routing::Operation {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Create => wit_routing::Operation::Create,
            Operation::Append => wit_routing::Operation::Append,
            Operation::Read => wit_routing::Operation::Read,
            Operation::Tail => wit_routing::Operation::Tail,
            Operation::Inspect => wit_routing::Operation::Inspect,
            Operation::Delete => wit_routing::Operation::Delete,
        }
    }
}

impl From<Ownership> for wit_routing::Ownership {
    fn from(ownership: Ownership) -> Self {
        match ownership {
            Ownership::Unregistered => wit_routing::Ownership::Unregistered,
            Ownership::Unplaced => wit_routing::Ownership::Unplaced,
            Ownership::Placed(node) => wit_routing::Ownership::Placed(node.0),
            Ownership::Opened(node) => wit_routing::Ownership::Opened(node.0),
            Ownership::Transferring { source, target } => {
                wit_routing::Ownership::Transferring(wit_routing::Transfer {
                    source: source.0,
                    target: target.0,
                })
            }
            Ownership::Closed(node) => wit_routing::Ownership::Closed(node.0),
        }
    }
}

impl From<wit_routing::Decision> for Decision {
    fn from(decision: wit_routing::Decision) -> Self {
        match decision {
            wit_routing::Decision::ServeHere => Decision::Here,
            wit_routing::Decision::Redirect(node) => Decision::Redirect(NodeId(node)),
            wit_routing::Decision::Forward(node) => Decision::Forward(NodeId(node)),
        }
    }
}
