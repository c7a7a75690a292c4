//! Registration, replacement, eviction, and what an operator sets.

use super::*;

#[test]
fn register_of_a_new_node_takes_its_slots_and_labels() {
    let mut cluster = Cluster::default();
    applied(cluster.register(Register { info: info(1, 4), ..registration(1, 100) }));
    let node = cluster.state.node(NodeId(1)).expect("registered");
    assert_eq!((node.slots, node.highest, node.draining), (4, Epoch(100), false));
    assert_eq!(node.session(), Some(session(1, 100)));
    assert_eq!(node.labels["zone"], "z1");
    assert_eq!(cluster.state.session_state(session(1, 100)), SessionState::Registered);
    assert_eq!(cluster.state.session_state(session(1, 99)), SessionState::Unknown);
}

#[test]
fn register_below_the_highest_epoch_is_rejected_naming_both() {
    let mut cluster = Cluster::of(1);
    let expected = Rejection::LowerEpoch { offered: Epoch(99), highest: Epoch(100) };
    assert_eq!(rejected(cluster.register(registration(1, 99))), expected);
    applied(cluster.evict(session(1, 100), session(1, 100)));
    assert_eq!(rejected(cluster.register(registration(1, 99))), expected, "also after an eviction");
}

#[test]
fn register_again_is_redundant_only_when_everything_is_equal() {
    let mut cluster = Cluster::of(1);
    redundant(cluster.register(registration(1, 100)));
    let other_nonce = Register { nonce: 1, ..registration(1, 100) };
    let other_info = Register { info: info(1, 9), ..registration(1, 100) };
    let other_continues = Register { continues: Some(Epoch(100)), ..registration(1, 100) };
    for register in [other_nonce, other_info, other_continues] {
        assert_eq!(rejected(cluster.register(register)), Rejection::EpochTaken(Epoch(100)));
    }
    applied(cluster.set(session(1, 100), 1, Some(5), None));
    redundant(cluster.register(registration(1, 100)));
}

#[test]
fn register_of_an_ended_session_is_rejected() {
    let mut cluster = Cluster::of(2);
    applied(cluster.evict(session(1, 100), session(2, 100)));
    assert_eq!(rejected(cluster.register(registration(2, 100))), Rejection::EpochTaken(Epoch(100)));
    applied(cluster.recover(session(1, 100), session(2, 100), vec![], true));
    assert_eq!(rejected(cluster.register(registration(2, 100))), Rejection::EpochTaken(Epoch(100)));
}

#[test]
fn register_at_a_higher_epoch_replaces_the_session() {
    let mut cluster = Cluster::of(2);
    let old = session(2, 100);
    let stream = cluster.opened(old, "/s");
    applied(cluster.commit(old, vec![stream_run(stream, 1, Some(run(old, 0, 0, 5)))], 7));
    applied(cluster.register(registration(2, 200)));
    let ended = cluster.state.retired(old).expect("kept").clone();
    assert_eq!((ended.why, ended.recovered, ended.disowned), (RetiredBy::Replaced, false, false));
    assert_eq!(ended.progress.trim, WalSeq(7));
    assert_eq!(ended.nonce, registration(2, 100).nonce);
    assert_eq!(cluster.state.unrecovered().map(|it| it.session).collect::<Vec<_>>(), [old]);
    let why = SessionState::Retired(RetiredBy::Replaced);
    assert_eq!(
        rejected(cluster.place(old, stream)),
        Rejection::NotRegistered { session: old, why },
        "the first process learns that it was replaced"
    );
}

#[test]
fn continuing_an_ended_session_needs_the_highest_epoch() {
    let mut cluster = Cluster::of(2);
    applied(cluster.evict(session(1, 100), session(2, 100)));
    let continuing =
        |epoch, continues| Register { continues: Some(Epoch(continues)), ..registration(2, epoch) };
    assert_eq!(rejected(cluster.register(continuing(200, 99))), Rejection::LaterProcess(Epoch(100)));
    applied(cluster.register(continuing(200, 100)));
    redundant(cluster.register(continuing(200, 100)));
    for epoch in [150, 300] {
        assert_eq!(rejected(cluster.register(continuing(epoch, 100))), Rejection::LaterProcess(Epoch(200)));
    }
    let lower = Rejection::LowerEpoch { offered: Epoch(150), highest: Epoch(200) };
    assert_eq!(rejected(cluster.register(continuing(150, 200))), lower);
    let never = Register { continues: Some(Epoch(1)), ..registration(9, 2) };
    assert_eq!(rejected(cluster.register(never)), Rejection::NoSession(session(9, 1)));
}

#[test]
fn what_an_operator_set_outlives_restarts() {
    let mut cluster = Cluster::of(2);
    let one = session(1, 100);
    applied(cluster.set(one, 2, Some(4), Some(true)));
    let labels = BTreeMap::from([("disk".to_string(), "fast".to_string())]);
    let command =
        Command::SetNode { node: NodeId(2), slots: None, labels: Some(labels.clone()), draining: None };
    applied(cluster.propose(one, command.clone()));
    redundant(cluster.propose(one, command));
    applied(cluster.register(Register { info: info(2, 9), ..registration(2, 200) }));
    let node = cluster.state.node(NodeId(2)).expect("known");
    assert_eq!((node.slots, node.draining, &*node.labels), (4, true, &labels));
    assert_eq!(node.live.as_ref().map(|live| live.info.slots), Some(9), "what it said is kept beside it");
}

