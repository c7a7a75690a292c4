//! The metadata log is compacted, and nodes still start, join, come back and are told apart.

use crate::common::{cluster, files_below, placed_stream, reads_everywhere};
use anyhow::{Context, Result, ensure};
use headwater_harness::node::{Ended, copy_dir};
use headwater_harness::wait::SOON;
use headwater_harness::{Builder, Cluster, eventually, run};
use std::fs;
use std::path::{Path, PathBuf};

const EVERY: &str = "100";

fn builder() -> Builder {
    cluster().arg("--snapshot-every", EVERY)
}

/// That many commands of the metadata, one entry each.
async fn commands(cluster: &Cluster, prefix: &str, count: u64) -> Result<()> {
    let node = cluster.running().next().context("no node runs")?;
    for number in 0..count {
        cluster.client().create(node.url(&format!("{prefix}/{number}"))).await?;
    }
    Ok(())
}

async fn applied(cluster: &Cluster, id: u64) -> Result<u64> {
    let view = cluster.node(id).admin().cluster().await?;
    view["applied_index"].as_u64().context("no applied index")
}

/// Waits until the node has what the others have, and checks the digests.
async fn caught_up(cluster: &Cluster, id: u64, at_least: u64) -> Result<()> {
    eventually(&format!("node {id} at {at_least}"), || async {
        let index = applied(cluster, id).await?;
        ensure!(index >= at_least, "it is at {index}");
        Ok(())
    })
    .await?;
    cluster.settled().await.map(|_| ())
}

#[test]
fn rft_01_nodes_start_after_their_log_was_compacted() {
    run(async {
        let cluster = builder().start().await?;
        let stream = "/compacted/stream";
        placed_stream(&cluster, cluster.node(1), stream).await?;
        commands(&cluster, "/compacted/first", 350).await?;
        let index = applied(&cluster, 1).await?;
        ensure!(index >= 350, "only {index} entries were applied");
        for node in cluster.nodes() {
            eventually("a snapshot on disk", || async {
                let found = files_below(&node.settings().data.join("snapshots")).len();
                ensure!(found > 0, "node {} has none", node.id());
                Ok(())
            })
            .await?;
        }
        for id in cluster.ids() {
            cluster.node(id).restart_hard().await?;
            cluster.node(id).wait_ready().await?;
            caught_up(&cluster, id, index).await?;
        }
        cluster.kill_all().await?;
        cluster.start_all().await?;
        for id in cluster.ids() {
            caught_up(&cluster, id, index).await?;
        }
        commands(&cluster, "/compacted/second", 10).await?;
        reads_everywhere(&cluster, stream, format!("first of {stream}\n").as_bytes()).await
    });
}

#[test]
fn a_new_node_joins_and_catches_up_from_a_snapshot() {
    run(async {
        let mut cluster = builder().start().await?;
        let stream = "/joined/stream";
        placed_stream(&cluster, cluster.node(1), stream).await?;
        commands(&cluster, "/joined", 350).await?;
        let index = applied(&cluster, 1).await?;
        cluster.add(4).await?.start().await?;
        caught_up(&cluster, 4, index).await?;
        let view = cluster.node(4).admin().cluster().await?;
        let learners = view["learners"].as_array().map_or(0, Vec::len);
        ensure!(view["voters"].as_array().is_some_and(|v| v.len() == 3) && learners == 1, "{view}");
        ensure!(installed(&cluster, 4).await? > 0.0, "it caught up without a snapshot");
        reads_everywhere(&cluster, stream, format!("first of {stream}\n").as_bytes()).await?;
        // It takes its share at once.
        let owners = [
            placed_stream(&cluster, cluster.node(4), "/joined/a").await?,
            placed_stream(&cluster, cluster.node(4), "/joined/b").await?,
            placed_stream(&cluster, cluster.node(4), "/joined/c").await?,
            placed_stream(&cluster, cluster.node(4), "/joined/d").await?,
        ];
        ensure!(owners.contains(&4), "the new node was given nothing: {owners:?}");
        Ok(())
    });
}

