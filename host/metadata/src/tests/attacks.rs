//! Interleavings that once would have lost an append, made two writers, or hung a stream.
//!
//! Each is told in its test, as far as the pure state machine decides it.

use super::*;

fn why_ended(by: RetiredBy, session: Session) -> Rejection {
    Rejection::NotRegistered { session, why: SessionState::Retired(by) }
}

/// One node's placement differs. All agree who has the stream open, whatever it is.
#[test]
fn att_01_open_does_not_depend_on_where_a_stream_is_placed() {
    let (mut most, mut odd) = (Cluster::of(3), Cluster::of(3));
    odd.placement = Fake::choosing(Choice::Node(NodeId(3)));
    let one = session(1, 100);
    let mut stream = StreamId(0);
    for cluster in [&mut most, &mut odd] {
        applied(cluster.propose(one, policies::put("p", b"p")));
        applied(cluster.propose(one, Command::ActivatePolicy { policy: sha256(b"p") }));
        stream = cluster.create(one, "/s");
        applied(cluster.place(one, stream));
    }
    assert_eq!(most.effective(stream), Effective::Placed(NodeId(1)));
    assert_eq!(odd.effective(stream), Effective::Placed(NodeId(3)), "it differs");
    for cluster in [&mut most, &mut odd] {
        assert_eq!(applied(cluster.open(session(3, 100), stream, 0)), Answer::Opened(StreamEpoch(1)));
        let second = cluster.open(one, stream, 0);
        assert_eq!(rejected(second), Rejection::OpenElsewhere(session(3, 100)));
    }
    assert_eq!(most.state.digests().fencing, odd.state.digests().fencing);
}

/// A refused run keeps the trim point where it is, and the stream cannot be closed over the hole.
#[test]
fn att_03_a_refused_run_moves_no_trim_point_and_no_close_passes_it() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let stream = cluster.opened(one, "/s");
    let b = stream_run(stream, 1, Some(run(one, 1, 10, 20)));
    let close = Command::Close { stream, epoch: StreamEpoch(1), end: Position(20), touched_ms: 0 };
    let outcomes = cluster.batch(one, vec![Command::Commit { runs: vec![b], trim: WalSeq(9) }, close]);
    let gap = Rejection::NotContiguous { start: Position(10), end: Position(0) };
    assert_eq!(outcomes[0], Outcome::Applied(Answer::Refused(vec![(stream, gap)])));
    let not_flushed = Rejection::NotFlushed { tail: Position(20), end: Position(0) };
    assert_eq!(outcomes[1], Outcome::Rejected(not_flushed));
    assert_eq!(cluster.state.progress(one).map(|it| it.trim), Some(WalSeq(0)));
    let a = stream_run(stream, 1, Some(run(one, 0, 0, 10)));
    applied(cluster.commit(one, vec![a], 5));
    assert_eq!(cluster.state.progress(one).map(|it| it.trim), Some(WalSeq(5)), "nothing above it is covered");
}

/// Late copies of delete, create, open, and a repeated commit.
#[test]
fn att_04_late_and_repeated_proposals_hit_no_successor() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let entry = |number, command| Entry::Batch(Batch { session: one, number, commands: vec![command] });
    let epoch = StreamEpoch(0);
    let first = entry(1, Command::CreateStream(create("/s")));
    cluster.entry(&first);
    let stream = StreamId(1);
    let delete = entry(2, Command::DeleteStream { stream, epoch });
    cluster.entry(&delete);
    let successor = cluster.create(two, "/s");
    let digests = cluster.state.digests();
    assert_eq!(cluster.entry(&delete), [Outcome::Applied(Answer::Done)], "answered from memory");
    let late = Rejection::Number { number: 1, last: 2 };
    assert_eq!(cluster.entry(&first), [Outcome::Rejected(late)], "revives no deleted name");
    assert_eq!(cluster.state.digests(), digests);
    assert!(cluster.state.stream(successor).is_some());

    let open = entry(3, Command::Open { stream: successor, epoch });
    cluster.entry(&open);
    let runs = vec![stream_run(successor, 1, Some(run(one, 0, 0, 5)))];
    let commit = entry(4, Command::Commit { runs, trim: WalSeq(1) });
    let committed = cluster.entry(&commit);
    assert_eq!(cluster.entry(&commit), committed, "a repeat is no overlap");
    let close = Command::Close { stream: successor, epoch: StreamEpoch(1), end: Position(5), touched_ms: 0 };
    cluster.entry(&entry(5, close));
    cluster.entry(&open);
    assert_eq!(
        cluster.stream(successor).ownership,
        Ownership::Closed(NodeId(1)),
        "a late open opens nothing"
    );
}

