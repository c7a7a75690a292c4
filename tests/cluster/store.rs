//! The shared store as a directory: what a crash or a person leaves in it harms nothing, and two nodes
//! with different directories are told.

use crate::common::{cluster, files_below, placed_stream, reads_everywhere};
use anyhow::{Context, ensure};
use headwater_harness::node::Ended;
use headwater_harness::wait::SOON;
use headwater_harness::{Cluster, eventually, run};
use std::fs;
use std::path::PathBuf;

fn objects(cluster: &Cluster, kind: &str) -> Vec<PathBuf> {
    files_below(&cluster.store_dir().join(kind))
}

#[test]
fn obj_04_leftovers_of_a_crash_are_ignored() {
    run(async {
        let cluster = cluster().start().await?;
        let stream = "/leftovers";
        let owner = placed_stream(&cluster, cluster.node(1), stream).await?;
        let mut expected = format!("first of {stream}\n");
        for turn in 0..20 {
            let body = format!("record {turn}\n");
            cluster.client().append(cluster.url(1, stream), body.clone()).await?;
            expected.push_str(&body);
        }
        cluster.kill_all().await?;
        // What an upload leaves behind that a power cut ended, beside every object that is there.
        let store = cluster.store_dir();
        for object in files_below(&store) {
            let mut name = object.file_name().context("a file without a name")?.to_owned();
            name.push("#1");
            fs::write(object.with_file_name(name), b"half an obj")?;
        }
        cluster.start_all().await?;
        cluster.client().append(cluster.url(owner, stream), "after\n").await?;
        expected.push_str("after\n");
        reads_everywhere(&cluster, stream, expected.as_bytes()).await
    });
}

#[test]
fn obj_04_a_damaged_object_is_named_and_hurts_its_stream_only() {
    run(async {
        let cluster = cluster().arg("--idle-close", "1s").start().await?;
        let (bad, good) = ("/damage/bad", "/damage/good");
        for stream in [bad, good] {
            placed_stream(&cluster, cluster.node(1), stream).await?;
            let body = vec![b'd'; 200_000];
            cluster.client().append(cluster.url(1, stream), body).await?;
            // Closed means flushed to data objects; one stream after the other, so that each has its own.
            eventually(&format!("{stream} to be closed"), || async {
                let shown = cluster.node(1).admin().stream(stream).await?;
                ensure!(shown["ownership"] == "closed", "it is {shown}");
                Ok(())
            })
            .await?;
            if stream == bad {
                let data = objects(&cluster, "data");
                ensure!(!data.is_empty(), "nothing was committed");
                for object in data {
                    let length = fs::metadata(&object)?.len();
                    fs::write(&object, vec![0; usize::try_from(length)?])?;
                }
            }
        }
        // No memory of the bytes: all processes begin anew.
        cluster.kill_all().await?;
        cluster.start_all().await?;
        let expected = [format!("first of {good}\n").into_bytes(), vec![b'd'; 200_000]].concat();
        reads_everywhere(&cluster, good, &expected).await?;
        for node in cluster.nodes() {
            let read = cluster.client().get(node.url(&format!("{bad}?offset=-1"))).follow().await;
            let served = read.as_ref().is_ok_and(|answer| answer.status.is_success());
            ensure!(!served, "zeros were served as data: {read:?}");
        }
        let logs: String = cluster.nodes().iter().map(|node| node.log_of_this_start()).collect();
        ensure!(logs.contains("data/"), "no log names the damaged object");
        for node in cluster.nodes() {
            ensure!(node.poll_exit().is_none(), "node {} ended", node.id());
            node.admin().ready().await?;
        }
        Ok(())
    });
}

#[test]
fn obj_04_a_node_with_another_directory_is_refused() {
    run(async {
        let mut cluster = cluster().nodes(1).start().await?;
        let elsewhere = cluster.folder().join("elsewhere");
        fs::create_dir_all(&elsewhere)?;
        cluster.add(2).await?;
        let node = cluster.node(2);
        node.configure(|settings| settings.store = format!("file://{}", elsewhere.display()));
        node.spawn()?;
        let ended = node.wait_exit(SOON).await?;
        ensure!(ended == Ended::Code(1), "it ended with {ended:?}");
        let said = node.log_of_this_start();
        ensure!(said.contains("cluster") && said.contains("store"), "it says: {said}");
        let nodes = cluster.node(1).admin().nodes().await?;
        ensure!(nodes.len() == 1, "it registered: {nodes:?}");
        Ok(())
    });
}
