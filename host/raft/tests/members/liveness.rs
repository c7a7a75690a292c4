//! Heartbeats, leases, and evictions for silence: who slept is not evicted, who is evicted has no lease.

use crate::harness::*;
use headwater_env::sim::{Offsets, World};
use headwater_metadata::{Session, SessionState};
use headwater_raft::{Metadata, Options};
use std::time::Duration;

fn evicting(options: &mut Options) {
    options.evict = true;
    options.evict_after = Duration::from_secs(3);
}

/// L with that.
const L: Duration = Duration::from_secs(1);

fn state(node: &Node, of: Session) -> SessionState {
    node.metadata.view().session_state(of)
}

fn holds(node: &Node) -> bool {
    node.metadata.lease().holds(node.session)
}

fn evictions(metadata: &Metadata) -> u64 {
    metadata.status().counters.evictions_proposed
}

#[tokio::test(start_paused = true)]
async fn a_killed_node_is_evicted_and_nobody_else() {
    let world = World::new(601);
    let (mut nodes, _) = three(&world, evicting).await;
    until(|| nodes.iter().all(holds)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(nodes.iter().all(|node| evictions(&node.metadata) == 0 && holds(node)));
    let at = (0..3).find(|i| !nodes[*i].leads()).unwrap();
    world.kill(&nodes[at].name.clone());
    let dead = nodes.remove(at);
    let begun = tokio::time::Instant::now();
    until(|| nodes.iter().all(|node| state(node, dead.session) != SessionState::Registered)).await;
    let took = begun.elapsed();
    assert!(took >= L * 3 && took < L * 5, "{took:?}");
    assert!(nodes.iter().all(|node| state(node, node.session) == SessionState::Registered));
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_evicted_by_the_next_one_counting_from_its_election() {
    let world = World::new(602);
    let (mut nodes, _) = three(&world, evicting).await;
    let lead = leader(&nodes);
    world.kill(&nodes[lead].name.clone());
    let dead = nodes.remove(lead);
    until(|| nodes.iter().any(Node::leads)).await;
    let elected = tokio::time::Instant::now();
    until(|| nodes.iter().all(|node| state(node, dead.session) != SessionState::Registered)).await;
    assert!(elected.elapsed() >= L * 3);
    until(|| nodes.iter().all(holds)).await;
}

#[tokio::test(start_paused = true)]
async fn att_09_a_deposed_leader_gives_no_lease_beyond_the_eviction_of_its_own_side() {
    let world = World::new(603);
    let (mut nodes, setup) = three(&world, evicting).await;
    let fourth = start(&world, "n4", &setup).await;
    nodes.push(fourth);
    until(|| nodes.iter().all(holds)).await;
    let lead = leader(&nodes);
    // The old leader and the learner on one side, the two other voters on the other.
    let (minority, majority): (Vec<&Node>, Vec<&Node>) =
        nodes.iter().partition(|node| node.name == nodes[lead].name || node.name == "n4");
    for a in &minority {
        majority.iter().for_each(|b| world.cut(&a.name, &b.name));
    }
    let evicted = || minority.iter().all(|node| state(majority[0], node.session) != SessionState::Registered);
    let mut over = false;
    for _ in 0..6_000 {
        let lost: Vec<bool> = minority
            .iter()
            .map(|node| state(majority[0], node.session) != SessionState::Registered)
            .collect();
        for (node, lost) in minority.iter().zip(lost) {
            assert!(!(lost && holds(node)), "{} is evicted and holds a lease", node.name);
        }
        over = evicted();
        if over {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(over);
}

#[tokio::test(start_paused = true)]
async fn att_19_a_lease_does_not_outlive_a_sleep_or_a_stopped_virtual_machine() {
    let world = World::new(604);
    let (nodes, _) = three(&world, evicting).await;
    let node = (0..3).find(|i| !nodes[*i].leads()).unwrap();
    for offsets in [
        Offsets { slept: Duration::from_secs(600), wall_ms: 0 },
        Offsets { slept: Duration::from_secs(600), wall_ms: 600_000 },
    ] {
        until(|| holds(&nodes[node])).await;
        world.set_offsets(&nodes[node].name, offsets);
        assert!(!holds(&nodes[node]));
    }
    until(|| holds(&nodes[node])).await;
}

#[tokio::test(start_paused = true)]
async fn att_14_nobody_is_evicted_for_having_slept_when_the_leader_slept_too() {
    let world = World::new(605);
    let (nodes, _) = three(&world, evicting).await;
    until(|| nodes.iter().all(holds)).await;
    for round in 1..=2_u32 {
        let offsets = Offsets { slept: Duration::from_secs(600) * round, wall_ms: 0 };
        let lead = leader(&nodes);
        // The leader wakes first; the others are heard again a little later.
        let others: Vec<&Node> = nodes.iter().filter(|node| !node.leads()).collect();
        nodes.iter().for_each(|node| world.set_offsets(&node.name, offsets));
        others.iter().for_each(|other| world.cut(&nodes[lead].name, &other.name));
        tokio::time::sleep(L * 3 / 2).await;
        others.iter().for_each(|other| world.heal(&nodes[lead].name, &other.name));
        until(|| nodes.iter().all(holds)).await;
        tokio::time::sleep(L * 10).await;
    }
    assert!(nodes.iter().all(|node| evictions(&node.metadata) == 0));
    assert!(nodes.iter().any(|node| node.metadata.status().counters.ticks_late > 0));
}

#[tokio::test(start_paused = true)]
async fn att_14_a_node_whose_store_fails_alone_is_evicted_and_not_when_all_fail() {
    let world = World::new(606);
    let (nodes, _) = three(&world, evicting).await;
    until(|| nodes.iter().all(holds)).await;
    nodes.iter().for_each(|node| node.metadata.lease().store_works(false));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(nodes.iter().all(|node| evictions(&node.metadata) == 0 && holds(node)));
    let alone = (0..3).find(|i| !nodes[*i].leads()).unwrap();
    for (i, node) in nodes.iter().enumerate() {
        node.metadata.lease().store_works(i != alone);
    }
    until(|| state(&nodes[alone], nodes[alone].session) != SessionState::Registered).await;
    assert!(!holds(&nodes[alone]));
    assert_eq!(nodes.iter().map(|node| evictions(&node.metadata)).sum::<u64>(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_means_another_eviction_time_has_no_lease_and_is_not_evicted() {
    let world = World::new(607);
    let (nodes, setup) = three(&world, evicting).await;
    let change: fn(&mut Options) = |options| {
        evicting(options);
        options.evict_after = Duration::from_secs(9);
    };
    let other = start(&world, "n4", &Setup { change, ..setup }).await;
    until(|| nodes.iter().all(holds)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!holds(&other) && nodes.iter().all(holds));
    assert!(nodes.iter().all(|node| evictions(&node.metadata) == 0));
    assert_eq!(state(&nodes[0], other.session), SessionState::Registered);
}
