//! Founding, joining, proposing from everywhere, losing the leader, refusing strangers.

use crate::harness::*;
use headwater_env::sim::World;
use headwater_metadata::{Answer, Command, NodeId, Outcome, sha256};
use headwater_raft::*;
use http_body_util::{BodyExt, Full};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn three_members_form_and_each_sees_its_own_writes() {
    let world = World::new(1);
    let (nodes, _) = three(&world, |_| {}).await;
    for (round, node) in nodes.iter().enumerate() {
        for stream in 0..5 {
            node.creates(&format!("/s{round}-{stream}")).await;
        }
    }
    agree(&nodes.iter().collect::<Vec<_>>()).await;
    assert_eq!(nodes[0].metadata.view().totals().total(), 15);
    let counters = nodes[2].metadata.status().counters;
    assert!(counters.forwards_sent > 0 && counters.entries_proposed > 0);
    assert!(nodes[0].metadata.status().counters.forwards_served > 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_commands_share_an_entry_and_keep_their_own_answers() {
    let world = World::new(2);
    let (nodes, _) = three(&world, |_| {}).await;
    let node = &nodes[1];
    let names: Vec<String> = (0..600).map(|i| format!("/many/{i}")).collect();
    let all = names.iter().chain(&names[..10]).map(|name| node.metadata.propose(create(name)));
    let outcomes = futures_util::future::join_all(all).await;
    for (i, outcome) in outcomes.iter().enumerate() {
        let first = matches!(outcome, Ok(Outcome::Applied(Answer::Stream(_))));
        assert_eq!(first, i < 600, "{i}: {outcome:?}");
    }
    let counters = node.metadata.status().counters;
    assert_eq!(counters.commands_proposed, 610);
    assert!(counters.entries_proposed < 20, "{}", counters.entries_proposed);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_is_replaced_and_catches_up() {
    let world = World::new(3);
    let (nodes, _) = three(&world, |_| {}).await;
    let old = leader(&nodes);
    for other in ["n1", "n2", "n3"].iter().filter(|name| **name != nodes[old].name) {
        world.cut(&nodes[old].name, other);
    }
    let live: Vec<&Node> = nodes.iter().filter(|node| node.name != nodes[old].name).collect();
    until(|| live.iter().any(|node| node.leads())).await;
    live[0].creates("/after").await;
    live[1].creates("/after-too").await;
    // The minority knows nothing new, and says so within a bounded time.
    let started = tokio::time::Instant::now();
    assert!(nodes[old].metadata.barrier().await.is_err());
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(nodes[old].metadata.propose(create("/nowhere")).await.is_err());
    for other in ["n1", "n2", "n3"].iter().filter(|name| **name != nodes[old].name) {
        world.heal(&nodes[old].name, other);
    }
    nodes[old].metadata.barrier().await.unwrap();
    assert!(nodes[old].metadata.view().stream_by_name("/after").is_some());
    agree(&nodes.iter().collect::<Vec<_>>()).await;
}

#[tokio::test(start_paused = true)]
async fn a_barrier_shows_what_was_committed_elsewhere_before_it() {
    let world = World::new(4);
    let (nodes, _) = three(&world, |_| {}).await;
    for from in ["n1", "n2"] {
        world.delay(from, "n3", Duration::from_millis(40));
    }
    for i in 0..10 {
        nodes[i % 2].creates(&format!("/b{i}")).await;
        let asked = (0..5).map(|_| nodes[2].metadata.barrier());
        for passed in futures_util::future::join_all(asked).await {
            passed.unwrap();
        }
        assert!(nodes[2].metadata.view().stream_by_name(&format!("/b{i}")).is_some());
    }
    let counters = nodes[2].metadata.status().counters;
    assert_eq!(counters.barriers, 50);
    assert!(counters.barrier_rounds < 50, "questions are shared: {}", counters.barrier_rounds);
}

#[tokio::test(start_paused = true)]
async fn everybody_restarts_with_other_addresses_and_finds_itself() {
    let world = World::new(5);
    let (nodes, setup) = three(&world, |_| {}).await;
    nodes[0].creates("/kept").await;
    let before = nodes[0].metadata.view().totals();
    for name in ["n1", "n2", "n3"] {
        world.kill(name);
    }
    drop(nodes);
    // Only one of the new addresses is named.
    let moved = Setup { port: 5000, join: vec!["n2:5000".to_owned()], ..setup };
    let (a, b, c) =
        tokio::join!(start(&world, "n1", &moved), start(&world, "n2", &moved), start(&world, "n3", &moved));
    assert_eq!(a.metadata.view().totals(), before);
    b.creates("/new").await;
    agree(&[&a, &b, &c]).await;
    assert!(a.metadata.peers().iter().all(|peer| peer.address.ends_with(":5000")));
}

#[tokio::test(start_paused = true)]
async fn strangers_are_refused_in_plain_words() {
    let world = World::new(6);
    let (_nodes, setup) = three(&world, |options| options.secret = b"right".to_vec()).await;
    let wrong = Setup { change: |options| options.secret = b"wrong".to_vec(), ..setup.clone() };
    let error = start_bare(&world, "n4", &wrong).await.err().unwrap().to_string();
    assert!(error.contains("secret"), "{error}");
    let foreign = Setup { cluster: Some(ClusterId(5)), ..setup.clone() };
    let error = start_bare(&world, "n5", &foreign).await.err().unwrap().to_string();
    assert!(error.contains("cluster"), "{error}");
    // A directory that belongs to another cluster, or to another node.
    let error = start_bare(&world, "n5", &setup).await.err().unwrap().to_string();
    assert!(error.contains("belongs to cluster"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_disk_comes_back_as_a_new_member_and_the_old_one_goes() {
    let world = World::new(7);
    let (mut nodes, setup) = three(&world, |_| {}).await;
    nodes[0].creates("/a").await;
    let old = nodes[2].metadata.me();
    world.kill("n3");
    world.disk("n3").wipe();
    nodes.pop();
    let back = start(&world, "n3", &setup).await;
    let new = back.metadata.me();
    assert_eq!(new.node, old.node);
    assert_ne!(new.member, old.member);
    assert!(back.metadata.view().stream_by_name("/a").is_some());
    until(|| {
        let status = nodes[0].metadata.status();
        status.voters.contains(&new) && !status.voters.contains(&old) && status.learners.is_empty()
    })
    .await;
    assert_eq!(nodes[0].metadata.status().voters.len(), 3);
    until(|| nodes.iter().all(|node| node.metadata.peers().iter().all(|p| p.member != old.member))).await;
}

#[tokio::test(start_paused = true)]
async fn a_fourth_member_learns_and_takes_the_vote_of_a_dead_one() {
    let world = World::new(8);
    let (mut nodes, setup) = three(&world, |_| {}).await;
    let fourth = start(&world, "n4", &setup).await;
    assert!(fourth.metadata.status().learners.iter().any(|member| member.node == NodeId(4)));
    let dead = if nodes[1].leads() { 2 } else { 1 };
    world.kill(&nodes[dead].name.clone());
    let gone = nodes.remove(dead);
    let status = || nodes[0].metadata.status();
    until(|| status().voters.iter().any(|member| member.node == NodeId(4))).await;
    assert!(status().learners.contains(&gone.metadata.me()));
    fourth.creates("/by-four").await;
    // The replaced one stays a learner and catches up when it comes back.
    let back = start(&world, &gone.name.clone(), &setup).await;
    agree(&[&nodes[0], &nodes[1], &fourth, &back]).await;
    assert_eq!(back.metadata.me(), gone.metadata.me());
}

#[tokio::test(start_paused = true)]
async fn a_relayed_request_arrives_as_the_client_sent_it() {
    let world = World::new(9);
    let (nodes, _) = three(&world, |_| {}).await;
    let body = Full::new(bytes::Bytes::from_static(b"body")).map_err(|never| match never {}).boxed_unsync();
    let request = http::Request::post("http://elsewhere/a%20b?x=%2F&y").body(body).unwrap();
    let answer = nodes[0].metadata.forward(NodeId(2), request).await.unwrap();
    assert_eq!(&answer.into_body().collect().await.unwrap().to_bytes()[..], b"body");
    assert_eq!(*nodes[1].hooks.forwards.lock().unwrap(), ["/a%20b?x=%2F&y"]);
    world.kill("n2");
    let body = Full::new(bytes::Bytes::new()).map_err(|never| match never {}).boxed_unsync();
    let error = nodes[0].metadata.forward(NodeId(2), http::Request::new(body)).await.unwrap_err();
    assert!(matches!(error, PeerError::NotSent { .. } | PeerError::Broken { .. }), "{error}");
    let body = Full::new(bytes::Bytes::new()).map_err(|never| match never {}).boxed_unsync();
    let error = nodes[0].metadata.forward(NodeId(9), http::Request::new(body)).await.unwrap_err();
    assert!(matches!(error, PeerError::UnknownNode(NodeId(9))));
}

#[tokio::test(start_paused = true)]
async fn policies_are_announced_once_each_and_again_after_a_restart() {
    let world = World::new(10);
    let (nodes, setup) = three(&world, |_| {}).await;
    let component = bytes::Bytes::from_static(b"\0asm and more");
    let put = Command::PutPolicy {
        name: "p".into(),
        version: "1".into(),
        needs_labels: false,
        component: component.clone(),
    };
    nodes[1].metadata.propose(put.clone()).await.unwrap();
    nodes[2].metadata.propose(put).await.unwrap();
    let digest = sha256(&component);
    until(|| nodes.iter().all(|node| *node.hooks.policies.lock().unwrap() == [digest])).await;
    world.kill("n3");
    let back = start(&world, "n3", &setup).await;
    until(|| *back.hooks.policies.lock().unwrap() == [digest]).await;
}
