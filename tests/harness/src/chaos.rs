//! Random faults, by a seed: which fault, whom it meets and how long it lasts follow from the seed alone,
//! so that a failing round can be played again as far as real processes allow.

use crate::cluster::Cluster;
use crate::load::Load;
use crate::s3::{Effect, Rule};
use anyhow::{Context, Result};
use std::fmt;
use std::time::Duration;

/// A sequence of random numbers (SplitMix64).
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}

/// The seed of this run: `HEADWATER_SEED`, or one from the clock.
pub fn seed() -> u64 {
    let given = std::env::var("HEADWATER_SEED").ok().and_then(|s| s.parse().ok());
    given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |t| u64::try_from(t.as_millis()).unwrap_or(1))
    })
}

/// A fault and whom it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9`, and a new start at once or after a while.
    Kill(u64),
    /// All nodes are killed at once.
    KillAll,
    /// `SIGSTOP` for a while.
    Pause(u64),
    /// `SIGTERM`, and a new start.
    Stop(u64),
    /// Cut from the other nodes, not from the store and not from clients.
    Isolate(u64),
    /// Cut from the other nodes with resets.
    Reset(u64),
    /// What the others say to it comes late.
    Slow(u64),
    /// Killed, and its clock is this many milliseconds off from then on.
    Clock(u64, i64),
    /// The store loses answers.
    StoreLoses,
    /// The store refuses with 503.
    StoreRefuses,
    /// The store is slow.
    StoreSlow,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Fault {
    /// The next fault of a sequence.
    pub fn next(random: &mut Random, nodes: u64, store_faults: bool) -> Fault {
        let node = 1 + random.below(nodes);
        match random.below(if store_faults { 14 } else { 11 }) {
            0..3 => Fault::Kill(node),
            3 => Fault::KillAll,
            4..6 => Fault::Pause(node),
            6 => Fault::Stop(node),
            7 => Fault::Isolate(node),
            8 => Fault::Reset(node),
            9 => Fault::Slow(node),
            // Only ever forward: a clock that goes back is refused, which is a test of its own.
            10 => Fault::Clock(node, i64::try_from(1_000 + random.below(60_000)).unwrap_or(1_000)),
            11 => Fault::StoreLoses,
            12 => Fault::StoreRefuses,
            _ => Fault::StoreSlow,
        }
    }

    /// Makes it happen, keeps it up for this long, and takes it back.
    pub async fn inflict(self, cluster: &Cluster, lasting: Duration) -> Result<()> {
        match self {
            Fault::Kill(id) => {
                cluster.node(id).kill().await?;
                tokio::time::sleep(lasting).await;
                cluster.node(id).spawn()?;
            }
            Fault::KillAll => {
                cluster.kill_all().await?;
                cluster.nodes().iter().try_for_each(crate::Node::spawn)?;
            }
            Fault::Pause(id) => {
                cluster.node(id).pause()?;
                tokio::time::sleep(lasting).await;
                cluster.node(id).resume()?;
            }
            Fault::Stop(id) => {
                cluster.node(id).terminate().await?;
                cluster.node(id).spawn()?;
            }
            Fault::Isolate(id) | Fault::Reset(id) => {
                if matches!(self, Fault::Reset(_)) {
                    for id in cluster.ids() {
                        cluster.peer_proxy(id)?.reset_when_cut();
                    }
                }
                cluster.isolate(id)?;
                tokio::time::sleep(lasting).await;
                cluster.heal();
            }
            Fault::Slow(id) => {
                cluster.peer_proxy(id)?.delay(Duration::from_millis(80));
                tokio::time::sleep(lasting).await;
                cluster.heal();
            }
            Fault::Clock(id, by) => {
                cluster.node(id).kill().await?;
                cluster.node(id).configure(|settings| {
                    let offset =
                        settings.env.entry("HEADWATER_FAULT_CLOCK_OFFSET_MS".to_owned()).or_default();
                    *offset = (offset.parse().unwrap_or(0) + by).to_string();
                });
                cluster.node(id).spawn()?;
            }
            Fault::StoreLoses | Fault::StoreRefuses | Fault::StoreSlow => {
                let effect = match self {
                    Fault::StoreLoses => Effect::LoseAnswer,
                    Fault::StoreRefuses => Effect::AnswerInstead(503),
                    _ => Effect::Delay(Duration::from_millis(300)),
                };
                cluster.store_proxy()?.plant(vec![Rule::new(effect, |_, _| true).percent(40)]);
                tokio::time::sleep(lasting).await;
                cluster.store_proxy()?.mend();
            }
        }
        Ok(())
    }
}

/// Rounds of random faults under a load: after each one all nodes serve again and the load gets on.
pub async fn rounds(cluster: &Cluster, load: &Load, seed: u64, count: u64, store_faults: bool) -> Result<()> {
    let mut random = Random::new(seed);
    for round in 0..count {
        let fault = Fault::next(&mut random, cluster.ids().len() as u64, store_faults);
        let lasting = Duration::from_millis(100 + random.below(3_000));
        let context = || format!("seed {seed}, round {round}: {fault} for {lasting:?}");
        println!("{}", context());
        let moment = 1 + usize::try_from(random.below(40)).unwrap_or(0);
        load.progress(moment).await.with_context(context)?;
        fault.inflict(cluster, lasting).await.with_context(context)?;
        for node in cluster.nodes() {
            if node.poll_exit().is_some() {
                node.spawn()?;
            }
            node.wait_ready().await.with_context(context)?;
        }
        load.progress(5).await.with_context(context)?;
    }
    Ok(())
}
