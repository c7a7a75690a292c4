//! Three nodes: who serves, who redirects, and what a killed and restarted node still has.

use crate::harness::{Cluster, until};
use headwater_metadata::{Command, Digest, Outcome};
use headwater_node::cli::Exit;
use http::{Method, StatusCode};

#[tokio::test(start_paused = true)]
async fn one_node_serves_and_the_others_redirect() {
    let cluster = Cluster::three(1).await;
    let path = "/a%20b?x=1";
    cluster.create(1, path).await;
    cluster.append(2, path, "one,").await;
    cluster.append(3, path, "two").await;
    let mut here = 0;
    for node in 1..=3 {
        assert_eq!(cluster.read(node, "/a%20b").await, "one,two");
        match cluster.ask(node, Method::HEAD, "/a%20b", "").await.status {
            StatusCode::OK => here += 1,
            status => assert_eq!(status, StatusCode::TEMPORARY_REDIRECT),
        }
    }
    assert_eq!(here, 1, "exactly one node serves it");
    let served: Vec<u64> = (1..=3).map(|node| cluster.parts(node).frontend.counters().redirects).collect();
    assert!(served.iter().sum::<u64>() > 0, "redirects are counted: {served:?}");
}

#[tokio::test(start_paused = true)]
async fn a_killed_owner_comes_back_with_everything_that_was_acknowledged() {
    let mut cluster = Cluster::three(2).await;
    for i in 0..6 {
        let path = format!("/s{i}");
        cluster.create(1, &path).await;
        cluster.append(1 + i % 3, &path, "before ").await;
    }
    let owner = cluster.owner(1, "/s0").unwrap();
    cluster.kill(owner);
    cluster.start(owner).await;
    for i in 0..6 {
        let path = format!("/s{i}");
        cluster.append(1 + (i + 1) % 3, &path, "after").await;
        for node in 1..=3 {
            assert_eq!(cluster.read(node, &path).await, "before after", "{path} through node {node}");
        }
    }
    let streams = cluster.parts(owner).streams.load_full().unwrap();
    assert!(streams.counters().recoveries >= 1, "the earlier session was recovered");
    assert!(streams.counters().recovered_bytes > 0);
}

