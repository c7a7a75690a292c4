//! Recovering ended sessions.

use super::*;

fn skipped(answer: Answer) -> Vec<(StreamId, Rejection)> {
    match answer {
        Answer::Refused(skipped) => skipped,
        other => panic!("{other:?}"),
    }
}

#[test]
fn streams_of_an_evicted_session_close_and_of_a_replaced_one_stay_on_their_node() {
    for (replaced, expected) in [(false, Ownership::Closed(NodeId(2))), (true, Ownership::Placed(NodeId(2)))]
    {
        let mut cluster = Cluster::of(2);
        let (one, old) = (session(1, 100), session(2, 100));
        let stream = cluster.opened(old, "/s");
        match replaced {
            true => applied(cluster.register(registration(2, 200))),
            false => applied(cluster.evict(one, old)),
        };
        let seen = cluster.effective(stream);
        assert_eq!(seen, if replaced { Effective::Placed(NodeId(2)) } else { Effective::Closed(NodeId(2)) });
        assert_eq!(cluster.state.waits_for_recovery(cluster.stream(stream)), Some(old));
        assert_eq!(rejected(cluster.open(one, stream, 1)), Rejection::WaitsForRecovery(old));
        assert_eq!(rejected(cluster.delete(one, stream, 1)), Rejection::WaitsForRecovery(old));
        let place = cluster.place(one, stream);
        match replaced {
            true => assert_eq!(redundant(place), Answer::Owner(NodeId(2))),
            false => assert_eq!(rejected(place), Rejection::WaitsForRecovery(old)),
        }
        let found = recovered(stream, 1, Some(run(one, 0, 0, 5)));
        applied(cluster.recover(one, old, vec![found], true));
        let it = cluster.stream(stream);
        assert_eq!((it.ownership, it.end, it.epoch), (expected, Position(5), StreamEpoch(1)));
        assert_eq!(it.touched_ms, 9_000, "the time window starts anew");
        assert_eq!(cluster.state.waits_for_recovery(it), None);
        applied(cluster.open(one, stream, 1));
    }
}

#[test]
fn recovery_of_a_session_that_has_not_ended_is_rejected() {
    let mut cluster = Cluster::of(2);
    for session in [session(2, 100), session(2, 50), session(9, 9)] {
        let outcome = cluster.recover(super::session(1, 100), session, vec![], true);
        assert_eq!(rejected(outcome), Rejection::NotRetired(session));
    }
}

#[test]
fn the_last_part_is_rejected_while_a_stream_is_open_and_changes_nothing() {
    let mut cluster = Cluster::of(2);
    let (one, old) = (session(1, 100), session(2, 100));
    let (a, b) = (cluster.opened(old, "/a"), cluster.opened(old, "/b"));
    applied(cluster.evict(one, old));
    let part = vec![recovered(a, 1, Some(run(one, 0, 0, 5)))];
    assert_eq!(rejected(cluster.recover(one, old, part, true)), Rejection::StillOpen(1));
    assert_eq!(cluster.stream(a).ownership, Ownership::Opened(old));
    assert_eq!(cluster.stream(a).end, Position(0));
    let both = vec![recovered(a, 1, None), recovered(b, 1, None)];
    applied(cluster.recover(one, old, both, true));
    let ended = cluster.state.retired(old).expect("kept");
    assert!(ended.recovered && ended.progress.last.is_none());
    assert_eq!(cluster.state.unrecovered().count(), 0);
}

#[test]
fn parts_let_go_of_streams_one_by_one() {
    let mut cluster = Cluster::of(2);
    let (one, old) = (session(1, 100), session(2, 100));
    let (a, b) = (cluster.opened(old, "/a"), cluster.opened(old, "/b"));
    applied(cluster.evict(one, old));
    applied(cluster.recover(one, old, vec![recovered(a, 1, None)], false));
    assert_eq!(cluster.state.waits_for_recovery(cluster.stream(a)), None, "free before the rest");
    applied(cluster.open(one, a, 1));
    assert_eq!(rejected(cluster.open(one, b, 1)), Rejection::WaitsForRecovery(old));
    applied(cluster.recover(one, old, vec![recovered(b, 1, None)], false));
    applied(cluster.recover(one, old, vec![], true));
    assert_eq!(cluster.stream(a).ownership, Ownership::Opened(one));
}

