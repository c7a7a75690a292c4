//! Who gets a stream: exactly by the weights, once, at the first need, and never moved by a weight.

use crate::common::{cluster, shared};
use anyhow::{Context, Result, ensure};
use headwater_harness::{Client, Cluster, run};
use serde_json::json;
use std::collections::BTreeMap;

/// Creates and appends once to each of the streams, sixteen at a time, through all nodes in turn.
async fn fill(cluster: &Cluster, prefix: &str, count: u64) -> Result<()> {
    let bases: Vec<String> = cluster.running().map(headwater_harness::Node::base).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for lane in 0..16_u64 {
        let (bases, prefix) = (bases.clone(), prefix.to_owned());
        tasks.spawn(async move {
            let client = Client::new();
            for number in (lane..count).step_by(16) {
                let base = &bases[usize::try_from(number)? % bases.len()];
                let url = format!("{base}{prefix}/{number}");
                client.create(&url).await?;
                client.append(&url, "once").await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn owners(cluster: &Cluster, prefix: &str) -> Result<BTreeMap<String, u64>> {
    let node = cluster.running().next().context("no node runs")?;
    let mut owners = BTreeMap::new();
    for stream in node.admin().streams(prefix).await? {
        let name = stream["name"].as_str().context("a stream without a name")?.to_owned();
        let owner = stream["owner"].as_u64().with_context(|| format!("no owner: {stream}"))?;
        owners.insert(name, owner);
    }
    Ok(owners)
}

fn counts(owners: &BTreeMap<String, u64>) -> [i64; 3] {
    [1, 2, 3].map(|id| i64::try_from(owners.values().filter(|o| **o == id).count()).unwrap_or(i64::MAX))
}

#[test]
fn a_thousand_streams_follow_the_weights() {
    run(async {
        let cluster = cluster().slots(&[4, 1, 1]).start().await?;
        fill(&cluster, "/weights/first", 1_000).await?;
        let first = owners(&cluster, "/weights/first").await?;
        let got = counts(&first);
        ensure!(first.len() == 1_000, "{} streams are listed", first.len());
        for (got, wanted) in got.into_iter().zip([667, 167, 167]) {
            ensure!((got - wanted).abs() <= 1, "4:1:1 became {:?}", counts(&first));
        }
        // A weight moves nothing that is placed, also not after a restart of the node.
        cluster.node(1).admin().set_node(2, &json!({ "slots": 4 })).await?;
        ensure!(owners(&cluster, "/weights/first").await? == first, "a weight moved what was placed");
        cluster.node(2).restart_hard().await?;
        cluster.node(2).wait_ready().await?;
        let node = cluster.node(2).admin().node(2).await?;
        ensure!(node["slots"] == 4, "the restart set the weight back: {node}");
        // 4:4:1 of 1,300 are 578, 578 and 144: node 3 has too many already, the others fill up.
        fill(&cluster, "/weights/second", 300).await?;
        let second = owners(&cluster, "/weights/second").await?;
        ensure!(counts(&second) == [0, 300, 0], "the next ones went to {:?}", counts(&second));
        ensure!(owners(&cluster, "/weights/first").await? == first, "the second filling moved the first");
        cluster.settled().await?;
        Ok(())
    });
}

#[test]
fn a_put_without_a_body_places_nothing() {
    run(async {
        let cluster = shared();
        let stream = "/placement/put-only";
        cluster.client().create(cluster.url(2, stream)).await?;
        let shown = cluster.node(2).admin().stream(stream).await?;
        ensure!(shown["ownership"] == "unplaced" && shown["owner"].is_null(), "{shown}");
        let head = cluster.client().head(cluster.url(3, stream)).follow().await?.expect(200)?;
        ensure!(head.hops.is_empty(), "an unplaced stream is inspected where it is asked: {:?}", head.hops);
        let read = cluster.client().get(cluster.url(3, &format!("{stream}?offset=-1"))).follow().await?;
        ensure!(read.expect(200)?.body.is_empty());
        let shown = cluster.node(2).admin().stream(stream).await?;
        ensure!(shown["ownership"] == "unplaced", "reading placed it: {shown}");
        cluster.client().append(cluster.url(2, stream), "first").await?;
        let shown = cluster.node(2).admin().stream(stream).await?;
        ensure!(shown["ownership"] == "opened" && shown["owner"].is_u64(), "{shown}");
        Ok(())
    });
}

#[test]
fn two_nodes_that_race_to_place_a_stream_agree() {
    run(async {
        let cluster = shared();
        let rounds = 1_000_u64;
        let mut tasks = tokio::task::JoinSet::new();
        for lane in 0..8 {
            let bases = [cluster.node(1).base(), cluster.node(2).base(), cluster.node(3).base()];
            tasks.spawn(async move {
                let client = Client::new();
                for number in (lane..rounds).step_by(8) {
                    let stream = format!("/race/{number}");
                    client.create(format!("{}{stream}", bases[0])).await?;
                    let (one, two) = tokio::join!(
                        client.append(format!("{}{stream}", bases[1]), "b"),
                        client.append(format!("{}{stream}", bases[2]), "c"),
                    );
                    let (one, two) = (one?, two?);
                    ensure!(one.next_offset() != two.next_offset(), "two acknowledgements at one place");
                    let read = client.read_all(&format!("{}{stream}", bases[0])).await?;
                    ensure!(read == "bc" || read == "cb", "{stream} holds {read:?}");
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        cluster.settled().await?;
        let mut second = 0.0;
        for node in cluster.nodes() {
            second += node.admin().metric("headwater_http_places_redundant_total").await?;
        }
        ensure!(second > 0.0, "no placement came second: nobody raced");
        let mut views = Vec::new();
        for node in cluster.nodes() {
            let mut owners = BTreeMap::new();
            for stream in node.admin().streams("/race/").await? {
                ensure!(stream["epoch"] == 1, "opened more than once: {stream}");
                owners.insert(stream["name"].to_string(), stream["owner"].as_u64());
            }
            ensure!(owners.len() == usize::try_from(rounds)?, "{} streams are listed", owners.len());
            views.push(owners);
        }
        ensure!(views.windows(2).all(|pair| pair[0] == pair[1]), "the nodes name different owners");
        Ok(())
    });
}
