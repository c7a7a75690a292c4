//! Tests of the rules, over a small cluster of made-up nodes.
//!
//! `Cluster` here proposes as nodes do and checks every invariant after every step; a file per group of
//! rules, `attacks.rs` for timelines that once broke a draft, `properties.rs` for random sequences.

mod attacks;
mod invariants;
mod nodes_sessions;
mod numbering;
mod ownership;
mod policies;
mod properties;
mod ranges;
mod recovery;
mod snapshots;
mod streams;
mod transfers;

use crate::*;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A placement that answers what it is told to, and notes what it was asked.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) choice: Option<Choice>,
    pub(crate) asked: Mutex<Vec<(Digest, Subject, Vec<Candidate>)>>,
    pub(crate) nonsense: Mutex<Vec<NodeId>>,
}

impl Fake {
    pub(crate) fn choosing(choice: Choice) -> Fake {
        Fake { choice: Some(choice), ..Fake::default() }
    }
}

impl Placement for Fake {
    fn place(&self, policy: Digest, subject: &Subject, candidates: &[Candidate]) -> Choice {
        let mut asked = self.asked.lock().expect("no test panics with it");
        asked.push((policy, subject.clone(), candidates.to_vec()));
        self.choice.unwrap_or(Choice::None)
    }

    fn not_a_candidate(&self, _: Digest, named: NodeId) {
        self.nonsense.lock().expect("no test panics with it").push(named);
    }

    fn engine(&self) -> Digest {
        ENGINE
    }
}

pub(crate) const ENGINE: Digest = Digest([7; 32]);

/// A state and what its proposers remember.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) state: State,
    pub(crate) index: u64,
    pub(crate) numbers: BTreeMap<Session, u64>,
    pub(crate) placement: Fake,
}

pub(crate) fn session(node: u64, epoch: u64) -> Session {
    Session { node: NodeId(node), epoch: Epoch(epoch) }
}

pub(crate) fn info(node: u64, slots: u32) -> NodeInfo {
    NodeInfo {
        address: format!("http://node{node}.test"),
        slots,
        labels: BTreeMap::from([("zone".into(), format!("z{node}"))]),
        engine: ENGINE,
        protocol: 1,
        wal: WalForm::Objects,
        lock: LockIdentity { boot: "boot".into(), device: 1, inode: node },
    }
}

pub(crate) fn registration(node: u64, epoch: u64) -> Register {
    let nonce = u128::from(epoch) << 64 | u128::from(node);
    Register { session: session(node, epoch), nonce, continues: None, info: info(node, 1) }
}

pub(crate) fn create(name: &str) -> CreateStream {
    CreateStream {
        name: name.into(),
        content_type: "text/plain".into(),
        expiry: Expiry::Never,
        now_ms: 1_000,
        eof: false,
        body: None,
        fork: None,
    }
}

pub(crate) fn object(by: Session, number: u64) -> ObjectKey {
    ObjectKey { session: by, number }
}

pub(crate) fn run(by: Session, number: u64, start: u64, end: u64) -> Run {
    Run { start: Position(start), end: Position(end), object: object(by, number), offset: 0, crc: 1 }
}

pub(crate) fn stream_run(stream: StreamId, epoch: u64, run: Option<Run>) -> StreamRun {
    StreamRun { stream, epoch: StreamEpoch(epoch), run, checkpoint: None, eof: false }
}

pub(crate) fn recovered(stream: StreamId, epoch: u64, run: Option<Run>) -> Recovered {
    Recovered { run: stream_run(stream, epoch, run), damaged: false, now_ms: 9_000 }
}

pub(crate) fn applied(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Applied(answer) => answer,
        other => panic!("not applied: {other:?}"),
    }
}

pub(crate) fn redundant(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Redundant(answer) => answer,
        other => panic!("not redundant: {other:?}"),
    }
}

pub(crate) fn rejected(outcome: Outcome) -> Rejection {
    match outcome {
        Outcome::Rejected(why) => why,
        other => panic!("not rejected: {other:?}"),
    }
}

impl Cluster {
    /// Nodes 1 to `nodes`, each registered at epoch 100 with one slot.
    pub(crate) fn of(nodes: u64) -> Cluster {
        let mut cluster = Cluster::default();
        for node in 1..=nodes {
            applied(cluster.register(registration(node, 100)));
        }
        cluster
    }

    /// Applies an entry; checks everything that must hold after it.
    pub(crate) fn entry(&mut self, entry: &Entry) -> Vec<Outcome> {
        self.index += 1;
        let before = self.state.clone();
        let outcomes = self.state.apply(self.index, entry, &self.placement);
        invariants::check(&self.state);
        invariants::check_step(&before, &self.state);
        outcomes
    }

