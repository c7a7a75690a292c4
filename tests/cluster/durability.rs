//! `kill -9` at any moment of a write load, one node or all, on both stores: every acknowledged append
//! is there, once, in order, and nothing is served that was not durable.
//!
//! Five rounds; more with `HEADWATER_ROUNDS=50 cargo test --release --features faults --test cluster durability`.

use crate::common::cluster;
use anyhow::{Result, ensure};
use headwater_harness::load::{Load, Shape};
use headwater_harness::s3::{Effect, Rule};
use headwater_harness::{Builder, Cluster, Store, run};

fn rounds() -> u64 {
    std::env::var("HEADWATER_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(5)
}

/// How far the load gets between two kills: another number each time, the same in every run.
fn distance(round: u64) -> usize {
    1 + usize::try_from(round * 7919 % 97).unwrap_or(0)
}

fn builder(store: Store) -> Builder {
    cluster().store(store).arg("--idle-close", "2s")
}

async fn kill_one_at_a_time(cluster: &Cluster) -> Result<()> {
    let load = Load::start(cluster, Shape::default()).await?;
    load.progress(50).await?;
    for round in 0..rounds() {
        let victim = cluster.node(1 + round % 3);
        load.progress(distance(round)).await?;
        victim.restart_hard().await?;
        victim.wait_ready().await?;
    }
    load.progress(50).await?;
    load.judge(cluster).await?;
    cluster.settled().await?;
    Ok(())
}

async fn kill_all_at_once(cluster: &Cluster) -> Result<()> {
    let load = Load::start(cluster, Shape::default()).await?;
    load.progress(50).await?;
    for round in 0..rounds() {
        load.progress(distance(round)).await?;
        cluster.kill_all().await?;
        cluster.start_all().await?;
    }
    load.progress(50).await?;
    load.judge(cluster).await?;
    cluster.settled().await?;
    Ok(())
}

#[test]
fn kill_9_of_one_node_loses_nothing_on_file() {
    run(async { kill_one_at_a_time(&builder(Store::File).start().await?).await });
}

#[test]
fn kill_9_of_all_nodes_loses_nothing_on_file() {
    run(async { kill_all_at_once(&builder(Store::File).start().await?).await });
}

#[test]
fn kill_9_of_one_node_loses_nothing_on_s3() {
    run(async {
        let cluster = builder(Store::S3).start().await?;
        cluster.store_proxy()?.plant(vec![Rule::puts(Effect::LoseAnswer).percent(3)]);
        kill_one_at_a_time(&cluster).await
    });
}

#[test]
fn kill_9_of_all_nodes_loses_nothing_on_s3() {
    run(async { kill_all_at_once(&builder(Store::S3).start().await?).await });
}

#[test]
fn obj_03_a_put_whose_answer_is_lost_or_wrong_was_still_a_put() {
    run(async {
        let cluster = builder(Store::S3).start().await?;
        let proxy = cluster.store_proxy()?;
        let load = Load::start(&cluster, Shape::default()).await?;
        load.progress(50).await?;
        let epochs = epochs(&cluster).await?;
        for effect in
            [Effect::LoseAnswer, Effect::AnswerAfter(500), Effect::AnswerAfter(409), Effect::AnswerAfter(412)]
        {
            let before = proxy.met();
            proxy.plant(vec![Rule::puts(effect).percent(20)]);
            load.progress(150).await?;
            ensure!(proxy.met() > before, "no put met {effect:?}");
        }
        proxy.mend();
        load.progress(50).await?;
        load.judge(&cluster).await?;
        ensure!(self::epochs(&cluster).await? == epochs, "a healthy node fenced itself");
        cluster.settled().await?;
        Ok(())
    });
}

async fn epochs(cluster: &Cluster) -> Result<Vec<serde_json::Value>> {
    let nodes = cluster.node(1).admin().nodes().await?;
    Ok(nodes.into_iter().map(|node| node["epoch"].clone()).collect())
}
