//! What an operator may set on a node: `SetNode`. It moves nothing that is placed.

use super::{Apply, Done, Verdict};
use crate::command::{Answer, Rejection};
use crate::model::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Apply<'_> {
    pub(super) fn set_node(
        &mut self,
        id: NodeId,
        slots: Option<u32>,
        labels: Option<&BTreeMap<String, String>>,
        draining: Option<bool>,
    ) -> Verdict {
        let old = self.state.node(id).ok_or(Rejection::NoNode(id))?;
        let mut node = old.clone();
        node.slots = slots.unwrap_or(node.slots);
        node.draining = draining.unwrap_or(node.draining);
        if let Some(labels) = labels.filter(|labels| **labels != *node.labels) {
            node.labels = Arc::new(labels.clone());
        }
        if node == *old {
            return Ok(Done::Redundant(Answer::Done));
        }
        self.state.put_node(node);
        Ok(Done::Applied(Answer::Done))
    }
}
