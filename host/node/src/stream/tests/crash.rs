//! Crashes between any two requests that a process makes: nothing acknowledged is lost, nothing is
//! there twice.

use super::super::*;
use super::fake::*;
use headwater_metadata::*;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// What a client knows: which appends it sent to a stream, in order, and which were acknowledged where.
#[derive(Default)]
struct Client {
    sent: Vec<(&'static str, String)>,
    acknowledged: BTreeMap<String, Position>,
    ids: BTreeMap<&'static str, StreamId>,
}

fn id_of(cluster: &Cluster, name: &str) -> Option<StreamId> {
    cluster.view().stream_by_name(name).map(|stream| stream.id)
}

/// Does a bit of everything, over and over, until it is dead or done.
async fn work(p: &Process, client: &Mutex<Client>) {
    for (name, body) in [("/a", ""), ("/b", "<b-body>")] {
        if let Ok(Created::New(info)) = p.streams.create(create(name, body)).await {
            let mut client = client.lock();
            client.ids.insert(name, info.id);
            if !body.is_empty() {
                client.acknowledged.insert(body.into(), Position(body.len() as u64));
            }
        }
    }
    let closer = async {
        let a = client.lock().ids.get("/a").copied();
        for pause in [15, 40] {
            super::pause(Duration::from_millis(pause)).await;
            if let Some(a) = a {
                let _ = p.streams.close(a).await;
            }
        }
    };
    tokio::join!(write(p, client, 0, "/a"), write(p, client, 1, "/b"), write(p, client, 2, "/a"), closer);
    let _ = p.streams.shutdown(Duration::from_secs(5)).await;
}

const ROUNDS: u64 = 8;

/// One writer, one append after the other; writer 2 is an idempotent producer.
async fn write(p: &Process, client: &Mutex<Client>, writer: u64, name: &'static str) {
    for round in 0..ROUNDS {
        let Some(id) = client.lock().ids.get(name).copied() else { return };
        let word = format!("<{name}-{writer}-{round}>");
        client.lock().sent.push((name, word.clone()));
        let producer = (writer == 2).then(|| Producer { id: "p".into(), epoch: 0, seq: round });
        if let Ok(appended) = p.streams.append(id, Append { producer, ..text(&word) }).await {
            client.lock().acknowledged.insert(word, appended.tail);
        }
        super::pause(Duration::from_millis(1 + (round + writer) % 4)).await;
    }
}

/// Everything acknowledged is there once, where it was said to be; nothing is there twice.
async fn check(p: &Process, cluster: &Cluster, client: &Client, when: &str) {
    for name in ["/a", "/b"] {
        let Some(id) = id_of(cluster, name) else {
            assert!(!client.ids.contains_key(name), "{when}: {name} is lost");
            continue;
        };
        let all = p.all(id).await;
        for (word, end) in client.acknowledged.iter().filter(|(word, _)| word.contains(&name[1..])) {
            let found: Vec<_> = all.match_indices(word.as_str()).map(|(at, _)| at).collect();
            let at = end.0 as usize - word.len();
            assert_eq!(found, [at], "{when}: {word} in {all}");
        }
        for (_, word) in client.sent.iter().filter(|(to, _)| *to == name) {
            assert!(all.matches(word.as_str()).count() <= 1, "{when}: {word} twice in {all}");
        }
        let words: usize = all.matches('<').count();
        assert!(all.is_empty() || words == all.matches('>').count(), "{when}: torn: {all}");
    }
}

/// How many requests the work makes when nothing goes wrong.
async fn requests(options: &Options) -> i64 {
    let cluster = Cluster::new();
    let crash = Crash::at(1_000_000, false);
    let p = cluster.start(1, 100, options.clone(), crash.clone());
    let client = Mutex::new(Client::default());
    work(&p, &client).await;
    let client = client.into_inner();
    assert_eq!(client.acknowledged.len(), client.sent.len() + 1, "all are taken when nothing fails");
    1_000_000 - crash.requests_left()
}

async fn die_at(request: i64, done: bool, options: &Options) -> (Arc<Cluster>, Process, Client) {
    let cluster = Cluster::new();
    let p = cluster.start(1, 100, options.clone(), Crash::at(request, done));
    let client = Mutex::new(Client::default());
    tokio::select! {
        () = work(&p, &client) => {}
        () = p.crash.died() => {}
    }
    p.crash.now();
    (cluster, p, client.into_inner())
}

fn often() -> Options {
    Options { commit_age: Duration::from_millis(4), ..options() }
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_any_two_requests_loses_nothing() {
    for options in [options(), often()] {
        let total = requests(&options).await;
        assert!(total > 20, "{total}");
        for request in 0..=total {
            for done in [false, true] {
                let when = format!("request {request}, done {done}");
                let (cluster, first, mut client) = die_at(request, done, &options).await;
                let second = cluster.start(1, 200, options.clone(), Crash::never());
                second.streams.recover(first.session).await.expect("recovers");
                check(&second, &cluster, &client, &when).await;
                retry_last(&second, &cluster, &mut client).await;
                check(&second, &cluster, &client, &when).await;
            }
        }
    }
}

/// A producer repeats what it has no answer to, and it is there once.
async fn retry_last(p: &Process, cluster: &Cluster, client: &mut Client) {
    let Some(a) = id_of(cluster, "/a") else { return };
    for round in 0..ROUNDS {
        let word = format!("</a-2-{round}>");
        if !client.sent.iter().any(|(_, sent)| *sent == word) {
            return;
        }
        let producer = Some(Producer { id: "p".into(), epoch: 0, seq: round });
        let appended = p.streams.append(a, Append { producer, ..text(&word) }).await.expect("a repeat");
        if !client.acknowledged.contains_key(&word) && !appended.duplicate {
            client.acknowledged.insert(word, appended.tail);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_recovery_that_dies_anywhere_is_taken_up() {
    let options = options();
    let total = requests(&options).await;
    let at = total / 2;
    for request in 0..40 {
        for done in [false, true] {
            let when = format!("request {request} of the recovery, done {done}");
            let (cluster, first, client) = die_at(at, false, &options).await;
            let second = cluster.start(1, 200, options.clone(), Crash::at(request, done));
            tokio::select! {
                result = second.streams.recover(first.session) => drop(result.expect("recovers")),
                () = second.crash.died() => {}
            }
            second.crash.now();
            let third = cluster.start(2, 300, options.clone(), Crash::never());
            third.streams.recover(first.session).await.expect("recovers");
            let gone = Session { node: NodeId(1), epoch: Epoch(200) };
            cluster.evict(&third, gone);
            third.streams.recover(gone).await.expect("recovers");
            check(&third, &cluster, &client, &when).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_recoveries_at_once_are_harmless() {
    let (cluster, first, client) = die_at(40, false, &options()).await;
    let second = cluster.start(1, 200, options(), Crash::never());
    let third = cluster.start(2, 200, options(), Crash::never());
    let (a, b) = tokio::join!(second.streams.recover(first.session), third.streams.recover(first.session));
    a.expect("recovers");
    b.expect("recovers");
    check(&second, &cluster, &client, "two recoveries").await;
}
