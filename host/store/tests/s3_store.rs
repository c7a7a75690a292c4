//! The store over S3's protocol, against a server of a few lines that answers as it is told: what the
//! wire says must come out as what it means.

use headwater_env::Env;
use headwater_metadata::{NodeId, Position, Session, StreamEpoch, StreamId, WalSeq};
use headwater_store::{Kind, Record, Store, Wal, WalOptions};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What the server does before it is itself again, one for each request of that method.
enum Scripted {
    /// Answers so and does nothing.
    Refuse(&'static str, &'static str, &'static str),
    /// Does it, and answers so.
    DoThen(&'static str, &'static str),
    /// Does it, and hangs up.
    DoThenHangUp(&'static str),
}

#[derive(Default)]
struct Server {
    objects: BTreeMap<String, Vec<u8>>,
    script: VecDeque<Scripted>,
    seen: Vec<String>,
}

impl Server {
    fn answer(&mut self, method: &str, path: &str, create: bool, body: Vec<u8>) -> (&'static str, Vec<u8>) {
        match method {
            "PUT" if create && self.objects.contains_key(path) => ("412 Precondition Failed", Vec::new()),
            "PUT" => {
                self.objects.insert(path.to_owned(), body);
                ("200 OK", Vec::new())
            }
            "GET" => match self.objects.get(path) {
                Some(object) => ("200 OK", object.clone()),
                None => ("404 Not Found", Vec::new()),
            },
            _ => ("501 Not Implemented", Vec::new()),
        }
    }
}

/// Serves one connection, request by request.
async fn serve(mut stream: Box<dyn headwater_env::Connection>, server: Arc<Mutex<Server>>) -> Option<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).ok()?.to_ascii_lowercase();
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let length: usize = header("content-length:").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let mut first = head.split(' ');
        let (method, path) = (first.next()?.to_ascii_uppercase(), first.next()?.to_owned());
        let create = header("if-none-match:") == Some("*");
        let (status, extra, answer) = {
            let mut server = server.lock().expect("not poisoned");
            server.seen.push(format!("{method} {path}"));
            let scripted = server.script.front().is_some_and(|next| match next {
                Scripted::Refuse(of, ..) | Scripted::DoThen(of, _) | Scripted::DoThenHangUp(of) => {
                    *of == method
                }
            });
            let next = if scripted { server.script.pop_front() } else { None };
            if let Some(Scripted::Refuse(_, status, extra)) = next {
                (status, extra, Vec::new())
            } else {
                let (status, answer) = server.answer(&method, &path, create, body);
                match next {
                    Some(Scripted::DoThen(_, status)) => (status, "", Vec::new()),
                    Some(_) => return None,
                    None => (status, "", answer),
                }
            }
        };
        let length = answer.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"1\"\r\n\
             Last-Modified: Tue, 01 Dec 2026 00:00:00 GMT\r\n{extra}\r\n"
        );
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.write_all(&answer).await.ok()?;
    }
}

async fn setup() -> (Store, Arc<Mutex<Server>>) {
    let env = Env::real();
    let listener = env.net.bind(([127, 0, 0, 1], 0).into()).await.expect("a port");
    let endpoint = format!("http://{}", listener.local());
    let server = Arc::new(Mutex::new(Server::default()));
    let shared = server.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, shared.clone()));
        }
    });
    let settings = [
        ("AWS_ENDPOINT", endpoint.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", "token"),
        ("PATH", "ignored"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let store = Store::open_with("s3://bucket/some/prefix", env, settings).expect("opened");
    assert_eq!(store.kind(), Kind::S3);
    (store, server)
}

fn script(server: &Mutex<Server>, script: impl IntoIterator<Item = Scripted>) {
    server.lock().expect("not poisoned").script.extend(script);
}

async fn append(wal: &Wal, n: u64) -> WalSeq {
    let record = Record {
        stream: StreamId(1),
        epoch: StreamEpoch(1),
        start: Position(n),
        bytes: "x".into(),
        eof: false,
        meta: "".into(),
    };
    let permit = wal.reserve(record.size()).await.expect("memory");
    wal.submit(permit, record).await.expect("durable")
}

fn start(store: &Store) -> Wal {
    let session = Session { node: NodeId(1), epoch: headwater_metadata::Epoch(9) };
    Wal::start(store, session, 7, WalOptions::default(), Arc::new(()))
}

#[tokio::test]
async fn obj_03_whatever_the_wire_says_a_put_that_was_done_counts_once() {
    let (store, server) = setup().await;
    let wal = start(&store);
    let lost = [
        Scripted::DoThen("PUT", "500 Internal Server Error"),
        Scripted::DoThen("PUT", "409 Conflict"),
        Scripted::DoThen("PUT", "412 Precondition Failed"),
        Scripted::DoThen("PUT", "503 Slow Down"),
        Scripted::DoThenHangUp("PUT"),
    ];
    for (n, lost) in lost.into_iter().enumerate() {
        script(&server, [lost]);
        assert_eq!(append(&wal, n as u64).await, WalSeq(n as u64));
        assert_eq!(store.counters().snapshot().lost_answers, n as u64 + 1);
    }
    let server = server.lock().expect("not poisoned");
    assert_eq!(server.objects.len(), 5);
    let first = "/bucket/some/prefix/wal/1/9/00000000000000000000";
    assert!(server.objects.contains_key(first), "{:?}", server.objects.keys());
}

#[tokio::test]
async fn obj_03_a_put_that_was_not_done_is_repeated() {
    let (store, server) = setup().await;
    let wal = start(&store);
    for (n, status) in
        ["409 Conflict", "500 Internal Server Error", "403 Forbidden", "400 Bad Request"].iter().enumerate()
    {
        script(&server, [Scripted::Refuse("PUT", status, "")]);
        assert_eq!(append(&wal, n as u64).await, WalSeq(n as u64));
    }
    let counters = store.counters().snapshot();
    assert_eq!((counters.lost_answers, counters.retries), (0, 4));
}

#[tokio::test]
async fn obj_01_retry_after_is_obeyed() {
    let (store, server) = setup().await;
    let wal = start(&store);
    let clock = store.env().clock.clone();
    for status in ["503 Slow Down", "429 Too Many Requests"] {
        script(&server, [Scripted::Refuse("PUT", status, "Retry-After: 2\r\n")]);
        let before = (clock.monotonic(), server.lock().expect("not poisoned").seen.len());
        append(&wal, 0).await;
        let waited = clock.monotonic() - before.0;
        assert!(waited >= Duration::from_secs(2), "{waited:?}");
        assert_eq!(server.lock().expect("not poisoned").seen.len() - before.1, 2, "nothing in between");
    }
    assert!(store.counters().snapshot().held_ms > 3_000);
}

#[tokio::test]
async fn obj_09_the_right_that_is_missing_is_named() {
    for (method, right) in [("PUT", "create"), ("GET", "read")] {
        let (store, server) = setup().await;
        script(&server, (0..10).map(|_| Scripted::Refuse(method, "403 Forbidden", "")));
        let error = store.probe().await.expect_err("no right").to_string();
        assert!(error.contains(&format!("refuses to {right}")) && error.contains("403"), "{error}");
    }
    let (store, _) = setup().await;
    let error = store.probe().await.expect_err("this server cannot list").to_string();
    assert!(error.contains("refuses to list"), "{error}");
}