#[test]
fn a_second_recovery_is_harmless() {
    let mut cluster = Cluster::of(3);
    let (one, three, old) = (session(1, 100), session(3, 100), session(2, 100));
    let stream = cluster.opened(old, "/s");
    applied(cluster.evict(one, old));
    applied(cluster.recover(one, old, vec![recovered(stream, 1, Some(run(one, 0, 0, 5)))], false));
    let theirs = vec![recovered(stream, 1, Some(run(three, 0, 0, 5)))];
    let answer = redundant(cluster.recover(three, old, theirs.clone(), false));
    assert_eq!(skipped(answer), [(stream, Rejection::NotOpen(old))]);
    applied(cluster.open(one, stream, 1));
    let answer = applied(cluster.recover(three, old, theirs.clone(), true));
    let late = Rejection::StreamEpoch { named: StreamEpoch(1), actual: StreamEpoch(2) };
    assert_eq!(skipped(answer), [(stream, late)]);
    redundant(cluster.recover(one, old, theirs, true));
    assert_eq!(cluster.stream(stream).end, Position(5), "once");
    assert_eq!(cluster.stream(stream).ownership, Ownership::Opened(one));
}

#[test]
fn a_stream_that_does_not_fit_is_skipped_and_the_others_are_let_go() {
    let mut cluster = Cluster::of(2);
    let (one, old) = (session(1, 100), session(2, 100));
    let streams: Vec<StreamId> = (0..5).map(|n| cluster.opened(old, &format!("/{n}"))).collect();
    applied(cluster.evict(one, old));
    let found = vec![
        recovered(streams[0], 1, Some(run(one, 0, 3, 5))),
        recovered(streams[1], 2, None),
        recovered(streams[2], 1, Some(run(old, 0, 0, 5))),
        recovered(StreamId(99), 1, None),
        recovered(streams[3], 1, Some(run(one, 0, 0, 5))),
    ];
    let answer = applied(cluster.recover(one, old, found, false));
    let expected = [
        (streams[0], Rejection::NotContiguous { start: Position(3), end: Position(0) }),
        (streams[1], Rejection::StreamEpoch { named: StreamEpoch(2), actual: StreamEpoch(1) }),
        (streams[2], Rejection::ForeignObject(old)),
        (StreamId(99), Rejection::NoStream(StreamId(99))),
    ];
    assert_eq!(skipped(answer), expected);
    assert_eq!(cluster.stream(streams[3]).ownership, Ownership::Closed(NodeId(2)));
    assert_eq!(rejected(cluster.recover(one, old, vec![], true)), Rejection::StillOpen(4));
}

#[test]
fn a_damaged_stream_is_readable_and_takes_no_appends_until_the_loss_is_accepted() {
    let mut cluster = Cluster::of(2);
    let (one, old) = (session(1, 100), session(2, 100));
    let stream = cluster.opened(old, "/s");
    applied(cluster.evict(one, old));
    let found = Recovered { damaged: true, ..recovered(stream, 1, Some(run(one, 0, 0, 5))) };
    applied(cluster.recover(one, old, vec![found], true));
    assert_eq!((cluster.stream(stream).damaged, cluster.stream(stream).end), (true, Position(5)));
    assert_eq!(rejected(cluster.open(one, stream, 1)), Rejection::Damaged(Position(5)));
    let accept = |epoch| Command::AcceptLoss { stream, epoch: StreamEpoch(epoch) };
    let wrong = Rejection::StreamEpoch { named: StreamEpoch(0), actual: StreamEpoch(1) };
    assert_eq!(rejected(cluster.propose(one, accept(0))), wrong);
    applied(cluster.propose(one, accept(1)));
    assert_eq!(rejected(cluster.propose(one, accept(1))), Rejection::NotDamaged);
    applied(cluster.open(one, stream, 1));
}

#[test]
fn a_damaged_stream_can_be_deleted() {
    let mut cluster = Cluster::of(2);
    let (one, old) = (session(1, 100), session(2, 100));
    let stream = cluster.opened(old, "/s");
    applied(cluster.evict(one, old));
    let found = Recovered { damaged: true, ..recovered(stream, 1, None) };
    applied(cluster.recover(one, old, vec![found], true));
    applied(cluster.delete(one, stream, 1));
}

#[test]
fn one_node_can_have_several_sessions_to_recover() {
    let mut cluster = Cluster::of(2);
    let one = session(1, 100);
    let first = cluster.opened(session(2, 100), "/first");
    applied(cluster.register(registration(2, 200)));
    let second = cluster.opened(session(2, 200), "/second");
    applied(cluster.register(registration(2, 300)));
    let waiting: Vec<Session> = cluster.state.unrecovered().map(|it| it.session).collect();
    assert_eq!(waiting, [session(2, 100), session(2, 200)]);
    assert_eq!(cluster.assigned(2), 2, "both count");
    applied(cluster.recover(one, session(2, 200), vec![recovered(second, 1, None)], true));
    applied(cluster.recover(one, session(2, 100), vec![recovered(first, 1, None)], true));
    assert_eq!(cluster.assigned(2), 2);
}