    pub(crate) fn register(&mut self, register: Register) -> Outcome {
        let before = self.state.digests();
        let outcome = self.entry(&Entry::Register(register)).remove(0);
        if !matches!(outcome, Outcome::Applied(_)) {
            assert_eq!(self.state.digests(), before, "{outcome:?} changed something");
        }
        outcome
    }

    /// Proposes commands as one entry with the next number of the session.
    pub(crate) fn batch(&mut self, by: Session, commands: Vec<Command>) -> Vec<Outcome> {
        let number = self.numbers.get(&by).map_or(1, |number| number + 1);
        let outcomes = self.entry(&Entry::Batch(Batch { session: by, number, commands }));
        let refused = matches!(outcomes.first(), Some(Outcome::Rejected(Rejection::NotRegistered { .. })));
        if !refused {
            self.numbers.insert(by, number);
        }
        outcomes
    }

    /// Proposes one command; one that is not applied must change nothing.
    pub(crate) fn propose(&mut self, by: Session, command: Command) -> Outcome {
        let mut copy = self.state.clone();
        let alone = copy.apply_command(self.index + 1, by, &command, &self.placement);
        if !matches!(alone, Outcome::Applied(_)) {
            assert_eq!(copy.digests(), self.state.digests(), "{alone:?} changed something: {command:?}");
        }
        let outcome = self.batch(by, vec![command]).remove(0);
        assert_eq!(alone, outcome);
        outcome
    }

    pub(crate) fn create(&mut self, by: Session, name: &str) -> StreamId {
        self.create_as(by, create(name))
    }

    pub(crate) fn create_as(&mut self, by: Session, create: CreateStream) -> StreamId {
        match applied(self.propose(by, Command::CreateStream(create))) {
            Answer::Stream(id) => id,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn open(&mut self, by: Session, stream: StreamId, epoch: u64) -> Outcome {
        self.propose(by, Command::Open { stream, epoch: StreamEpoch(epoch) })
    }

    /// A stream that `by` has open at epoch 1.
    pub(crate) fn opened(&mut self, by: Session, name: &str) -> StreamId {
        let stream = self.create(by, name);
        applied(self.open(by, stream, 0));
        stream
    }

    pub(crate) fn close(&mut self, by: Session, stream: StreamId, epoch: u64, end: u64) -> Outcome {
        let (epoch, end) = (StreamEpoch(epoch), Position(end));
        self.propose(by, Command::Close { stream, epoch, end, touched_ms: 5_000 })
    }

    pub(crate) fn commit(&mut self, by: Session, runs: Vec<StreamRun>, trim: u64) -> Outcome {
        self.propose(by, Command::Commit { runs, trim: WalSeq(trim) })
    }

    /// A commit of one run.
    pub(crate) fn commit_one(&mut self, by: Session, stream: StreamId, epoch: u64, run: Run) -> Outcome {
        self.commit(by, vec![stream_run(stream, epoch, Some(run))], 0)
    }

    pub(crate) fn place(&mut self, by: Session, stream: StreamId) -> Outcome {
        self.propose(by, Command::Place { stream })
    }

    pub(crate) fn delete(&mut self, by: Session, stream: StreamId, epoch: u64) -> Outcome {
        self.propose(by, Command::DeleteStream { stream, epoch: StreamEpoch(epoch) })
    }

    pub(crate) fn transfer(&mut self, by: Session, stream: StreamId, epoch: u64, target: u64) -> Outcome {
        let (epoch, target) = (StreamEpoch(epoch), NodeId(target));
        self.propose(by, Command::Transfer { stream, epoch, target })
    }

    pub(crate) fn evict(&mut self, by: Session, session: Session) -> Outcome {
        self.propose(by, Command::Evict { session, silent: false })
    }

    pub(crate) fn recover(
        &mut self,
        by: Session,
        session: Session,
        streams: Vec<Recovered>,
        last: bool,
    ) -> Outcome {
        self.propose(by, Command::RecoverSession { session, streams, last })
    }

    pub(crate) fn set(
        &mut self,
        by: Session,
        node: u64,
        slots: Option<u32>,
        draining: Option<bool>,
    ) -> Outcome {
        self.propose(by, Command::SetNode { node: NodeId(node), slots, labels: None, draining })
    }

    pub(crate) fn stream(&self, id: StreamId) -> &Stream {
        self.state.stream(id).expect("the stream exists")
    }

    pub(crate) fn effective(&self, id: StreamId) -> Effective {
        self.state.effective(self.stream(id))
    }

    pub(crate) fn assigned(&self, node: u64) -> u64 {
        self.state.assigned(NodeId(node)).total()
    }
}
