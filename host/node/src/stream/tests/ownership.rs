//! Streams between processes: who may do what, and what a fenced one may not.

use super::super::*;
use super::fake::*;
use headwater_metadata::*;

#[tokio::test(start_paused = true)]
async fn a_stream_that_another_node_serves_is_named() {
    let cluster = Cluster::new();
    let one = cluster.start(1, 100, options(), Crash::never());
    let two = cluster.start(2, 100, options(), Crash::never());
    let id = one.new_stream("/a", "").await;
    one.streams.open(id).await.expect("the lowest id is chosen");
    one.put(id, "x").await;
    let moved = Some(StreamError::Moved(NodeId(1)));
    assert_eq!(two.streams.append(id, text("y")).await.err(), moved);
    assert_eq!(two.streams.info(id).await.err(), moved);
    assert_eq!(two.streams.read(id, From::Start, ReadLimits::default()).await.err(), moved);
    assert_eq!(two.streams.delete(id).await.err(), moved);
    one.streams.close(id).await.expect("closes");
    assert_eq!(two.all(id).await, "x", "anybody reads what is open nowhere");
    assert_eq!(two.put(id, "y").await, Position(2), "and revives it");
    assert_eq!(one.streams.append(id, text("z")).await.err(), Some(StreamError::Moved(NodeId(2))));
}

