//! Redirects as bytes on the wire: names and queries come back as they were sent, HEAD has no body,
//! large bodies and `Expect` do not hurt, and no client loses a body unseen.

use crate::common::{cluster, placed_stream, shared};
use anyhow::{Context, Result, ensure};
use headwater_harness::raw::{Head, Raw, exchange, request};
use headwater_harness::{Cluster, Node, run};
use std::time::Duration;

const BYTES: (&str, &str) = ("content-type", "application/octet-stream");

/// Follows one redirect by hand and checks that it repeats the target.
async fn follow(
    cluster: &Cluster,
    node: &Node,
    method: &str,
    target: &str,
    body: &[u8],
) -> Result<(Head, Vec<u8>)> {
    let (head, answer) = exchange(&node.base(), method, target, &[BYTES], body).await?;
    if head.status != 307 {
        return Ok((head, answer));
    }
    let location = head.header("location").context("a 307 without Location")?;
    let owner = cluster.nodes().iter().find(|n| location.starts_with(&n.base()));
    let owner = owner.with_context(|| format!("{location} is no node's address"))?;
    ensure!(location == owner.url(target), "{target:?} became {location:?}");
    exchange(&owner.base(), method, target, &[BYTES], body).await
}

#[test]
fn rte_05_names_come_back_as_they_were_sent() {
    run(async {
        let cluster = shared();
        let long = format!("/rte05/{}", "n".repeat(1024));
        let names = [
            "/rte05/a%20b",
            "/rte05/a%2Fb",
            "/rte05/a/b",
            "/rte05/100%25",
            "/rte05/%e2%82%ac",
            "/rte05/%E2%82%AC",
            "/rte05/%E6%97%A5%E6%9C%AC",
            "/rte05/日本",
            "/rte05/a+b",
            "/rte05/a;b=c",
            "/rte05/..%2fx",
            "/rte05/a//b",
            "/rte05/a/./b",
            "/rte05/a/../b",
            "/rte05/slash/",
            "/rte05/%3F",
            "/rte05/%23",
            &long,
        ];
        for (turn, name) in names.into_iter().enumerate() {
            let first = cluster.node(1 + turn as u64 % 3);
            let (created, _) = exchange(&first.base(), "PUT", name, &[BYTES], b"").await?;
            if created.status == 400 {
                for node in cluster.nodes() {
                    let (read, _) = exchange(&node.base(), "GET", name, &[], b"").await?;
                    ensure!(read.status == 400, "{name:?} is refused by one node and {read:?} by another");
                }
                continue;
            }
            ensure!(created.status == 201, "{name:?}: {created:?}");
            // Its own bytes: two names never lead to one stream.
            let body = format!("only in {name}");
            let (appended, _) = follow(cluster, first, "POST", name, body.as_bytes()).await?;
            ensure!((200..300).contains(&appended.status), "{name:?}: {appended:?}");
            for node in cluster.nodes() {
                let (head, read) = follow(cluster, node, "GET", name, b"").await?;
                ensure!(head.status == 200 && read == body.as_bytes(), "{name:?}: {head:?} {read:?}");
                let (head, _) = follow(cluster, node, "HEAD", name, b"").await?;
                ensure!(head.status == 200, "{name:?}: {head:?}");
            }
        }
        for name in ["/rte05/%zz", "/rte05/%", "/rte05/%4", "/rte05/a%00b"] {
            for node in cluster.nodes() {
                for method in ["PUT", "GET", "POST"] {
                    let body: &[u8] = if method == "POST" { b"x" } else { b"" };
                    let (head, _) = exchange(&node.base(), method, name, &[BYTES], body).await?;
                    ensure!(head.status == 400, "{method} {name:?}: {head:?}");
                }
            }
        }
        // What was created is listed under the name that was sent.
        let listed = cluster.node(1).admin().streams("/rte05/a").await?;
        ensure!(listed.iter().any(|s| s["name"] == "/rte05/a%2Fb"), "{listed:?}");
        ensure!(listed.iter().any(|s| s["name"] == "/rte05/a/b"), "{listed:?}");
        Ok(())
    });
}

