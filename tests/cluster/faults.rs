//! Random faults of every kind over three nodes under load; a checker judges what the clients saw.
//!
//! A short version runs here; the long one is
//! `HEADWATER_FAULT_ROUNDS=200 cargo test --release --features faults --test cluster faults -- --nocapture`.
//! `HEADWATER_SEED` plays a failing seed again, as far as real processes allow.

use crate::common::cluster;
use anyhow::{Context, Result};
use headwater_harness::load::{Load, Shape};
use headwater_harness::{Cluster, Store, chaos, run};

fn rounds() -> u64 {
    std::env::var("HEADWATER_FAULT_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(6)
}

async fn survive(cluster: &Cluster, store_faults: bool) -> Result<()> {
    let seed = chaos::seed();
    let context = || format!("play it again with HEADWATER_SEED={seed}");
    let load = Load::start(cluster, Shape { streams: 6, writers: 2, readers: 1 }).await?;
    load.progress(50).await?;
    chaos::rounds(cluster, &load, seed, rounds(), store_faults).await.with_context(context)?;
    load.progress(100).await.with_context(context)?;
    load.judge(cluster).await.with_context(context)?;
    cluster.settled().await.with_context(context)?;
    Ok(())
}

#[test]
fn random_faults_lose_and_double_nothing_on_file() {
    run(async {
        let cluster = cluster().peer_proxies().arg("--evict-after", "2s").start().await?;
        survive(&cluster, false).await
    });
}

#[test]
fn random_faults_lose_and_double_nothing_on_s3() {
    run(async {
        let builder = cluster().store(Store::S3).peer_proxies();
        let cluster = builder.arg("--evict-after", "2s").start().await?;
        survive(&cluster, true).await
    });
}
