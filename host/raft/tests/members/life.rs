//! What happens to members in a long life: partitions of every kind, full disks, slow links, wrong
//! addresses, an apply that fails.

use crate::harness::*;
use headwater_env::sim::World;
use headwater_metadata::{Candidate, Choice, Command, Digest, NodeId, Placement, Subject, sha256};
use headwater_raft::{Fatal, Options, PeerError};
use http_body_util::{BodyExt, Full};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn rft_06_a_member_that_was_cut_off_does_not_disturb_the_others_when_it_comes_back() {
    let world = World::new(501);
    let (nodes, _) = three(&world, |_| {}).await;
    let at = (0..3).find(|i| !nodes[*i].leads()).unwrap();
    let lead = leader(&nodes);
    let name = nodes[at].name.clone();
    let others: Vec<String> = nodes.iter().map(|n| n.name.clone()).filter(|n| *n != name).collect();
    let term = nodes[lead].metadata.status().term;
    others.iter().for_each(|other| world.cut(&name, other));
    nodes[lead].creates("/meanwhile").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    others.iter().for_each(|other| world.heal(&name, other));
    nodes[at].metadata.barrier().await.unwrap();
    agree(&nodes.iter().collect::<Vec<_>>()).await;
    assert_eq!(nodes[lead].metadata.status().term, term);
    assert!(nodes[lead].leads());
    nodes[at].creates("/back").await;
}

#[tokio::test(start_paused = true)]
async fn rft_06_one_way_and_flapping_partitions_end_with_one_leader_and_one_state() {
    let world = World::new(502);
    let (nodes, _) = three(&world, |_| {}).await;
    let lead = leader(&nodes);
    let other = nodes[(lead + 1) % 3].name.clone();
    let mut answered = 0;
    for round in 0..10 {
        match round % 2 {
            // The leader is heard and does not hear, then the other way round.
            0 if round % 4 == 0 => world.cut_one_way(&other, &nodes[lead].name),
            0 => world.cut_one_way(&nodes[lead].name, &other),
            _ => world.heal(&other, &nodes[lead].name),
        }
        for node in &nodes {
            answered +=
                usize::from(node.metadata.propose(create(&format!("/{round}/{}", node.name))).await.is_ok());
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(answered >= 20, "{answered}");
    until(|| nodes.iter().filter(|node| node.leads()).count() == 1).await;
    for node in &nodes {
        node.metadata.barrier().await.unwrap();
    }
    agree(&nodes.iter().collect::<Vec<_>>()).await;
}

#[tokio::test(start_paused = true)]
async fn rft_04_a_full_disk_takes_a_member_out_and_not_the_cluster() {
    let world = World::new(503);
    let (mut nodes, setup) = three(&world, |_| {}).await;
    let lead = leader(&nodes);
    let name = nodes[lead].name.clone();
    world.disk(&name).set_full(true);
    let _ = nodes[lead].metadata.propose(create("/no-room")).await;
    assert!(matches!(*nodes[lead].metadata.fatal().borrow(), Some(Fatal::Disk(_))));
    nodes.remove(lead).metadata.shutdown().await;
    world.kill(&name);
    for node in &nodes {
        node.creates(&format!("/room/{}", node.name)).await;
    }
    world.disk(&name).set_full(false);
    let back = start(&world, &name, &setup).await;
    agree(&[&nodes[0], &nodes[1], &back]).await;
}

#[tokio::test(start_paused = true)]
async fn rft_07_a_member_with_a_wrong_address_is_a_learner_and_hurts_nobody() {
    let world = World::new(504);
    let (nodes, setup) = three(&world, |_| {}).await;
    let wrong = |options: &mut Options| {
        options.advertise = Some("nowhere:1".to_owned());
        options.join_deadline = Duration::from_secs(15);
    };
    let joined = start_bare(&world, "n4", &crate::harness::Setup { change: wrong, ..setup.clone() }).await;
    assert!(joined.is_err(), "nothing can reach it");
    let status = nodes[0].metadata.status();
    assert_eq!(status.voters.len(), 3);
    assert!(status.learners.iter().any(|member| member.node == NodeId(4)));
    for node in &nodes {
        node.creates(&format!("/fine/{}", node.name)).await;
    }
    // The same directory with the right address.
    world.kill("n4");
    let fourth = start(&world, "n4", &setup).await;
    agree(&[&nodes[0], &nodes[1], &nodes[2], &fourth]).await;
}

#[tokio::test(start_paused = true)]
async fn rft_11_a_large_snapshot_over_a_link_that_breaks_goes_on_where_it_was() {
    let world = World::new(505);
    let small = |options: &mut Options| {
        options.snapshot_every = 10;
        options.keep_entries = 2;
    };
    let (mut nodes, setup) = three(&world, small).await;
    world.kill("n3");
    nodes.pop();
    for batch in 0..40 {
        let names: Vec<String> = (0..200).map(|i| format!("/{batch}/{i}/{}", "x".repeat(900))).collect();
        let load = names.iter().map(|name| nodes[batch % 2].metadata.propose(create(name)));
        assert!(futures_util::future::join_all(load).await.iter().all(Result::is_ok));
    }
    let last = nodes[0].metadata.status().applied;
    for other in ["n1", "n2"] {
        world.delay(other, "n3", Duration::from_millis(30));
    }
    let bare = start_bare(&world, "n3", &setup).await.unwrap().0;
    let breaking = async {
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_millis(1_700)).await;
            world.reset("n1", "n3");
            world.reset("n2", "n3");
        }
    };
    let arriving = until(|| bare.status().applied >= last);
    tokio::join!(breaking, arriving);
    let counters = bare.status().counters;
    let sent = nodes.iter().map(|node| node.metadata.status().counters.snapshot_chunks_sent).sum::<u64>();
    assert!(counters.snapshot_chunks_received >= 7, "{counters:?}");
    assert!(counters.snapshot_chunks_received <= 12, "it began anew: {counters:?} of {sent}");
    assert_eq!(counters.snapshots_installed, 1);
}

