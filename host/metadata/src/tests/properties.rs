//! Random sequences of commands keep every invariant, on every node, through snapshots and repeats.
//!
//! What is random is small numbers; each is read against the state of the moment, so that most commands
//! are nearly right: the interesting ones.

#![allow(clippy::manual_is_multiple_of, reason = "a remainder is a case here, seldom a multiple")]

use super::*;
use proptest::prelude::*;

/// One step, as raw numbers: kind, who, which, variations.
type Step = (u8, u8, u8, u8, u8);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(any::<Step>(), 1..120)
}

const NODES: u64 = 4;

/// What the sequence has used up.
#[derive(Default)]
struct Writer {
    epoch: u64,
    objects: u64,
    entries: Vec<Entry>,
    /// How often each kind of command was applied.
    applied: BTreeMap<String, u64>,
}

impl Writer {
    fn object(&mut self) -> u64 {
        self.objects += 1;
        self.objects
    }

    fn register(&mut self, cluster: &Cluster, (_, who, which, x, y): Step) -> Register {
        let node = u64::from(who) % NODES + 1;
        self.epoch += 1;
        let highest = cluster.state.node(NodeId(node)).map_or(0, |node| node.highest.0);
        let epoch = if x % 8 == 0 { highest } else { 100 + self.epoch };
        let continues = (which % 4 == 0).then_some(Epoch(highest));
        let engine = if y % 16 == 0 { Digest([8; 32]) } else { ENGINE };
        let slots = u32::from(x % 4);
        let info = NodeInfo { engine, ..info(node, slots) };
        Register { continues, info, ..registration(node, epoch) }
    }

    fn proposer(&self, cluster: &Cluster, who: u8) -> Session {
        let live: Vec<Session> = cluster.state.sessions().map(|live| live.session).collect();
        let ended: Vec<Session> = cluster.state.all_retired().map(|it| it.session).collect();
        let all = if who % 16 == 0 { &ended } else { &live };
        all.get(usize::from(who / 16) % all.len().max(1)).copied().unwrap_or(session(1, 1))
    }

    fn run(&mut self, by: Session, stream: &Stream, x: u8, y: u8) -> StreamRun {
        let start = stream.end.0 + u64::from(x % 8 == 0);
        let end = start + u64::from(y % 5);
        let by = if y % 16 == 15 { session(9, 9) } else { by };
        let object = self.object();
        let run = (y % 7 != 0).then(|| run(by, object, start, end));
        let checkpoint =
            (x % 2 == 0).then(|| Checkpoint { object: super::object(by, object), offset: 9, len: 1, crc: 0 });
        StreamRun { run, checkpoint, eof: x % 32 == 31, ..stream_run(stream.id, stream.epoch.0, None) }
    }

