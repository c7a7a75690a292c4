//! Forks, their sources and their ends; and streams that are over and that nobody asks for.

use super::super::*;
use super::fake::*;
use bytes::Bytes;
use headwater_metadata::*;

fn forked(name: &str, source: &str, at: From) -> Create {
    let from = ForkFrom { source: source.into(), at, past: 0, inherits_content_type: true };
    Create { fork: Some(from), ..create(name, "") }
}

fn past(name: &str, source: &str, at: From, past: u64) -> Create {
    let from = ForkFrom { source: source.into(), at, past, inherits_content_type: true };
    Create { fork: Some(from), ..create(name, "") }
}

async fn new(p: &Process, create: Create) -> Info {
    match p.streams.create(create).await {
        Ok(Created::New(info)) => info,
        other => panic!("{other:?}"),
    }
}

async fn refused(p: &Process, create: Create) -> StreamError {
    p.streams.create(create).await.expect_err("refused")
}

fn one() -> (Arc<Cluster>, Process) {
    let cluster = Cluster::new();
    let process = cluster.start(1, 100, options(), Crash::never());
    (cluster, process)
}

#[tokio::test(start_paused = true)]
async fn htp_14_a_chain_of_forks_has_the_bytes_and_offsets_of_its_sources_on_every_node() {
    let (cluster, p) = one();
    let root = p.new_stream("/0", "A").await;
    p.put(root, "B").await;
    let first = new(&p, forked("/1", "/0", From::Now)).await;
    assert_eq!((first.start, first.tail), (Position(0), Position(2)));
    assert_eq!(p.streams.counters().fork_commits, 1, "what the fork stands on is committed");
    p.put(root, "lost to the fork").await;
    assert_eq!(p.put(first.id, "C").await, Position(3));
    p.put(first.id, "D").await;
    let body = Create { body: Bytes::from_static(b"E"), ..forked("/2", "/1", From::At(Position(3))) };
    let second = new(&p, body).await;
    assert_eq!(second.tail, Position(4));
    // Below where its source begins: the source's source has all of it.
    let third = new(&p, forked("/3", "/2", From::At(Position(1)))).await;
    for id in [root, first.id, second.id, third.id] {
        p.streams.close(id).await.expect("closes");
    }
    let two = cluster.start(2, 100, options(), Crash::never());
    for p in [&p, &two] {
        assert_eq!(p.all(first.id).await, "ABCD");
        assert_eq!(p.all(second.id).await, "ABCE");
        assert_eq!(p.all(third.id).await, "A");
        for from in 0..=4 {
            let at = From::At(Position(from));
            let read = p.streams.read(second.id, at, ReadLimits::default()).await.expect("a read");
            assert_eq!((read.next, read.up_to_date), (Position(4), true));
            assert_eq!(bytes_of(read).await.expect("bytes"), "ABCE"[from as usize..]);
        }
        let few = p.streams.read(second.id, From::Start, ReadLimits { bytes: 1 }).await.expect("a read");
        assert_eq!((few.next, few.up_to_date), (Position(1), false), "a read ends where a run ends");
    }
    two.put(first.id, "!").await;
    assert_eq!(two.all(first.id).await, "ABCD!", "objects of others and the own tail in one answer");
}

#[tokio::test(start_paused = true)]
async fn htp_14_what_forks_are_refused_and_what_a_refused_one_leaves() {
    let (cluster, p) = one();
    let source = p.new_stream("/s", "").await;
    p.put(source, "four").await;
    assert_eq!(refused(&p, forked("/f", "/none", From::Now)).await, StreamError::SourceNotFound);
    let tail = Position(4);
    let beyond = forked("/f", "/s", From::At(Position(5)));
    assert_eq!(refused(&p, beyond).await, StreamError::BeyondTail { tail });
    let beyond = past("/f", "/s", From::Start, 5);
    assert_eq!(refused(&p, beyond).await, StreamError::ForkBeyondTail { tail });
    let mut other = forked("/f", "/s", From::Now);
    other.content_type = "text/html".into();
    other.fork.as_mut().expect("a fork").inherits_content_type = false;
    assert!(matches!(refused(&p, other).await, StreamError::ContentType { .. }));
    p.new_stream("/plain", "").await;
    let taken = refused(&p, forked("/plain", "/s", From::Now)).await;
    assert!(matches!(taken, StreamError::ConfigMismatch { .. }), "{taken:?}");
    p.streams.delete(source).await.expect("deletes");
    assert!(cluster.view().stream(source).is_none(), "no reference was left behind");
    assert_eq!(p.streams.counters().forks, 0);
}

