//! `headwater bench`: appends and catch-up reads against a running cluster, with percentiles, and beside
//! them, in the same run, what a bare HTTP answer and a flushed put cost on this machine. Absolute figures
//! belong to a machine; the ratios are what can be compared.
//!
//! It asserts nothing. `client.rs` sends, `floor.rs` measures the machine, `histogram.rs` counts,
//! `report.rs` prints.

mod client;
mod floor;
mod histogram;
mod report;

use super::Exit;
use crate::config::duration;
use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use client::Connection;
use headwater_env::Env;
use histogram::Histogram;
use http::Method;
use report::{Report, Row};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The flags of `headwater bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Any node of the cluster.
    #[arg(long, env = "HEADWATER_URL", value_name = "URL", default_value = "http://127.0.0.1:4437")]
    pub url: String,
    /// Connections, each with one request in flight.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub connections: usize,
    /// Streams that the connections append to in turn.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub streams: usize,
    /// Bytes of a record.
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub size: usize,
    /// How long each measurement lasts.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub duration: Duration,
    /// Create so many streams without a body first, and say how long that takes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub register: usize,
    /// Where the flushed puts are measured; on the file system of the store for a fair ratio.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Write JSON, for scripts.
    #[arg(long)]
    pub json: bool,
}

/// Runs it.
pub async fn run(args: BenchArgs, env: Env) -> anyhow::Result<Exit> {
    ensure!(args.connections > 0 && args.streams > 0, "at least one connection and one stream");
    let args = Arc::new(args);
    let mut report = Report::default();
    let bare = floor::http(&args, &env).await.context("measuring a bare HTTP answer")?;
    report.add("bare HTTP answer", bare);
    for (name, row) in floor::disk(&args, &env)? {
        report.add(name, row);
    }
    let names = Names { prefix: format!("/bench/{}", env.now_ms()) };
    if args.register > 0 {
        report.add("create", register(&args, &env, &names).await?);
    }
    let urls = prepare(&args, &env, &names).await?;
    report.add("append", append(&args, &env, &urls).await?);
    report.add("catch-up read", read(&args, &env, &urls).await?);
    report.print(args.json);
    Ok(Exit::Done)
}

struct Names {
    prefix: String,
}

impl Names {
    fn stream(&self, number: usize) -> String {
        format!("{}/{number}", self.prefix)
    }
}

/// Creates the streams, appends once so that each has an owner, and answers with their URLs there.
async fn prepare(args: &BenchArgs, env: &Env, names: &Names) -> anyhow::Result<Vec<String>> {
    let mut connection = Connection::new(env);
    let mut urls = Vec::new();
    for number in 0..args.streams {
        let url = format!("{}{}", args.url.trim_end_matches('/'), names.stream(number));
        connection.call(Method::PUT, &url, Bytes::new()).await?.expect(&[201])?;
        let first = connection.call(Method::POST, &url, Bytes::from_static(b"first")).await?;
        urls.push(first.expect(&[200, 204])?.url);
    }
    Ok(urls)
}

async fn register(args: &Arc<BenchArgs>, env: &Env, names: &Names) -> anyhow::Result<Row> {
    let base = args.url.trim_end_matches('/').to_owned();
    let urls: Vec<String> =
        (0..args.register).map(|number| format!("{base}{}/{number}", names.stream(0))).collect();
    let urls = Arc::new(urls);
    let connections = args.connections;
    each_connection(args, env, move |lane, env| {
        let urls = urls.clone();
        async move {
            let (mut connection, mut row) = (Connection::new(&env), Row::default());
            for url in urls.iter().skip(lane).step_by(connections) {
                let start = env.clock.monotonic();
                let answer = connection.call(Method::PUT, url, Bytes::new()).await;
                row.count(answer.and_then(|a| a.expect(&[201])), env.clock.monotonic() - start, 0);
            }
            row
        }
    })
    .await
}

async fn append(args: &Arc<BenchArgs>, env: &Env, urls: &[String]) -> anyhow::Result<Row> {
    let (urls, body) = (Arc::new(urls.to_vec()), Bytes::from(vec![b'x'; args.size]));
    let (duration, connections) = (args.duration, args.connections);
    each_connection(args, env, move |lane, env| {
        let (urls, body) = (urls.clone(), body.clone());
        async move {
            let (mut connection, mut row) = (Connection::new(&env), Row::default());
            let end = env.clock.monotonic() + duration;
            for number in (lane..).step_by(connections) {
                let start = env.clock.monotonic();
                if start >= end {
                    break;
                }
                let answer = connection.call(Method::POST, &urls[number % urls.len()], body.clone()).await;
                let time = env.clock.monotonic() - start;
                row.count(answer.and_then(|a| a.expect(&[200, 204])), time, body.len());
            }
            row
        }
    })
    .await
}

async fn read(args: &Arc<BenchArgs>, env: &Env, urls: &[String]) -> anyhow::Result<Row> {
    let urls = Arc::new(urls.to_vec());
    let (duration, connections) = (args.duration, args.connections);
    each_connection(args, env, move |lane, env| {
        let urls = urls.clone();
        async move {
            let (mut connection, mut row) = (Connection::new(&env), Row::default());
            let end = env.clock.monotonic() + duration;
            let mut number = lane;
            let mut offset = "-1".to_owned();
            loop {
                let start = env.clock.monotonic();
                if start >= end {
                    break row;
                }
                let url = format!("{}?offset={offset}", urls[number % urls.len()]);
                let answer = connection.call(Method::GET, &url, Bytes::new()).await;
                let time = env.clock.monotonic() - start;
                let answer = answer.and_then(|a| a.expect(&[200]));
                offset = match &answer {
                    Ok(answer) if !answer.up_to_date => answer.next.clone(),
                    _ => "-1".to_owned(),
                };
                if offset == "-1" {
                    number += connections;
                }
                let length = answer.as_ref().map_or(0, |a| a.length);
                row.count(answer, time, length);
            }
        }
    })
    .await
}

/// Runs a lane for each connection at the same time and adds up what they measured.
async fn each_connection<F>(
    args: &BenchArgs,
    env: &Env,
    lane: impl Fn(usize, Env) -> F,
) -> anyhow::Result<Row>
where
    F: Future<Output = Row> + Send + 'static,
{
    let start = env.clock.monotonic();
    let lanes: Vec<_> = (0..args.connections).map(|number| tokio::spawn(lane(number, env.clone()))).collect();
    let mut sum = Row::default();
    for lane in lanes {
        sum.merge(&lane.await?);
    }
    sum.elapsed = env.clock.monotonic() - start;
    ensure!(sum.times.count() > 0, "nothing was answered well: {}", sum.error.unwrap_or_default());
    Ok(sum)
}
