//! What applying each kind of command costs, on a state of 20,000 streams over three nodes, with a view
//! made of the state before each entry as a node does.
//!
//! `cargo bench -p headwater-metadata --bench apply`

use bytes::Bytes;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use headwater_metadata::*;
use std::collections::BTreeMap;

const STREAMS: u64 = 20_000;
const ONE: Session = Session { node: NodeId(1), epoch: Epoch(100) };

struct Native;

impl Placement for Native {
    fn place(&self, _: Digest, _: &Subject, _: &[Candidate]) -> Choice {
        Choice::None
    }

    fn not_a_candidate(&self, _: Digest, _: NodeId) {}

    fn engine(&self) -> Digest {
        Digest([7; 32])
    }
}

fn register(node: u64, epoch: u64) -> Register {
    let lock = LockIdentity { boot: "boot".into(), device: 1, inode: node };
    let info = NodeInfo {
        address: format!("http://node{node}.test"),
        slots: 1,
        labels: BTreeMap::new(),
        engine: Digest([7; 32]),
        protocol: 1,
        wal: WalForm::Objects,
        lock,
    };
    let session = Session { node: NodeId(node), epoch: Epoch(epoch) };
    Register { session, nonce: 1, continues: None, info }
}

fn create(name: u64) -> Command {
    Command::CreateStream(CreateStream {
        name: format!("/bench/stream-{name:08}").into(),
        content_type: "application/octet-stream".into(),
        expiry: Expiry::Never,
        now_ms: 1,
        eof: false,
        body: None,
        fork: None,
    })
}

fn run(start: u64, end: u64) -> Run {
    let object = ObjectKey { session: ONE, number: end };
    Run { start: Position(start), end: Position(end), object, offset: 0, crc: 0 }
}

fn commit(streams: std::ops::Range<u64>, start: u64, end: u64) -> Command {
    let runs = streams.map(|n| StreamRun {
        stream: StreamId(n),
        epoch: StreamEpoch(1),
        run: Some(run(start, end)),
        checkpoint: None,
        eof: false,
    });
    Command::Commit { runs: runs.collect(), trim: WalSeq(end) }
}

/// Applies commands as the next entry of node 1.
fn apply(state: &mut State, commands: Vec<Command>) -> Vec<Outcome> {
    let number = state.progress(ONE).map_or(0, |progress| progress.number) + 1;
    let entry = Entry::Batch(Batch { session: ONE, number, commands });
    state.apply(number, &entry, &Native)
}

/// Streams 1 to 10,000 are open on node 1 with a hundred bytes each, the rest are registered.
fn prepared() -> State {
    let mut state = State::new();
    for node in 1..=3 {
        state.apply(node, &Entry::Register(register(node, 100)), &Native);
    }
    for chunk in (0..STREAMS).collect::<Vec<_>>().chunks(250) {
        apply(&mut state, chunk.iter().map(|n| create(*n)).collect());
    }
    for chunk in (1..=STREAMS / 2).collect::<Vec<_>>().chunks(250) {
        let open = |n: &u64| Command::Open { stream: StreamId(*n), epoch: StreamEpoch(0) };
        apply(&mut state, chunk.iter().map(open).collect());
    }
    apply(&mut state, vec![commit(1..STREAMS / 2 + 1, 0, 100)]);
    state
}

fn commands() -> Vec<(&'static str, Vec<Command>)> {
    let (open, registered) = (StreamId(5_000), StreamId(15_000));
    let (first, zero) = (StreamEpoch(1), StreamEpoch(0));
    let three = Session { node: NodeId(3), epoch: Epoch(100) };
    let transfer = Command::Transfer { stream: open, epoch: first, target: NodeId(2) };
    let put = Command::PutPolicy {
        name: "p".into(),
        version: "1".into(),
        needs_labels: false,
        component: Bytes::from(vec![7; 1 << 20]),
    };
    let close = Command::Close { stream: open, epoch: first, end: Position(100), touched_ms: 5 };
    let replace = Command::Replace { stream: open, epoch: first, run: Run { crc: 1, ..run(0, 100) } };
    let set = Command::SetNode { node: NodeId(2), slots: Some(4), labels: None, draining: None };
    vec![
        ("create", vec![create(STREAMS)]),
        ("create, 256 in an entry", (0..256).map(|n| create(STREAMS + n)).collect()),
        ("delete", vec![Command::DeleteStream { stream: registered, epoch: zero }]),
        ("place", vec![Command::Place { stream: registered }]),
        ("open", vec![Command::Open { stream: registered, epoch: zero }]),
        ("close", vec![close]),
        ("commit of one run", vec![commit(5_000..5_001, 100, 200)]),
        ("commit of 1,000 runs", vec![commit(5_000..6_000, 100, 200)]),
        ("replace", vec![replace]),
        ("transfer", vec![transfer.clone()]),
        ("transfer, cancel", vec![transfer, Command::CancelTransfer { stream: open, epoch: first }]),
        ("set node", vec![set]),
        ("evict", vec![Command::Evict { session: three, silent: false }]),
        ("evict itself with 10,000 streams open", vec![Command::Evict { session: ONE, silent: false }]),
        ("put policy of 1 MiB", vec![put]),
        ("rejected", vec![Command::Open { stream: open, epoch: StreamEpoch(7) }]),
    ]
}

fn benches(c: &mut Criterion) {
    let state = prepared();
    let mut group = c.benchmark_group("apply");
    group.sample_size(20).warm_up_time(std::time::Duration::from_millis(200));
    group.measurement_time(std::time::Duration::from_millis(600));
    for (name, commands) in commands() {
        let prepare = || (state.clone(), commands.clone());
        group.bench_function(name, |b| {
            b.iter_batched(
                prepare,
                |(mut state, commands)| (apply(&mut state, commands), state),
                BatchSize::SmallInput,
            )
        });
    }
    let again = Entry::Register(register(2, 200));
    group.bench_function("register", |b| {
        b.iter_batched(|| state.clone(), |mut state| state.apply(9, &again, &Native), BatchSize::SmallInput)
    });
    group.finish();

    let mut group = c.benchmark_group("state");
    group.sample_size(10).warm_up_time(std::time::Duration::from_millis(200));
    group.measurement_time(std::time::Duration::from_millis(800));
    let bytes = snapshot::encode(&state);
    group.bench_function("view", |b| b.iter(|| state.view()));
    group.bench_function("digests", |b| b.iter(|| state.digests()));
    group.bench_function("snapshot of 20,000 streams", |b| b.iter(|| snapshot::encode(&state)));
    group.bench_function("restore of 20,000 streams", |b| b.iter(|| snapshot::decode(&bytes)));
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
