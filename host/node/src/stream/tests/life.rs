//! The life of streams in one process.

use super::super::*;
use super::fake::*;
use bytes::Bytes;
use headwater_metadata::*;
use std::sync::atomic::Ordering;

fn one() -> (Arc<Cluster>, Process) {
    with(options())
}

fn with(options: Options) -> (Arc<Cluster>, Process) {
    let cluster = Cluster::new();
    let process = cluster.start(1, 100, options, Crash::never());
    (cluster, process)
}

fn ownership(cluster: &Cluster, id: StreamId) -> Ownership {
    cluster.view().stream(id).expect("a stream").ownership
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_placed_and_opened_at_its_first_append() {
    let (cluster, p) = one();
    let id = p.new_stream("/a", "").await;
    assert_eq!(ownership(&cluster, id), Ownership::Unplaced);
    assert_eq!(p.put(id, "one").await, Position(3));
    assert_eq!(ownership(&cluster, id), Ownership::Opened(p.session));
    assert_eq!(p.put(id, "two").await, Position(6));
    assert_eq!(p.all(id).await, "onetwo");
    let info = p.streams.info(id).await.expect("info");
    assert_eq!((info.tail, info.eof, info.start), (Position(6), false, Position(0)));
    assert_eq!(cluster.view().stream(id).expect("it").end, Position(0), "nothing is committed yet");
    let counters = p.streams.counters();
    assert_eq!((counters.appends, counters.append_bytes, counters.opens), (2, 6, 1));
}

#[tokio::test(start_paused = true)]
async fn a_body_is_there_without_opening() {
    let (cluster, p) = one();
    let id = p.new_stream("/a", "hello").await;
    assert_eq!(ownership(&cluster, id), Ownership::Unplaced);
    assert_eq!(p.all(id).await, "hello");
    assert_eq!(p.streams.open_count(), 0);
    assert_eq!(p.put(id, "!").await, Position(6));
    assert_eq!(p.all(id).await, "hello!", "objects and tail in one answer");
    let Ok(Created::Existing(info)) = p.streams.create(create("/a", "other")).await else { panic!() };
    assert_eq!(info.tail, Position(6));
    let other = Create { content_type: "text/html".into(), ..create("/a", "") };
    assert!(matches!(p.streams.create(other).await, Err(StreamError::ConfigMismatch { .. })));
    assert_eq!(p.streams.counters().create_objects, 1);
}

#[tokio::test(start_paused = true)]
async fn commits_move_bytes_into_objects_and_cut_the_log() {
    let (cluster, p) = with(Options { commit_age: Duration::from_millis(100), ..options() });
    let (a, b) = (p.new_stream("/a", "").await, p.new_stream("/b", "").await);
    for i in 0..10 {
        p.put(a, &format!("a{i}")).await;
        p.put(b, &format!("b{i}")).await;
    }
    super::pause(Duration::from_secs(2)).await;
    let view = cluster.view();
    assert_eq!(view.stream(a).expect("a").end, Position(20));
    assert_eq!(view.stream(b).expect("b").end, Position(20));
    assert!(p.streams.counters().commits >= 1);
    assert!(!cluster.keys().await.iter().any(|key| key.starts_with("wal/")), "{:?}", cluster.keys().await);
    assert_eq!(view.progress(p.session).expect("it").trim, p.streams.wal().durable());
    p.put(a, "x").await;
    assert_eq!(p.all(a).await, "a0a1a2a3a4a5a6a7a8a9x");
    assert_eq!(p.all(b).await, "b0b1b2b3b4b5b6b7b8b9");
}

#[tokio::test(start_paused = true)]
async fn idle_streams_are_closed_and_revived() {
    let (cluster, p) = with(Options { idle_close: Duration::from_secs(1), ..options() });
    let id = p.new_stream("/a", "").await;
    let producer = |seq| Append { producer: Some(Producer { id: "p".into(), epoch: 0, seq }), ..text("x") };
    assert!(!p.streams.append(id, producer(0)).await.expect("new").duplicate);
    p.streams.append(id, Append { seq: Some("5".into()), ..text("y") }).await.expect("seq");
    // Whoever looks at it, again and again, does not keep it open.
    for _ in 0..50 {
        p.streams.info(id).await.expect("there");
        super::pause(Duration::from_millis(100)).await;
    }
    assert_eq!(ownership(&cluster, id), Ownership::Closed(NodeId(1)));
    assert_eq!((p.streams.open_count(), p.streams.counters().idle_closes), (0, 1));
    assert_eq!(p.all(id).await, "xy", "read without opening");
    assert_eq!(p.streams.open_count(), 0);
    assert!(p.streams.append(id, producer(0)).await.expect("again").duplicate, "producers survive");
    let low = Append { seq: Some("4".into()), ..text("z") };
    assert_eq!(p.streams.append(id, low).await, Err(StreamError::SeqConflict { last: "5".into() }));
    assert!(!p.streams.append(id, producer(1)).await.expect("next").duplicate);
    assert_eq!(p.all(id).await, "xyx");
    assert_eq!(cluster.view().stream(id).expect("it").epoch, StreamEpoch(2));
}

#[tokio::test(start_paused = true)]
async fn a_live_reader_keeps_a_stream_open_and_is_woken() {
    let (_, p) = with(Options { idle_close: Duration::from_secs(1), ..options() });
    let id = p.new_stream("/a", "").await;
    let p = Arc::new(p);
    let reader = tokio::spawn({
        let p = p.clone();
        async move { p.streams.follow(id, Position(0), ReadLimits::default(), Duration::from_secs(60)).await }
    });
    super::pause(Duration::from_secs(20)).await;
    assert_eq!(p.streams.open_count(), 1);
    p.put(id, "now").await;
    let read = reader.await.expect("no panic").expect("data");
    assert_eq!((read.next, read.up_to_date, read.eof), (Position(3), true, false));
    assert_eq!(bytes_of(read).await.expect("bytes"), "now");
    let nothing = p.streams.follow(id, Position(3), ReadLimits::default(), Duration::from_secs(5)).await;
    let nothing = nothing.expect("in time");
    assert!(nothing.is_empty() && nothing.up_to_date && !nothing.eof);
}

#[tokio::test(start_paused = true)]
async fn the_last_bytes_come_before_the_end() {
    let (_, p) = one();
    let id = p.new_stream("/a", "").await;
    let streams = p.streams.clone();
    let reader = tokio::spawn(async move {
        let limits = ReadLimits::default();
        let mut from = Position(0);
        let mut got = String::new();
        loop {
            let read = streams.follow(id, from, limits, Duration::from_secs(60)).await.expect("data");
            let end = read.eof;
            from = read.next;
            got.push_str(&bytes_of(read).await.expect("bytes"));
            if end {
                return got;
            }
        }
    });
    super::pause(Duration::from_secs(1)).await;
    p.put(id, "first").await;
    let last = p.streams.append(id, Append { eof: true, ..text("last") }).await.expect("closed");
    assert!(last.eof);
    assert_eq!(reader.await.expect("no panic"), "firstlast");
    let closed = Err(StreamError::Closed { tail: Position(9) });
    assert_eq!(p.streams.append(id, text("more")).await, closed);
    p.streams.close(id).await.expect("let go");
    assert_eq!(p.streams.append(id, text("more")).await, closed, "also after it was closed and revived");
    let read = p.streams.read(id, From::Now, ReadLimits::default()).await.expect("the end");
    assert!(read.is_empty() && read.eof && read.up_to_date);
}

#[tokio::test(start_paused = true)]
async fn positions_outside_are_refused() {
    let (_, p) = one();
    let id = p.new_stream("/a", "abc").await;
    for open in [false, true] {
        if open {
            p.streams.open(id).await.expect("opens");
        }
        let read = |at| p.streams.read(id, From::At(Position(at)), ReadLimits::default());
        assert_eq!(read(4).await.err(), Some(StreamError::BeyondTail { tail: Position(3) }));
        assert_eq!(read(u64::MAX).await.err(), Some(StreamError::BeyondTail { tail: Position(3) }));
        assert_eq!(bytes_of(read(1).await.expect("inside")).await.expect("bytes"), "bc");
        assert!(read(3).await.expect("the tail").up_to_date);
    }
    let no = StreamId(99);
    assert_eq!(
        p.streams.read(no, From::Start, ReadLimits::default()).await.err(),
        Some(StreamError::NotFound)
    );
    assert_eq!(p.streams.append(no, text("x")).await, Err(StreamError::NotFound));
    assert_eq!(p.streams.info(no).await, Err(StreamError::NotFound));
    assert_eq!(p.streams.delete(no).await, Err(StreamError::NotFound));
}

#[tokio::test(start_paused = true)]
async fn reads_end_where_appends_end() {
    let (_, p) = one();
    let id = p.new_stream("/a", "").await;
    for word in ["one", "three", "fifteen"] {
        p.put(id, word).await;
    }
    let limits = ReadLimits { bytes: 4 };
    let mut from = From::Start;
    let mut words = Vec::new();
    for _ in 0..3 {
        let read = p.streams.read(id, from, limits).await.expect("a read");
        assert_eq!(read.up_to_date, read.next == Position(15));
        from = From::At(read.next);
        words.push(bytes_of(read).await.expect("bytes"));
    }
    assert_eq!(words, ["one", "three", "fifteen"]);
}

#[tokio::test(start_paused = true)]
async fn deleted_streams_are_gone_and_their_names_are_free() {
    let (_, p) = one();
    let (open, closed) = (p.new_stream("/open", "").await, p.new_stream("/closed", "x").await);
    p.put(open, "bytes").await;
    let waiting = tokio::spawn({
        let streams = p.streams.clone();
        async move {
            streams.follow(open, Position(5), ReadLimits::default(), Duration::from_secs(60)).await.err()
        }
    });
    super::pause(Duration::from_millis(10)).await;
    for id in [open, closed] {
        p.streams.delete(id).await.expect("deleted");
        assert_eq!(p.streams.append(id, text("x")).await, Err(StreamError::NotFound));
        assert_eq!(p.streams.delete(id).await, Err(StreamError::NotFound));
    }
    assert_eq!(waiting.await.expect("no panic"), Some(StreamError::NotFound));
    let again = p.new_stream("/open", "").await;
    assert_ne!(again, open);
    assert_eq!(p.all(again).await, "");
}

#[tokio::test(start_paused = true)]
async fn streams_end_by_themselves() {
    let (cluster, p) = one();
    let ttl = Create { expiry: Expiry::Ttl(10), ..create("/ttl", "x") };
    let Ok(Created::New(info)) = p.streams.create(ttl.clone()).await else { panic!() };
    let id = info.id;
    for _ in 0..5 {
        super::pause(Duration::from_secs(8)).await;
        assert_eq!(p.all(id).await, "x", "each read renews it");
    }
    super::pause(Duration::from_secs(8)).await;
    p.streams.info(id).await.expect("alive, not renewed");
    super::pause(Duration::from_secs(3)).await;
    assert_eq!(p.streams.info(id).await, Err(StreamError::NotFound));
    super::pause(Duration::from_secs(1)).await;
    assert!(cluster.view().stream(id).is_none(), "and is deleted");
    let Ok(Created::New(info)) = p.streams.create(ttl.clone()).await else { panic!() };
    let again = info.id;
    p.streams.close(again).await.expect("closed");
    super::pause(Duration::from_secs(11)).await;
    let other = Create { content_type: "text/html".into(), ..create("/ttl", "") };
    assert!(matches!(p.streams.create(other).await, Ok(Created::New(_))), "an expired name is free");
    assert!(p.streams.counters().expirations >= 2);
}

#[tokio::test(start_paused = true)]
async fn a_live_reader_keeps_a_ttl_from_running_out() {
    let (_, p) = one();
    let ttl = Create { expiry: Expiry::Ttl(3), ..create("/ttl", "x") };
    let Ok(Created::New(info)) = p.streams.create(ttl).await else { panic!() };
    let wait = Duration::from_secs(60);
    let read = p.streams.follow(info.id, Position(1), ReadLimits::default(), wait).await.expect("alive");
    assert!(read.is_empty());
    super::pause(Duration::from_secs(2)).await;
    p.streams.info(info.id).await.expect("alive");
    super::pause(Duration::from_secs(2)).await;
    assert_eq!(p.streams.info(info.id).await, Err(StreamError::NotFound));
}

#[tokio::test(start_paused = true)]
async fn small_runs_are_joined() {
    let often =
        Options { commit_age: Duration::from_millis(10), compact_every: Duration::from_secs(1), ..options() };
    let (cluster, p) = with(often);
    let id = p.new_stream("/a", "head").await;
    let mut expected = "head".to_owned();
    for i in 0..100 {
        let word = format!("<{i}>");
        p.put(id, &word).await;
        expected.push_str(&word);
        super::pause(Duration::from_millis(50)).await;
    }
    super::pause(Duration::from_secs(3)).await;
    assert!(p.streams.counters().commits > 50);
    assert!(p.streams.counters().compactions >= 2);
    let view = cluster.view();
    let stream = view.stream(id).expect("it");
    assert!(stream.runs.len() < 20, "{}", stream.runs.len());
    p.streams.close(id).await.expect("closes");
    assert_eq!(p.all(id).await, expected);
    assert!(view.unlinked().count() > 50, "what was joined can be collected");
}

#[tokio::test(start_paused = true)]
async fn the_number_of_open_streams_is_bounded() {
    let (_, p) = with(Options { max_open: 8, ..options() });
    let mut ids = Vec::new();
    for i in 0..40 {
        let id = p.new_stream(&format!("/{i}"), "").await;
        p.put(id, &format!("{i}")).await;
        assert!(p.streams.open_count() <= 8);
        ids.push(id);
    }
    assert!(p.streams.counters().room_closes >= 32);
    for (i, id) in ids.into_iter().enumerate() {
        assert_eq!(p.all(id).await, i.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_open_streams_append_and_durable_bytes_are_read() {
    let (_, p) = one();
    let (open, closed) = (p.new_stream("/open", "").await, p.new_stream("/closed", "x").await);
    p.put(open, "a").await;
    p.log.quorum.store(false, Ordering::SeqCst);
    p.put(open, "b").await;
    assert_eq!(p.all(open).await, "ab", "freshness is proven through the store");
    assert!(p.streams.counters().proofs > 0);
    let unavailable = |error: Option<StreamError>| matches!(error, Some(StreamError::Unavailable { .. }));
    assert!(unavailable(p.streams.info(closed).await.err()));
    assert!(unavailable(p.streams.append(closed, text("y")).await.err()));
    assert!(unavailable(p.streams.create(create("/new", "")).await.err()));
    assert!(unavailable(p.streams.read(closed, From::Start, ReadLimits::default()).await.err()));
    p.log.quorum.store(true, Ordering::SeqCst);
    p.put(closed, "y").await;
    assert_eq!(p.all(closed).await, "xy");
}

#[tokio::test(start_paused = true)]
async fn lost_answers_change_nothing() {
    let (cluster, p) = with(Options { commit_age: Duration::from_millis(50), ..options() });
    let id = p.new_stream("/a", "").await;
    for round in 0..5 {
        p.log.lose_answers.store(0, Ordering::SeqCst);
        p.put(id, "x").await;
        p.log.lose_answers.store(3, Ordering::SeqCst);
        p.streams.close(id).await.expect("closes");
        assert_eq!(ownership(&cluster, id), Ownership::Closed(NodeId(1)), "round {round}");
        assert_eq!(p.streams.open_count(), 0);
    }
    p.log.lose_answers.store(0, Ordering::SeqCst);
    assert_eq!(p.all(id).await, "xxxxx");
    p.streams.open(id).await.expect("opens");
    p.log.lose_answers.store(2, Ordering::SeqCst);
    p.streams.delete(id).await.expect("deletes");
}

#[tokio::test(start_paused = true)]
async fn appends_wait_for_memory_and_then_are_told_so() {
    let (_, p) = with(Options { uncommitted_bytes: 4096, wait: Duration::from_secs(1), ..options() });
    let id = p.new_stream("/a", "").await;
    p.log.quorum.store(true, Ordering::SeqCst);
    p.streams.open(id).await.expect("opens");
    p.log.quorum.store(false, Ordering::SeqCst);
    let body = Bytes::from(vec![b'x'; 1000]);
    let mut taken = 0;
    let error = loop {
        match p.streams.append(id, Append { body: Ok(body.clone()), ..text("") }).await {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StreamError::Unavailable { .. }), "{error}");
    assert_eq!((taken, p.streams.counters().backpressure), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn an_orderly_end_lets_go_of_everything() {
    let (cluster, p) = one();
    let mut ids = Vec::new();
    for i in 0..20 {
        let id = p.new_stream(&format!("/{i}"), "").await;
        p.put(id, "x").await;
        ids.push(id);
    }
    assert!(p.streams.shutdown(Duration::from_secs(10)).await);
    for id in ids {
        assert_eq!(ownership(&cluster, id), Ownership::Closed(NodeId(1)));
    }
    assert_eq!(p.streams.append(StreamId(1), text("x")).await, Err(StreamError::Fenced));
}
