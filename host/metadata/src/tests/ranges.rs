//! Commits, trim points, compaction.

use super::*;

fn refused(outcome: Outcome) -> Vec<(StreamId, Rejection)> {
    match applied(outcome) {
        Answer::Refused(refused) => refused,
        other => panic!("{other:?}"),
    }
}

fn trim(cluster: &Cluster, by: Session) -> u64 {
    cluster.state.progress(by).map_or(0, |progress| progress.trim.0)
}

#[test]
fn a_run_is_accepted_from_the_opener_at_its_epoch_where_the_committed_end_is() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let stream = cluster.opened(one, "/s");
    let table = [
        (two, stream_run(stream, 1, Some(run(two, 0, 0, 5))), Rejection::NotOpen(two)),
        (
            one,
            stream_run(stream, 2, Some(run(one, 0, 0, 5))),
            Rejection::StreamEpoch { named: StreamEpoch(2), actual: StreamEpoch(1) },
        ),
        (one, stream_run(stream, 1, Some(run(two, 0, 0, 5))), Rejection::ForeignObject(two)),
        (
            one,
            stream_run(stream, 1, Some(run(one, 0, 1, 5))),
            Rejection::NotContiguous { start: Position(1), end: Position(0) },
        ),
        (one, stream_run(stream, 1, Some(run(one, 0, 0, 0))), Rejection::MalformedRun),
        (one, stream_run(StreamId(99), 1, Some(run(one, 0, 0, 5))), Rejection::NoStream(StreamId(99))),
    ];
    for (by, commit, why) in table {
        let id = commit.stream;
        let before = cluster.state.stream(stream).cloned();
        assert_eq!(refused(cluster.commit(by, vec![commit], 0)), [(id, why)]);
        assert_eq!(cluster.state.stream(stream).cloned(), before);
    }
    assert_eq!(refused(cluster.commit_one(one, stream, 1, run(one, 0, 0, 5))), []);
    assert_eq!(refused(cluster.commit_one(one, stream, 1, run(one, 1, 5, 9))), []);
    assert_eq!(cluster.stream(stream).end, Position(9));
}

#[test]
fn the_trim_point_moves_only_when_every_run_was_applied_or_its_stream_is_deleted() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let (a, b) = (cluster.opened(one, "/a"), cluster.opened(one, "/b"));
    let gap = stream_run(b, 1, Some(run(one, 0, 3, 5)));
    let runs = vec![stream_run(a, 1, Some(run(one, 0, 0, 5))), gap];
    assert_eq!(refused(cluster.commit(one, runs, 9)).len(), 1);
    assert_eq!(cluster.stream(a).end, Position(5), "the others stand");
    assert_eq!(trim(&cluster, one), 0);
    applied(cluster.delete(one, b, 1));
    let runs = vec![stream_run(a, 1, Some(run(one, 1, 5, 6))), stream_run(b, 1, Some(run(one, 1, 0, 5)))];
    assert_eq!(refused(cluster.commit(one, runs, 10)), [(b, Rejection::NoStream(b))]);
    assert_eq!(trim(&cluster, one), 10);
    redundant(cluster.commit(one, vec![], 4));
    assert_eq!(trim(&cluster, one), 10, "it never goes back");
    applied(cluster.commit(one, vec![], 11));
    assert_eq!(trim(&cluster, one), 11);
}

#[test]
fn nothing_of_a_stream_is_accepted_after_a_refused_run_of_it() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let (a, b) = (cluster.opened(one, "/a"), cluster.opened(one, "/b"));
    let end = StreamRun { eof: true, ..stream_run(a, 1, None) };
    let runs = vec![
        stream_run(a, 1, Some(run(one, 0, 3, 5))),
        end,
        stream_run(a, 1, Some(run(one, 0, 0, 5))),
        stream_run(b, 1, Some(run(one, 0, 0, 5))),
    ];
    let gap = Rejection::NotContiguous { start: Position(3), end: Position(0) };
    let expected = [(a, gap.clone()), (a, gap.clone()), (a, gap)];
    assert_eq!(refused(cluster.commit(one, runs, 9)), expected);
    assert_eq!((cluster.stream(a).end, cluster.stream(a).eof), (Position(0), false));
    assert_eq!(cluster.stream(b).end, Position(5));
}