#[test]
fn a_wiped_node_comes_back_as_a_new_learner_under_its_id() {
    run(async {
        let cluster = builder().start().await?;
        let mut streams = Vec::new();
        for number in 0..6 {
            let stream = format!("/wiped/{number}");
            placed_stream(&cluster, cluster.node(1), &stream).await?;
            streams.push(stream);
        }
        commands(&cluster, "/wiped/more", 150).await?;
        let index = applied(&cluster, 1).await?;
        let before = cluster.node(1).admin().node(2).await?;
        cluster.node(2).kill().await?;
        let identity = cluster.node(2).settings().data.join("identity");
        let lost = std::fs::read(&identity)?;
        cluster.node(2).wipe()?;
        cluster.node(2).start().await?;
        caught_up(&cluster, 2, index).await?;
        // Another raft member, that knows what it knows from a snapshot.
        ensure!(std::fs::read(&identity)? != lost, "the wiped node is the raft member that it was");
        ensure!(installed(&cluster, 2).await? > 0.0, "it caught up without a snapshot");
        let after = cluster.node(1).admin().node(2).await?;
        ensure!(after["epoch"].as_u64() > before["epoch"].as_u64(), "{before} became {after}");
        for stream in &streams {
            reads_everywhere(&cluster, stream, format!("first of {stream}\n").as_bytes()).await?;
            cluster.client().append(cluster.url(2, stream), "again\n").await?;
        }
        Ok(())
    });
}

/// Snapshots that a node took from the leader since it started.
async fn installed(cluster: &Cluster, id: u64) -> Result<f64> {
    cluster.node(id).admin().metric("headwater_raft_snapshots_installed_total").await
}

/// What a node said that must have ended with an error.
async fn refused(cluster: &Cluster, id: u64) -> Result<String> {
    let node = cluster.node(id);
    node.spawn()?;
    let ended = node.wait_exit(SOON).await?;
    ensure!(ended == Ended::Code(1), "it ended with {ended:?}: {}", node.last_lines(10));
    Ok(node.log_of_this_start())
}

#[test]
fn foreign_folders_and_stores_are_refused_in_words() {
    run(async {
        let ours = cluster().nodes(1).start().await?;
        let theirs = cluster().nodes(1).start().await?;
        ours.node(1).terminate().await?;
        theirs.node(1).terminate().await?;

        // Their store under our data directory.
        let store = ours.store_url().to_owned();
        ours.node(1).configure(|settings| settings.store = theirs.store_url().to_owned());
        let said = refused(&ours, 1).await?;
        ensure!(said.contains("cluster"), "a foreign store is refused with: {said}");
        ours.node(1).configure(|settings| settings.store = store);

        // Their data directory beside our store.
        let data = ours.node(1).settings().data;
        let own = data.with_extension("own");
        fs::rename(&data, &own)?;
        theirs.node(1).copy_data(&data)?;
        let said = refused(&ours, 1).await?;
        ensure!(said.contains("cluster"), "a foreign data directory is refused with: {said}");
        fs::remove_dir_all(&data)?;
        fs::rename(&own, &data)?;

        // And with its own it starts.
        ours.node(1).start().await
    });
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    CutBy(u64),
    ZeroEnd,
    FlipMiddle,
    Delete,
    Directory,
    OfAnotherNode,
}

fn damage(file: &Path, other: &Path, how: Damage) -> Result<()> {
    let mut bytes = fs::read(file)?;
    match how {
        Damage::CutBy(count) => {
            bytes.truncate(bytes.len().saturating_sub(usize::try_from(count)?));
            fs::write(file, bytes)?;
        }
        Damage::ZeroEnd => {
            let start = bytes.len().saturating_sub(4096);
            bytes[start..].fill(0);
            fs::write(file, bytes)?;
        }
        Damage::FlipMiddle => {
            let middle = bytes.len() / 2;
            if let Some(byte) = bytes.get_mut(middle) {
                *byte ^= 0x10;
            }
            fs::write(file, bytes)?;
        }
        Damage::Delete => fs::remove_file(file)?,
        Damage::Directory => {
            fs::remove_file(file)?;
            fs::create_dir(file)?;
        }
        Damage::OfAnotherNode => {
            fs::copy(other, file)?;
        }
    }
    Ok(())
}

