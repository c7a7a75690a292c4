//! A node that is gone, hangs or is sent away: others take its streams over, nobody is asked, and
//! nothing that was acknowledged is lost or doubled.

use crate::common::{cluster, placed_stream, reads_everywhere};
use anyhow::{Context, Result, bail, ensure};
use headwater_harness::node::Ended;
use headwater_harness::wait::SOON;
use headwater_harness::{Builder, Client, Cluster, Node, eventually, run};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

fn builder() -> Builder {
    cluster().arg("--evict-after", "1s")
}

/// Lines that clients sent, each one once, and which of them were acknowledged.
#[derive(Default)]
struct Lines {
    sent: u64,
    acked: BTreeSet<u64>,
}

impl Lines {
    fn next(&mut self) -> (u64, String) {
        self.sent += 1;
        (self.sent, format!("line {:06}\n", self.sent))
    }

    /// Sends a line once, with a short patience: without an answer it may be there or not.
    async fn append(&mut self, client: &Client, url: String) -> Result<()> {
        let (number, line) = self.next();
        ensure!(post(client, url, line).await?, "refused");
        self.acked.insert(number);
        Ok(())
    }

    /// Every acknowledged line is there once, no other one twice, and all nodes say the same.
    async fn judge(&self, cluster: &Cluster, stream: &str, first: &str) -> Result<()> {
        let node = cluster.running().next().context("no node runs")?;
        let read = eventually("a whole read", || cluster_read(cluster, node, stream)).await?;
        let lines = read.strip_prefix(first).context("the first record")?;
        let mut found = BTreeSet::new();
        for line in lines.lines() {
            let number = line.strip_prefix("line ").and_then(|n| n.parse::<u64>().ok());
            let number = number.with_context(|| format!("not a line: {line:?}"))?;
            ensure!(found.insert(number), "line {number} is there twice");
        }
        let lost: Vec<_> = self.acked.difference(&found).collect();
        ensure!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        reads_everywhere(cluster, stream, read.as_bytes()).await
    }
}

async fn cluster_read(cluster: &Cluster, node: &Node, stream: &str) -> Result<String> {
    Ok(String::from_utf8(cluster.client().read_all(&node.url(stream)).await?.into())?)
}

/// Whether it was acknowledged.
async fn post(client: &Client, url: String, line: String) -> Result<bool> {
    let request = client.post(url).content_type("application/octet-stream").body(line);
    Ok(request.limit(Duration::from_secs(3)).follow().await?.status.is_success())
}

async fn owned_by(cluster: &Cluster, owner: u64, stream: &str) -> Result<String> {
    placed_stream(cluster, cluster.node(1), stream).await?;
    if cluster.owner(stream).await? != Some(owner) {
        let to = json!({ "stream": stream, "to": owner });
        cluster.node(1).admin().post("/admin/transfer", &to).await?.expect(202)?;
        eventually("the transfer", || async {
            let shown = cluster.node(1).admin().stream(stream).await?;
            ensure!(shown["owner"] == owner && shown["transfer"].is_null(), "{shown}");
            Ok(())
        })
        .await?;
    }
    Ok(format!("first of {stream}\n"))
}

async fn leader(cluster: &Cluster) -> Result<u64> {
    eventually("a leader", || async {
        let node = cluster.running().next().context("no node runs")?;
        node.admin().cluster().await?["leader"].as_u64().context("no leader")
    })
    .await
}

/// The sum of a counter over the nodes that answer.
async fn counted(cluster: &Cluster, name: &str, except: u64) -> Result<f64> {
    let mut sum = 0.0;
    for node in cluster.running().filter(|node| node.id() != except) {
        sum += node.admin().metric(name).await?;
    }
    Ok(sum)
}

async fn epoch(cluster: &Cluster, through: u64, id: u64) -> Result<u64> {
    cluster.node(through).admin().node(id).await?["epoch"].as_u64().context("no epoch")
}