#[tokio::test(start_paused = true)]
async fn all_nodes_killed_at_once_come_back() {
    let mut cluster = Cluster::three(3).await;
    cluster.create(1, "/a").await;
    cluster.append(2, "/a", "kept").await;
    for node in 1..=3 {
        cluster.kill(node);
    }
    for node in 1..=3 {
        let config = cluster.config(node);
        cluster.try_start(config).await.unwrap();
    }
    for node in 1..=3 {
        cluster.serves(node).await;
        assert_eq!(cluster.read(node, "/a").await, "kept");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_in_order_leaves_its_streams_to_the_others() {
    let mut cluster = Cluster::three(4).await;
    cluster.create(1, "/a").await;
    cluster.append(1, "/a", "x").await;
    let owner = cluster.owner(1, "/a").unwrap();
    assert_eq!(cluster.stop(owner).await, Exit::Done);
    let other = 1 + owner % 3;
    let answer = cluster.ask(other, Method::POST, "/a", "y").await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT, "no redirect to the stopped node: {answer:?}");
    assert_eq!(cluster.read(other, "/a").await, "xy");
}

#[tokio::test(start_paused = true)]
async fn an_evicted_node_registers_anew_and_serves_again() {
    let cluster = Cluster::three(5).await;
    cluster.create(1, "/a").await;
    cluster.append(1, "/a", "x").await;
    let owner = cluster.owner(1, "/a").unwrap();
    let old = cluster.parts(1).metadata.view().session_of(headwater_metadata::NodeId(owner)).unwrap();
    let other = 1 + owner % 3;
    let evicted = cluster.parts(other).metadata.propose(Command::Evict { session: old, silent: false }).await;
    assert!(matches!(evicted, Ok(Outcome::Applied(_))), "{evicted:?}");
    let view = || cluster.parts(other).metadata.view();
    until(|| view().session_of(old.node).is_some_and(|session| session.epoch > old.epoch)).await;
    until(|| view().retired(old).is_some_and(|ended| ended.recovered)).await;
    cluster.append(other, "/a", "y").await;
    for node in 1..=3 {
        assert_eq!(cluster.read(node, "/a").await, "xy");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_decides_and_survives_a_restart_of_all_nodes() {
    let mut cluster = Cluster::three(6).await;
    let component = include_bytes!("../../../../guest/prebuilt/highest-id.wasm");
    let highest = headwater_policy::digest_of(component);
    let put = Command::PutPolicy {
        name: "highest-id".into(),
        version: "0.1.0".into(),
        needs_labels: false,
        component: component.as_slice().into(),
    };
    for command in [put, Command::ActivatePolicy { policy: highest }] {
        let outcome = cluster.parts(2).metadata.propose(command).await;
        assert!(matches!(outcome, Ok(Outcome::Applied(_))), "{outcome:?}");
    }
    for i in 0..4 {
        let path = format!("/s{i}");
        cluster.create(1, &path).await;
        cluster.append(1, &path, "x").await;
        assert_eq!(cluster.owner(1, &path), Some(3), "the highest id takes everything");
    }
    for node in 1..=3 {
        cluster.kill(node);
    }
    for node in 1..=3 {
        let config = cluster.config(node);
        cluster.try_start(config).await.unwrap();
    }
    for node in 1..=3 {
        cluster.serves(node).await;
        let policies = &cluster.parts(node).policies;
        until(|| policies.active() == Some(highest)).await;
    }
    until(|| {
        let digests: Vec<_> = (1..=3).map(|node| cluster.parts(node).metadata.view().digests()).collect();
        digests.iter().all(|digest| *digest == digests[0])
    })
    .await;
    assert_eq!(cluster.parts(1).metadata.view().active_policy().policy, highest);
    assert_ne!(highest, Digest::BUILTIN);
}

#[tokio::test(start_paused = true)]
async fn the_streams_of_a_killed_node_are_taken_over_without_anybody() {
    let mut cluster = Cluster::three(7).await;
    for i in 0..6 {
        let path = format!("/s{i}");
        cluster.create(1, &path).await;
        cluster.append(1, &path, "before ").await;
    }
    let owner = cluster.owner(1, "/s0").unwrap();
    let other = 1 + owner % 3;
    let dead = cluster.parts(other).metadata.view().session_of(headwater_metadata::NodeId(owner)).unwrap();
    cluster.kill(owner);
    let started = tokio::time::Instant::now();
    for i in 0..6 {
        let path = format!("/s{i}");
        cluster.append(other, &path, "after").await;
        assert_eq!(cluster.read(other, &path).await, "before after");
    }
    let took = started.elapsed();
    // Five seconds of silence, two leases, and a little.
    assert!(took.as_secs() < 15, "it took {took:?}");
    let view = cluster.parts(other).metadata.view();
    assert!(view.retired(dead).is_some_and(|ended| ended.recovered), "evicted and recovered");
    cluster.start(owner).await;
    assert_eq!(cluster.read(owner, "/s0").await, "before after");
}

#[tokio::test(start_paused = true)]
async fn a_partitioned_owner_acknowledges_nothing_after_its_streams_are_taken_over() {
    let cluster = Cluster::three(8).await;
    cluster.create(1, "/a").await;
    cluster.append(1, "/a", "x").await;
    let owner = cluster.owner(1, "/a").unwrap();
    let others = [1 + owner % 3, 1 + (owner + 1) % 3];
    for other in others {
        cluster.world.cut(&format!("n{owner}"), &format!("n{other}"));
    }
    // Not sealed yet: what the store has is acknowledged, and will be recovered.
    let alone = cluster.ask(owner, Method::POST, "/a", "y").await.status;
    let view = || cluster.parts(others[0]).metadata.view();
    let old = cluster.parts(owner).streams.load_full().unwrap().session();
    until(|| view().retired(old).is_some_and(|ended| ended.recovered)).await;
    cluster.append(others[0], "/a", "z").await;
    let late = cluster.ask(owner, Method::POST, "/a", "lost").await;
    assert_ne!(late.status, StatusCode::NO_CONTENT, "{late:?}");
    let expected = if alone == StatusCode::NO_CONTENT { "xyz" } else { "xz" };
    for other in others {
        assert_eq!(cluster.read(other, "/a").await, expected);
    }
    for other in others {
        cluster.world.heal(&format!("n{owner}"), &format!("n{other}"));
    }
    cluster.serves(owner).await;
    assert_eq!(cluster.read(owner, "/a").await, expected);
}

#[tokio::test(start_paused = true)]
async fn what_an_ended_session_left_in_the_store_is_deleted_and_nothing_else() {
    use object_store::ObjectStoreExt;
    let mut cluster = Cluster::three(9).await;
    cluster.create(1, "/a").await;
    cluster.append(1, "/a", "kept").await;
    let owner = cluster.owner(1, "/a").unwrap();
    let old = cluster.parts(owner).streams.load_full().unwrap().session();
    cluster.kill(owner);
    cluster.start(owner).await;
    until(|| cluster.parts(owner).metadata.view().retired(old).is_some_and(|ended| ended.recovered)).await;
    // An upload that ended after the recovery had looked.
    let number = u64::MAX;
    let left = headwater_store::layout::data(headwater_metadata::ObjectKey { session: old, number });
    cluster.objects.put(&left, "late".into()).await.unwrap();
    for _ in 0..600 {
        if cluster.objects.head(&left).await.is_err() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(cluster.objects.head(&left).await.is_err(), "it is still there");
    assert_eq!(cluster.read(owner, "/a").await, "kept");
}
