//! Compaction, restarts, crashes, damaged files, failing disks.

use crate::harness::*;
use headwater_env::sim::World;
use headwater_raft::*;
use std::path::PathBuf;

fn small(options: &mut Options) {
    options.snapshot_every = 100;
    options.keep_entries = 10;
}

async fn fill(node: &Node, prefix: &str, count: usize) {
    for i in 0..count {
        node.creates(&format!("/{prefix}/{i}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn rft_01_members_restart_after_their_log_was_compacted() {
    let world = World::new(101);
    let (mut nodes, setup) = three(&world, small).await;
    fill(&nodes[0], "a", 400).await;
    until(|| nodes.iter().all(|node| node.metadata.status().purged.is_some())).await;
    assert!(nodes[0].metadata.status().counters.snapshots_built > 0);
    // Each alone.
    for name in ["n1", "n2", "n3"] {
        let applied = nodes[0].metadata.status().applied;
        world.crash(name);
        let node = nodes.remove(0);
        assert_eq!(node.name, name);
        drop(node);
        let back = start(&world, name, &setup).await;
        assert!(back.metadata.status().applied >= applied);
        fill(&back, name, 20).await;
        nodes.push(back);
    }
    agree(&nodes.iter().collect::<Vec<_>>()).await;
    // All at once, twice.
    for round in 0..2 {
        let (total, applied) = (nodes[0].metadata.view().totals(), nodes[0].metadata.status().applied);
        for name in ["n1", "n2", "n3"] {
            world.crash(name);
        }
        nodes.clear();
        let (a, b, c) = tokio::join!(
            start(&world, "n1", &setup),
            start(&world, "n2", &setup),
            start(&world, "n3", &setup)
        );
        nodes = vec![a, b, c];
        assert_eq!(nodes[0].metadata.view().totals(), total);
        assert!(nodes[0].metadata.status().applied >= applied);
        fill(&nodes[round], &format!("r{round}"), 150).await;
        agree(&nodes.iter().collect::<Vec<_>>()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn rft_01_a_member_restored_from_a_backup_before_the_purge_catches_up() {
    let world = World::new(102);
    let (mut nodes, setup) = three(&world, small).await;
    fill(&nodes[0], "a", 30).await;
    agree(&nodes.iter().collect::<Vec<_>>()).await;
    let image = world.disk("n3").image();
    fill(&nodes[0], "b", 300).await;
    world.kill("n3");
    nodes.pop();
    world.disk("n3").restore(image);
    let back = start(&world, "n3", &setup).await;
    agree(&[&nodes[0], &nodes[1], &back]).await;
    fill(&back, "c", 5).await;
}

#[tokio::test(start_paused = true)]
async fn rft_11_a_lagging_member_catches_up_by_a_snapshot_in_an_idle_cluster() {
    let world = World::new(103);
    let (mut nodes, setup) = three(&world, small).await;
    world.kill("n3");
    nodes.pop();
    fill(&nodes[0], "a", 400).await;
    let last = nodes[0].metadata.status().applied;
    // Idle from here on; a link that breaks in the middle does not start the snapshot over.
    let bare = start_bare(&world, "n3", &setup).await.unwrap().0;
    until(|| bare.status().applied >= last).await;
    let counters = bare.status().counters;
    assert_eq!(counters.snapshots_installed, 1);
    assert!(counters.snapshot_chunks_received > 0);
    // A new member, too.
    let fresh = start_bare(&world, "n4", &setup).await.unwrap().0;
    until(|| fresh.status().applied >= last).await;
    assert_eq!(fresh.view().digests(), bare.view().digests());
    assert!(world.disk("n3").files().iter().all(|path| path.extension().is_none_or(|e| e != "tmp")));
}

fn snapshot_file(world: &World, name: &str) -> PathBuf {
    let files = world.disk(name).files();
    files.into_iter().find(|path| path.extension().is_some_and(|e| e == "snap")).expect("a snapshot")
}

#[tokio::test(start_paused = true)]
async fn rft_03_damaged_files_are_refused_by_name_and_the_remedy_works() {
    let world = World::new(104);
    let (mut nodes, setup) = three(&world, small).await;
    fill(&nodes[0], "a", 300).await;
    until(|| nodes[1].metadata.status().purged.is_some()).await;
    agree(&nodes.iter().collect::<Vec<_>>()).await;
    let second = nodes.remove(1);
    second.metadata.shutdown().await;
    drop(second);
    let good = world.disk("n2").image();
    let other = world.disk(&nodes[0].name).image();
    let snapshot = snapshot_file(&world, "n2");
    let (log, identity) = (file("raft.redb"), file("identity"));
    type Damage = Box<dyn Fn(&mut Vec<u8>)>;
    let middle = |bytes: &mut Vec<u8>| {
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
    };
    let mut cases: Vec<(&str, PathBuf, Damage)> = Vec::new();
    for path in [&log, &snapshot, &identity] {
        for cut in [1, 7, 100] {
            let damage = move |bytes: &mut Vec<u8>| bytes.truncate(bytes.len().saturating_sub(cut));
            cases.push(("cut", path.clone(), Box::new(damage)));
        }
        cases.push(("empty", path.clone(), Box::new(|bytes: &mut Vec<u8>| bytes.clear())));
    }
    for path in [&snapshot, &identity] {
        cases.push(("flip", path.clone(), Box::new(middle)));
    }
    let zero = |bytes: &mut Vec<u8>| {
        let from = bytes.len().saturating_sub(4096);
        bytes[from..].fill(0);
    };
    cases.push(("zero", snapshot.clone(), Box::new(zero)));
    let theirs = other[&log].clone();
    cases.push(("foreign", log.clone(), Box::new(move |bytes| *bytes = theirs.clone())));
    let theirs = other[&identity].clone();
    cases.push(("foreign", identity.clone(), Box::new(move |bytes| *bytes = theirs.clone())));
    for (what, path, damage) in cases {
        world.disk("n2").restore(good.clone());
        world.disk("n2").damage(&path, damage);
        let error = start_bare(&world, "n2", &setup).await.err();
        let error = error.unwrap_or_else(|| panic!("{what} {}: it started", path.display())).to_string();
        assert!(error.contains(path.file_name().unwrap().to_str().unwrap()) || what == "foreign", "{error}");
    }
    // Gone, and a directory in its place.
    for path in [&log, &snapshot, &identity] {
        world.disk("n2").restore(good.clone());
        world.disk("n2").delete(path);
        let error = start_bare(&world, "n2", &setup).await.err().expect("it started").to_string();
        assert!(error.contains("/data"), "{error}");
        world.disk("n2").restore(good.clone());
        world.disk("n2").make_dir(path);
        let started = start_bare(&world, "n2", &setup).await;
        assert!(started.is_err(), "{} is a directory", path.display());
        world.disk("n2").remove_dir(path);
    }
    // The remedy: an empty directory, a new member.
    world.disk("n2").wipe();
    let back = start(&world, "n2", &setup).await;
    agree(&[&nodes[0], &nodes[1], &back]).await;
}

/// Flips bytes all over the log of a stopped member: it is refused by name, or comes up with the same
/// state. Never anything else.
async fn flips(seed: u64, crashed: bool) {
    let world = World::new(seed);
    let (mut nodes, setup) = three(&world, small).await;
    fill(&nodes[0], "a", 130).await;
    agree(&nodes.iter().collect::<Vec<_>>()).await;
    let digests = nodes[0].digests();
    let second = nodes.remove(1);
    match crashed {
        true => world.crash("n2"),
        false => second.metadata.shutdown().await,
    }
    drop(second);
    let good = world.disk("n2").image();
    let log = file("raft.redb");
    let len = good[&log].len();
    let mut refused = 0;
    for step in 0..24 {
        world.disk("n2").restore(good.clone());
        world.disk("n2").damage(&log, |bytes| bytes[len * step / 24 + 13] ^= 0x40);
        match start_bare(&world, "n2", &setup).await {
            Err(error) => {
                assert!(error.to_string().contains("raft.redb"), "{error}");
                refused += 1;
            }
            // A byte that nothing refers to, or the last flush is lost as by a torn write.
            Ok((metadata, _, _)) => {
                until(|| metadata.view().digests() == digests).await;
                metadata.shutdown().await;
            }
        }
    }
    assert!(refused > 0);
}

#[tokio::test(start_paused = true)]
async fn rft_03_a_flipped_byte_anywhere_in_a_closed_log_is_never_believed() {
    flips(105, false).await;
}

#[tokio::test(start_paused = true)]
async fn rft_03_a_flipped_byte_anywhere_in_the_log_of_a_crashed_member_is_never_believed() {
    flips(107, true).await;
}

#[tokio::test(start_paused = true)]
async fn rft_14_a_failed_flush_stops_the_member_and_nothing_that_rests_on_it_was_said() {
    let world = World::new(106);
    let (mut nodes, setup) = three(&world, |_| {}).await;
    let at = leader(&nodes);
    let name = nodes[at].name.clone();
    fill(&nodes[at], "a", 5).await;
    world.disk(&name).fail_sync("raft.redb", 2);
    let mut created = Vec::new();
    for i in 0..10 {
        let stream = format!("/x/{i}");
        if nodes[at].metadata.propose(create(&stream)).await.is_ok() {
            created.push(stream);
        }
    }
    assert!(created.len() < 10);
    let fatal = nodes[at].metadata.fatal().borrow().clone();
    assert!(matches!(fatal, Some(Fatal::Disk(_))), "{fatal:?}");
    world.crash(&name);
    let dead = nodes.remove(at);
    drop(dead);
    until(|| nodes.iter().any(Node::leads)).await;
    let back = start(&world, &name, &setup).await;
    for stream in created {
        assert!(nodes[0].metadata.view().stream_by_name(&stream).is_some(), "{stream} is lost");
    }
    agree(&[&nodes[0], &nodes[1], &back]).await;
}

#[tokio::test(start_paused = true)]
async fn crashes_under_load_lose_nothing_that_was_answered() {
    for seed in 0..4 {
        let world = World::new(200 + seed);
        let (mut nodes, setup) = three(&world, small).await;
        let mut answered = Vec::new();
        for round in 0..6 {
            let names: Vec<String> = (0..40).map(|i| format!("/{round}/{i}")).collect();
            let proposer = &nodes[round % 3];
            let load = futures_util::future::join_all(
                names.iter().map(|name| proposer.metadata.propose(create(name))),
            );
            let victim = ["n1", "n2", "n3"][(round + usize::try_from(seed).unwrap()) % 3];
            let cut = async {
                tokio::time::sleep(std::time::Duration::from_micros(300 * (round as u64 + 1))).await;
                world.crash(victim);
            };
            let (outcomes, ()) = tokio::join!(load, cut);
            answered.extend(
                names.into_iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok()).map(|(name, _)| name),
            );
            let at = nodes.iter().position(|node| node.name == victim).unwrap();
            nodes[at] = start(&world, victim, &setup).await;
        }
        agree(&nodes.iter().collect::<Vec<_>>()).await;
        for name in &answered {
            assert!(nodes[0].metadata.view().stream_by_name(name).is_some(), "seed {seed}: {name} is lost");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rft_01_a_power_cut_at_any_flush_leaves_a_member_that_starts_again() {
    fn tiny(options: &mut Options) {
        options.snapshot_every = 12;
        options.keep_entries = 3;
    }
    for at in (0..30).step_by(2) {
        let world = World::new(300 + at);
        let (mut nodes, setup) = three(&world, tiny).await;
        let part = if at % 3 == 0 { "building.tmp" } else { "raft.redb" };
        world.disk("n2").fail_sync(part, at / if at % 3 == 0 { 9 } else { 1 });
        fill(&nodes[0], "a", 50).await;
        until(|| nodes[1].metadata.fatal().borrow().is_some()).await;
        world.crash("n2");
        nodes.remove(1);
        let back = start(&world, "n2", &setup).await;
        fill(&back, "b", 20).await;
        agree(&[&nodes[0], &nodes[1], &back]).await;
    }
}
