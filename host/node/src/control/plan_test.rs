//! Who recovers what and when; what is handed over.

use super::*;
use headwater_metadata::*;
use std::sync::Arc;

const EVICT_AFTER: Duration = Duration::from_secs(3);

struct Native;

impl Placement for Native {
    fn place(&self, _: Digest, _: &Subject, _: &[Candidate]) -> Choice {
        Choice::None
    }
    fn not_a_candidate(&self, _: Digest, _: NodeId) {}
    fn engine(&self) -> Digest {
        Digest::BUILTIN
    }
}

/// A state that is built command by command.
#[derive(Default)]
struct Cluster {
    state: State,
    index: u64,
    numbers: BTreeMap<Session, u64>,
}

fn session(node: u64, epoch: u64) -> Session {
    Session { node: NodeId(node), epoch: Epoch(epoch) }
}

fn lock(inode: u64) -> LockIdentity {
    LockIdentity { boot: "b".into(), device: 1, inode }
}

impl Cluster {
    fn apply(&mut self, entry: Entry) -> Vec<Outcome> {
        self.index += 1;
        self.state.apply(self.index, &entry, &Native)
    }

    fn register(&mut self, session: Session) {
        let info = NodeInfo {
            address: "http://n".into(),
            slots: 1,
            labels: BTreeMap::new(),
            engine: Digest::BUILTIN,
            protocol: 1,
            wal: WalForm::Objects,
            lock: lock(session.node.0),
        };
        let register = Register { session, nonce: 1, continues: None, info };
        assert!(matches!(self.apply(Entry::Register(register))[0], Outcome::Applied(_)));
    }

    fn propose(&mut self, by: Session, command: Command) -> Outcome {
        let number = self.numbers.entry(by).or_default();
        *number += 1;
        let batch = Batch { session: by, number: *number, commands: vec![command] };
        self.apply(Entry::Batch(batch)).remove(0)
    }

    fn open_stream(&mut self, by: Session, name: &str) -> StreamId {
        let create = CreateStream {
            name: Arc::from(name),
            content_type: "text/plain".into(),
            expiry: Expiry::Never,
            now_ms: 0,
            eof: false,
            body: None,
            fork: None,
        };
        let Outcome::Applied(Answer::Stream(stream)) = self.propose(by, Command::CreateStream(create)) else {
            panic!("not created");
        };
        let opened = self.propose(by, Command::Open { stream, epoch: StreamEpoch(0) });
        assert!(matches!(opened, Outcome::Applied(_)), "{opened:?}");
        stream
    }

    fn plan(&self, me: Session, held: &LockIdentity, known_for: Duration) -> Vec<Action> {
        let view = self.state.view();
        let known_for = view.unrecovered().map(|ended| (ended.session, known_for)).collect();
        plan(&Facts { view: &view, me, lock: held, known_for: &known_for, evict_after: EVICT_AFTER })
    }
}

fn three() -> Cluster {
    let mut cluster = Cluster::default();
    for node in 1..=3 {
        cluster.register(session(node, 10));
    }
    cluster
}

#[test]
fn a_restarted_node_recovers_its_own_session_at_once_when_it_holds_the_lock() {
    let mut cluster = three();
    cluster.register(session(1, 20));
    let recover = vec![Action::Recover(session(1, 10))];
    assert_eq!(cluster.plan(session(1, 20), &lock(1), Duration::ZERO), recover);
    // Another directory proves nothing: the old process may hold a lease.
    assert_eq!(cluster.plan(session(1, 20), &lock(9), Duration::from_millis(1_999)), []);
    assert_eq!(cluster.plan(session(1, 20), &lock(9), Duration::from_secs(2)), recover);
}

#[test]
fn one_node_recovers_an_evicted_session_and_the_next_one_takes_over() {
    let mut cluster = three();
    cluster.propose(session(1, 10), Command::Evict { session: session(3, 10), silent: false });
    let turns =
        |known_for| [1, 2].map(|node| !cluster.plan(session(node, 10), &lock(node), known_for).is_empty());
    assert_eq!(turns(Duration::from_millis(1_999)), [false, false], "a lease may still run");
    assert_eq!(turns(Duration::from_secs(2)).iter().filter(|t| **t).count(), 1, "one node recovers");
    assert_eq!(turns(Duration::from_secs(5)), [true, true], "the next one takes it up");
}

#[test]
fn nobody_waits_for_the_lease_of_a_session_that_was_silent() {
    let mut cluster = three();
    cluster.propose(session(1, 10), Command::Evict { session: session(3, 10), silent: true });
    let turns =
        |known_for| [1, 2].map(|node| !cluster.plan(session(node, 10), &lock(node), known_for).is_empty());
    assert_eq!(turns(Duration::ZERO).iter().filter(|t| **t).count(), 1, "one node recovers, at once");
    assert_eq!(turns(EVICT_AFTER), [true, true], "the next one takes it up");
}

#[test]
fn a_claim_on_own_streams_ends() {
    let mut cluster = three();
    cluster.register(session(3, 20));
    let early = cluster.plan(session(1, 10), &lock(1), Duration::from_secs(3));
    assert_eq!(early, [], "the node itself comes first");
    let late = cluster.plan(session(1, 10), &lock(1), Duration::from_secs(9));
    assert!(late.contains(&Action::Disown(session(3, 10))), "{late:?}");
    assert!(late.contains(&Action::Recover(session(3, 10))), "{late:?}");
}

#[test]
fn streams_on_their_way_are_handed_over_by_their_source_alone() {
    let mut cluster = three();
    let (n1, n2) = (session(1, 10), session(2, 10));
    let stream = cluster.open_stream(n1, "/a");
    cluster.open_stream(n1, "/b");
    let transfer = Command::Transfer { stream, epoch: StreamEpoch(1), target: NodeId(2) };
    assert!(matches!(cluster.propose(n2, transfer), Outcome::Applied(_)));
    assert_eq!(cluster.plan(n1, &lock(1), Duration::ZERO), [Action::HandOver(stream)]);
    assert_eq!(cluster.plan(n2, &lock(2), Duration::ZERO), []);
}

#[test]
fn a_draining_node_hands_over_what_it_has_while_somebody_can_take_it() {
    let mut cluster = three();
    let n1 = session(1, 10);
    let stream = cluster.open_stream(n1, "/a");
    let drain =
        |node| Command::SetNode { node: NodeId(node), slots: None, labels: None, draining: Some(true) };
    cluster.propose(n1, drain(1));
    assert_eq!(cluster.plan(n1, &lock(1), Duration::ZERO), [Action::HandOver(stream)]);
    cluster.propose(n1, drain(2));
    cluster.propose(n1, drain(3));
    assert_eq!(cluster.plan(n1, &lock(1), Duration::ZERO), [], "nobody could take it");
}
