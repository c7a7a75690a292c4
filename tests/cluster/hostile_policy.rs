//! A policy that gets past the check and misbehaves later: the node goes on, the native rule decides,
//! the fallbacks are counted, and all nodes keep one state.

use crate::common::{cluster, placed_stream, reads_everywhere};
use anyhow::{Context, Result, ensure};
use headwater_guest_build::hostile::{Deed, Entry, When, hostile};
use headwater_harness::{Cluster, run};
use serde_json::Value;

async fn activate(cluster: &Cluster, name: &str, component: Vec<u8>) -> Result<()> {
    let admin = cluster.node(1).admin();
    let pushed = admin.put_policy(name, component.into()).await?;
    let digest = pushed.expect(201)?.json()?["digest"].as_str().context("no digest")?.to_owned();
    admin.activate(&digest).await?;
    cluster.settled().await.map(|_| ())
}

/// The numbers in a value, added up: fallbacks may be shown by cause.
fn total(value: &Value) -> u64 {
    match value {
        Value::Number(number) => number.as_u64().unwrap_or(0),
        Value::Array(list) => list.iter().map(total).sum(),
        Value::Object(map) => map.values().map(total).sum(),
        _ => 0,
    }
}

async fn fallbacks(cluster: &Cluster, id: u64) -> Result<u64> {
    Ok(total(&cluster.node(id).admin().cluster().await?["policy"]["fallbacks"]))
}

/// Whom the native rule chooses next: the fewest streams for its slots, ties to the lowest id.
async fn native_choice(cluster: &Cluster) -> Result<u64> {
    let nodes = cluster.node(1).admin().nodes().await?;
    let load = |n: &Value| (n["assigned"].as_u64().unwrap_or(0), n["id"].as_u64().unwrap_or(0));
    nodes.iter().map(load).min().map(|(_, id)| id).context("no nodes")
}

#[test]
fn a_placement_that_misbehaves_leaves_the_choice_to_the_native_rule() {
    run(async {
        let cluster = cluster().start().await?;
        let deeds = [
            ("loop", Deed::Loop),
            ("recurse", Deed::Recurse),
            ("memory", Deed::Memory),
            ("panic", Deed::Panic),
            ("nobody", Deed::Names(99)),
            ("nonsense", Deed::BadResult),
        ];
        for (index, (name, deed)) in deeds.into_iter().enumerate() {
            activate(&cluster, name, hostile(Entry::Place, deed, When::Provoked)?).await?;
            let through = cluster.node(1 + index as u64 % 3);
            // Unprovoked it decides: the first candidate takes everything.
            ensure!(
                placed_stream(&cluster, through, &format!("/calm/{name}")).await? == 1,
                "{name} is ignored"
            );
            let mut before = Vec::new();
            for id in cluster.ids() {
                before.push(fallbacks(&cluster, id).await?);
            }
            for number in 0..2 {
                let stream = format!("/boom/{name}/{number}");
                let expected = native_choice(&cluster).await?;
                let owner = placed_stream(&cluster, through, &stream).await?;
                ensure!(owner == expected, "{name}: {owner} in place of {expected}");
            }
            cluster.settled().await.with_context(|| format!("after {name}"))?;
            for (id, before) in cluster.ids().into_iter().zip(before) {
                let after = fallbacks(&cluster, id).await?;
                ensure!(after >= before + 2, "{name}: node {id} counts {after} fallbacks after {before}");
            }
        }
        for node in cluster.nodes() {
            ensure!(node.poll_exit().is_none(), "node {} ended", node.id());
        }
        cluster.kill_all().await?;
        cluster.start_all().await?;
        cluster.settled().await?;
        reads_everywhere(&cluster, "/boom/loop/0", b"first of /boom/loop/0\n").await
    });
}

#[test]
fn a_routing_that_misbehaves_is_replaced_by_the_native_rule() {
    run(async {
        let cluster = cluster().start().await?;
        for (name, deed) in [
            ("loop", Deed::Loop),
            ("recurse", Deed::Recurse),
            ("memory", Deed::Memory),
            ("panic", Deed::Panic),
            ("nobody", Deed::Names(99)),
            ("nonsense", Deed::BadResult),
        ] {
            activate(&cluster, name, hostile(Entry::Route, deed, When::Provoked)?).await?;
            // It misbehaves on node 3.
            let before = fallbacks(&cluster, 3).await?;
            let stream = format!("/routed/{name}");
            placed_stream(&cluster, cluster.node(3), &stream).await?;
            let first = format!("first of {stream}\n");
            reads_everywhere(&cluster, &stream, first.as_bytes()).await?;
            let after = fallbacks(&cluster, 3).await?;
            ensure!(after > before, "{name}: node 3 counts {after} fallbacks after {before}");
        }
        cluster.settled().await.map(|_| ())
    });
}

#[test]
fn rte_01_a_policy_that_sends_requests_in_circles_is_stopped() {
    run(async {
        let cluster = cluster().slots(&[0, 0, 1]).start().await?;
        // Node 3 owns everything and is told to send everything to node 1, which sends it back.
        activate(&cluster, "circle", hostile(Entry::Route, Deed::Names(1), When::Provoked)?).await?;
        let stream = "/circle";
        for node in cluster.nodes() {
            for method in ["PUT", "POST", "GET", "HEAD"] {
                let request = cluster.client().request(method, node.url(stream));
                let request = request.content_type("application/octet-stream");
                let request = if method == "POST" { request.body("x") } else { request };
                let answer = request.follow().await?;
                ensure!(answer.hops.len() <= 3, "{method} took {:?}", answer.hops);
                let fine = answer.status.is_success() || matches!(answer.status.as_u16(), 503 | 508);
                ensure!(fine, "{method} through node {}: {}", node.id(), answer.describe());
            }
        }
        cluster.settled().await.map(|_| ())
    });
}
