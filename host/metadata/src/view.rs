//! Reading the state. A `View` is an immutable copy, made after each applied batch at the cost of a few
//! reference counts; requests read views and nothing else.
//!
//! `effective` is what routing sees: the rules that make an eviction cheap (streams of an ended session
//! are judged when somebody asks) live there and nowhere else.

use crate::command::SessionState;
use crate::model::*;
use crate::placement::Candidate;
use crate::records::*;
use crate::state::{State, Totals};
use imbl::OrdSet;
use std::collections::BTreeMap;
use std::ops::{Bound, Deref};
use std::sync::Arc;

/// An immutable copy of the state. It reads like one.
#[derive(Clone, Debug, Default)]
pub struct View(State);

impl Deref for View {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

/// Who has a stream, as routing has to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effective {
    /// There is no such stream (any more).
    Unregistered,
    /// Nobody has it, and placing it comes first: never placed, or placed on a node that is not
    /// registered, or on a draining one while another could take it.
    Unplaced,
    /// Placed on this node, or left there by its own restart.
    Placed(NodeId),
    /// Being served.
    Opened(Session),
    /// A move is pending: everything goes to the target.
    Transferring(Transfer),
    /// Let go, or lost by an eviction: any node may revive it, after the recovery that it may wait for.
    Closed(NodeId),
}

/// Streams of a node, for draining and for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assigned {
    /// Placed on it.
    pub placed: u64,
    /// Open in any of its sessions.
    pub opened: u64,
}

impl Assigned {
    /// What placement counts.
    pub fn total(&self) -> u64 {
        self.placed + self.opened
    }
}

impl State {
    /// An immutable copy.
    pub fn view(&self) -> View {
        View(self.clone())
    }

    /// Log index of the last applied entry.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// A stream, also one that is deleted and kept for its forks.
    pub fn stream(&self, id: StreamId) -> Option<&Arc<Stream>> {
        self.streams.get(&id)
    }

    /// The stream of this name, also one that is deleted and kept for its forks.
    pub fn stream_by_name(&self, name: &str) -> Option<&Arc<Stream>> {
        self.stream(*self.derived.names.get(name)?)
    }