    fn command(&mut self, cluster: &Cluster, by: Session, (kind, _, which, x, y): Step) -> Command {
        let state = &cluster.state;
        let count = state.next_stream.0;
        let id = StreamId(u64::from(which) % count + u64::from(which % 32 == 31));
        let open: Vec<StreamId> = state.open_in(by).collect();
        let mine = open.get(usize::from(which) % open.len().max(1)).copied().unwrap_or(id);
        let stream = if kind % 2 == 0 { mine } else { id };
        let known = state.stream(stream).cloned();
        let epoch = StreamEpoch(known.as_ref().map_or(0, |it| it.epoch.0) + u64::from(x % 16 == 15));
        let end = known.as_ref().map_or(Position(0), |it| it.end);
        let node = NodeId(u64::from(y) % (NODES + 1) + u64::from(y % 5 != 0));
        let ended: Vec<Session> = state.unrecovered().map(|it| it.session).collect();
        let ended = ended.get(usize::from(y) % ended.len().max(1)).copied().unwrap_or(by);
        match kind % 40 {
            0..=4 => self.create(cluster, by, which, x, y),
            5..=7 => Command::Place { stream },
            8..=12 => Command::Open { stream, epoch },
            13..=15 => Command::Close { stream, epoch, end, touched_ms: u64::from(y) },
            16..=21 => {
                let streams = [Some(stream), Some(mine).filter(|_| y % 3 == 0)];
                let streams = streams.into_iter().flatten().filter_map(|id| state.stream(id));
                let runs = streams.map(|stream| self.run(by, stream, x, y)).collect();
                Command::Commit { runs, trim: WalSeq(u64::from(x) * u64::from(y % 4)) }
            }
            22..=24 => Command::Transfer { stream, epoch, target: node },
            25 => Command::CompleteTransfer { stream, epoch },
            26 => Command::CancelTransfer { stream, epoch },
            27 | 28 => Command::DeleteStream { stream, epoch },
            29 => Command::Evict {
                session: state.session_of(node).unwrap_or(ended),
                silent: node.0.is_multiple_of(2),
            },
            30..=33 => {
                let left: Vec<StreamId> = state.open_in(ended).take(usize::from(x % 4)).collect();
                let left = left.into_iter().filter_map(|id| state.stream(id));
                let found = |stream: &std::sync::Arc<Stream>| {
                    let run = self.run(by, stream, x, y);
                    Recovered { run, damaged: x % 4 == 3, now_ms: u64::from(x) }
                };
                Command::RecoverSession {
                    session: ended,
                    streams: left.map(found).collect(),
                    last: y % 2 == 0,
                }
            }
            34 => Command::SetNode {
                node,
                slots: (x % 2 == 0).then_some(u32::from(x) % 5),
                labels: (x % 3 == 0).then(|| BTreeMap::from([("x".into(), x.to_string())])),
                draining: (y % 4 < 2).then_some(y % 4 == 0),
            },
            35 => self.replace(state.stream(mine).cloned().as_deref(), by, x, y),
            36 => Command::Forget { objects: state.unlinked().take(usize::from(x) % 3).collect() },
            37 => match x % 4 {
                0 | 1 => policies::put("p", &[y % 4]),
                2 => Command::RemovePolicy { policy: sha256(&[y % 4]) },
                _ if y % 4 == 0 => Command::ResetPlacement,
                _ => Command::ActivatePolicy { policy: Digest::BUILTIN },
            },
            38 => Command::ActivatePolicy { policy: sha256(&[y % 4]) },
            _ => match x % 2 {
                0 => {
                    let damaged = state.streams_by_name(None, "").find(|stream| stream.damaged);
                    let (stream, epoch) = damaged.map_or((stream, epoch), |it| (it.id, it.epoch));
                    Command::AcceptLoss { stream, epoch }
                }
                _ => Command::Disown { session: ended },
            },
        }
    }

    fn create(&mut self, cluster: &Cluster, by: Session, which: u8, x: u8, y: u8) -> Command {
        let source = cluster.state.stream(StreamId(u64::from(which) % cluster.state.next_stream.0));
        let fork = source.filter(|_| x % 3 == 0).map(|source| ForkOf {
            source: source.id,
            epoch: source.epoch,
            at: Position(source.end.0.saturating_sub(u64::from(y % 2)) + u64::from(y % 16 == 15)),
        });
        let begin = fork.map_or(0, |fork| fork.at.0);
        let object = self.object();
        let body = (x % 2 == 0).then(|| run(by, object, begin, begin + u64::from(y % 5)));
        let name = format!("/{}", which % 24);
        Command::CreateStream(CreateStream { fork, body, eof: y % 16 == 3, ..super::create(&name) })
    }

    fn replace(&mut self, stream: Option<&Stream>, by: Session, x: u8, y: u8) -> Command {
        let runs: Vec<Run> = stream.map(|stream| stream.runs.iter().copied().collect()).unwrap_or_default();
        let object = self.object();
        let from = usize::from(x) % runs.len().max(1);
        let to = from + usize::from(y) % (runs.len() - from.min(runs.len())).max(1);
        let (start, end) = match (runs.get(from), runs.get(to)) {
            (Some(first), Some(last)) => (first.start.0, last.end.0),
            _ => (0, 1),
        };
        let (stream, epoch) = stream.map_or((StreamId(1), StreamEpoch(0)), |it| (it.id, it.epoch));
        Command::Replace { stream, epoch, run: run(by, object, start, end) }
    }

    /// Applies one step and checks what holds around it.
    fn step(&mut self, cluster: &mut Cluster, step: Step) {
        let (kind, who, _, x, y) = step;
        if kind % 16 == 15 {
            let register = self.register(cluster, step);
            self.entries.push(Entry::Register(register.clone()));
            cluster.register(register);
            return;
        }
        let by = self.proposer(cluster, who);
        let first = self.command(cluster, by, step);
        let mut commands = vec![first];
        if x % 4 == 0 {
            commands.push(self.command(cluster, by, (y, who, x, kind, y.wrapping_mul(7))));
        }
        for command in &commands {
            let mut copy = cluster.state.clone();
            let outcome = copy.apply_command(cluster.index + 1, by, command, &cluster.placement);
            if !matches!(outcome, Outcome::Applied(_)) {
                assert_eq!(
                    snapshot::encode(&copy),
                    snapshot::encode(&cluster.state),
                    "{outcome:?} changed something: {command:?}"
                );
            }
        }
        let number = cluster.numbers.get(&by).map_or(1, |number| number + 1);
        let entry = Entry::Batch(Batch { session: by, number, commands: commands.clone() });
        let kinds: Vec<String> = commands.iter().map(kind_of).collect();
        let outcomes = cluster.batch(by, commands);
        for (kind, _) in kinds.into_iter().zip(&outcomes).filter(|(_, it)| matches!(it, Outcome::Applied(_)))
        {
            *self.applied.entry(kind).or_default() += 1;
        }
        self.entries.push(entry.clone());
        if y % 4 == 0 && cluster.state.session_state(by) == SessionState::Registered {
            let digests = cluster.state.digests();
            let again = cluster.entry(&entry);
            self.entries.push(entry);
            assert_eq!(again, outcomes, "a repeat is answered from memory");
            assert_eq!(cluster.state.digests(), digests, "and changes nothing");
        }
    }
}

