//! Moving streams.

use super::*;

fn complete(stream: StreamId, epoch: u64) -> Command {
    Command::CompleteTransfer { stream, epoch: StreamEpoch(epoch) }
}

fn cancel(stream: StreamId, epoch: u64) -> Command {
    Command::CancelTransfer { stream, epoch: StreamEpoch(epoch) }
}

fn pending(source: u64, target: u64) -> Effective {
    Effective::Transferring(Transfer { source: NodeId(source), target: NodeId(target) })
}

#[test]
fn an_open_stream_routes_to_the_target_at_once_and_is_placed_there_when_closed() {
    let mut cluster = Cluster::of(3);
    let (one, two, three) = (session(1, 100), session(2, 100), session(3, 100));
    let stream = cluster.opened(one, "/s");
    applied(cluster.transfer(three, stream, 1, 2));
    redundant(cluster.transfer(one, stream, 1, 2));
    assert_eq!(cluster.effective(stream), pending(1, 2));
    assert_eq!(cluster.state.leaving(NodeId(1)).collect::<Vec<_>>(), [stream]);
    assert_eq!(cluster.state.coming(NodeId(2)).collect::<Vec<_>>(), [stream]);
    assert_eq!(cluster.state.transfer_count(), 1);
    assert_eq!(rejected(cluster.open(two, stream, 1)), Rejection::OpenElsewhere(one), "not yet let go");
    let too_early = cluster.propose(three, complete(stream, 1));
    assert_eq!(rejected(too_early), Rejection::OpenElsewhere(one));
    applied(cluster.close(one, stream, 1, 0));
    assert_eq!(cluster.effective(stream), Effective::Placed(NodeId(2)));
    redundant(cluster.propose(three, complete(stream, 1)));
    applied(cluster.open(two, stream, 1));
    assert_eq!(cluster.state.transfer_count(), 0);
    let late = Rejection::StreamEpoch { named: StreamEpoch(1), actual: StreamEpoch(2) };
    assert_eq!(rejected(cluster.propose(three, complete(stream, 1))), late);
}

#[test]
fn a_stream_that_is_not_open_is_re_placed_at_once() {
    let mut cluster = Cluster::of(3);
    let one = session(1, 100);
    let unplaced = cluster.create(one, "/unplaced");
    let placed = cluster.create(one, "/placed");
    applied(cluster.place(one, placed));
    let closed = cluster.opened(one, "/closed");
    applied(cluster.close(one, closed, 1, 0));
    for (stream, epoch) in [(unplaced, 0), (placed, 0), (closed, 1)] {
        applied(cluster.transfer(one, stream, epoch, 3));
        assert_eq!(cluster.stream(stream).ownership, Ownership::Placed(NodeId(3)));
        assert_eq!(cluster.state.transfer_count(), 0);
        assert_eq!(rejected(cluster.transfer(one, stream, epoch, 3)), Rejection::SameNode(NodeId(3)));
    }
    assert_eq!((cluster.assigned(1), cluster.assigned(3)), (0, 3));
}

#[test]
fn the_target_must_be_another_node_that_takes_streams() {
    let mut cluster = Cluster::of(5);
    let one = session(1, 100);
    let stream = cluster.opened(one, "/s");
    applied(cluster.set(one, 2, Some(0), None));
    applied(cluster.set(one, 3, None, Some(true)));
    applied(cluster.evict(one, session(4, 100)));
    let wrong = Rejection::StreamEpoch { named: StreamEpoch(0), actual: StreamEpoch(1) };
    let table = [
        (1, 1, Rejection::SameNode(NodeId(1))),
        (1, 2, Rejection::NoSlots(NodeId(2))),
        (1, 3, Rejection::NoSlots(NodeId(3))),
        (1, 4, Rejection::NoNode(NodeId(4))),
        (1, 9, Rejection::NoNode(NodeId(9))),
        (0, 5, wrong),
    ];
    for (epoch, target, why) in table {
        assert_eq!(rejected(cluster.transfer(one, stream, epoch, target)), why, "to {target}");
    }
}

#[test]
fn a_second_target_is_rejected_until_the_first_move_is_cancelled() {
    let mut cluster = Cluster::of(3);
    let one = session(1, 100);
    let stream = cluster.opened(one, "/s");
    assert_eq!(rejected(cluster.propose(one, cancel(stream, 1))), Rejection::NoTransfer);
    applied(cluster.transfer(one, stream, 1, 2));
    assert_eq!(rejected(cluster.transfer(one, stream, 1, 3)), Rejection::TransferPending(NodeId(2)));
    applied(cluster.propose(session(3, 100), cancel(stream, 1)));
    assert_eq!(cluster.effective(stream), Effective::Opened(one));
    applied(cluster.transfer(one, stream, 1, 3));
}

#[test]
fn evicting_the_target_removes_the_move_and_restarting_it_does_not() {
    let mut cluster = Cluster::of(3);
    let one = session(1, 100);
    let stream = cluster.opened(one, "/s");
    applied(cluster.transfer(one, stream, 1, 2));
    applied(cluster.register(registration(2, 200)));
    assert_eq!(cluster.effective(stream), pending(1, 2));
    applied(cluster.evict(one, session(2, 200)));
    assert_eq!(cluster.effective(stream), Effective::Opened(one), "it never left");
}

#[test]
fn evicting_the_source_leaves_the_move_and_recovery_completes_it() {
    let mut cluster = Cluster::of(3);
    let (one, three) = (session(1, 100), session(3, 100));
    let stream = cluster.opened(one, "/s");
    applied(cluster.transfer(one, stream, 1, 2));
    applied(cluster.evict(three, one));
    assert_eq!(cluster.effective(stream), pending(1, 2));
    let waits = Rejection::WaitsForRecovery(one);
    assert_eq!(rejected(cluster.open(session(2, 100), stream, 1)), waits);
    assert_eq!(rejected(cluster.propose(three, complete(stream, 1))), waits);
    applied(cluster.recover(three, one, vec![recovered(stream, 1, None)], true));
    assert_eq!(cluster.effective(stream), Effective::Placed(NodeId(2)));
    applied(cluster.open(session(2, 100), stream, 1));
}

#[test]
fn both_source_and_target_evicted_leaves_a_closed_stream() {
    let mut cluster = Cluster::of(3);
    let (one, three) = (session(1, 100), session(3, 100));
    let stream = cluster.opened(one, "/s");
    applied(cluster.transfer(one, stream, 1, 2));
    applied(cluster.evict(three, one));
    applied(cluster.evict(three, session(2, 100)));
    assert_eq!(cluster.effective(stream), Effective::Closed(NodeId(1)));
    applied(cluster.recover(three, one, vec![recovered(stream, 1, None)], true));
    applied(cluster.open(three, stream, 1));
}

#[test]
fn deleting_the_stream_removes_the_move() {
    let mut cluster = Cluster::of(2);
    let one = session(1, 100);
    let stream = cluster.opened(one, "/s");
    applied(cluster.transfer(one, stream, 1, 2));
    applied(cluster.delete(one, stream, 1));
    assert_eq!(cluster.state.transfer_count(), 0);
    assert_eq!(rejected(cluster.propose(one, complete(stream, 1))), Rejection::NoStream(stream));
    assert_eq!(rejected(cluster.propose(one, cancel(stream, 1))), Rejection::NoStream(stream));
}
