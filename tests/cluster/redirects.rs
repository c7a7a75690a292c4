//! Any node takes any request: exactly one serves a stream, the others answer 307 with the exact
//! `Location`, or relay under `--routing forward`.

use crate::common::{cluster, placed_stream, reads_everywhere, shared};
use anyhow::{Context, Result, ensure};
use headwater_harness::{Cluster, Node, eventually, run};
use std::process::{Command, Stdio};

#[test]
fn a_stream_is_read_back_through_every_node() {
    run(async {
        let cluster = shared();
        let stream = "/redirects/one";
        cluster.client().create(cluster.url(1, stream)).await?;
        let mut expected = Vec::new();
        for turn in 0..30_u32 {
            let body = format!("record {turn} with some bytes\n");
            cluster.client().append(cluster.url(2 + u64::from(turn % 2), stream), body.clone()).await?;
            expected.extend(body.into_bytes());
        }
        reads_everywhere(cluster, stream, &expected).await?;
        one_serves_and_two_redirect(cluster, stream).await
    });
}

async fn one_serves_and_two_redirect(cluster: &Cluster, stream: &str) -> Result<()> {
    let owner = cluster.agreed_owner(stream).await?;
    for node in cluster.nodes() {
        let append = cluster.client().post(node.url(stream)).content_type("application/octet-stream");
        let answer = append.body("x").send().await?;
        if node.id() == owner {
            ensure!(answer.status.is_success(), "the owner answers {}", answer.describe());
            continue;
        }
        let answer = answer.expect(307)?;
        ensure!(answer.header("location") == Some(&cluster.url(owner, stream)), "{}", answer.describe());
        ensure!(answer.header("cache-control") == Some("no-store"), "{}", answer.describe());
        ensure!(answer.header("headwater-owner") == Some(&owner.to_string()), "{}", answer.describe());
        ensure!(answer.header("headwater-policy").is_some_and(|p| p.len() >= 8), "{}", answer.describe());
        ensure!(answer.header("access-control-allow-origin").is_some(), "{}", answer.describe());
    }
    Ok(())
}

#[test]
fn a_location_repeats_path_and_query_byte_for_byte() {
    run(async {
        let cluster = shared();
        let names = ["/redirects/a%20b", "/redirects/%e2%82%ac", "/redirects/100%25", "/redirects/a;b=c+d"];
        for name in names {
            let owner = placed_stream(cluster, cluster.node(1), name).await?;
            let other = cluster.other_than(owner)?;
            for query in ["?offset=-1", "?offset=-1&x=%26%3D&y", "?x=1&offset=-1&x=2"] {
                let answer = cluster.client().get(other.url(&format!("{name}{query}"))).send().await?;
                let location = answer.expect(307)?.header("location").map(str::to_owned);
                ensure!(location == Some(cluster.url(owner, &format!("{name}{query}"))), "{location:?}");
            }
            let body = cluster.client().read_all(&other.url(name)).await?;
            ensure!(body == format!("first of {name}\n"), "{name} holds {body:?}");
        }
        Ok(())
    });
}

#[test]
fn nothing_is_redirected_when_nodes_forward() {
    run(async {
        let cluster = cluster().arg("--routing", "forward").start().await?;
        let stream = "/forwarded";
        let client = cluster.client();
        client
            .put(cluster.url(1, stream))
            .content_type("application/octet-stream")
            .send()
            .await?
            .expect(201)?;
        let mut expected = Vec::new();
        for turn in 0..12_u32 {
            let node = cluster.node(1 + u64::from(turn % 3));
            let body = format!("record {turn}\n");
            let append = client.post(node.url(stream)).content_type("application/octet-stream");
            let answer = append.body(body.clone()).send().await?;
            ensure!(answer.status.is_success(), "{}", answer.describe());
            expected.extend(body.into_bytes());
        }
        for node in cluster.nodes() {
            let read = client.get(node.url(&format!("{stream}?offset=-1"))).send().await?.expect(200)?;
            ensure!(read.body == expected, "node {} relays {}", node.id(), read.describe());
            let head = client.head(node.url(stream)).send().await?.expect(200)?;
            ensure!(head.next_offset() == read.next_offset(), "{}", head.describe());
        }
        let big = vec![b'b'; 3 << 20];
        let other = cluster.other_than(cluster.agreed_owner(stream).await?)?;
        let append = client.post(other.url(stream)).content_type("application/octet-stream");
        let answer = append.body(big.clone()).send().await?;
        ensure!(answer.status.is_success(), "{}", answer.describe());
        expected.extend(big);
        reads_everywhere(&cluster, stream, &expected).await
    });
}

#[test]
fn a_stream_closed_by_a_stopped_owner_is_revived_elsewhere() {
    run(async {
        let cluster = cluster().start().await?;
        let stream = "/revived";
        let owner = placed_stream(&cluster, cluster.node(1), stream).await?;
        cluster.node(owner).terminate().await?;
        let other = cluster.other_than(owner)?;
        let gone = cluster.node(owner).base();
        let append = cluster.client().post(other.url(stream)).content_type("application/octet-stream");
        let answer = append.body("second\n").follow().await?;
        ensure!(answer.status.is_success(), "{}", answer.describe());
        ensure!(answer.hops.iter().all(|hop| !hop.starts_with(&gone)), "sent to a stopped node: {answer:?}");
        reads_everywhere(&cluster, stream, format!("first of {stream}\nsecond\n").as_bytes()).await
    });
}

