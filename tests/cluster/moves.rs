//! Streams that operators move: transfers of streams in any state, and draining nodes, with somebody to
//! take the streams and without.

use crate::common::{cluster, placed_stream, reads_everywhere};
use anyhow::{Context, Result, ensure};
use headwater_harness::wait::SOON;
use headwater_harness::{Cluster, eventually, run};
use serde_json::json;
use tokio::process::Command;

/// Runs a command of the binary against a node's admin listener.
async fn command(cluster: &Cluster, through: u64, args: &[&str]) -> Result<String> {
    let port = cluster.node(through).settings().admin_port;
    let run = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(args)
        .args(["--admin", &format!("http://127.0.0.1:{port}")])
        .output();
    let output = run.await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{args:?}: {:?} {said}", output.status.code());
    Ok(String::from_utf8(output.stdout)?)
}

async fn opened(cluster: &Cluster, id: u64) -> Result<u64> {
    cluster.node(1).admin().node(id).await?["opened"].as_u64().context("no count")
}

#[test]
fn transfer_waits_until_the_stream_is_there_whatever_its_state() {
    run(async {
        let cluster = cluster().start().await?;
        let (open, fresh) = ("/moves/open", "/moves/fresh");
        let owner = placed_stream(&cluster, cluster.node(1), open).await?;
        let target = (1 + owner % 3).to_string();
        // Through the node that is neither source nor target.
        let third = 1 + (owner + 1) % 3;
        command(&cluster, third, &["transfer", open, "--to", &target, "--wait"]).await?;
        ensure!(cluster.agreed_owner(open).await?.to_string() == target, "it is not on node {target}");
        cluster.client().append(cluster.url(owner, open), "second\n").await?;
        reads_everywhere(&cluster, open, b"first of /moves/open\nsecond\n").await?;
        // Never opened, nothing to flush.
        cluster.client().create(cluster.url(1, fresh)).await?;
        command(&cluster, 1, &["transfer", fresh, "--to", "3", "--wait"]).await?;
        cluster.client().append(cluster.url(1, fresh), "x").await?;
        ensure!(cluster.agreed_owner(fresh).await? == 3, "it is not on node 3");
        cluster.settled().await?;
        Ok(())
    });
}

#[test]
fn a_draining_node_hands_over_what_it_has_and_takes_streams_again_afterwards() {
    run(async {
        let cluster = cluster().start().await?;
        for number in 0..9 {
            placed_stream(&cluster, cluster.node(1), &format!("/moves/{number}")).await?;
        }
        ensure!(opened(&cluster, 2).await? > 0, "node 2 has nothing to hand over");
        command(&cluster, 1, &["drain", "2"]).await?;
        eventually("node 2 is empty", || async {
            let left = opened(&cluster, 2).await?;
            ensure!(left == 0, "{left} are open");
            Ok(())
        })
        .await?;
        for number in 0..9 {
            let stream = format!("/moves/{number}");
            cluster.client().append(cluster.url(2, &stream), "second\n").await?;
            ensure!(cluster.agreed_owner(&stream).await? != 2, "{stream} is on the draining node");
            let expected = format!("first of {stream}\nsecond\n");
            reads_everywhere(&cluster, &stream, expected.as_bytes()).await?;
        }
        command(&cluster, 1, &["undrain", "2"]).await?;
        let taken = placed_stream(&cluster, cluster.node(1), "/moves/after").await?;
        ensure!(taken == 2, "the emptiest node is 2, the stream went to {taken}");
        cluster.settled().await?;
        Ok(())
    });
}

#[test]
fn own_07_a_source_that_dies_in_the_middle_of_a_transfer_keeps_nothing_back() {
    run(async {
        let cluster = cluster().arg("--evict-after", "1s").start().await?;
        // Flushed and not committed; closed in the log, which the source no longer learns.
        for (round, point) in ["commit.object_put", "close.proposed"].into_iter().enumerate() {
            let stream = format!("/moves/interrupted-{round}");
            let source = placed_stream(&cluster, cluster.node(1), &stream).await?;
            let (target, third) = (1 + source % 3, 1 + (source + 1) % 3);
            let node = cluster.node(source);
            node.admin().arm(point, "exit").await?;
            let to = json!({ "stream": stream, "to": target });
            cluster.node(third).admin().post("/admin/transfer", &to).await?.expect(202)?;
            node.wait_exit(SOON).await?;
            eventually("the target serves", || async {
                let url = cluster.url(target, &stream);
                let request = cluster.client().post(url).content_type("application/octet-stream");
                let answer = request.body("second\n").follow().await?;
                ensure!(answer.status.is_success(), "{}", answer.describe());
                Ok(())
            })
            .await
            .context(point)?;
            let shown = cluster.node(third).admin().stream(&stream).await?;
            ensure!(shown["owner"] == target && shown["transfer"].is_null(), "{shown}");
            node.start().await?;
            let expected = format!("first of {stream}\nsecond\n");
            reads_everywhere(&cluster, &stream, expected.as_bytes()).await.context(point)?;
            ensure!(cluster.agreed_owner(&stream).await? == target, "the source took it back");
        }
        cluster.settled().await?;
        Ok(())
    });
}

/// Drains node 1 though nobody can take its streams: they stay served.
async fn nowhere_to_go(cluster: &Cluster) -> Result<()> {
    let stream = "/moves/stays";
    let owner = placed_stream(cluster, cluster.node(1), stream).await?;
    ensure!(owner == 1, "the only node with slots is 1, the stream went to {owner}");
    command(cluster, 1, &["drain", "1"]).await?;
    for turn in 0..20 {
        cluster.client().append(cluster.url(1, stream), format!("{turn}\n")).await?;
    }
    let shown = cluster.node(1).admin().stream(stream).await?;
    ensure!(shown["transfer"].is_null() && shown["owner"] == 1, "{shown}");
    ensure!(shown["epoch"] == 1, "it was closed and opened again: {shown}");
    let read = cluster.client().read_all(&cluster.url(1, stream)).await?;
    ensure!(read.ends_with(b"\n19\n"), "{read:?}");
    let draining = cluster.node(1).admin().set_node(1, &json!({ "draining": false })).await?;
    ensure!(draining["state"] == "registered", "{draining}");
    ensure!(placed_stream(cluster, cluster.node(1), "/moves/after").await? == 1, "it is no target again");
    Ok(())
}

#[test]
fn own_09_a_single_node_that_drains_goes_on_serving() {
    run(async { nowhere_to_go(&cluster().nodes(1).start().await?).await });
}

#[test]
fn own_09_a_node_that_drains_while_all_others_take_nothing_goes_on_serving() {
    run(async { nowhere_to_go(&cluster().slots(&[1, 0, 0]).start().await?).await });
}
