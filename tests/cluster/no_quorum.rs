//! With two of three nodes stopped: open streams take appends, what is durable is read, and what would
//! need the others is answered 503 with the reason, in bounded time.

use crate::common::{cluster, placed_stream};
use anyhow::{Context, Result, ensure};
use headwater_harness::{Answer, eventually, run};
use std::time::{Duration, Instant};

fn refusal(answer: Answer) -> Result<()> {
    let answer = answer.expect(503)?;
    ensure!(answer.header("retry-after").is_some(), "without Retry-After: {}", answer.describe());
    ensure!(answer.text().len() > 20, "without a reason: {}", answer.describe());
    Ok(())
}

#[test]
fn open_streams_go_on_and_the_rest_is_refused_in_words() {
    run(async {
        let cluster = cluster().arg("--evict-after", "10s").start().await?;
        let client = cluster.client();
        let mut streams = Vec::new();
        for number in 0..9 {
            let stream = format!("/quorum/{number}");
            let owner = placed_stream(&cluster, cluster.node(1), &stream).await?;
            streams.push((stream, owner));
        }
        let (unplaced, never) = ("/quorum/unplaced", "/quorum/never");
        client.create(cluster.url(2, unplaced)).await?;
        cluster.settled().await?;
        let here = cluster.node(1);
        let own: Vec<&String> = streams.iter().filter(|(_, o)| *o == 1).map(|(s, _)| s).collect();
        ensure!(own.len() >= 2, "node 1 has {own:?} of {streams:?}");
        for id in [2, 3] {
            cluster.node(id).kill().await?;
        }

        let mut expected = Vec::new();
        for stream in &own {
            let mut bytes = format!("first of {stream}\n").into_bytes();
            for turn in 0..50 {
                let body = format!("alone {turn}\n");
                let append = client.post(here.url(stream)).content_type("application/octet-stream");
                let answer = append.body(body.clone()).send().await?;
                ensure!(answer.status.is_success(), "append {turn}: {}", answer.describe());
                bytes.extend(body.into_bytes());
            }
            let read = client.read_all(&here.url(stream)).await?;
            ensure!(read == bytes, "{stream} is read back as {read:?}");
            expected.push(bytes);
        }

        let start = Instant::now();
        let create = client.put(here.url(never)).content_type("text/plain");
        refusal(create.send().await?).context("a create")?;
        let place = client.post(here.url(unplaced)).content_type("application/octet-stream");
        refusal(place.body("x").send().await?).context("an append that needs a placement")?;
        refusal(client.get(here.url(&format!("{never}?offset=-1"))).send().await?)
            .context("a name unknown")?;
        ensure!(start.elapsed() < Duration::from_secs(60), "refused after {:?}", start.elapsed());

        cluster.start_all().await?;
        eventually("a create", || async {
            // The refused create has no known outcome: it may have been made meanwhile.
            let answer = client.put(here.url(never)).content_type("text/plain").follow().await?;
            ensure!(matches!(answer.status.as_u16(), 200 | 201), "{}", answer.describe());
            Ok(())
        })
        .await?;
        for (stream, bytes) in own.iter().zip(&expected) {
            crate::common::reads_everywhere(&cluster, stream, bytes).await?;
        }
        cluster.settled().await?;
        Ok(())
    });
}
