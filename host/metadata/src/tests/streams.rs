//! Creating and deleting streams, forks.

use super::*;

#[test]
fn a_create_without_body_registers_and_places_nothing() {
    let mut cluster = Cluster::of(2);
    let one = session(1, 100);
    let stream = cluster.create(one, "/s");
    assert_eq!(cluster.stream(stream).ownership, Ownership::Unplaced);
    assert_eq!(cluster.stream(stream).epoch, StreamEpoch(0));
    assert_eq!(cluster.effective(stream), Effective::Unplaced);
    assert_eq!(cluster.state.stream_by_name("/s").map(|it| it.id), Some(stream));
    assert_eq!((cluster.assigned(1), cluster.assigned(2)), (0, 0));
}

#[test]
fn the_same_create_again_is_redundant_and_another_one_is_rejected() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let stream = cluster.create(one, "/s");
    let again = cluster.propose(two, Command::CreateStream(CreateStream { now_ms: 77, ..create("/s") }));
    assert_eq!(redundant(again), Answer::Stream(stream));
    let others = [
        CreateStream { content_type: "application/json".into(), ..create("/s") },
        CreateStream { expiry: Expiry::Ttl(5), ..create("/s") },
        CreateStream { eof: true, ..create("/s") },
        CreateStream {
            fork: Some(ForkOf { source: stream, epoch: StreamEpoch(0), at: Position(0) }),
            ..create("/s")
        },
    ];
    for other in others {
        let outcome = cluster.propose(two, Command::CreateStream(other));
        assert_eq!(rejected(outcome), Rejection::NameTaken(stream));
    }
}

#[test]
fn a_create_with_body_is_created_filled_and_closed_in_one_command() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let body = Some(run(one, 3, 0, 10));
    let stream = cluster.create_as(one, CreateStream { body, eof: true, ..create("/s") });
    let it = cluster.stream(stream);
    assert_eq!((it.start, it.end, it.eof), (Position(0), Position(10), true));
    assert_eq!(it.ownership, Ownership::Unplaced);
    assert_eq!(it.runs.len(), 1);
    assert!(cluster.state.refers_to(object(one, 3)));
}

#[test]
fn the_loser_of_a_race_to_create_leaves_an_object_that_nothing_refers_to() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let stream = cluster.create_as(one, CreateStream { body: Some(run(one, 0, 0, 10)), ..create("/s") });
    let second = CreateStream { body: Some(run(two, 0, 0, 10)), ..create("/s") };
    assert_eq!(redundant(cluster.propose(two, Command::CreateStream(second))), Answer::Stream(stream));
    assert!(!cluster.state.refers_to(object(two, 0)));
    assert!(cluster.state.refers_to(object(one, 0)));
}

#[test]
fn a_body_must_be_the_creators_own_and_well_formed() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let table = [
        (run(two, 0, 0, 10), Rejection::ForeignObject(two)),
        (run(one, 0, 0, 0), Rejection::MalformedRun),
        (Run { start: Position(5), ..run(one, 0, 0, 4) }, Rejection::MalformedRun),
        (Run { offset: u64::MAX, ..run(one, 0, 0, 4) }, Rejection::MalformedRun),
        (run(one, 0, 2, 4), Rejection::NotContiguous { start: Position(2), end: Position(0) }),
    ];
    for (body, why) in table {
        let outcome =
            cluster.propose(one, Command::CreateStream(CreateStream { body: Some(body), ..create("/s") }));
        assert_eq!(rejected(outcome), why, "{body:?}");
    }
}

#[test]
fn names_and_content_types_have_limits() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let long = CreateStream { name: "x".repeat(MAX_NAME + 1).into(), ..create("/s") };
    let typed = CreateStream { content_type: "x".repeat(MAX_CONTENT_TYPE + 1).into(), ..create("/s") };
    for create in [long, typed] {
        let outcome = cluster.propose(one, Command::CreateStream(create));
        assert!(matches!(rejected(outcome), Rejection::TooLarge(_)));
    }
}