#[test]
fn rte_06_the_query_comes_back_as_it_was_sent() {
    run(async {
        let cluster = shared();
        let stream = "/rte06";
        let owner = placed_stream(cluster, cluster.node(2), stream).await?;
        let other = cluster.other_than(owner)?;
        let long = format!("?offset=-1&pad={}", "q".repeat(8 * 1024));
        for query in [
            "?offset=-1",
            "?offset=now",
            "?",
            "?offset=",
            "?offset=1&offset=2",
            "?x=%26%3D&offset=-1",
            "?offset=-1&unknown=1&unknown=2",
            "?offset=garbage",
            &long,
        ] {
            let target = format!("{stream}{query}");
            let (here, bytes_here) = exchange(&cluster.node(owner).base(), "GET", &target, &[], b"").await?;
            let (there, bytes_there) = follow(cluster, other, "GET", &target, b"").await?;
            ensure!(here.status == there.status, "{query:?}: {} here, {} there", here.status, there.status);
            ensure!(bytes_here == bytes_there, "{query:?} reads other bytes through another node");
        }
        for query in ["?offset=", "?offset=-1&offset=-1"] {
            let (head, _) = follow(cluster, other, "GET", &format!("{stream}{query}"), b"").await?;
            ensure!(head.status == 400, "{query:?}: {head:?}");
        }
        let (head, _) = exchange(
            &other.base(),
            "GET",
            &format!("{stream}?offset=now&live=long-poll&cursor=123"),
            &[],
            b"",
        )
        .await?;
        let expected = cluster.url(owner, &format!("{stream}?offset=now&live=long-poll&cursor=123"));
        ensure!(head.status == 307 && head.header("location") == Some(&expected), "{head:?}");
        Ok(())
    });
}

#[test]
fn rte_07_head_has_no_body_whatever_the_answer() {
    run(async {
        let cluster = shared();
        let stream = "/rte07";
        let owner = placed_stream(cluster, cluster.node(3), stream).await?;
        let other = cluster.other_than(owner)?;
        for (node, target, status) in [
            (other, stream, 307),
            (cluster.node(owner), stream, 200),
            (other, "/rte07-missing", 404),
            (cluster.node(owner), "/rte07-missing", 404),
        ] {
            let mut raw = Raw::connect(&node.base()).await?;
            raw.send(request("HEAD", target, &[], b"")).await?;
            let head = raw.head().await?;
            ensure!(head.status == status, "HEAD {target} at {}: {head:?}", node.id());
            // The next answer follows at once: no byte of a body stands between.
            raw.send(request("GET", &format!("{target}?offset=-1"), &[], b"")).await?;
            let next = raw.head().await?;
            ensure!(next.status == status, "GET after HEAD {target}: {next:?}");
            raw.body(&next).await?;
            ensure!(raw.unread().is_empty(), "bytes after the answer: {:?}", raw.unread());
        }
        Ok(())
    });
}

