//! Writers and readers that go on while faults happen, and write down what they saw.

use crate::cluster::Cluster;
use crate::history::{Event, History, Outcome, RecordId};
use crate::http::Client;
use crate::{checker, eventually};
use anyhow::{Context, Result, anyhow};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How much is written and read.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Number of streams.
    pub streams: u64,
    /// Writers per stream.
    pub writers: u64,
    /// Readers per stream.
    pub readers: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { streams: 4, writers: 2, readers: 1 }
    }
}

/// A load that runs.
pub struct Load {
    history: History,
    streams: Vec<String>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

/// What a task needs to know of the cluster.
#[derive(Clone)]
struct World {
    client: Client,
    bases: Vec<String>,
    history: History,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Creates the streams and starts writers and readers, each on a node of its own choice.
    pub async fn start(cluster: &Cluster, shape: Shape) -> Result<Load> {
        let history = History::default();
        let stop = Arc::new(AtomicBool::new(false));
        let bases: Vec<String> = cluster.nodes().iter().map(crate::Node::base).collect();
        let mut load =
            Load { history: history.clone(), streams: Vec::new(), stop: stop.clone(), tasks: vec![] };
        for number in 0..shape.streams {
            let stream = format!("/load/{number}");
            cluster.client().create(cluster.url(cluster.ids()[0], &stream)).await?;
            for task in 0..shape.writers + shape.readers {
                let (client, bases) = (Client::new(), bases.clone());
                let world = World { client, bases, history: history.clone(), stop: stop.clone() };
                let (stream, who) = (stream.clone(), number * 100 + task);
                load.tasks.push(if task < shape.writers {
                    tokio::spawn(async move { world.write(&stream, who).await })
                } else {
                    tokio::spawn(async move { world.read(&stream, who).await })
                });
            }
            load.streams.push(stream);
        }
        Ok(load)
    }

    /// What was seen so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The streams' paths.
    pub fn streams(&self) -> &[String] {
        &self.streams
    }

    /// Waits until that many more appends were acknowledged.
    pub async fn progress(&self, more: usize) -> Result<()> {
        let goal = self.history.acked() + more;
        eventually(&format!("{more} more acknowledged appends"), || async {
            let acked = self.history.acked();
            (acked >= goal).then_some(()).with_context(|| format!("{acked} of {goal}"))
        })
        .await
    }

    /// Ends writers and readers, reads every stream whole through every running node, and has the
    /// checker judge it all.
    pub async fn judge(self, cluster: &Cluster) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await?;
        }
        for stream in &self.streams {
            for node in cluster.running() {
                let history = &self.history;
                let reader = 1_000_000 + node.id();
                read_whole(cluster.client(), &node.base(), stream, reader, history).await?;
            }
        }
        println!("the load: {}", self.history.summary());
        checker::check(&self.history).map_err(|report| anyhow!("{report}{}", self.history.tail()))
    }
}

async fn read_whole(client: &Client, base: &str, stream: &str, reader: u64, history: &History) -> Result<()> {
    let mut from = "-1".to_owned();
    loop {
        let (next, up_to_date) = eventually(&format!("a read of {stream} through {base}"), || async {
            read_once(client, base, stream, reader, &from, "", history).await
        })
        .await?;
        if up_to_date {
            return Ok(());
        }
        from = next;
    }
}

async fn read_once(
    client: &Client,
    base: &str,
    stream: &str,
    reader: u64,
    from: &str,
    more: &str,
    history: &History,
) -> Result<(String, bool)> {
    let began = history.now();
    let answer = client.get(format!("{base}{stream}?offset={from}{more}")).follow().await?;
    // A long-poll that ran out of time says 204: nothing new, which is a read of nothing.
    anyhow::ensure!(matches!(answer.status.as_u16(), 200 | 204), "a read was answered {}", answer.describe());
    let next = answer.next_offset().context("no Stream-Next-Offset")?.to_owned();
    let up_to_date = answer.up_to_date();
    let (from, body) = (from.to_owned(), answer.text());
    history.record(stream, began, Event::Read { reader, from, next: next.clone(), body, up_to_date });
    Ok((next, up_to_date))
}

impl World {
    fn base(&self, who: u64, turn: u64) -> &str {
        let index = usize::try_from(who + turn).unwrap_or(0) % self.bases.len();
        &self.bases[index]
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    async fn write(&self, stream: &str, writer: u64) {
        let mut turn = 0;
        for number in 0.. {
            if !self.goes_on() {
                return;
            }
            let record = RecordId { writer, number };
            let began = self.history.now();
            let request = self.client.post(format!("{}{stream}", self.base(writer, turn)));
            let answer = request
                .content_type("application/octet-stream")
                .body(record.line())
                .limit(crate::LIVE)
                .follow()
                .await;
            let outcome = match answer {
                Ok(answer) if answer.status.is_success() && answer.next_offset().is_some() => {
                    let next = answer.next_offset().unwrap_or_default().to_owned();
                    Outcome::Acked { next, by: answer.url }
                }
                Ok(answer) => Outcome::Unknown { why: answer.describe() },
                Err(error) => Outcome::Unknown { why: format!("{error:#}") },
            };
            if matches!(outcome, Outcome::Unknown { .. }) {
                // Another node may know better; a pause keeps a refusing cluster from being flooded.
                turn += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            self.history.record(stream, began, Event::Append { record, outcome });
        }
    }

    async fn read(&self, stream: &str, reader: u64) {
        let (mut turn, mut from) = (0, "-1".to_owned());
        while self.goes_on() {
            let base = self.base(reader, turn);
            match read_once(&self.client, base, stream, reader, &from, "", &self.history).await {
                // From the start again now and then, so that the same places are seen twice.
                Ok((_, true)) if turn % 16 == 7 => from = "-1".to_owned(),
                Ok((next, _)) => from = next,
                Err(_) => {}
            }
            turn += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl History {
    /// How much was written, acknowledged and read, for messages.
    fn summary(&self) -> String {
        let (mut appends, mut acked, mut reads) = (0, 0, 0);
        for entry in self.by_stream().into_values().flatten() {
            match entry.event {
                Event::Append { outcome, .. } => {
                    appends += 1;
                    acked += usize::from(matches!(outcome, Outcome::Acked { .. }));
                }
                Event::Read { .. } => reads += 1,
            }
        }
        format!("{appends} appends, {acked} of them acknowledged, {reads} reads")
    }

    /// The failures among the last entries of each stream, for messages.
    fn tail(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for entry in self.by_stream().into_values().flatten() {
            if let Event::Append { outcome: Outcome::Unknown { why }, .. } = entry.event {
                let why: String = why.chars().take(160).collect();
                *counts.entry(why).or_default() += 1;
            }
        }
        let lines = counts.into_iter().take(20).map(|(why, count)| format!("{count} x {why}\n"));
        lines.collect()
    }
}
