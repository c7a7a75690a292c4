//! One request id follows a request over redirect, relay and proposal, through the logs of all nodes that
//! had to do with it.

use crate::common::cluster;
use anyhow::{Context, Result, ensure};
use headwater_harness::{Cluster, run};

#[test]
fn one_id_is_found_in_the_logs_of_every_node_that_a_request_passed() {
    run(async {
        let log = "info,headwater_node=debug,headwater_raft=debug";
        let cluster = cluster().env("HEADWATER_LOG", log).start().await?;
        let leader = cluster.node(1).admin().cluster().await?["leader"].as_u64().context("no leader")?;
        // Neither the leader nor, in the end, the owner: everything has a hop to make.
        let asked = cluster.other_than(leader)?;
        let mut redirected = 0;
        for number in 0..6 {
            let stream = format!("/ids/{number}");
            let id = |what: &str| format!("{what}-{number}-7f3a");
            let client = cluster.client();

            let create = client.put(asked.url(&stream)).header("x-request-id", &id("create"));
            let answer = create.content_type("text/plain").send().await?.expect(201)?;
            ensure!(answer.header("x-request-id") == Some(&id("create")), "{}", answer.describe());
            logged(&cluster, asked.id(), &id("create"))?;
            logged(&cluster, leader, &id("create"))?;

            // The first append places the stream, which is proposed, and opens it, which is too.
            let append = client.post(asked.url(&stream)).header("x-request-id", &id("append"));
            let answer = append.content_type("text/plain").body("one").follow().await?;
            ensure!(answer.status.is_success(), "{}", answer.describe());
            let owner = cluster.agreed_owner(&stream).await?;
            for node in [asked.id(), leader, owner] {
                logged(&cluster, node, &id("append"))?;
            }
            if owner == asked.id() {
                continue;
            }
            redirected += 1;

            // A closing append with a body is relayed.
            let close = client.post(asked.url(&stream)).header("x-request-id", &id("close"));
            let close = close.header("stream-closed", "true").content_type("text/plain");
            let answer = close.body("two").send().await?;
            ensure!(answer.status.is_success(), "{}", answer.describe());
            ensure!(answer.header("x-request-id") == Some(&id("close")), "{}", answer.describe());
            logged(&cluster, asked.id(), &id("close"))?;
            logged(&cluster, owner, &id("close"))?;
        }
        ensure!(redirected > 0, "every stream came to the node that was asked");
        let answer = cluster.client().get(asked.url("/ids/none")).send().await?.expect(404)?;
        ensure!(answer.header("x-request-id").is_some_and(|id| !id.is_empty()), "{}", answer.describe());
        Ok(())
    });
}

fn logged(cluster: &Cluster, node: u64, id: &str) -> Result<()> {
    let found = cluster.node(node).log().lines().any(|line| line.contains(id));
    ensure!(found, "node {node} says nothing of {id}");
    Ok(())
}