/// Fails as a bug would.
struct Panicking;

impl Placement for Panicking {
    fn place(&self, _: Digest, _: &Subject, _: &[Candidate]) -> Choice {
        panic!("a bug in placement")
    }
    fn not_a_candidate(&self, _: Digest, _: NodeId) {}
    fn engine(&self) -> Digest {
        Digest([1; 32])
    }
}

#[tokio::test(start_paused = true)]
async fn rft_12_an_apply_that_fails_stops_its_member_and_hangs_nobody() {
    let world = World::new(506);
    let (mut nodes, setup) = three(&world, |_| {}).await;
    world.kill("n2");
    nodes.remove(1);
    let broken = Setup { placement: || Arc::new(Panicking), ..setup };
    let second = start(&world, "n2", &broken).await;
    let component = bytes::Bytes::from_static(b"\0asm");
    let put = Command::PutPolicy {
        name: "p".into(),
        version: "1".into(),
        needs_labels: false,
        component: component.clone(),
    };
    nodes[0].metadata.propose(put).await.unwrap();
    nodes[0].metadata.propose(Command::ActivatePolicy { policy: sha256(&component) }).await.unwrap();
    let stream = nodes[0].creates("/placed").await;
    let waiting = (0..20).map(|i| second.metadata.propose(create(&format!("/w/{i}"))));
    let waiting: Vec<_> = waiting.collect();
    let placed = nodes[0].metadata.propose(Command::Place { stream });
    let begun = tokio::time::Instant::now();
    let (placed, answers) = tokio::join!(placed, futures_util::future::join_all(waiting));
    placed.unwrap();
    assert!(begun.elapsed() <= Duration::from_secs(10));
    assert_eq!(answers.len(), 20);
    until(|| second.metadata.fatal().borrow().is_some()).await;
    nodes[1].creates("/others-go-on").await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_in_order_hands_over_first() {
    let world = World::new(507);
    let (mut nodes, _) = three(&world, |_| {}).await;
    let old = nodes.remove(leader(&nodes));
    old.metadata.shutdown().await;
    let begun = tokio::time::Instant::now();
    nodes[0].creates("/soon").await;
    assert!(begun.elapsed() < Duration::from_millis(400), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_relayed_request_does_not_hang_on_a_peer_that_vanished() {
    let world = World::new(508);
    let (nodes, _) = three(&world, |_| {}).await;
    let request = || {
        let body = Full::new(bytes::Bytes::new()).map_err(|never| match never {}).boxed_unsync();
        http::Request::new(body)
    };
    world.cut("n1", "n2");
    let begun = tokio::time::Instant::now();
    let relayed = nodes[0].metadata.forward(NodeId(2), request()).await;
    assert!(matches!(relayed, Err(PeerError::NotSent { .. } | PeerError::Broken { .. })));
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    world.heal("n1", "n2");
    // An open connection that falls silent before the answer.
    nodes[0].metadata.forward(NodeId(2), request()).await.unwrap();
    world.cut_one_way("n2", "n1");
    let begun = tokio::time::Instant::now();
    let relayed = nodes[0].metadata.forward(NodeId(2), request()).await;
    assert!(matches!(relayed, Err(PeerError::Broken { .. })));
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
}