#[test]
fn rft_03_a_damaged_file_is_healed_or_named_and_never_voted_with() {
    run(async {
        let cluster = builder().start().await?;
        commands(&cluster, "/damaged", 150).await?;
        cluster.settled().await?;
        let node = cluster.node(2);
        node.terminate().await?;
        let data = node.settings().data;
        let intact = data.with_extension("intact");
        let kept: Vec<PathBuf> = files_below(&data)
            .into_iter()
            .filter_map(|file| file.strip_prefix(&data).map(Path::to_owned).ok())
            .filter(|file| file != Path::new("lock"))
            .collect();
        ensure!(kept.len() >= 3, "the data directory holds {kept:?}");
        let (mut started, mut named) = (0, 0);
        for file in kept {
            let damages = [
                Damage::CutBy(1),
                Damage::CutBy(100),
                Damage::ZeroEnd,
                Damage::FlipMiddle,
                Damage::Delete,
                Damage::OfAnotherNode,
                Damage::Directory,
            ];
            for how in damages {
                // What was refused has acknowledged nothing: its folder can be put back.
                if !intact.exists() {
                    copy_dir(&data, &intact)?;
                }
                if !data.join(&file).is_file() {
                    continue;
                }
                let others = cluster.node(1).settings().data;
                let other = Some(others.join(&file)).filter(|f| f.is_file());
                let other = other.unwrap_or_else(|| others.join("identity"));
                damage(&data.join(&file), &other, how).with_context(|| format!("{how:?} {file:?}"))?;
                match outcome(&cluster, &file, how).await? {
                    true => {
                        started += 1;
                        fs::remove_dir_all(&intact)?;
                    }
                    false => {
                        named += 1;
                        fs::remove_dir_all(&data)?;
                        fs::rename(&intact, &data)?;
                    }
                }
            }
        }
        println!("{started} damages were healed, {named} were refused");
        ensure!(named > 0, "no damage was ever noticed");
        // The documented way out of any of them: an empty folder.
        node.wipe()?;
        node.start().await?;
        cluster.settled().await.map(|_| ())
    });
}

/// Starts node 2: true when it serves with the state of the others, false when it refused and named
/// the file or its folder.
async fn outcome(cluster: &Cluster, file: &Path, how: Damage) -> Result<bool> {
    let node = cluster.node(2);
    node.spawn()?;
    let what = format!("{how:?} of {}", file.display());
    match node.wait_ready().await {
        Ok(()) => {
            cluster.settled().await.with_context(|| what)?;
            node.terminate().await?;
            Ok(true)
        }
        Err(error) => {
            ensure!(!node.is_running(), "{what}: it neither serves nor ends: {error:#}");
            let said = node.log_of_this_start();
            let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let folder = node.settings().data.display().to_string();
            ensure!(said.contains(&name) || said.contains(&folder), "{what} is not named: {said}");
            Ok(false)
        }
    }
}

#[test]
fn rft_14_a_failed_flush_ends_the_node() {
    run(async {
        let cluster = cluster().start().await?;
        commands(&cluster, "/flush/before", 5).await?;
        for what in ["log", "vote"] {
            let node = cluster.node(3);
            let leader = node.admin().cluster().await?["leader"].as_u64().context("no leader")?;
            node.admin().arm("raft.log.sync", "error*1").await?;
            if what == "vote" && leader != node.id() {
                // A new term makes it vote: the leader goes.
                cluster.node(leader).restart_hard().await?;
            }
            let prefix = format!("/flush/{what}");
            let (ended, _) = tokio::join!(node.wait_exit(SOON), commands(&cluster, &prefix, 20));
            ensure!(ended? != Ended::Code(0), "it went on or ended as if all were well");
            ensure!(!node.log_of_this_start().contains("retrying"), "a flush was tried again");
            node.spawn()?;
            for node in cluster.nodes() {
                node.wait_ready().await?;
            }
            cluster.settled().await?;
        }
        Ok(())
    });
}

#[test]
fn rft_01_a_crash_between_the_steps_of_a_compaction_is_survived() {
    run(async {
        let cluster = builder().start().await?;
        for point in ["raft.snapshot.written", "raft.log.purge"] {
            let node = cluster.node(2);
            node.admin().arm(point, "exit").await?;
            let mut round = 0;
            while node.poll_exit().is_none() {
                ensure!(round < 40, "{point} was never passed");
                commands(&cluster, &format!("/crash/{point}/{round}"), 25).await?;
                round += 1;
            }
            let index = applied(&cluster, 1).await?;
            node.start().await?;
            caught_up(&cluster, 2, index).await?;
        }
        // And all of them once more.
        cluster.kill_all().await?;
        cluster.start_all().await?;
        cluster.settled().await.map(|_| ())
    });
}