/// A: the eviction meant the earlier session. B: a late copy of the evicted session's registration.
#[test]
fn att_07_eviction_and_registration_name_the_session_they_mean() {
    let mut cluster = Cluster::of(2);
    let (one, old) = (session(1, 100), session(2, 100));
    applied(cluster.register(registration(2, 200)));
    redundant(cluster.evict(one, old));
    assert_eq!(cluster.state.session_of(NodeId(2)), Some(session(2, 200)), "A: it is untouched");

    let stream = cluster.opened(session(2, 200), "/s");
    applied(cluster.commit(session(2, 200), vec![], 8));
    applied(cluster.evict(one, session(2, 200)));
    assert_eq!(rejected(cluster.register(registration(2, 200))), Rejection::EpochTaken(Epoch(200)), "B");
    let ended = cluster.state.retired(session(2, 200)).expect("kept");
    assert_eq!((ended.recovered, ended.progress.trim), (false, WalSeq(8)), "its trim point is where to seal");
    assert_eq!(cluster.state.waits_for_recovery(cluster.stream(stream)), Some(session(2, 200)));
}

/// C: streams that are only placed on an evicted node do not route there for ever.
#[test]
fn att_07_c_streams_placed_on_an_evicted_node_are_placed_again() {
    let mut cluster = Cluster::of(2);
    let two = session(2, 100);
    let stream = cluster.create(two, "/s");
    assert_eq!(applied(cluster.place(two, stream)), Answer::Owner(NodeId(1)));
    applied(cluster.evict(two, session(1, 100)));
    assert_eq!(cluster.effective(stream), Effective::Unplaced);
    assert_eq!(applied(cluster.place(two, stream)), Answer::Owner(NodeId(2)));
}

/// A: the source restarts while the move is pending: the record wins over "placed on the same node".
#[test]
fn att_10_a_a_restarted_source_does_not_keep_what_moves_away() {
    let mut cluster = Cluster::of(3);
    let (one, two) = (session(1, 100), session(2, 100));
    let stream = cluster.opened(one, "/s");
    applied(cluster.transfer(one, stream, 1, 2));
    applied(cluster.register(registration(1, 200)));
    let moving = Transfer { source: NodeId(1), target: NodeId(2) };
    assert_eq!(cluster.effective(stream), Effective::Transferring(moving));
    applied(cluster.recover(session(1, 200), one, vec![recovered(stream, 1, None)], true));
    assert_eq!(cluster.effective(stream), Effective::Placed(NodeId(2)));
    applied(cluster.open(two, stream, 1));
}

/// B: the target is evicted before or after the close. C: a third node opens the closed stream.
#[test]
fn att_10_b_c_no_record_stays_behind() {
    let mut cluster = Cluster::of(3);
    let (one, three) = (session(1, 100), session(3, 100));
    let (a, b) = (cluster.opened(one, "/a"), cluster.opened(one, "/b"));
    applied(cluster.transfer(one, a, 1, 2));
    applied(cluster.transfer(one, b, 1, 2));
    applied(cluster.close(one, b, 1, 0));
    applied(cluster.evict(three, session(2, 100)));
    assert_eq!(cluster.effective(a), Effective::Opened(one));
    assert_eq!(cluster.effective(b), Effective::Unplaced, "placed on a node that is gone");
    assert_eq!(applied(cluster.open(three, b, 1)), Answer::Opened(StreamEpoch(2)));
    assert_eq!(cluster.state.transfer_count(), 0);
}