/// Sends lines through a node until one is acknowledged.
async fn takes_appends(cluster: &Cluster, lines: &mut Lines, url: String) -> Result<Duration> {
    let begun = Instant::now();
    loop {
        match lines.append(cluster.client(), url.clone()).await {
            Ok(()) => return Ok(begun.elapsed()),
            Err(why) if begun.elapsed() > SOON => bail!("no append after {SOON:?}: {why:#}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn killed(cluster: &Cluster, owner: u64, stream: &str) -> Result<()> {
    let first = owned_by(cluster, owner, stream).await?;
    let mut lines = Lines::default();
    for _ in 0..20 {
        lines.append(cluster.client(), cluster.url(owner, stream)).await?;
    }
    let before = epoch(cluster, owner, owner).await?;
    cluster.node(owner).kill().await?;
    let other = cluster.other_than(owner)?;
    let took = takes_appends(cluster, &mut lines, other.url(stream)).await?;
    println!("{stream} took appends again {took:?} after its owner was killed");
    ensure!(cluster.owner(stream).await? != Some(owner), "the owner is still {owner}");
    ensure!(counted(cluster, "headwater_raft_evictions_proposed_total", owner).await? >= 1.0, "no eviction");
    ensure!(counted(cluster, "headwater_stream_recoveries_total", owner).await? >= 1.0, "no recovery");
    cluster.node(owner).start().await?;
    ensure!(epoch(cluster, owner, owner).await? > before, "the epoch is still {before}");
    lines.append(cluster.client(), cluster.url(owner, stream)).await?;
    lines.judge(cluster, stream, &first).await?;
    cluster.settled().await?;
    Ok(())
}

#[test]
fn a_killed_owner_is_replaced_unattended_whether_it_led_or_not() {
    run(async {
        let cluster = builder().start().await?;
        let leads = leader(&cluster).await?;
        killed(&cluster, 1 + leads % 3, "/failover/follower").await.context("not the leader")?;
        let leads = leader(&cluster).await?;
        killed(&cluster, leads, "/failover/leader").await.context("the leader")
    });
}

/// Stops the owner where the fail point is, with appends in flight, lets others take over, wakes it up.
async fn paused(cluster: &Cluster, owner: u64, stream: &str, point: &str) -> Result<()> {
    let first = owned_by(cluster, owner, stream).await?;
    let mut lines = Lines::default();
    for _ in 0..10 {
        lines.append(cluster.client(), cluster.url(owner, stream)).await?;
    }
    let node = cluster.node(owner);
    let before = epoch(cluster, owner, owner).await?;
    let passed = node.admin().hits(point).await?;
    node.admin().arm(point, "sleep:1000").await?;
    let mut flying = JoinSet::new();
    for _ in 0..20 {
        let ((number, line), url) = (lines.next(), node.url(stream));
        flying.spawn(async move {
            let client = Client::new();
            let request = client.post(url).content_type("application/octet-stream").body(line);
            (number, request.send().await)
        });
    }
    eventually("an append at the fail point", || async {
        ensure!(node.admin().hits(point).await? > passed, "nobody is there");
        Ok(())
    })
    .await?;
    node.pause()?;
    let other = 1 + owner % 3;
    takes_appends(cluster, &mut lines, cluster.url(other, stream)).await?;
    for _ in 0..100 {
        takes_appends(cluster, &mut lines, cluster.url(other, stream)).await?;
    }
    ensure!(counted(cluster, "headwater_raft_evictions_proposed_total", owner).await? >= 1.0, "no eviction");
    ensure!(counted(cluster, "headwater_stream_recoveries_total", owner).await? >= 1.0, "no recovery");
    node.resume()?;
    let mut answers = Vec::new();
    while let Some(flown) = flying.join_next().await {
        let (number, answer) = flown?;
        if let Ok(answer) = answer {
            if answer.status.is_success() {
                lines.acked.insert(number);
            }
            answers.push(answer.status.as_u16());
        }
    }
    println!("{point}: those in flight were answered {answers:?}");
    eventually("the owner registers again", || async {
        node.admin().ready().await?;
        let now = epoch(cluster, other, owner).await?;
        ensure!(now > before, "its epoch is still {now}");
        Ok(())
    })
    .await?;
    node.admin().arm(point, "off").await?;
    ensure!(node.poll_exit().is_none(), "the process ended");
    takes_appends(cluster, &mut lines, node.url(stream)).await?;
    lines.judge(cluster, stream, &first).await?;
    cluster.settled().await?;
    Ok(())
}

#[test]
fn own_03_a_paused_owner_wakes_up_and_acknowledges_nothing_that_is_not_in_the_stream() {
    run(async {
        let cluster = builder().start().await?;
        let owner = 1 + leader(&cluster).await? % 3;
        for (round, point) in ["store.wal.before_put", "store.wal.after_put"].into_iter().enumerate() {
            paused(&cluster, owner, &format!("/failover/paused-{round}"), point).await.context(point)?;
        }
        Ok(())
    });
}

#[test]
fn evicting_by_hand_ends_a_session_at_once_and_its_process_registers_again() {
    run(async {
        let cluster = cluster().start().await?;
        let stream = "/failover/by-hand";
        let (owner, other) = (2, 3);
        let first = owned_by(&cluster, owner, stream).await?;
        let mut lines = Lines::default();
        for _ in 0..10 {
            lines.append(cluster.client(), cluster.url(owner, stream)).await?;
        }
        let before = epoch(&cluster, other, owner).await?;
        // A reader that waits at the owner is sent away, not left hanging.
        let live = cluster.url(owner, &format!("{stream}?offset=now&live=sse"));
        let reader = tokio::spawn(async move { Client::new().get(live).send().await.map(|a| a.status) });
        eventually("the reader", || async {
            ensure!(cluster.node(owner).admin().metric("headwater_http_live_readers").await? >= 1.0, "none");
            Ok(())
        })
        .await?;
        let evict = cluster.client().delete(format!("{}/admin/nodes/{owner}", admin(cluster.node(other))));
        evict.send().await?.expect(200)?;
        tokio::time::timeout(SOON, reader).await.context("the reader hangs")??.ok();
        eventually("the node registers again", || async {
            let now = epoch(&cluster, other, owner).await?;
            ensure!(now > before, "its epoch is still {now}");
            cluster.node(owner).admin().ready().await
        })
        .await?;
        takes_appends(&cluster, &mut lines, cluster.url(other, stream)).await?;
        lines.judge(&cluster, stream, &first).await?;
        cluster.settled().await?;
        // Without leave to register again the process ends.
        let node = cluster.node(owner);
        node.terminate().await?;
        node.configure(|settings| settings.args.push("--no-rejoin".to_owned()));
        node.start().await?;
        let evict = cluster.client().delete(format!("{}/admin/nodes/{owner}", admin(cluster.node(other))));
        evict.send().await?.expect(200)?;
        let ended = node.wait_exit(SOON).await?;
        ensure!(ended == Ended::Code(4), "it ended with {ended:?}");
        Ok(())
    });
}

fn admin(node: &Node) -> String {
    format!("http://127.0.0.1:{}", node.settings().admin_port)
}

#[test]
fn a_recoverer_that_dies_or_hangs_is_followed_by_another() {
    run(async {
        let cluster = builder().start().await?;
        for (round, action) in ["pause", "exit"].into_iter().enumerate() {
            let stream = format!("/failover/recoverer-{round}");
            let owner = 1 + leader(&cluster).await? % 3;
            let first = owned_by(&cluster, owner, &stream).await?;
            let mut lines = Lines::default();
            for _ in 0..10 {
                lines.append(cluster.client(), cluster.url(owner, &stream)).await?;
            }
            let others: Vec<u64> = cluster.ids().into_iter().filter(|id| *id != owner).collect();
            let mut passed = Vec::new();
            for id in &others {
                passed.push(cluster.node(*id).admin().hits("recover.sealed").await?);
                cluster.node(*id).admin().arm("recover.sealed", action).await?;
            }
            cluster.node(owner).kill().await?;
            // Whoever is first stays there; the other one shall get through.
            let at = eventually("a recoverer at the fail point", || async {
                for (at, id) in others.iter().enumerate() {
                    let node = cluster.node(*id);
                    if node.poll_exit().is_some() || !node.is_running() {
                        return Ok(at);
                    }
                    if node.admin().hits("recover.sealed").await? > passed[at] {
                        return Ok(at);
                    }
                }
                bail!("nobody recovers")
            })
            .await?;
            let survivor = cluster.node(others[1 - at]);
            survivor.admin().arm("recover.sealed", "off").await?;
            if action == "exit" {
                let dead = cluster.node(others[at]);
                eventually("its end", || async {
                    ensure!(dead.poll_exit().is_some() || !dead.is_running(), "it lives");
                    Ok(())
                })
                .await?;
                // Two of three are gone: the owner comes back, and it or the other one takes it up.
                cluster.node(owner).start().await?;
            }
            takes_appends(&cluster, &mut lines, survivor.url(&stream)).await?;
            for node in cluster.nodes() {
                if !node.is_running() {
                    node.start().await?;
                }
                node.admin().arm("recover.sealed", "off").await?;
            }
            lines.judge(&cluster, &stream, &first).await.context(action)?;
        }
        cluster.settled().await?;
        Ok(())
    });
}
