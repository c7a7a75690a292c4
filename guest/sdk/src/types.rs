//! The nouns of `wit/policy.wit` as plain Rust. The same natively and in a component.

/// Stable id of a node, unique in its cluster.
pub type NodeId = u64;

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
}

/// A node that may be given streams: registered, not draining, with at least one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: NodeId,
    /// Capacity weight, at least 1.
    pub slots: u32,
    /// Streams placed or open on it now.
    pub assigned: u64,
    /// Empty unless the policy asks for labels in its description.
    pub labels: Vec<Label>,
}

impl Candidate {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        label(&self.labels, key)
    }
}

/// A stream that needs an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Its id.
    pub id: u64,
    /// The URL path, percent-encoded as the client sent it.
    pub name: String,
    /// Content type.
    pub content_type: String,
    /// The node that the request arrived at; it need not be a candidate.
    pub proposer: NodeId,
    /// Empty unless the policy asks for labels.
    pub proposer_labels: Vec<Label>,
}

impl Subject {
    /// The value of a label of the node that the request arrived at.
    pub fn proposer_label(&self, key: &str) -> Option<&str> {
        label(&self.proposer_labels, key)
    }
}

fn label<'a>(labels: &'a [Label], key: &str) -> Option<&'a str> {
    labels.iter().find(|label| label.key == key).map(|label| label.value.as_str())
}

/// What is asked of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Create it.
    Create,
    /// Append to it, or close it.
    Append,
    /// Read what is there.
    Read,
    /// Read and wait for more.
    Tail,
    /// Ask for its state.
    Inspect,
    /// Delete it.
    Delete,
}

/// Who has a stream, as the asking node sees it; it may lag by a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The name is not registered.
    Unregistered,
    /// Registered, nothing asked of it yet.
    Unplaced,
    /// Chosen, not open.
    Placed(NodeId),
    /// Being served.
    Opened(NodeId),
    /// On its way.
    Transferring {
        /// Who has it.
        source: NodeId,
        /// Who shall have it.
        target: NodeId,
    },
    /// Flushed and let go by this node; any node may revive it.
    Closed(NodeId),
}

impl Ownership {
    /// The node that has the stream or is about to: the target of a move, else who has it open or was
    /// chosen for it.
    pub fn owner(self) -> Option<NodeId> {
        match self {
            Ownership::Unregistered | Ownership::Unplaced | Ownership::Closed(_) => None,
            Ownership::Placed(node) | Ownership::Opened(node) => Some(node),
            Ownership::Transferring { target, .. } => Some(target),
        }
    }
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Serve it here.
    ServeHere,
    /// Answer 307 with this node's advertised address.
    Redirect(NodeId),
    /// Relay the request to this node and its answer back.
    Forward(NodeId),
}

/// What a policy says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it does, in a sentence.
    pub summary: String,
    /// It wants to see the nodes' labels, which makes placement slower.
    pub needs_labels: bool,
}

impl Description {
    /// A policy that needs nothing beyond ids, slots and counts.
    pub fn new(name: &str, version: &str, summary: &str) -> Description {
        Description {
            name: name.to_owned(),
            version: version.to_owned(),
            summary: summary.to_owned(),
            needs_labels: false,
        }
    }

    /// Asks for the nodes' labels.
    pub fn with_labels(self) -> Description {
        Description { needs_labels: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_key() {
        let labels = vec![Label { key: "zone".to_owned(), value: "a".to_owned() }];
        let candidate = Candidate { id: 1, slots: 1, assigned: 0, labels: labels.clone() };
        assert_eq!(candidate.label("zone"), Some("a"));
        assert_eq!(candidate.label("rack"), None);
        let subject = Subject { proposer_labels: labels, ..Subject::default() };
        assert_eq!(subject.proposer_label("zone"), Some("a"));
    }

    #[test]
    fn a_move_belongs_to_its_target() {
        assert_eq!(Ownership::Transferring { source: 1, target: 2 }.owner(), Some(2));
        assert_eq!(Ownership::Closed(3).owner(), None);
    }
}