/// D: a move may be asked for by any node, for streams in any state, also of a dead owner.
#[test]
fn att_10_d_anybody_may_ask_for_a_move() {
    let mut cluster = Cluster::of(3);
    let (one, three) = (session(1, 100), session(3, 100));
    let stream = cluster.opened(one, "/s");
    applied(cluster.evict(three, one));
    applied(cluster.transfer(three, stream, 1, 2));
    let moving = Transfer { source: NodeId(1), target: NodeId(2) };
    assert_eq!(cluster.effective(stream), Effective::Transferring(moving));
    applied(cluster.recover(three, one, vec![recovered(stream, 1, None)], true));
    assert_eq!(cluster.effective(stream), Effective::Placed(NodeId(2)));
}

/// A create with a body is one command: there is no state in which the name exists without its bytes.
#[test]
fn att_11_a_create_carries_its_body() {
    let mut cluster = Cluster::of(2);
    let one = session(1, 100);
    let create = CreateStream { body: Some(run(one, 0, 0, 10)), eof: true, ..create("/s") };
    let outcome = cluster.batch(one, vec![Command::CreateStream(create)]);
    assert_eq!(outcome, [Outcome::Applied(Answer::Stream(StreamId(1)))]);
    let stream = cluster.stream(StreamId(1));
    assert_eq!((stream.end, stream.eof, stream.runs.len()), (Position(10), true, 1));
}

/// A: a delete beside an owner that is evicted and not yet sealed.
#[test]
fn att_13_a_nothing_is_deleted_before_its_owner_is_sealed_and_recovered() {
    let mut cluster = Cluster::of(3);
    let (one, two) = (session(1, 100), session(2, 100));
    let stream = cluster.opened(two, "/s");
    applied(cluster.evict(one, two));
    assert_eq!(rejected(cluster.delete(one, stream, 1)), Rejection::WaitsForRecovery(two));
    applied(cluster.recover(one, two, vec![recovered(stream, 1, Some(run(one, 0, 0, 5)))], true));
    applied(cluster.delete(one, stream, 1));
}

/// B: an expiry decided on what a node knew before the stream was opened again.
#[test]
fn att_13_b_a_late_expiry_does_not_hit_a_stream_that_was_opened_since() {
    let mut cluster = Cluster::of(3);
    let (one, three) = (session(1, 100), session(3, 100));
    let stream = cluster.opened(one, "/s");
    applied(cluster.close(one, stream, 1, 0));
    applied(cluster.open(one, stream, 1));
    applied(cluster.close(one, stream, 2, 0));
    let late = Rejection::StreamEpoch { named: StreamEpoch(1), actual: StreamEpoch(2) };
    assert_eq!(rejected(cluster.delete(three, stream, 1)), late);
    assert_eq!(cluster.stream(stream).touched_ms, 5_000, "a close carries the last touch");
}

/// C: a fork at a tail that is only in the log, and one by an owner that is owner no more.
#[test]
fn att_13_c_a_fork_takes_committed_bytes_from_the_present_owner() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let source = cluster.opened(one, "/s");
    applied(cluster.commit_one(one, source, 1, run(one, 0, 0, 10)));
    let fork = |epoch, at| {
        let fork = Some(ForkOf { source, epoch: StreamEpoch(epoch), at: Position(at) });
        Command::CreateStream(CreateStream { fork, ..create("/f") })
    };
    let beyond = Rejection::ForkPoint { start: Position(0), end: Position(10) };
    assert_eq!(rejected(cluster.propose(one, fork(1, 15))), beyond);
    applied(cluster.close(one, source, 1, 10));
    applied(cluster.open(two, source, 1));
    let stale = Rejection::StreamEpoch { named: StreamEpoch(1), actual: StreamEpoch(2) };
    assert_eq!(rejected(cluster.propose(one, fork(1, 10))), stale);
    assert_eq!(rejected(cluster.propose(one, fork(2, 10))), Rejection::OpenElsewhere(two));
}