#[test]
fn set_node_of_an_unknown_node_is_rejected() {
    let mut cluster = Cluster::of(1);
    assert_eq!(rejected(cluster.set(session(1, 100), 9, Some(1), None)), Rejection::NoNode(NodeId(9)));
}

#[test]
fn evict_names_a_session_and_touches_no_other() {
    let mut cluster = Cluster::of(2);
    let one = session(1, 100);
    let unknown = session(2, 99);
    assert_eq!(rejected(cluster.evict(one, unknown)), Rejection::NoSession(unknown));
    applied(cluster.evict(one, session(2, 100)));
    redundant(cluster.evict(one, session(2, 100)));
    let node = cluster.state.node(NodeId(2)).expect("known");
    assert_eq!((node.session(), node.slots), (None, 1), "the node stays known");
}

#[test]
fn disown_ends_what_a_restart_keeps() {
    let mut cluster = Cluster::of(2);
    let (one, old) = (session(1, 100), session(2, 100));
    let stream = cluster.opened(old, "/s");
    assert_eq!(rejected(cluster.propose(one, Command::Disown { session: old })), Rejection::NotRetired(old));
    applied(cluster.register(registration(2, 200)));
    assert_eq!(cluster.effective(stream), Effective::Placed(NodeId(2)));
    applied(cluster.propose(one, Command::Disown { session: old }));
    redundant(cluster.propose(one, Command::Disown { session: old }));
    assert_eq!(cluster.effective(stream), Effective::Closed(NodeId(2)));
    assert_eq!(cluster.state.waits_for_recovery(cluster.stream(stream)), Some(old));
    applied(cluster.recover(one, old, vec![recovered(stream, 1, None)], true));
    assert_eq!(cluster.stream(stream).ownership, Ownership::Closed(NodeId(2)));
}

#[test]
fn an_eviction_for_silence_is_told_from_others_and_closes_streams_alike() {
    let mut cluster = Cluster::of(3);
    let one = session(1, 100);
    let stream = cluster.opened(session(2, 100), "/s");
    applied(cluster.propose(one, Command::Evict { session: session(2, 100), silent: true }));
    applied(cluster.evict(one, session(3, 100)));
    // The first reason stays.
    redundant(cluster.propose(one, Command::Evict { session: session(3, 100), silent: true }));
    let why = |session| cluster.state.retired(session).unwrap().why;
    assert_eq!((why(session(2, 100)), why(session(3, 100))), (RetiredBy::Silent, RetiredBy::Evicted));
    assert_eq!(cluster.effective(stream), Effective::Closed(NodeId(2)));
}

#[test]
fn every_command_of_a_session_that_is_not_registered_is_rejected_and_changes_nothing() {
    let mut cluster = Cluster::of(3);
    let one = session(1, 100);
    let stream = cluster.opened(one, "/s");
    applied(cluster.evict(one, session(3, 100)));
    applied(cluster.register(registration(2, 200)));
    let replaced = SessionState::Retired(RetiredBy::Replaced);
    let evicted = SessionState::Retired(RetiredBy::Evicted);
    let proposers = [
        (session(2, 100), replaced),
        (session(2, 50), SessionState::Unknown),
        (session(2, 300), SessionState::Unknown),
        (session(9, 1), SessionState::Unknown),
        (session(3, 100), evicted),
    ];
    for command in one_of_each(stream) {
        for (by, why) in proposers {
            let before = snapshot::encode(&cluster.state);
            let entry = Entry::Batch(Batch { session: by, number: 1, commands: vec![command.clone()] });
            let mut copy = cluster.state.clone();
            let outcomes = copy.apply(cluster.index, &entry, &cluster.placement);
            assert_eq!(outcomes, [Outcome::Rejected(Rejection::NotRegistered { session: by, why })]);
            assert_eq!(snapshot::encode(&copy), before, "{command:?}");
        }
    }
}

/// Each kind of command once.
pub(super) fn one_of_each(stream: StreamId) -> Vec<Command> {
    let by = session(2, 100);
    let epoch = StreamEpoch(1);
    vec![
        Command::SetNode { node: NodeId(1), slots: Some(9), labels: None, draining: Some(true) },
        Command::Evict { session: session(1, 100), silent: false },
        Command::Disown { session: session(2, 100) },
        Command::CreateStream(create("/new")),
        Command::DeleteStream { stream, epoch },
        Command::Place { stream },
        Command::Open { stream, epoch },
        Command::Close { stream, epoch, end: Position(0), touched_ms: 1 },
        Command::Commit { runs: vec![stream_run(stream, 1, Some(run(by, 0, 0, 1)))], trim: WalSeq(1) },
        Command::Transfer { stream, epoch, target: NodeId(2) },
        Command::CompleteTransfer { stream, epoch },
        Command::CancelTransfer { stream, epoch },
        Command::RecoverSession { session: session(3, 100), streams: vec![], last: true },
        Command::Replace { stream, epoch, run: run(by, 0, 0, 1) },
        Command::Forget { objects: vec![object(by, 0)] },
        Command::AcceptLoss { stream, epoch },
        policies::put("p", b"component"),
        Command::ActivatePolicy { policy: Digest::BUILTIN },
        Command::RemovePolicy { policy: Digest::BUILTIN },
        Command::ResetPlacement,
    ]
}