#[test]
fn delete_names_the_epoch_and_only_the_owner_deletes_an_open_stream() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let stream = cluster.opened(one, "/s");
    assert_eq!(rejected(cluster.delete(two, stream, 1)), Rejection::OpenElsewhere(one));
    let wrong = Rejection::StreamEpoch { named: StreamEpoch(0), actual: StreamEpoch(1) };
    assert_eq!(rejected(cluster.delete(one, stream, 0)), wrong);
    applied(cluster.delete(one, stream, 1));
    assert_eq!(rejected(cluster.delete(one, stream, 1)), Rejection::NoStream(stream));
    assert!(cluster.state.stream_by_name("/s").is_none());
    let next = cluster.create(two, "/s");
    assert_ne!(next, stream, "ids are never used twice");
}

#[test]
fn a_stream_that_is_not_open_is_deleted_by_any_node() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let unplaced = cluster.create(one, "/unplaced");
    applied(cluster.delete(two, unplaced, 0));
    let placed = cluster.create(one, "/placed");
    applied(cluster.place(one, placed));
    applied(cluster.delete(two, placed, 0));
    let closed = cluster.opened(one, "/closed");
    applied(cluster.close(one, closed, 1, 0));
    applied(cluster.delete(two, closed, 1));
    assert_eq!(cluster.state.totals().total(), 0);
    assert_eq!((cluster.assigned(1), cluster.assigned(2)), (0, 0));
}

#[test]
fn objects_wait_to_be_deleted_until_they_are_forgotten() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let (a, b) = (cluster.opened(one, "/a"), cluster.opened(one, "/b"));
    let shared = Run { offset: 5, ..run(one, 0, 0, 5) };
    let runs = vec![stream_run(a, 1, Some(run(one, 0, 0, 5))), stream_run(b, 1, Some(shared))];
    applied(cluster.commit(one, runs, 1));
    applied(cluster.delete(one, a, 1));
    assert_eq!(cluster.state.unlinked().count(), 0, "the other stream still refers to it");
    applied(cluster.delete(one, b, 1));
    assert_eq!(cluster.state.unlinked().collect::<Vec<_>>(), [object(one, 0)]);
    let forget = Command::Forget { objects: vec![object(one, 0), object(one, 1)] };
    applied(cluster.propose(one, forget.clone()));
    redundant(cluster.propose(one, forget));
    assert_eq!(cluster.state.unlinked().count(), 0);
}

#[test]
fn a_run_in_an_object_that_waits_to_be_deleted_is_refused() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let (a, b) = (cluster.opened(one, "/a"), cluster.opened(one, "/b"));
    applied(cluster.commit_one(one, a, 1, run(one, 0, 0, 5)));
    applied(cluster.delete(one, a, 1));
    let refused = vec![(b, Rejection::UnlinkedObject(object(one, 0)))];
    assert_eq!(applied(cluster.commit_one(one, b, 1, run(one, 0, 0, 5))), Answer::Refused(refused));
}

fn fork(source: StreamId, epoch: u64, at: u64) -> Option<ForkOf> {
    Some(ForkOf { source, epoch: StreamEpoch(epoch), at: Position(at) })
}

#[test]
fn a_fork_begins_in_what_is_committed_and_counts_its_reference() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let source = cluster.opened(one, "/s");
    applied(cluster.commit_one(one, source, 1, run(one, 0, 0, 10)));
    let beyond = CreateStream { fork: fork(source, 1, 11), ..create("/f") };
    let why = Rejection::ForkPoint { start: Position(0), end: Position(10) };
    assert_eq!(rejected(cluster.propose(one, Command::CreateStream(beyond))), why);
    let late = CreateStream { fork: fork(source, 0, 5), ..create("/f") };
    let why = Rejection::StreamEpoch { named: StreamEpoch(0), actual: StreamEpoch(1) };
    assert_eq!(rejected(cluster.propose(one, Command::CreateStream(late))), why);
    let create = CreateStream { fork: fork(source, 1, 5), body: Some(run(one, 1, 5, 8)), ..create("/f") };
    assert_eq!(
        rejected(cluster.propose(two, Command::CreateStream(create.clone()))),
        Rejection::OpenElsewhere(one),
        "only the owner knows the tail"
    );
    let forked = cluster.create_as(one, create);
    let it = cluster.stream(forked);
    assert_eq!((it.start, it.end), (Position(0), Position(8)));
    assert_eq!(it.fork, Some(Fork { source, at: Position(5) }));
    assert_eq!(cluster.stream(source).forks, 1);
}