/// The owner's close or delete applied, its answer was lost; a new owner, or a new stream, is there.
#[test]
fn att_16_what_was_let_go_takes_nothing_more_from_the_one_who_let_go() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let (closed, deleted) = (cluster.opened(one, "/closed"), cluster.opened(one, "/deleted"));
    applied(cluster.close(one, closed, 1, 0));
    applied(cluster.delete(one, deleted, 1));
    applied(cluster.open(two, closed, 1));
    let successor = cluster.create(two, "/deleted");
    let runs =
        vec![stream_run(closed, 1, Some(run(one, 0, 0, 5))), stream_run(deleted, 1, Some(run(one, 0, 0, 5)))];
    let refused = vec![(closed, Rejection::NotOpen(one)), (deleted, Rejection::NoStream(deleted))];
    assert_eq!(applied(cluster.commit(one, runs, 3)), Answer::Refused(refused));
    assert_eq!(cluster.stream(successor).end, Position(0));
    assert_eq!(cluster.state.progress(one).map(|it| it.trim), Some(WalSeq(0)));
    let late = Rejection::NotOpen(one);
    assert_eq!(rejected(cluster.close(one, closed, 1, 0)), late);
    let stale = Rejection::StreamEpoch { named: StreamEpoch(1), actual: StreamEpoch(2) };
    assert_eq!(rejected(cluster.delete(one, closed, 1)), stale);
    assert_eq!(rejected(cluster.delete(one, closed, 2)), Rejection::OpenElsewhere(two));
}

/// A create of unknown outcome is proposed again by the next session, with the earlier one's object.
#[test]
fn att_17_no_run_names_an_object_of_another_session() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    applied(cluster.evict(two, one));
    applied(cluster.recover(two, one, vec![], true));
    applied(cluster.register(Register { continues: Some(Epoch(100)), ..registration(1, 200) }));
    let create = CreateStream { body: Some(run(one, 0, 0, 10)), ..create("/s") };
    let again = cluster.propose(session(1, 200), Command::CreateStream(create.clone()));
    assert_eq!(rejected(again), Rejection::ForeignObject(one), "its object may be collected");
    let late = Entry::Batch(Batch { session: one, number: 1, commands: vec![Command::CreateStream(create)] });
    assert_eq!(cluster.entry(&late), [Outcome::Rejected(why_ended(RetiredBy::Evicted, one))]);
    assert!(!cluster.state.refers_to(object(one, 0)), "references of an ended session only get fewer");
}

/// The first process was sealed by its own replacement and registers again.
#[test]
fn att_21_a_replaced_process_does_not_come_back_over_its_replacement() {
    let mut cluster = Cluster::of(2);
    applied(cluster.register(registration(2, 200)));
    let again = Register { continues: Some(Epoch(100)), ..registration(2, 300) };
    assert_eq!(rejected(cluster.register(again)), Rejection::LaterProcess(Epoch(200)));
    assert_eq!(cluster.state.session_of(NodeId(2)), Some(session(2, 200)));
}

/// Recovery of many streams in parts, one of them with a gap, from two nodes at once.
#[test]
fn att_22_recovery_comes_in_parts_and_one_bad_stream_stops_nothing() {
    let mut cluster = Cluster::of(3);
    let (one, three, two) = (session(1, 100), session(3, 100), session(2, 100));
    let streams: Vec<StreamId> = (0..10).map(|n| cluster.opened(two, &format!("/{n}"))).collect();
    applied(cluster.evict(one, two));
    for (n, part) in streams.chunks(2).enumerate() {
        let by = if n % 2 == 0 { one } else { three };
        let found = part.iter().map(|stream| Recovered { damaged: n == 3, ..recovered(*stream, 1, None) });
        applied(cluster.recover(by, two, found.collect(), false));
        applied(cluster.commit(by, vec![], n as u64 + 1));
    }
    applied(cluster.recover(three, two, vec![], true));
    let damaged = streams.iter().filter(|stream| cluster.stream(**stream).damaged).count();
    assert_eq!(damaged, 2);
    for (n, stream) in streams.iter().enumerate() {
        match n {
            6 | 7 => assert_eq!(rejected(cluster.open(one, *stream, 1)), Rejection::Damaged(Position(0))),
            _ => drop(applied(cluster.open(one, *stream, 1))),
        }
    }
    applied(cluster.propose(one, Command::AcceptLoss { stream: streams[6], epoch: StreamEpoch(1) }));
    applied(cluster.open(one, streams[6], 1));
    applied(cluster.delete(one, streams[7], 1));
}

