//! The admin API of composed nodes: what it shows, what it changes, what it refuses and how.

use crate::harness::{Cluster, until};
use headwater_metadata::NodeId;
use http::{Method, StatusCode};

#[tokio::test(start_paused = true)]
async fn probes_and_overviews() {
    let cluster = Cluster::three(31).await;
    assert_eq!(cluster.admin(1, Method::GET, "/health", "").await.status, StatusCode::OK);
    assert_eq!(cluster.admin(1, Method::GET, "/ready", "").await.status, StatusCode::OK);
    cluster.create(1, "/a%20b").await;
    cluster.append(1, "/a%20b", "x").await;
    let shown = cluster.admin(2, Method::GET, "/admin/streams/a%20b", "").await.json();
    assert_eq!((&shown["ownership"], &shown["epoch"]), (&"opened".into(), &1.into()), "{shown}");
    for node in 1..=3 {
        let shown = cluster.admin(node, Method::GET, "/admin/streams/a%20b", "").await.json();
        assert_eq!(shown["tail"], 1, "the owner's tail, asked through node {node}: {shown}");
    }
    let overview = cluster.admin(3, Method::GET, "/admin/cluster", "").await.json();
    assert_eq!(overview["streams"]["opened"], 1, "{overview}");
    assert_eq!(overview["voters"].as_array().map(Vec::len), Some(3), "{overview}");
    assert_eq!(overview["policy"]["name"], "least-ratio", "{overview}");
    let nodes = cluster.admin(1, Method::GET, "/admin/nodes", "").await.json();
    let ids: Vec<_> = nodes.as_array().unwrap().iter().map(|node| node["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2, 3]);
    let policies = cluster.admin(1, Method::GET, "/admin/policies", "").await.json();
    assert_eq!(policies["policies"][0]["ready_on"], serde_json::json!([1, 2, 3]), "{policies}");
    let metrics = cluster.admin(1, Method::GET, "/metrics", "").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    for family in ["headwater_ready 1", "headwater_raft_entries_applied_total", "headwater_store_puts_total"]
    {
        assert!(text.contains(family), "{family} is missing:\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_weight_is_the_clusters_and_outlives_a_restart() {
    let mut cluster = Cluster::three(32).await;
    let changed = cluster.admin(1, Method::POST, "/admin/nodes/3", r#"{"slots":7}"#).await;
    assert_eq!((changed.status, &changed.json()["slots"]), (StatusCode::OK, &7.into()));
    cluster.kill(3);
    cluster.start(3).await;
    let view = cluster.parts(3).metadata.view();
    assert_eq!(view.node(NodeId(3)).unwrap().slots, 7, "--slots counts at the first registration");
}

#[tokio::test(start_paused = true)]
async fn a_transfer_moves_a_stream_with_what_it_holds() {
    let cluster = Cluster::three(33).await;
    cluster.create(1, "/a").await;
    cluster.append(1, "/a", "x").await;
    let source = cluster.owner(1, "/a").unwrap();
    let target = 1 + source % 3;
    let body = format!(r#"{{"stream":"/a","to":{target}}}"#);
    let asked = cluster.admin(1, Method::POST, "/admin/transfer", &body).await;
    assert_eq!(asked.status, StatusCode::ACCEPTED, "{asked:?}");
    cluster.append(source, "/a", "y").await;
    until(|| cluster.owner(1, "/a") == Some(target)).await;
    assert_eq!(cluster.read(source, "/a").await, "xy");
    let again = cluster.admin(1, Method::POST, "/admin/transfer", &body).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn refusals_are_problem_documents_with_a_reason() {
    let cluster = Cluster::three(34).await;
    for (method, path, body, status) in [
        (Method::GET, "/admin/streams/none", "", StatusCode::NOT_FOUND),
        (Method::GET, "/admin/nothing", "", StatusCode::NOT_FOUND),
        (Method::GET, "/admin/streams?limit=x", "", StatusCode::BAD_REQUEST),
        (Method::POST, "/admin/nodes/9", r#"{"slots":1}"#, StatusCode::NOT_FOUND),
        (Method::POST, "/admin/nodes/x", r#"{"slots":1}"#, StatusCode::BAD_REQUEST),
        (Method::POST, "/admin/nodes/1", r#"{"slot":1}"#, StatusCode::BAD_REQUEST),
        (Method::POST, "/admin/nodes/1", "{}", StatusCode::BAD_REQUEST),
        (Method::POST, "/admin/nodes/1", r#"{"labels":{"":"x"}}"#, StatusCode::BAD_REQUEST),
        (Method::POST, "/admin/nodes/1", r#"{"labels":{"a=b":"x"}}"#, StatusCode::BAD_REQUEST),
        (Method::DELETE, "/admin/nodes/9", "", StatusCode::NOT_FOUND),
        (Method::POST, "/admin/transfer", r#"{"stream":"/none","to":1}"#, StatusCode::NOT_FOUND),
        (Method::PUT, "/admin/policies/x", "no component", StatusCode::UNPROCESSABLE_ENTITY),
        (Method::PUT, "/admin/policies/activate", "", StatusCode::BAD_REQUEST),
        (Method::POST, "/admin/policies/activate", r#"{"digest":"none"}"#, StatusCode::NOT_FOUND),
    ] {
        let answer = cluster.admin(1, method.clone(), path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        assert!(answer.json()["detail"].as_str().is_some_and(|why| !why.is_empty()), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_protects_everything_but_the_probes() {
    let mut cluster = Cluster::new(35);
    let env = cluster.world.env("n1");
    env.disk.write_atomic("/token".as_ref(), b"secret\n").unwrap();
    let mut config = cluster.config(1);
    config.admin_token_file = Some("/token".into());
    cluster.try_start(config).await.unwrap();
    cluster.serves(1).await;
    assert_eq!(cluster.admin(1, Method::GET, "/ready", "").await.status, StatusCode::OK);
    for token in ["", "secre", "secret2"] {
        let refused = cluster.admin_with(1, "/admin/cluster", token).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{token}");
        assert_eq!(refused.headers["www-authenticate"], "Bearer");
    }
    assert_eq!(cluster.admin_with(1, "/admin/cluster", "secret").await.status, StatusCode::OK);
}