#[test]
fn a_source_is_kept_deleted_under_its_name_until_the_last_fork_is_gone() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let source = cluster.opened(one, "/s");
    applied(cluster.commit_one(one, source, 1, run(one, 0, 0, 10)));
    let middle = cluster.create_as(one, CreateStream { fork: fork(source, 1, 5), ..create("/m") });
    let leaf = cluster.create_as(one, CreateStream { fork: fork(middle, 0, 5), ..create("/l") });
    applied(cluster.delete(one, source, 1));
    applied(cluster.delete(one, middle, 0));
    assert!(cluster.stream(source).deleted && cluster.stream(middle).deleted);
    assert_eq!(cluster.effective(source), Effective::Unregistered);
    assert_eq!(cluster.state.totals().total(), 1);
    assert_eq!(rejected(cluster.open(one, source, 1)), Rejection::NoStream(source));
    assert_eq!(rejected(cluster.delete(one, source, 1)), Rejection::NoStream(source));
    let again = cluster.propose(one, Command::CreateStream(create("/s")));
    assert_eq!(rejected(again), Rejection::NameTaken(source));
    assert!(cluster.state.refers_to(object(one, 0)), "forks count as references");
    applied(cluster.delete(one, leaf, 0));
    assert!(cluster.state.stream(source).is_none() && cluster.state.stream(middle).is_none());
    assert_eq!(cluster.state.unlinked().collect::<Vec<_>>(), [object(one, 0)]);
    cluster.create(one, "/s");
}

#[test]
fn streams_are_listed_by_name_in_pages() {
    let mut cluster = Cluster::of(1);
    for name in ["/b", "/a/2", "/a/1", "/c", "/a/3"] {
        cluster.create(session(1, 100), name);
    }
    let names = |after: Option<&str>, prefix: &str| -> Vec<String> {
        cluster.state.streams_by_name(after, prefix).map(|it| it.name.to_string()).collect()
    };
    assert_eq!(names(None, ""), ["/a/1", "/a/2", "/a/3", "/b", "/c"]);
    assert_eq!(names(None, "/a/"), ["/a/1", "/a/2", "/a/3"]);
    assert_eq!(names(Some("/a/2"), "/a/"), ["/a/3"]);
    assert_eq!(names(Some("/"), "/a/"), ["/a/1", "/a/2", "/a/3"]);
    assert_eq!(names(Some("/x"), ""), Vec::<String>::new());
}

#[test]
fn streams_that_ended_by_themselves_are_found_while_nobody_has_them_open() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let ttl =
        |seconds, name: &str, now_ms| CreateStream { expiry: Expiry::Ttl(seconds), now_ms, ..create(name) };
    let at = CreateStream { expiry: Expiry::At(7_000), ..create("/at") };
    let late = cluster.create_as(one, ttl(5, "/late", 4_000));
    let early = cluster.create_as(one, ttl(5, "/early", 1_000));
    let at = cluster.create_as(one, at);
    cluster.create(one, "/never");
    let over = |cluster: &Cluster, now_ms| -> Vec<StreamId> {
        cluster.state.expired(now_ms).map(|it| it.id).collect()
    };
    assert_eq!(over(&cluster, 5_999), []);
    assert_eq!(over(&cluster, u64::MAX), [early, at, late]);
    assert_eq!(over(&cluster, 7_000), [early, at]);
    applied(cluster.open(one, early, 0));
    assert_eq!(over(&cluster, u64::MAX), [at, late], "an open stream is its owner's to judge");
    let close = Command::Close { stream: early, epoch: StreamEpoch(1), end: Position(0), touched_ms: 6_000 };
    applied(cluster.propose(one, close));
    assert_eq!(over(&cluster, 10_999), [at, late], "renewed by the last touch");
    assert_eq!(over(&cluster, 11_000), [at, late, early]);
    applied(cluster.delete(one, at, 0));
    assert_eq!(over(&cluster, 11_000), [late, early]);
    let read = crate::snapshot::decode(&crate::snapshot::encode(&cluster.state)).expect("a snapshot");
    assert_eq!(read.expired(11_000).count(), 2, "a snapshot brings it back");
}