/// Two nodes' placement halves differ; native placement over differing counts would differ for ever.
#[test]
fn att_23_a_reset_makes_placement_halves_equal_that_differed() {
    let (mut left, mut right) = (Cluster::of(3), Cluster::of(3));
    right.placement = Fake::choosing(Choice::Node(NodeId(3)));
    let (one, two) = (session(1, 100), session(2, 100));
    for cluster in [&mut left, &mut right] {
        applied(cluster.propose(one, policies::put("p", b"p")));
        applied(cluster.propose(one, Command::ActivatePolicy { policy: sha256(b"p") }));
        for n in 0..9 {
            let stream = cluster.create(one, &format!("/{n}"));
            cluster.place(if n % 2 == 0 { one } else { two }, stream);
        }
        let moved = cluster.stream(StreamId(1)).id;
        applied(cluster.open(two, moved, 0));
        cluster.transfer(three(), StreamId(2), 0, 3);
    }
    assert_ne!(left.state.digests().placement, right.state.digests().placement);
    assert_eq!(left.state.digests().fencing, right.state.digests().fencing);
    for cluster in [&mut left, &mut right] {
        applied(cluster.propose(three(), Command::ResetPlacement));
        assert_eq!(cluster.assigned(2), 1, "what is open counts");
        assert_eq!(cluster.assigned(1) + cluster.assigned(3), 0);
    }
    assert_eq!(left.state.digests(), right.state.digests());
}

fn three() -> Session {
    session(3, 100)
}

/// A: the counts of an evicted node are kept, so moving its streams away does not underflow.
#[test]
fn att_24_a_counts_of_an_evicted_node_are_kept() {
    let mut cluster = Cluster::of(2);
    let two = session(2, 100);
    let streams: Vec<StreamId> = (0..4).map(|n| cluster.create(two, &format!("/{n}"))).collect();
    for stream in &streams {
        applied(cluster.place(two, *stream));
    }
    applied(cluster.evict(two, session(1, 100)));
    assert_eq!(cluster.assigned(1), 2);
    for stream in &streams {
        cluster.place(two, *stream);
    }
    assert_eq!((cluster.assigned(1), cluster.assigned(2)), (0, 4));
}

/// F: the source restarts with a move pending and nobody asks for the stream: its own recovery ends it.
#[test]
fn att_24_f_the_recovery_of_a_restarted_source_ends_the_move() {
    let mut cluster = Cluster::of(2);
    let one = session(1, 100);
    let stream = cluster.opened(one, "/s");
    applied(cluster.transfer(one, stream, 1, 2));
    applied(cluster.register(registration(1, 200)));
    applied(cluster.recover(session(1, 200), one, vec![recovered(stream, 1, None)], true));
    assert_eq!(cluster.state.transfer_count(), 0);
    assert_eq!(cluster.stream(stream).ownership, Ownership::Placed(NodeId(2)));
}

/// G: a stream created with a body and never opened waits for nobody: its objects are all there is.
#[test]
fn att_24_g_a_stream_that_was_never_opened_is_read_from_its_objects() {
    let mut cluster = Cluster::of(2);
    let one = session(1, 100);
    let stream = cluster.create_as(one, CreateStream { body: Some(run(one, 0, 0, 10)), ..create("/s") });
    applied(cluster.evict(session(2, 100), one));
    let it = cluster.stream(stream);
    assert_eq!(cluster.state.effective(it), Effective::Unplaced);
    assert_eq!(cluster.state.waits_for_recovery(it), None, "also when its creator is gone");
    assert!(cluster.state.refers_to(object(one, 0)));
}

/// H: a stream placed on a draining node counts as unplaced while another node could take it.
#[test]
fn att_24_h_a_draining_node_gets_rid_of_what_is_placed_on_it() {
    let mut cluster = Cluster::of(2);
    let one = session(1, 100);
    let stream = cluster.create(one, "/s");
    assert_eq!(applied(cluster.place(one, stream)), Answer::Owner(NodeId(1)));
    applied(cluster.set(one, 1, None, Some(true)));
    assert_eq!(cluster.effective(stream), Effective::Unplaced);
    assert_eq!(applied(cluster.place(one, stream)), Answer::Owner(NodeId(2)));
    assert_eq!(cluster.assigned(1), 0);
}