fn kind_of(command: &Command) -> String {
    let text = format!("{command:?}");
    text.split([' ', '(']).next().unwrap_or_default().to_string()
}

/// Runs the steps on four nodes: the cluster, and what was written to it.
fn run_steps(steps: &[Step]) -> (Cluster, Writer) {
    let mut cluster = Cluster::default();
    let mut writer = Writer::default();
    for node in 1..=NODES {
        let register = registration(node, 1);
        writer.entries.push(Entry::Register(register.clone()));
        applied(cluster.register(register));
    }
    for step in steps {
        writer.step(&mut cluster, *step);
    }
    (cluster, writer)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_sequences_keep_the_invariants_and_the_same_log_gives_the_same_state(
        steps in steps(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let (cluster, Writer { entries, .. }) = run_steps(&steps);
        let cut = cut.index(entries.len());
        let mut state = State::new();
        for (n, entry) in entries.iter().enumerate() {
            if n == cut {
                state = snapshot::decode(&snapshot::encode(&state)).expect("it was just encoded");
            }
            state.apply(n as u64 + 1, entry, &cluster.placement);
        }
        prop_assert_eq!(state.digests(), cluster.state.digests());
        prop_assert_eq!(snapshot::encode(&state), snapshot::encode(&cluster.state));
    }

    /// Whatever a node's policy answers, fencing is the same; after a reset so is everything else.
    #[test]
    fn no_answer_of_a_policy_changes_what_fencing_rests_on(steps in steps()) {
        let (cluster, Writer { entries, .. }) = run_steps(&steps);
        let odd = Odd::default();
        let mut state = State::new();
        let mut next = 0;
        for entry in &entries {
            next += 1;
            state.apply(next, entry, &odd);
        }
        prop_assert_eq!(state.digests().fencing, cluster.state.digests().fencing);
        let mut most = cluster.state.clone();
        let resetter = registration(99, 1);
        let reset =
            Batch { session: resetter.session, number: 1, commands: vec![Command::ResetPlacement] };
        for entry in [Entry::Register(resetter), Entry::Batch(reset)] {
            next += 1;
            let outcomes = state.apply(next, &entry, &odd);
            prop_assert_eq!(most.apply(next, &entry, &cluster.placement), outcomes);
        }
        prop_assert_eq!(state.digests(), most.digests());
    }
}

/// The sequences are worth something only when every kind of command gets through now and then.
#[test]
fn random_sequences_reach_every_kind_of_command() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut applied: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..200 {
        let steps = steps().new_tree(&mut runner).expect("a plain strategy").current();
        let (_, writer) = run_steps(&steps);
        writer.applied.into_iter().for_each(|(kind, n)| *applied.entry(kind).or_default() += n);
    }
    println!("{applied:?}");
    let never = ["CompleteTransfer"];
    let kinds = nodes_sessions::one_of_each(StreamId(1));
    for kind in kinds.iter().map(kind_of).filter(|kind| !never.contains(&kind.as_str())) {
        assert!(applied.get(&kind).is_some_and(|n| *n >= 3), "{kind}: {applied:?}");
    }
}

/// A policy that answers something else every time.
#[derive(Default)]
struct Odd(std::sync::atomic::AtomicU64);

impl Placement for Odd {
    fn place(&self, _: Digest, _: &Subject, candidates: &[Candidate]) -> Choice {
        let n = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match n % 5 {
            4 => Choice::Fault,
            3 => Choice::Node(NodeId(77)),
            _ => Choice::Node(candidates[n as usize % candidates.len()].id),
        }
    }

    fn not_a_candidate(&self, _: Digest, _: NodeId) {}

    fn engine(&self) -> Digest {
        ENGINE
    }
}
