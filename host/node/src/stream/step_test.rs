//! What a node does next, for each way in which a stream can be held.

use super::*;
use headwater_metadata::*;
use std::collections::BTreeMap;

struct Rule;

impl Placement for Rule {
    fn place(&self, _: Digest, _: &Subject, _: &[Candidate]) -> Choice {
        Choice::None
    }
    fn not_a_candidate(&self, _: Digest, _: NodeId) {}
    fn engine(&self) -> Digest {
        Digest([0; 32])
    }
}

/// A state with nodes 1, 2 and 3 at epoch 100, and one stream.
struct Fixture {
    state: State,
    numbers: BTreeMap<Session, u64>,
    id: StreamId,
}

fn session(node: u64, epoch: u64) -> Session {
    Session { node: NodeId(node), epoch: Epoch(epoch) }
}

impl Fixture {
    fn new() -> Fixture {
        let mut fixture = Fixture { state: State::new(), numbers: BTreeMap::new(), id: StreamId(1) };
        (1..=3).for_each(|node| fixture.register(session(node, 100)));
        fixture.apply(
            1,
            100,
            Command::CreateStream(CreateStream {
                name: "/s".into(),
                content_type: "text/plain".into(),
                expiry: Expiry::Never,
                now_ms: 1,
                eof: false,
                body: None,
                fork: None,
            }),
        );
        fixture
    }

    fn register(&mut self, session: Session) {
        let info = NodeInfo {
            address: "http://n".into(),
            slots: 1,
            labels: BTreeMap::new(),
            engine: Digest([0; 32]),
            protocol: 1,
            wal: WalForm::Objects,
            lock: LockIdentity { boot: "b".into(), device: 1, inode: 1 },
        };
        let register = Register { session, nonce: 1, continues: None, info };
        let index = self.state.index() + 1;
        let outcomes = self.state.apply(index, &Entry::Register(register), &Rule);
        assert!(matches!(outcomes[..], [Outcome::Applied(_)]), "{outcomes:?}");
    }

    fn apply(&mut self, node: u64, epoch: u64, command: Command) {
        let session = session(node, epoch);
        let number = self.numbers.entry(session).or_default();
        *number += 1;
        let batch = Batch { session, number: *number, commands: vec![command] };
        let index = self.state.index() + 1;
        let outcomes = self.state.apply(index, &Entry::Batch(batch), &Rule);
        assert!(matches!(outcomes[..], [Outcome::Applied(_)]), "{outcomes:?}");
    }

    fn open(&mut self, node: u64) {
        self.apply(node, 100, Command::Open { stream: self.id, epoch: StreamEpoch(0) });
    }

    fn close(&mut self, node: u64) {
        let (stream, epoch) = (self.id, StreamEpoch(1));
        self.apply(node, 100, Command::Close { stream, epoch, end: Position(0), touched_ms: 1 });
    }

    fn transfer(&mut self, epoch: u64, target: u64) {
        let epoch = StreamEpoch(epoch);
        self.apply(3, 100, Command::Transfer { stream: self.id, epoch, target: NodeId(target) });
    }

    fn evict(&mut self, node: u64) {
        self.apply(3, 100, Command::Evict { session: session(node, 100), silent: false });
    }

    /// What nodes 1 and 2, at this epoch, do next.
    fn steps(&self, epoch: u64) -> [Step; 2] {
        let view = self.state.view();
        [1, 2].map(|node| next(&view, self.id, session(node, epoch)))
    }
}

#[test]
fn every_way_to_be_held() {
    let epoch = StreamEpoch;
    let moved = |node| Step::Moved(NodeId(node));
    let waits = Step::WaitForRecovery(session(1, 100));
    type Way = fn(&mut Fixture);
    let rows: Vec<(&str, Way, [Step; 2])> = vec![
        ("unplaced", |_| {}, [Step::Place, Step::Place]),
        ("placed", |f| f.apply(1, 100, Command::Place { stream: f.id }), [Step::Open(epoch(0)), moved(1)]),
        ("opened", |f| f.open(1), [Step::Load(epoch(1)), moved(1)]),
        (
            "closed",
            |f| {
                f.open(1);
                f.close(1);
            },
            [Step::Open(epoch(1)), Step::Open(epoch(1))],
        ),
        (
            "moving, still open",
            |f| {
                f.open(1);
                f.transfer(1, 2);
            },
            [Step::Load(epoch(1)), Step::WaitForTransfer],
        ),
        (
            "moved",
            |f| {
                f.open(1);
                f.transfer(1, 2);
                f.close(1);
            },
            [moved(2), Step::Open(epoch(1))],
        ),
        (
            "its owner was evicted",
            |f| {
                f.open(1);
                f.evict(1);
            },
            [waits, waits],
        ),
        (
            "moving, its owner was evicted",
            |f| {
                f.open(1);
                f.transfer(1, 2);
                f.evict(1);
            },
            [moved(2), waits],
        ),
        (
            "closed, and node 2 drains",
            |f| {
                f.open(1);
                f.close(1);
                let node = NodeId(2);
                f.apply(3, 100, Command::SetNode { node, slots: None, labels: None, draining: Some(true) });
            },
            [Step::Open(epoch(1)), Step::Place],
        ),
        (
            "deleted",
            |f| f.apply(1, 100, Command::DeleteStream { stream: f.id, epoch: StreamEpoch(0) }),
            [Step::Absent, Step::Absent],
        ),
    ];
    for (name, way, expected) in rows {
        let mut fixture = Fixture::new();
        way(&mut fixture);
        assert_eq!(fixture.steps(100), expected, "{name}");
    }
}

#[test]
fn a_restarted_owner_waits_for_its_own_recovery_and_others_go_to_it() {
    let mut fixture = Fixture::new();
    fixture.open(1);
    fixture.register(session(1, 200));
    let view = fixture.state.view();
    assert_eq!(next(&view, fixture.id, session(1, 200)), Step::WaitForRecovery(session(1, 100)));
    assert_eq!(next(&view, fixture.id, session(2, 100)), Step::Moved(NodeId(1)));
}