#[test]
fn a_stream_that_is_closed_for_appends_takes_no_more_bytes() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let stream = cluster.opened(one, "/s");
    let last = StreamRun { eof: true, ..stream_run(stream, 1, Some(run(one, 0, 0, 5))) };
    assert_eq!(refused(cluster.commit(one, vec![last], 1)), []);
    assert!(cluster.stream(stream).eof);
    let more = refused(cluster.commit_one(one, stream, 1, run(one, 1, 5, 6)));
    assert_eq!(more, [(stream, Rejection::Eof)]);
    let again = StreamRun { eof: true, ..stream_run(stream, 1, None) };
    assert_eq!(refused(cluster.commit(one, vec![again], 2)), []);
}

#[test]
fn checkpoints_are_replaced_and_their_objects_counted() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let stream = cluster.opened(one, "/s");
    let checkpoint = |by, number| Checkpoint { object: object(by, number), offset: 5, len: 3, crc: 0 };
    let with = |checkpoint, run| StreamRun { checkpoint: Some(checkpoint), ..stream_run(stream, 1, run) };
    let first = with(checkpoint(one, 0), Some(run(one, 0, 0, 5)));
    assert_eq!(refused(cluster.commit(one, vec![first], 1)), []);
    let second = with(checkpoint(one, 1), None);
    assert_eq!(refused(cluster.commit(one, vec![second], 2)), []);
    assert_eq!(cluster.stream(stream).checkpoint, Some(checkpoint(one, 1)));
    assert_eq!(cluster.state.unlinked().count(), 0, "the run is still in the first object");
    let third = with(checkpoint(one, 2), None);
    assert_eq!(refused(cluster.commit(one, vec![third], 3)), []);
    assert_eq!(cluster.state.unlinked().collect::<Vec<_>>(), [object(one, 1)]);
    let foreign = with(checkpoint(two, 0), None);
    let why = Rejection::ForeignObject(two);
    assert_eq!(refused(cluster.commit(one, vec![foreign], 4)), [(stream, why)]);
}

#[test]
fn compaction_replaces_whole_runs_with_the_same_range() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let stream = cluster.opened(one, "/s");
    for n in 0..40 {
        applied(cluster.commit_one(one, stream, 1, run(one, n, n * 10, n * 10 + 10)));
    }
    let replace = |by, epoch, run| (by, Command::Replace { stream, epoch: StreamEpoch(epoch), run });
    let wrong = Rejection::StreamEpoch { named: StreamEpoch(0), actual: StreamEpoch(1) };
    let table = [
        (replace(two, 1, run(two, 100, 0, 20)), Rejection::NotOpen(two)),
        (replace(one, 0, run(one, 100, 0, 20)), wrong),
        (replace(one, 1, run(two, 100, 0, 20)), Rejection::ForeignObject(two)),
        (replace(one, 1, run(one, 100, 5, 20)), Rejection::NotCovering),
        (replace(one, 1, run(one, 100, 0, 25)), Rejection::NotCovering),
        (replace(one, 1, run(one, 100, 390, 401)), Rejection::NotCovering),
        (replace(one, 1, run(one, 100, 20, 20)), Rejection::MalformedRun),
    ];
    for ((by, command), why) in table {
        assert_eq!(rejected(cluster.propose(by, command)), why);
    }
    for (number, from, to) in [(100, 0, 20), (101, 30, 300), (102, 310, 400), (103, 0, 400)] {
        let (by, command) = replace(one, 1, run(one, number, from, to));
        applied(cluster.propose(by, command.clone()));
        redundant(cluster.propose(by, command));
        assert_eq!(cluster.stream(stream).end, Position(400));
    }
    assert_eq!(cluster.stream(stream).runs.len(), 1);
    assert_eq!(cluster.state.unlinked().count(), 43);
}
