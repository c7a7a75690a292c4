//! Founding, joining, proposing from everywhere, losing the leader.

use crate::harness::*;
use headwater_env::sim::World;
use headwater_metadata::*;
use headwater_raft::*;
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
