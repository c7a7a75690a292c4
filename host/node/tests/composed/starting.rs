//! What a node refuses at its start, and in which words; who is the node of an id.

use crate::harness::{Cluster, until};
use headwater_env::sim::Offsets;
use headwater_metadata::NodeId;
use headwater_node::cli::Exit;
use headwater_node::node::{BelongError, NodeError, Phase, SessionError};
use headwater_raft::DirError;
use object_store::ObjectStoreExt;

/// The error of a start that must fail.
async fn refused(cluster: &mut Cluster, node: u64) -> NodeError {
    let config = cluster.config(node);
    cluster.try_start(config).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_directory_is_used_by_one_process() {
    let mut cluster = Cluster::new(11);
    cluster.start(1).await;
    let why = refused(&mut cluster, 1).await;
    assert!(matches!(why, NodeError::Dir(DirError::InUse(_))), "{why}");
    assert!(why.to_string().contains("in use by another process"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_directory_of_another_node_is_refused() {
    let mut cluster = Cluster::new(12);
    cluster.start(1).await;
    cluster.kill(1);
    let mut config = cluster.config(1);
    config.node = NodeId(7);
    // On the machine of node 1, where its directory is.
    let env = cluster.world.env("n1");
    let store = cluster.store(&env);
    let Err(why) = headwater_node::node::Node::start(config, env, Some(store)).await else {
        panic!("it started");
    };
    assert!(why.to_string().contains("belongs to node 1, this is node 7"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_store_of_another_cluster_is_refused_and_both_are_named() {
    let mut cluster = Cluster::new(13);
    cluster.start(1).await;
    let own = cluster.parts(1).metadata.status().cluster;
    cluster.kill(1);
    let mut other = Cluster::new(14);
    other.start(1).await;
    let theirs = other.parts(1).metadata.status().cluster;
    cluster.objects = other.objects.clone();
    let why = refused(&mut cluster, 1).await;
    assert!(matches!(why, NodeError::Belong(BelongError::TwoClusters { .. })), "{why}");
    for id in [own, theirs] {
        assert!(why.to_string().contains(&id.to_string()), "{id} is missing: {why}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_emptied_store_is_refused() {
    let mut cluster = Cluster::new(15);
    cluster.start(1).await;
    cluster.kill(1);
    cluster.objects = Default::default();
    let why = refused(&mut cluster, 1).await;
    assert!(matches!(why, NodeError::Belong(BelongError::StoreWithoutCluster(_))), "{why}");
}

#[tokio::test(start_paused = true)]
async fn joining_needs_the_store_of_the_cluster() {
    let mut cluster = Cluster::new(16);
    let why = refused(&mut cluster, 2).await;
    assert!(matches!(why, NodeError::Belong(BelongError::NobodyFounded)), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_founder_that_died_before_the_store_knew_goes_on() {
    let mut cluster = Cluster::new(17);
    // The directory knows the cluster, the store does not yet.
    let env = cluster.world.env("n1");
    let mut dir = headwater_raft::DataDir::open(&env, "/data".as_ref(), NodeId(1)).unwrap();
    let id = dir.found().unwrap();
    drop(dir);
    cluster.start(1).await;
    assert_eq!(cluster.parts(1).metadata.status().cluster, id);
    let stored = cluster.objects.get(&"cluster".into()).await.unwrap().bytes().await.unwrap();
    assert!(!stored.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_empty_directory_joins_through_the_addresses_in_the_store() {
    let mut cluster = Cluster::three(18).await;
    let before = cluster.parts(1).metadata.status();
    cluster.kill(2);
    cluster.world.disk("n2").wipe();
    let mut config = cluster.config(2);
    config.join.clear();
    cluster.try_start(config).await.unwrap();
    cluster.serves(2).await;
    let me = cluster.parts(2).metadata.me();
    assert!(before.voters.iter().all(|voter| voter.member != me.member), "a new member under the old id");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_went_backwards_is_refused_and_both_epochs_are_named() {
    let mut cluster = Cluster::three(19).await;
    let had = cluster.parts(1).metadata.view().session_of(NodeId(2)).unwrap().epoch;
    cluster.kill(2);
    let wall_ms = -3_600_000;
    cluster.world.set_offsets("n2", Offsets { wall_ms, ..Offsets::default() });
    let config = cluster.config(2);
    cluster.try_start(config).await.unwrap();
    let Err(why) = cluster.ends(2).await else { panic!("it served") };
    assert!(matches!(why, NodeError::Session(SessionError::ClockWentBackwards { .. })), "{why}");
    assert!(why.to_string().contains(&had.to_string()), "{why}");
    assert!(why.to_string().contains("mend the clock"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn own_01_a_second_process_with_the_id_takes_over_and_the_first_ends() {
    let mut cluster = Cluster::three(20).await;
    cluster.create(1, "/a").await;
    cluster.append(1, "/a", "x").await;
    let first = cluster.parts(2).clone();
    // Another machine, another directory, the same id.
    let mut config = cluster.config(2);
    config.join = vec!["n1:4637".to_owned()];
    cluster.try_start_on("elsewhere", config).await.unwrap();
    assert!(matches!(cluster.first_ends().await, Ok(Exit::Replaced)));
    until(|| matches!(*first.phase.borrow(), Phase::Ended(Exit::Replaced))).await;
    cluster.serves(2).await;
    cluster.append(1, "/a", "y").await;
    assert_eq!(cluster.read(3, "/a").await, "xy");
}

#[tokio::test(start_paused = true)]
async fn an_evicted_node_that_may_not_come_back_ends_as_fenced() {
    let mut cluster = Cluster::three(21).await;
    cluster.kill(2);
    let mut config = cluster.config(2);
    config.no_rejoin = true;
    cluster.try_start(config).await.unwrap();
    cluster.serves(2).await;
    let evicted = cluster.admin(1, http::Method::DELETE, "/admin/nodes/2", "").await;
    assert_eq!(evicted.status, http::StatusCode::OK, "{evicted:?}");
    assert!(matches!(cluster.ends(2).await, Ok(Exit::Fenced)));
}
