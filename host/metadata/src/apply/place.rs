//! Choosing a node: `Place`. The active policy is asked, the built-in rule decides where it does not.
//!
//! Nothing that fencing rests on may depend on the answer.

use super::{Apply, Done, Verdict};
use crate::command::{Answer, Rejection};
use crate::least_ratio;
use crate::model::*;
use crate::placement::{Candidate, Choice, Subject};
use std::collections::BTreeMap;

impl Apply<'_> {
    /// Gives a stream that has no owner one. A stream that has one keeps it, and the answer says which.
    pub(super) fn place(&mut self, id: StreamId) -> Verdict {
        let stream = self.existing(id)?;
        match stream.ownership {
            Ownership::Opened(session) => {
                return match self.state.retired(session) {
                    Some(ended) if !ended.keeps_streams() => Err(Rejection::WaitsForRecovery(session)),
                    _ => Ok(Done::Redundant(Answer::Owner(session.node))),
                };
            }
            Ownership::Placed(node) if self.state.placement_holds(node) => {
                return Ok(Done::Redundant(Answer::Owner(node)));
            }
            Ownership::Unplaced | Ownership::Placed(_) | Ownership::Closed(_) => {}
        }
        let node = self.choose(stream).ok_or(Rejection::NoCandidate)?;
        self.state.change_stream(id, |stream| stream.ownership = Ownership::Placed(node));
        Ok(Done::Applied(Answer::Owner(node)))
    }

    fn choose(&self, stream: &Stream) -> Option<NodeId> {
        let digest = self.state.active_policy().policy;
        let policy = self.state.policy(digest).filter(|_| self.state.common_engine().is_some());
        let needs_labels = policy.is_some_and(|policy| policy.needs_labels);
        let candidates = self.state.candidates(needs_labels);
        if candidates.is_empty() {
            return None;
        }
        let asked = policy.and_then(|_| self.ask(digest, stream, &candidates, needs_labels));
        asked.or_else(|| least_ratio::choose(&candidates))
    }

    /// The policy's choice, if it made a valid one.
    fn ask(
        &self,
        policy: Digest,
        stream: &Stream,
        candidates: &[Candidate],
        needs_labels: bool,
    ) -> Option<NodeId> {
        let proposer = self.state.node(self.by.node).filter(|_| needs_labels);
        let subject = Subject {
            id: stream.id,
            name: stream.name.clone(),
            content_type: stream.content_type.clone(),
            proposer: self.by.node,
            proposer_labels: proposer.map_or_else(BTreeMap::new, |node| (*node.labels).clone()),
        };
        match self.placement.place(policy, &subject, candidates) {
            Choice::Node(node) if candidates.binary_search_by_key(&node, |it| it.id).is_ok() => Some(node),
            Choice::Node(node) => {
                self.placement.not_a_candidate(policy, node);
                None
            }
            Choice::None | Choice::Fault => None,
        }
    }
}