#[test]
fn rte_10_a_large_body_meets_a_redirect() {
    run(async {
        let cluster = shared();
        let stream = "/rte10";
        let owner = placed_stream(cluster, cluster.node(1), stream).await?;
        let other = cluster.other_than(owner)?;
        let body = vec![b'l'; 50 << 20];
        let length = body.len().to_string();
        let sized = [BYTES, ("content-length", length.as_str())];
        let chunked = [BYTES, ("transfer-encoding", "chunked")];
        let mut chunks = Vec::new();
        for chunk in body.chunks(1 << 20) {
            chunks.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            chunks.extend(chunk);
            chunks.extend(b"\r\n");
        }
        chunks.extend(b"0\r\n\r\n");
        for turn in 0..10 {
            let (headers, payload) = if turn % 2 == 0 { (&sized, &body) } else { (&chunked, &chunks) };
            let mut text = format!("POST {stream} HTTP/1.1\r\nhost: test\r\n");
            for (name, value) in headers {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
            let mut raw = Raw::connect(&other.base()).await?;
            raw.send(text + "\r\n").await?;
            let (sent, head) = raw.send_until_head(payload).await.with_context(|| format!("turn {turn}"))?;
            ensure!(head.status == 307, "{head:?}");
            ensure!(sent < 32 << 20, "{sent} bytes were taken before the redirect");
        }
        // A client that goes on sending after the answer is cut in the end, not kept for ever.
        let mut raw = Raw::connect(&other.base()).await?;
        raw.send(format!("POST {stream} HTTP/1.1\r\nhost: test\r\ncontent-type: text/plain\r\n")).await?;
        raw.send("content-length: 5000000000\r\n\r\n").await?;
        ensure!(raw.head().await?.status == 307);
        let chunk = vec![b'e'; 1 << 20];
        let mut taken: u64 = 0;
        while raw.send(&chunk).await.is_ok() {
            taken += 1;
            ensure!(taken < 2_000, "{taken} MiB were taken after the redirect");
        }
        // The owner takes what a well-behaved client sends.
        let small = vec![b's'; 8 << 20];
        cluster.client().append(other.url(stream), small).await?;
        Ok(())
    });
}

#[test]
fn rte_12_a_body_is_never_lost_in_a_redirect() {
    run(async {
        let cluster = shared();
        let closing = [BYTES, ("stream-closed", "true")];
        for number in 0..3 {
            let stream = format!("/rte12/{number}");
            let owner = placed_stream(cluster, cluster.node(1), &stream).await?;
            let other = cluster.other_than(owner)?;

            // A client that replays an empty body is refused, not thanked.
            let (head, _) = exchange(&other.base(), "POST", &stream, &[BYTES], b"lost?").await?;
            ensure!(head.status == 307, "{head:?}");
            let (head, _) = exchange(&cluster.node(owner).base(), "POST", &stream, &[BYTES], b"").await?;
            ensure!(head.status == 400, "an empty append was answered {head:?}");

            // With Stream-Closed an empty replay would be a legal close: so it is never redirected.
            let (head, _) = exchange(&other.base(), "POST", &stream, &closing, b"the last").await?;
            ensure!((200..300).contains(&head.status), "{head:?}");
            let (head, body) = follow(cluster, other, "GET", &stream, b"").await?;
            let expected = format!("first of {stream}\nthe last");
            ensure!(body == expected.as_bytes(), "{:?}", String::from_utf8_lossy(&body));
            ensure!(head.header("stream-closed") == Some("true"), "{head:?}");
        }
        // A create with a body is served where it is asked.
        let (head, _) = exchange(&cluster.node(2).base(), "PUT", "/rte12/put", &[BYTES], b"initial").await?;
        ensure!(head.status == 201, "{head:?}");
        crate::common::reads_everywhere(cluster, "/rte12/put", b"initial").await
    });
}

fn expecting(stream: &str, expect: &str, length: usize) -> Vec<u8> {
    format!(
        "POST {stream} HTTP/1.1\r\nhost: test\r\ncontent-type: application/octet-stream\r\n\
         content-length: {length}\r\nexpect: {expect}\r\n\r\n"
    )
    .into_bytes()
}

#[test]
fn rte_13_expect_100_continue_is_answered_after_the_decision() {
    run(async {
        let cluster = shared();
        let stream = "/rte13";
        let owner = placed_stream(cluster, cluster.node(2), stream).await?;
        let (own, other) = (cluster.node(owner), cluster.other_than(owner)?);

        // At the owner: 100, then the body, then the answer.
        let mut raw = Raw::connect(&own.base()).await?;
        raw.send(expecting(stream, "100-continue", 5)).await?;
        ensure!(raw.head().await?.status == 100);
        raw.send("hello").await?;
        let answer = raw.head().await?;
        ensure!((200..300).contains(&answer.status), "{answer:?}");

        // Elsewhere: the redirect without a 100. The client keeps its body and goes on, or sends it anyway.
        for sends_anyway in [false, true] {
            let mut raw = Raw::connect(&other.base()).await?;
            raw.send(expecting(stream, "100-continue", 5)).await?;
            let answer = raw.head().await?;
            ensure!(answer.status == 307, "{answer:?}");
            raw.body(&answer).await?;
            let mut rest = if sends_anyway { b"hello".to_vec() } else { Vec::new() };
            rest.extend(request("GET", "/rte13-missing?offset=-1", &[], b""));
            // A closed connection is a right answer too; a second answer to the POST is not.
            if raw.send(rest).await.is_ok()
                && let Ok(next) = raw.head().await
            {
                let framed = if sends_anyway { next.status == 404 } else { matches!(next.status, 404 | 400) };
                ensure!(framed, "sends anyway: {sends_anyway}, then {next:?}");
            }
        }

        // Decided without the body: no 100.
        let mut raw = Raw::connect(&own.base()).await?;
        raw.send(expecting("/rte13-missing", "100-continue", 5)).await?;
        let answer = raw.head().await?;
        ensure!(answer.status == 404, "{answer:?}");

        let mut raw = Raw::connect(&own.base()).await?;
        raw.send(expecting(stream, "nonsense", 5)).await?;
        let answer = raw.head().await?;
        ensure!(answer.status == 417, "{answer:?}");

        // Silence before the body is not taken for its end.
        let mut raw = Raw::connect(&own.base()).await?;
        raw.send(expecting(stream, "100-continue", 5)).await?;
        ensure!(raw.head().await?.status == 100);
        ensure!(raw.silent_for(Duration::from_millis(300)).await?, "an answer without a body");
        raw.send("again").await?;
        ensure!((200..300).contains(&raw.head().await?.status));
        let read = cluster.client().read_all(&own.url(stream)).await?;
        ensure!(read == format!("first of {stream}\nhelloagain"), "{read:?}");
        Ok(())
    });
}

#[test]
fn rte_12_a_closing_append_is_relayed_whole_under_load() {
    run(async {
        let cluster = cluster().nodes(2).start().await?;
        let big = vec![b'c'; 2 << 20];
        for number in 0..4 {
            let stream = format!("/closing/{number}");
            let owner = placed_stream(&cluster, cluster.node(1), &stream).await?;
            let other = cluster.other_than(owner)?;
            let append = cluster.client().post(other.url(&stream)).content_type("application/octet-stream");
            let answer = append.header("stream-closed", "true").body(big.clone()).send().await?;
            ensure!(answer.status.is_success(), "{}", answer.describe());
            let read = cluster.client().read_all(&cluster.url(owner, &stream)).await?;
            ensure!(read.ends_with(&big), "{} bytes are there", read.len());
        }
        Ok(())
    });
}