    /// Streams whose name begins with `prefix` and is greater than `after`, by name; deleted ones left out.
    pub fn streams_by_name<'a>(
        &'a self,
        after: Option<&str>,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Stream>> + 'a {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(Arc::from(after)),
            _ => Bound::Included(Arc::from(prefix)),
        };
        let names = self.derived.names.range::<_, Arc<str>>((from, Bound::Unbounded));
        names
            .take_while(move |(name, _)| name.starts_with(prefix))
            .filter_map(|(_, id)| self.stream(*id))
            .filter(|stream| !stream.deleted)
    }

    /// How many streams there are, by ownership.
    pub fn totals(&self) -> Totals {
        self.derived.totals
    }

    /// A node that registered at least once.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// All nodes that ever registered, by id.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.map().values()
    }

    /// The registered session of a node.
    pub fn session_of(&self, node: NodeId) -> Option<Session> {
        self.node(node)?.session()
    }

    /// The registered sessions, by node.
    pub fn sessions(&self) -> impl Iterator<Item = &Arc<Live>> {
        self.nodes().filter_map(|node| node.live.as_ref())
    }

    /// What the state knows of a session.
    pub fn session_state(&self, session: Session) -> SessionState {
        if self.session_of(session.node) == Some(session) {
            return SessionState::Registered;
        }
        self.retired.get(&session).map_or(SessionState::Unknown, |retired| SessionState::Retired(retired.why))
    }

    /// Number of the last entry and trim point of a registered session.
    pub fn progress(&self, session: Session) -> Option<&Progress> {
        self.live.get(&session)
    }

    /// A session that ended.
    pub fn retired(&self, session: Session) -> Option<&Retired> {
        self.retired.get(&session)
    }

    /// Every session that ever ended, by node and epoch.
    pub fn all_retired(&self) -> impl Iterator<Item = &Retired> {
        self.retired.map().values()
    }

    /// Ended sessions whose log is still to be sealed and replayed, by node and epoch.
    pub fn unrecovered(&self) -> impl Iterator<Item = &Retired> {
        self.derived.unrecovered.iter().filter_map(|session| self.retired(*session))
    }

    /// Streams open in a session, registered or ended.
    pub fn open_in(&self, session: Session) -> impl Iterator<Item = StreamId> {
        self.derived.open.get(&session).into_iter().flat_map(OrdSet::iter).copied()
    }

    /// How many streams are open in a session.
    pub fn open_count(&self, session: Session) -> u64 {
        self.derived.open.get(&session).map_or(0, |open| open.len() as u64)
    }

    /// Streams placed on a node and not open.
    pub fn placed_on(&self, node: NodeId) -> impl Iterator<Item = StreamId> {
        self.derived.placed.get(&node).into_iter().flat_map(OrdSet::iter).copied()
    }

    /// How many streams a node has, whether it is registered or not.
    pub fn assigned(&self, node: NodeId) -> Assigned {
        let sessions = Session { node, epoch: Epoch(0) }..=Session { node, epoch: Epoch(u64::MAX) };
        Assigned {
            placed: self.derived.placed.get(&node).map_or(0, |placed| placed.len() as u64),
            opened: self.derived.open.range(sessions).map(|(_, open)| open.len() as u64).sum(),
        }
    }

    /// Pending transfers, by source.
    pub fn transfers(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.derived.leaving.iter().filter_map(|(_, id)| self.stream(*id))
    }

    /// How many transfers are pending.
    pub fn transfer_count(&self) -> usize {
        self.derived.leaving.len()
    }

    /// Streams with a pending transfer away from this node.
    pub fn leaving(&self, source: NodeId) -> impl Iterator<Item = StreamId> {
        let all = (source, StreamId(0))..=(source, StreamId(u64::MAX));
        self.derived.leaving.range(all).map(|(_, id)| *id)
    }

    /// Streams with a pending transfer to this node.
    pub fn coming(&self, target: NodeId) -> impl Iterator<Item = StreamId> {
        let all = (target, StreamId(0))..=(target, StreamId(u64::MAX));
        self.derived.coming.range(all).map(|(_, id)| *id)
    }

    /// Streams that nobody has open and whose life was over at `now_ms`, the first to end first. Those
    /// that are open are their owners' to judge.
    pub fn expired(&self, now_ms: u64) -> impl Iterator<Item = &Arc<Stream>> {
        let over = self.derived.expiring.range(..=(now_ms, StreamId(u64::MAX)));
        over.filter_map(|(_, id)| self.stream(*id))
    }

    /// Objects that nothing refers to any more and that are still to be deleted from the store.
    pub fn unlinked(&self) -> impl Iterator<Item = ObjectKey> {
        self.unlinked.map().keys().copied()
    }

    /// Whether a stream's run or checkpoint is in this object. Streams that are deleted and kept for their
    /// forks count.
    pub fn refers_to(&self, object: ObjectKey) -> bool {
        self.derived.references.contains_key(&object)
    }

    /// Which policy decides.
    pub fn active_policy(&self) -> &Active {
        &self.active
    }

    /// A policy by the SHA-256 of its component.
    pub fn policy(&self, digest: Digest) -> Option<&Policy> {
        self.policies.get(&digest)
    }

    /// The newest policy of a name.
    pub fn policy_by_name(&self, name: &str) -> Option<&Policy> {
        self.policies().filter(|policy| &*policy.name == name).max_by_key(|policy| policy.put_index)
    }

    /// All policies, by digest.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.map().values()
    }

    /// The last changes of the policies, oldest first.
    pub fn audit(&self) -> impl Iterator<Item = &Audit> {
        self.audit.map().values()
    }

    /// The engine fingerprint that all registered sessions have in common. Without one, placement is left
    /// to the built-in rule.
    pub fn common_engine(&self) -> Option<Digest> {
        match self.derived.engines.len() {
            1 => self.derived.engines.keys().next().copied(),
            _ => None,
        }
    }

    /// Nodes that may be given streams, by id.
    pub fn candidates(&self, needs_labels: bool) -> Vec<Candidate> {
        let takers = self.nodes().filter(|node| node.takes_streams());
        let candidate = |node: &Node| Candidate {
            id: node.id,
            slots: node.slots,
            assigned: self.assigned(node.id).total(),
            labels: if needs_labels { (*node.labels).clone() } else { BTreeMap::new() },
        };
        takers.map(candidate).collect()
    }

    /// Whether any node may be given streams.
    pub fn has_candidate(&self) -> bool {
        self.nodes().any(Node::takes_streams)
    }

    /// Who has the stream, as routing has to see it.
    pub fn effective(&self, stream: &Stream) -> Effective {
        if stream.deleted {
            return Effective::Unregistered;
        }
        if let Some(transfer) = stream.transfer {
            return Effective::Transferring(transfer);
        }
        match stream.ownership {
            Ownership::Unplaced => Effective::Unplaced,
            Ownership::Closed(node) => Effective::Closed(node),
            Ownership::Placed(node) if self.placement_holds(node) => Effective::Placed(node),
            Ownership::Placed(_) => Effective::Unplaced,
            Ownership::Opened(session) => match self.retired(session) {
                None => Effective::Opened(session),
                Some(ended) if ended.keeps_streams() && self.session_of(session.node).is_some() => {
                    Effective::Placed(session.node)
                }
                Some(_) => Effective::Closed(session.node),
            },
        }
    }

    /// Whether a stream placed on this node is to be opened there: it is registered, and not draining
    /// while another node could take the stream.
    pub(crate) fn placement_holds(&self, node: NodeId) -> bool {
        match self.node(node) {
            Some(node) if node.live.is_some() => !node.draining || !self.has_candidate(),
            _ => false,
        }
    }

    /// The ended session whose recovery this stream waits for: nobody may open, delete or inspect it
    /// before.
    pub fn waits_for_recovery(&self, stream: &Stream) -> Option<Session> {
        match stream.ownership {
            Ownership::Opened(session) if self.retired(session).is_some() => Some(session),
            _ => None,
        }
    }
}
