//! A policy with another rule is pushed and activated under a running cluster: what is placed next
//! follows it on every node, nothing placed moves, no process is restarted, and it outlives restarts.

use crate::common::{cluster, prebuilt, shared};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use headwater_harness::{Cluster, eventually, run};
use serde_json::Value;
use std::collections::BTreeMap;

/// Places that many streams, each through another node, and answers who got them.
async fn place(cluster: &Cluster, prefix: &str, count: u64) -> Result<BTreeMap<String, u64>> {
    let mut owners = BTreeMap::new();
    for number in 0..count {
        let stream = format!("{prefix}/{number}");
        let through = cluster.node(1 + number % 3);
        cluster.client().create(through.url(&stream)).await?;
        cluster.client().append(through.url(&stream), "x").await?;
        let owner = cluster.owner(&stream).await?.context("appended to and without owner")?;
        owners.insert(stream, owner);
    }
    Ok(owners)
}

async fn unmoved(cluster: &Cluster, owners: &BTreeMap<String, u64>) -> Result<()> {
    for (stream, owner) in owners {
        let now = cluster.owner(stream).await?;
        ensure!(now == Some(*owner), "{stream} moved from {owner} to {now:?}");
    }
    Ok(())
}

async fn active(cluster: &Cluster, id: u64) -> Result<Value> {
    Ok(cluster.node(id).admin().cluster().await?["policy"].clone())
}

async fn active_everywhere(cluster: &Cluster, digest: &str) -> Result<()> {
    eventually(&format!("policy {digest} on all nodes"), || async {
        for node in cluster.running() {
            let policy = active(cluster, node.id()).await?;
            ensure!(policy["digest"] == digest, "node {} runs {policy}", node.id());
        }
        Ok(())
    })
    .await
}

#[test]
fn a_policy_is_swapped_under_a_running_cluster() {
    run(async {
        let cluster = cluster().start().await?;
        let epochs: Vec<Value> =
            cluster.node(1).admin().nodes().await?.iter().map(|n| n["epoch"].clone()).collect();
        let built_in = active(&cluster, 1).await?["digest"].as_str().context("no digest")?.to_owned();

        let first = place(&cluster, "/swap/first", 9).await?;
        for id in 1..=3 {
            ensure!(first.values().filter(|o| **o == id).count() == 3, "the built-in rule gave {first:?}");
        }

        let pushed = cluster.node(2).admin().put_policy("highest-id", prebuilt("highest-id")?).await?;
        let digest = pushed.expect(201)?.json()?["digest"].as_str().context("no digest")?.to_owned();
        // Pushed is not active.
        ensure!(active(&cluster, 2).await?["digest"] == built_in.as_str());
        let answer = cluster.node(3).admin().activate(&digest).await?;
        ensure!(answer["digest"] == digest.as_str(), "{answer}");
        ensure!(active(&cluster, 3).await?["digest"] == digest.as_str(), "not active where it was asked");
        active_everywhere(&cluster, &digest).await?;

        let second = place(&cluster, "/swap/second", 9).await?;
        ensure!(second.values().all(|owner| *owner == 3), "the new rule gave {second:?}");
        unmoved(&cluster, &first).await?;
        let now: Vec<Value> =
            cluster.node(1).admin().nodes().await?.iter().map(|n| n["epoch"].clone()).collect();
        ensure!(now == epochs, "a process was restarted");

        // It outlives a restart of every node.
        cluster.kill_all().await?;
        cluster.start_all().await?;
        active_everywhere(&cluster, &digest).await?;
        let third = place(&cluster, "/swap/third", 3).await?;
        ensure!(third.values().all(|owner| *owner == 3), "after the restart it gave {third:?}");
        unmoved(&cluster, &second).await?;

        let answer = cluster.node(1).admin().rollback().await?;
        ensure!(answer["digest"] == built_in.as_str(), "{answer}");
        active_everywhere(&cluster, &built_in).await?;
        let fourth = place(&cluster, "/swap/fourth", 6).await?;
        ensure!(fourth.values().all(|owner| *owner != 3), "after the rollback it gave {fourth:?}");
        unmoved(&cluster, &third).await?;

        cluster.kill_all().await?;
        cluster.start_all().await?;
        active_everywhere(&cluster, &built_in).await?;
        unmoved(&cluster, &fourth).await?;
        cluster.settled().await?;
        Ok(())
    });
}

#[test]
fn what_is_not_a_policy_is_refused_with_the_reason() {
    run(async {
        let admin = shared().node(1).admin();
        for (name, bytes) in [("text", "not a component"), ("module", "\0asm\u{1}\0\0\0")] {
            let answer = admin.put_policy(name, Bytes::from(bytes)).await?.expect(422)?;
            ensure!(answer.header("content-type") == Some("application/problem+json"), "{answer:?}");
            ensure!(!answer.json()?["detail"].is_null(), "{}", answer.describe());
        }
        // Nobody takes the name of the one inside the binary, which is the way back.
        admin.put_policy("least-ratio", prebuilt("highest-id")?).await?.expect(409)?;
        let list = admin.policies().await?;
        ensure!(list["policies"].as_array().is_some_and(|p| p.iter().all(|p| p["name"] != "text")), "{list}");
        Ok(())
    });
}