#[tokio::test(start_paused = true)]
async fn a_pending_transfer_goes_to_the_target() {
    let cluster = Cluster::new();
    let one = cluster.start(1, 100, options(), Crash::never());
    let two = cluster.start(2, 100, options(), Crash::never());
    let id = one.new_stream("/a", "").await;
    one.put(id, "x").await;
    let epoch = cluster.view().stream(id).expect("it").epoch;
    let outcome = two.log.now(Command::Transfer { stream: id, epoch, target: NodeId(2) });
    assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
    let waiting = tokio::spawn({
        let streams = two.streams.clone();
        async move { streams.append(id, text("y")).await }
    });
    super::pause(Duration::from_secs(1)).await;
    one.streams.close(id).await.expect("closes");
    assert_eq!(waiting.await.expect("no panic").expect("taken").tail, Position(2));
    assert_eq!(one.streams.append(id, text("z")).await.err(), Some(StreamError::Moved(NodeId(2))));
    assert_eq!(two.all(id).await, "xy");
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_the_recovery_of_the_last_owner_and_gives_up_in_time() {
    let cluster = Cluster::new();
    let one = cluster.start(1, 100, options(), Crash::never());
    let two = cluster.start(2, 100, options(), Crash::never());
    let id = one.new_stream("/a", "").await;
    one.put(id, "acknowledged").await;
    one.crash.now();
    cluster.evict(&two, one.session);
    for error in [
        two.streams.append(id, text("y")).await.err(),
        two.streams.info(id).await.err(),
        two.streams.read(id, From::Start, ReadLimits::default()).await.err(),
        two.streams.delete(id).await.err(),
    ] {
        assert!(matches!(error, Some(StreamError::Unavailable { .. })), "{error:?}");
    }
    let waiting = tokio::spawn({
        let streams = two.streams.clone();
        async move { streams.append(id, text("!")).await }
    });
    super::pause(Duration::from_secs(1)).await;
    let recovery = two.streams.recover(one.session).await.expect("recovered");
    assert_eq!((recovery.streams, recovery.bytes, recovery.damaged), (1, 12, 0));
    assert_eq!(waiting.await.expect("no panic").expect("taken").tail, Position(13));
    assert_eq!(two.all(id).await, "acknowledged!");
    assert_eq!(two.streams.recover(one.session).await.expect("again").parts, 0);
}

/// The owner is paused, its log is sealed; what it has in hand is not acknowledged, and it ends.
#[tokio::test(start_paused = true)]
async fn a_sealed_owner_acknowledges_nothing() {
    let cluster = Cluster::new();
    let one = cluster.start(1, 100, options(), Crash::never());
    let two = cluster.start(2, 100, options(), Crash::never());
    let id = one.new_stream("/a", "").await;
    one.put(id, "a").await;
    cluster.evict(&two, one.session);
    two.streams.recover(one.session).await.expect("recovered");
    assert_eq!(two.put(id, "b").await, Position(2));
    // It has not heard of its eviction.
    assert_eq!(one.streams.append(id, text("lost")).await, Err(StreamError::Fenced));
    assert_eq!(one.streams.read(id, From::Now, ReadLimits::default()).await.err(), Some(StreamError::Fenced));
    assert!(*one.streams.over().borrow());
    assert_eq!(two.all(id).await, "ab");
}

/// The same, asked for its tail before it tries to append: by a fresh view, and cut off from the
/// metadata log by the store.
#[tokio::test(start_paused = true)]
async fn a_sealed_owner_claims_no_tail() {
    for quorum in [true, false] {
        let cluster = Cluster::new();
        let one = cluster.start(1, 100, options(), Crash::never());
        let two = cluster.start(2, 100, options(), Crash::never());
        let id = one.new_stream("/a", "").await;
        one.put(id, "a").await;
        cluster.evict(&two, one.session);
        two.streams.recover(one.session).await.expect("recovered");
        two.put(id, "b").await;
        one.log.quorum.store(quorum, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(one.streams.info(id).await.err(), Some(StreamError::Fenced));
        assert_eq!(one.streams.counters().proofs > 0, !quorum);
        assert!(*one.streams.over().borrow());
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_hears_of_its_end_lets_nobody_wait() {
    let cluster = Cluster::new();
    let one = cluster.start(1, 100, options(), Crash::never());
    let id = one.new_stream("/a", "").await;
    one.put(id, "a").await;
    let reader = tokio::spawn({
        let streams = one.streams.clone();
        async move { streams.follow(id, Position(1), ReadLimits::default(), Duration::from_secs(600)).await.err() }
    });
    super::pause(Duration::from_secs(1)).await;
    one.log.hear(RetiredBy::Evicted);
    assert_eq!(reader.await.expect("no panic"), Some(StreamError::Fenced));
    assert_eq!(one.streams.append(id, text("b")).await, Err(StreamError::Fenced));
    assert_eq!(one.streams.counters().fenced, 1);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_node_recovers_its_own_streams() {
    let cluster = Cluster::new();
    let first = cluster.start(1, 100, options(), Crash::never());
    let (a, b) = (first.new_stream("/a", "").await, first.new_stream("/b", "head").await);
    let producer = |seq| Append { producer: Some(Producer { id: "p".into(), epoch: 3, seq }), ..text("p") };
    for seq in 0..3 {
        first.streams.append(a, producer(seq)).await.expect("taken");
    }
    first.streams.append(b, Append { eof: true, ..text("tail") }).await.expect("closed");
    first.crash.now();
    let second = cluster.start(1, 200, options(), Crash::never());
    second.streams.recover(first.session).await.expect("recovered");
    let left = cluster.keys().await.into_iter().filter(|key| key.starts_with("wal/1/100/"));
    assert_eq!(left.count(), 1, "the seal stays for ever");
    assert!(second.streams.append(a, producer(2)).await.expect("again").duplicate);
    assert!(!second.streams.append(a, producer(3)).await.expect("next").duplicate);
    assert_eq!(second.all(a).await, "pppp");
    assert_eq!(second.all(b).await, "headtail");
    assert_eq!(second.streams.append(b, text("x")).await, Err(StreamError::Closed { tail: Position(8) }));
    assert_eq!(cluster.view().stream(a).expect("it").ownership, Ownership::Opened(second.session));
    assert_eq!(second.streams.counters().recoveries, 1);
}

/// An object of the log is lost: its stream is let go with a gap, the others are whole.
#[tokio::test(start_paused = true)]
async fn a_lost_log_object_damages_its_streams_alone() {
    let cluster = Cluster::new();
    let one = cluster.start(1, 100, options(), Crash::never());
    let (a, b) = (one.new_stream("/a", "").await, one.new_stream("/b", "").await);
    for (id, word) in [(a, "a0"), (b, "b0"), (a, "a1"), (b, "b1"), (a, "a2"), (b, "b2")] {
        one.put(id, word).await;
    }
    one.crash.now();
    let logged: Vec<_> =
        cluster.keys().await.into_iter().filter(|key| key.starts_with("wal/1/100/")).collect();
    assert_eq!(logged.len(), 6);
    cluster.spoil(&logged[2]).await;
    let two = cluster.start(1, 200, options(), Crash::never());
    let recovery = two.streams.recover(one.session).await.expect("recovered");
    assert_eq!((recovery.streams, recovery.damaged), (2, 1));
    assert_eq!(two.all(b).await, "b0b1b2");
    assert_eq!(two.put(b, "b3").await, Position(8));
    assert_eq!(two.all(a).await, "a0", "readable up to the gap");
    let damaged = StreamError::Damaged { at: Position(2) };
    assert_eq!(two.streams.append(a, text("x")).await, Err(damaged));
    let epoch = cluster.view().stream(a).expect("it").epoch;
    let outcome = two.log.now(Command::AcceptLoss { stream: a, epoch });
    assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
    assert_eq!(two.put(a, "new").await, Position(5));
    assert_eq!(two.all(a).await, "a0new");
    assert_eq!(two.streams.counters().damaged_streams, 1);
}

/// The newest object is lost: nobody knows what it held, so no stream is said to be whole.
#[tokio::test(start_paused = true)]
async fn a_lost_last_log_object_makes_every_stream_suspect() {
    let cluster = Cluster::new();
    let one = cluster.start(1, 100, options(), Crash::never());
    let (a, b) = (one.new_stream("/a", "").await, one.new_stream("/b", "").await);
    one.put(b, "b0").await;
    one.put(a, "a0").await;
    one.crash.now();
    let logged: Vec<_> =
        cluster.keys().await.into_iter().filter(|key| key.starts_with("wal/1/100/")).collect();
    cluster.spoil(&logged[1]).await;
    let two = cluster.start(1, 200, options(), Crash::never());
    let recovery = two.streams.recover(one.session).await.expect("recovered");
    assert_eq!((recovery.streams, recovery.damaged), (2, 2));
    two.streams.delete(a).await.expect("a damaged stream can be deleted");
}
