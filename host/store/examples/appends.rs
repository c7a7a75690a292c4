//! Appends per second of one write-ahead log: `appends URL SUBMITTERS SECONDS BYTES files|objects [IN_FLIGHT]`.
//!
//! Each submitter waits for its record before it sends the next, so the groups are what the log makes
//! of them. Prints the rate, the latency, and what the store was asked.

use bytes::Bytes;
use headwater_env::Env;
use headwater_metadata::{Epoch, NodeId, Position, Session, StreamEpoch, StreamId, WalForm};
use headwater_store::{Record, Store, Wal, WalOptions};
use std::sync::Arc;
use std::time::Duration;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |n: usize, default: &str| arguments.get(n).cloned().unwrap_or_else(|| default.into());
    let number = |n: usize, default: &str| text(n, default).parse::<u64>().expect("a number");
    let (url, submitters, seconds, bytes) =
        (text(0, "file:///tmp/headwater-appends"), number(1, "64"), number(2, "3"), number(3, "100"));
    let env = Env::real();
    let store = Store::open(&url, env.clone()).expect("a store");
    let session = Session { node: NodeId(1), epoch: Epoch(env.now_ms()) };
    let wanted = if text(4, "files") == "files" { WalForm::Files } else { WalForm::Objects };
    println!("{:?}", store.prepare_log(session, wanted).await.expect("prepared"));
    let in_flight = arguments.get(5).map(|_| number(5, "1") as usize);
    let options = WalOptions { in_flight, ..WalOptions::default() };
    let wal = Wal::start(&store, session, env.entropy.u128(), options, Arc::new(()));
    let payload = Bytes::from(vec![b'x'; bytes as usize]);
    let begin = env.clock.monotonic();
    let end = begin + Duration::from_secs(seconds);
    let tasks = (0..submitters).map(|stream| {
        let (wal, payload, env) = (wal.clone(), payload.clone(), env.clone());
        tokio::spawn(async move {
            let (mut position, mut waits) = (0, Vec::new());
            while env.clock.monotonic() < end {
                let record = Record {
                    stream: StreamId(stream),
                    epoch: StreamEpoch(1),
                    start: Position(position),
                    bytes: payload.clone(),
                    eof: false,
                    meta: Bytes::new(),
                };
                position += bytes;
                let sent = env.clock.monotonic();
                let permit = wal.reserve(record.size()).await.expect("memory");
                wal.submit(permit, record).await.expect("durable");
                waits.push(env.clock.monotonic() - sent);
            }
            waits
        })
    });
    let mut waits = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        waits.extend(task.await.expect("joined"));
    }
    let took = env.clock.monotonic() - begin;
    waits.sort();
    let percentile = |p: usize| waits.get(waits.len() * p / 100).copied().unwrap_or_default();
    println!(
        "{:.0} appends/s, p50 {:?}, p99 {:?}",
        waits.len() as f64 / took.as_secs_f64(),
        percentile(50),
        percentile(99)
    );
    println!("{:?}", wal.counters());
    println!("{:?}", store.counters().snapshot());
    wal.shutdown().await;
}
