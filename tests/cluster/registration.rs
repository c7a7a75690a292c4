//! A node id has one process: the later epoch wins, the earlier process ends with code 3, and a clock
//! that went backwards is refused in words.

use crate::common::{cluster, placed_stream, reads_everywhere};
use anyhow::{Context, Result, ensure};
use headwater_harness::node::Ended;
use headwater_harness::wait::SOON;
use headwater_harness::{Cluster, eventually, run};

const HOUR_BACK: (&str, &str) = ("HEADWATER_FAULT_CLOCK_OFFSET_MS", "-3600000");

async fn epoch(cluster: &Cluster, id: u64) -> Result<u64> {
    let node = cluster.node(1).admin().node(id).await?;
    node["epoch"].as_u64().context("a node without an epoch")
}

#[test]
fn a_second_process_takes_over_and_the_first_exits() {
    run(async {
        let cluster = cluster().start().await?;
        let stream = "/registration/taken-over";
        cluster.client().create(cluster.url(1, stream)).await?;
        cluster.client().append(cluster.url(1, stream), "before\n").await?;
        let before = epoch(&cluster, 2).await?;
        let twin = cluster.twin(2).await?;
        twin.start().await?;
        let ended = cluster.node(2).wait_exit(SOON).await?;
        ensure!(ended == Ended::Code(3), "the first process ended with {ended:?}");
        let log = cluster.node(2).last_lines(20);
        ensure!(log.contains("a later process of this node"), "it does not say why: {log}");
        let after = epoch(&cluster, 2).await?;
        ensure!(after > before, "the epoch went from {before} to {after}");
        let node = cluster.node(1).admin().node(2).await?;
        ensure!(node["address"] == twin.base(), "node 2 is at {}", node["address"]);
        let listed = cluster.node(1).admin().nodes().await?;
        ensure!(listed.iter().filter(|n| n["id"] == 2).count() == 1, "node 2 is listed twice");
        // What the first had, the second serves.
        cluster.client().append(twin.url(stream), "after\n").await?;
        reads_everywhere(&cluster, stream, b"before\nafter\n").await?;
        let read = cluster.client().read_all(&twin.url(stream)).await?;
        ensure!(read == "before\nafter\n", "through the second process: {read:?}");
        Ok(())
    });
}

#[test]
fn a_clock_that_went_backwards_is_refused() {
    run(async {
        let cluster = cluster().start().await?;
        let node = cluster.node(2);
        let registered = epoch(&cluster, 2).await?;
        node.terminate().await?;
        node.configure(|settings| {
            settings.env.insert(HOUR_BACK.0.to_owned(), HOUR_BACK.1.to_owned());
        });
        node.spawn()?;
        let ended = node.wait_exit(SOON).await?;
        ensure!(ended == Ended::Code(1), "it ended with {ended:?}");
        let said = node.log_of_this_start();
        ensure!(said.contains(&registered.to_string()), "the registered epoch is not named: {said}");
        let offered = said.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok());
        let hour = 3_600_000;
        ensure!(
            offered.clone().any(|epoch| epoch + hour / 2 < registered && epoch + 2 * hour > registered),
            "the offered epoch is not named: {said}"
        );
        ensure!(said.contains("mend the clock"), "no way out is named: {said}");
        ensure!(epoch(&cluster, 2).await? == registered, "the refused process registered");
        // With the clock mended it starts again.
        node.configure(|settings| {
            settings.env.remove(HOUR_BACK.0);
        });
        node.start().await?;
        ensure!(epoch(&cluster, 2).await? > registered, "the epoch did not grow");
        Ok(())
    });
}

#[test]
fn a_lower_epoch_cannot_take_over() {
    run(async {
        let cluster = cluster().start().await?;
        let stream = "/registration/kept";
        let owner = placed_stream(&cluster, cluster.node(1), stream).await?;
        let registered = epoch(&cluster, owner).await?;
        let twin = cluster.twin(owner).await?;
        twin.configure(|settings| {
            settings.join = vec![cluster.other_than(owner).map(|n| n.peer_url()).unwrap_or_default()];
            settings.env.insert(HOUR_BACK.0.to_owned(), HOUR_BACK.1.to_owned());
        });
        twin.spawn()?;
        let ended = twin.wait_exit(SOON).await?;
        ensure!(ended == Ended::Code(1), "the earlier epoch ended with {ended:?}");
        ensure!(cluster.node(owner).is_running() && cluster.node(owner).poll_exit().is_none());
        ensure!(epoch(&cluster, owner).await? == registered, "the earlier epoch registered");
        cluster.client().append(cluster.url(owner, stream), "goes on\n").await?;
        cluster.settled().await?;
        Ok(())
    });
}

#[test]
fn a_restarted_node_has_a_later_epoch_and_its_streams() {
    run(async {
        let cluster = cluster().start().await?;
        let stream = "/registration/restarted";
        let owner = placed_stream(&cluster, cluster.node(1), stream).await?;
        let before = cluster.node(owner).admin().node(owner).await?["epoch"].as_u64();
        cluster.node(owner).restart_hard().await?;
        cluster.node(owner).wait_ready().await?;
        let after = cluster.node(owner).admin().node(owner).await?["epoch"].as_u64();
        ensure!(after > before, "from {before:?} to {after:?}");
        let append = format!("first of {stream}\nsecond\n");
        cluster.client().append(cluster.url(owner, stream), "second\n").await?;
        reads_everywhere(&cluster, stream, append.as_bytes()).await?;
        eventually("the same owner", || async {
            let now = cluster.owner(stream).await?;
            ensure!(now == Some(owner), "{now:?} in place of {owner}");
            Ok(())
        })
        .await
    });
}