#[tokio::test(start_paused = true)]
async fn htp_14_the_same_fork_again_is_the_same_stream() {
    let (_, p) = one();
    let source = p.new_stream("/s", "12345").await;
    let fork = new(&p, forked("/f", "/s", From::Now)).await;
    p.put(source, "6").await;
    for same in [forked("/f", "/s", From::Now), past("/f", "/s", From::At(Position(2)), 3)] {
        let again = p.streams.create(same).await;
        assert!(matches!(&again, Ok(Created::Existing(info)) if info.id == fork.id), "{again:?}");
    }
    p.new_stream("/t", "12345").await;
    for other in [
        forked("/f", "/s", From::At(Position(4))),
        past("/f", "/s", From::At(Position(2)), 2),
        forked("/f", "/t", From::Now),
        create("/f", ""),
        Create { eof: true, ..forked("/f", "/s", From::Now) },
        Create { expiry: Expiry::Ttl(9), ..forked("/f", "/s", From::Now) },
    ] {
        let what = format!("{other:?}");
        assert!(matches!(refused(&p, other).await, StreamError::ConfigMismatch { .. }), "{what}");
    }
    p.streams.delete(source).await.expect("deletes");
    let again = p.streams.create(forked("/f", "/s", From::Now)).await;
    assert!(matches!(again, Ok(Created::Existing(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn sub_offsets_count_messages_in_json_and_bytes_elsewhere() {
    let (_, p) = one();
    let json = |name: &str, body: &'static str| Create {
        content_type: "application/json; charset=utf-8".into(),
        ..create(name, body)
    };
    let source = new(&p, json("/j", r#"{"a":[1,2]},"x,\",y","#)).await;
    let append = Append { content_type: Some("application/json".into()), ..text("3,4,") };
    p.streams.append(source.id, append).await.expect("taken");
    for (n, end) in [(1, 12), (2, 21), (3, 23), (4, 25)] {
        let name = format!("/f{n}");
        let fork = new(&p, past(&name, "/j", From::Start, n)).await;
        assert_eq!((fork.tail, &*fork.content_type), (Position(end), &*source.content_type));
        let again = p.streams.create(past(&name, "/j", From::Start, n)).await;
        assert!(matches!(again, Ok(Created::Existing(_))), "{again:?}");
        let other = refused(&p, past(&name, "/j", From::Start, n % 4 + 1)).await;
        assert!(matches!(other, StreamError::ConfigMismatch { .. }), "{other:?}");
    }
    let short = refused(&p, past("/f5", "/j", From::Start, 5)).await;
    assert_eq!(short, StreamError::ForkBeyondTail { tail: Position(25) });
    let none = refused(&p, past("/f5", "/j", From::At(Position(25)), 1)).await;
    assert_eq!(none, StreamError::ForkBeyondTail { tail: Position(25) });
    p.new_stream("/b", "abcdef").await;
    new(&p, past("/b1", "/b", From::Start, 4)).await;
    let last = new(&p, past("/b2", "/b1", From::At(Position(1)), 1)).await;
    assert_eq!(p.all(last.id).await, "ab");
}

#[tokio::test(start_paused = true)]
async fn a_fork_knows_nothing_of_its_sources_writers_and_starts_open() {
    let (_, p) = one();
    let source = p.new_stream("/s", "").await;
    let producer = Producer { id: "p".into(), epoch: 0, seq: 0 };
    let append =
        Append { producer: Some(producer.clone()), seq: Some("9".into()), eof: true, ..text("hello") };
    p.streams.append(source, append.clone()).await.expect("taken");
    let fork = new(&p, past("/f", "/s", From::Start, 3)).await;
    assert!(!fork.eof);
    let appended = p.streams.append(fork.id, Append { seq: Some("1".into()), ..append }).await;
    assert_eq!(appended.map(|it| (it.duplicate, it.tail)), Ok((false, Position(8))));
    assert_eq!(p.all(fork.id).await, "helhello");
}

#[tokio::test(start_paused = true)]
async fn htp_14_chains_deleted_in_any_order_leave_nothing() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1], [1, 2, 0, 3]] {
        let (cluster, p) = one();
        let mut ids = vec![p.new_stream("/0", "x").await];
        for n in 1..4 {
            ids.push(new(&p, forked(&format!("/{n}"), &format!("/{}", n - 1), From::Now)).await.id);
            p.put(ids[n], "y").await;
        }
        for n in order {
            let before = p.all(ids[3]).await;
            p.streams.delete(ids[n]).await.expect("deletes");
            let kept = cluster.view().stream(ids[n]).is_some();
            let expected = if kept { StreamError::Deleted } else { StreamError::NotFound };
            assert_eq!(p.streams.delete(ids[n]).await, Err(expected.clone()), "{order:?}: {n}");
            assert_eq!(p.streams.info(ids[n]).await.err(), Some(expected.clone()));
            assert_eq!(p.streams.append(ids[n], text("z")).await.err(), Some(expected));
            if kept {
                let name = format!("/{n}");
                assert_eq!(refused(&p, create(&name, "")).await, StreamError::Deleted);
                assert_eq!(refused(&p, forked("/g", &name, From::Now)).await, StreamError::SourceDeleted);
            }
            if n == 3 {
                break;
            }
            assert_eq!(p.all(ids[3]).await, before, "{order:?}: the last fork keeps its bytes");
        }
        let rest = order.iter().skip_while(|n| **n != 3).skip(1);
        for n in rest {
            p.streams.delete(ids[*n]).await.expect("deletes");
        }
        let view = cluster.view();
        assert!(ids.iter().all(|id| view.stream(*id).is_none()), "{order:?}");
        assert_eq!(view.totals().total(), 0);
    }
}

/// The owner dies at each of its requests to the outside while it forks; whoever comes next asks again.
#[tokio::test(start_paused = true)]
async fn htp_14_a_fork_whose_maker_dies_is_there_whole_or_not_at_all() {
    for request in 1..14 {
        for done in [false, true] {
            let cluster = Cluster::new();
            let two = cluster.start(2, 100, options(), Crash::never());
            let source = two.new_stream("/s", "").await;
            let crash = Crash::at(1_000, done);
            let one = cluster.start(1, 100, options(), crash.clone());
            one.put(source, "acknowledged").await;
            crash.die_after(request);
            tokio::select! {
                _ = one.streams.create(forked("/f", "/s", From::Now)) => {}
                () = crash.died() => {}
            }
            crash.now();
            cluster.evict(&two, one.session);
            two.streams.recover(one.session).await.expect("recovers");
            let again = two.streams.create(forked("/f", "/s", From::Now)).await.expect("a fork");
            let (Created::New(fork) | Created::Existing(fork)) = again;
            assert_eq!(two.all(fork.id).await, "acknowledged", "at {request}, done: {done}");
            assert_eq!(cluster.view().stream(source).map(|it| it.forks), Some(1));
            two.streams.delete(source).await.expect("deletes");
            two.streams.delete(fork.id).await.expect("deletes");
            assert_eq!(cluster.view().totals().total(), 0);
            assert!(cluster.view().stream(source).is_none());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn htp_14_forks_at_the_tail_of_a_stream_that_is_written_to() {
    let (_, p) = one();
    let source = p.new_stream("/s", "").await;
    let mut writers = tokio::task::JoinSet::new();
    for w in 0..10 {
        let streams = p.streams.clone();
        writers.spawn(async move {
            for n in 0..20 {
                streams.append(source, text(&format!("<{w}-{n}>"))).await.expect("taken");
            }
        });
    }
    let mut forks = Vec::new();
    for n in 0..10 {
        super::pause(Duration::from_millis(3)).await;
        forks.push(new(&p, forked(&format!("/f{n}"), "/s", From::Now)).await);
    }
    writers.join_all().await;
    let whole = p.all(source).await;
    for fork in forks {
        let all = p.all(fork.id).await;
        assert!(whole.starts_with(&all) && (all.is_empty() || all.ends_with('>')), "{all}");
        assert_eq!(all.len() as u64, fork.tail.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_reader_at_the_fork_point_hears_of_the_forks_own_bytes_only() {
    let (_, p) = one();
    let source = p.new_stream("/s", "source").await;
    let fork = new(&p, forked("/f", "/s", From::Now)).await.id;
    let limits = ReadLimits::default();
    let follow = |from, wait| {
        let streams = p.streams.clone();
        async move { streams.follow(fork, Position(from), limits, wait).await }
    };
    let there = follow(0, Duration::from_secs(9)).await.expect("at once");
    assert_eq!((there.next, there.up_to_date), (Position(6), true));
    let waiting = tokio::spawn(follow(6, Duration::from_secs(9)));
    super::pause(Duration::from_millis(50)).await;
    p.put(source, "not this").await;
    super::pause(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    p.put(fork, "this").await;
    let read = waiting.await.expect("no panic").expect("a read");
    assert_eq!(bytes_of(read).await.expect("bytes"), "this");
}

#[tokio::test(start_paused = true)]
async fn htp_13_a_fork_inherits_its_sources_life_or_has_its_own() {
    let (cluster, p) = one();
    let ttl = Create { expiry: Expiry::Ttl(10), ..create("/s", "data") };
    let source = new(&p, ttl).await.id;
    assert_eq!(new(&p, forked("/same", "/s", From::Now)).await.expiry, Expiry::Ttl(10));
    let own = Create { expiry: Expiry::Ttl(1000), ..forked("/own", "/s", From::Now) };
    let own = new(&p, own).await;
    assert_eq!(own.expiry, Expiry::Ttl(1000));
    super::pause(Duration::from_secs(11)).await;
    assert_eq!(refused(&p, forked("/late", "/s", From::Now)).await, StreamError::SourceNotFound);
    super::pause(Duration::from_secs(1)).await;
    assert!(cluster.view().stream(source).is_some_and(|it| it.deleted), "kept for its forks");
    assert_eq!(p.all(own.id).await, "data");
    assert!(cluster.view().stream_by_name("/same").is_some_and(|it| !it.deleted), "nobody asked for it");
    super::pause(Duration::from_secs(5)).await;
    assert_eq!(p.streams.sweep().await, Ok(1));
    assert!(cluster.view().stream_by_name("/same").is_none());
}

#[tokio::test(start_paused = true)]
async fn htp_13_fifty_thousand_that_end_at_once_are_swept_in_parts() {
    let (cluster, p) = one();
    let now_ms = cluster.env().clock.wall_ms();
    for n in 0..50_000 {
        let create = CreateStream {
            name: format!("/{n}").into(),
            content_type: "text/plain".into(),
            expiry: Expiry::Ttl(5),
            now_ms,
            eof: false,
            body: None,
            fork: None,
        };
        assert!(matches!(p.log.now(Command::CreateStream(create)), Outcome::Applied(_)));
    }
    let used = cluster.view().stream_by_name("/49999").expect("it").id;
    super::pause(Duration::from_secs(4)).await;
    p.put(used, "x").await;
    super::pause(Duration::from_secs(3)).await;
    assert_eq!(p.streams.sweep().await, Ok(0), "clocks may differ a little");
    super::pause(Duration::from_secs(4)).await;
    let mut parts = 0;
    while p.streams.sweep().await.expect("a part") > 0 {
        parts += 1;
    }
    assert!(parts > 300, "{parts}");
    assert_eq!(p.streams.counters().swept, 49_999);
    assert_eq!(cluster.view().totals().total(), 1, "the open one is its owner's to judge");
}