/// Runs `headwater serve` with flags that must be refused; the answer is what it printed.
fn refused(flags: &[&str]) -> Result<String> {
    let folder = std::env::temp_dir().join(format!("headwater-refused-{}", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["serve", "--node-id", "1", "--data"])
        .arg(folder.join("data"))
        .arg("--store")
        .arg(format!("file://{}", folder.join("store").display()))
        .args(["--admin", "127.0.0.1:0", "--peer", "127.0.0.1:0"])
        .args(flags)
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let _ = std::fs::remove_dir_all(&folder);
    ensure!(matches!(output.status.code(), Some(1 | 2)), "{flags:?} ended with {}: {text}", output.status);
    Ok(text)
}

#[test]
fn rte_03_a_wildcard_address_is_never_advertised() {
    run(async {
        for flags in [
            &["--listen", "0.0.0.0:0"][..],
            &["--listen", "[::]:0"],
            &["--listen", "0.0.0.0:4437"],
            &["--listen", ":4437"],
            &["--listen", "127.0.0.1:0", "--advertise", "http://0.0.0.0:4437"],
            &["--listen", "127.0.0.1:0", "--advertise", "http://[::]:4437"],
            &["--listen", "127.0.0.1:0", "--advertise", "http://:4437"],
        ] {
            let text = refused(flags)?;
            ensure!(text.contains("--advertise"), "{flags:?} is refused without a way out: {text}");
        }
        // Port 0 becomes the real port in what a node advertises.
        let cluster = cluster()
            .nodes(1)
            .each(|settings| settings.args.extend(["--advertise-peer".into(), peer_address(settings)]))
            .start()
            .await?;
        let node = cluster.node(1).admin().node(1).await?;
        let address = node["address"].as_str().context("no address")?;
        ensure!(address == cluster.node(1).base(), "{address} is advertised");
        Ok(())
    });
}

fn peer_address(settings: &headwater_harness::node::Settings) -> String {
    format!("127.0.0.1:{}", settings.peer_port)
}

#[test]
fn rte_01_no_node_redirects_to_itself_however_its_address_is_spelled() {
    run(async {
        // Each node is reached under another spelling than the one that it advertises.
        let cluster = cluster()
            .each(|settings| {
                let port = settings.port;
                let spelled = match settings.id {
                    1 => format!("http://LOCALHOST:{port}/"),
                    2 => format!("http://127.0.0.1:{port}"),
                    _ => format!("http://localhost:{port}"),
                };
                settings.args.extend(["--advertise".to_owned(), spelled]);
            })
            .start()
            .await?;
        for number in 0..9 {
            let stream = format!("/spelled/{number}");
            let through = cluster.node(1 + number % 3);
            let owner = placed_stream(&cluster, through, &stream).await?;
            for node in cluster.nodes() {
                for method in ["GET", "HEAD", "POST", "PUT"] {
                    let answer = request(&cluster, node, method, &stream).await?;
                    let allowed = usize::from(node.id() != owner);
                    ensure!(answer.hops.len() <= allowed, "{method} at {}: {:?}", node.id(), answer.hops);
                    ensure!(answer.status.is_success(), "{method}: {}", answer.describe());
                }
            }
        }
        Ok(())
    });
}

async fn request(
    cluster: &Cluster,
    node: &Node,
    method: &str,
    stream: &str,
) -> Result<headwater_harness::Answer> {
    let request = cluster.client().request(method, node.url(stream));
    match method {
        "POST" => request.content_type("application/octet-stream").body("more").follow().await,
        "PUT" => request.content_type("application/octet-stream").follow().await,
        _ => request.follow().await,
    }
}

#[test]
fn rte_01_two_nodes_with_one_address_are_told() {
    run(async {
        let mut cluster = cluster().nodes(1).start().await?;
        let taken = cluster.node(1).base();
        cluster.add(2).await?;
        let second = cluster.node(2);
        second.configure(|settings| settings.args.extend(["--advertise".to_owned(), taken.clone()]));
        second.start().await?;
        eventually("a warning", || async {
            let log = second.log();
            ensure!(log.contains("node 1 advertises the same address") && log.contains(&taken), "{log}");
            Ok(())
        })
        .await
    });
}

#[test]
fn a_node_whose_view_lags_costs_hops_and_nothing_else() {
    run(async {
        let cluster = cluster().peer_proxies().start().await?;
        let client = cluster.client();
        // Everything that the others tell node 3 comes late; its questions to them go at once.
        cluster.peer_proxy(3)?.delay(std::time::Duration::from_millis(200));
        let lagging = cluster.node(3);
        let mut behind = 0;
        for number in 0..15 {
            let stream = format!("/lagging/{number}");
            let created = client.create(cluster.url(1, &stream)).await?;
            let there = lagging.admin().streams(&stream).await?;
            behind += u32::from(there.iter().all(|known| known["name"] != stream.as_str()));
            let start = created.next_offset().context("no offset")?.to_owned();
            let head = client.head(lagging.url(&stream)).follow().await?;
            ensure!(head.status == 200, "HEAD after 201: {}", head.describe());
            let append = client.append(lagging.url(&stream), "late\n").await?;
            ensure!(append.hops.len() <= 3, "{:?}", append.hops);
            let read = client.get(lagging.url(&format!("{stream}?offset={start}"))).follow().await?;
            ensure!(read.expect(200)?.body == "late\n");
            let read = client.read_all(&cluster.url(2, &stream)).await?;
            ensure!(read == "late\n", "{read:?}");
            if number % 3 == 0 {
                let deleted = client.delete(cluster.url(1, &stream)).follow().await?;
                ensure!(deleted.status.is_success(), "{}", deleted.describe());
                let gone = client.get(lagging.url(&format!("{stream}?offset=-1"))).follow().await?;
                ensure!(matches!(gone.status.as_u16(), 404 | 410), "after a delete: {}", gone.describe());
            }
        }
        ensure!(behind > 0, "the view of node 3 never lagged: nothing was tested");
        cluster.heal();
        cluster.settled().await.map(|_| ())
    });
}
