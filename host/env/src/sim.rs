//! Fakes: machines in one process, on a clock, a network and disks that a test owns.
//!
//! A [`World`] holds machines by name. [`World::env`] gives a process on a machine its surroundings;
//! [`World::crash`] ends that process as a power cut does: unflushed writes are lost at random, every
//! connection breaks, and what still runs of the old process can touch nothing any more. Run it on a
//! `current_thread` runtime with tokio's clock paused; then the same seed gives the same run.
//! `sim/net.rs` has the network, `sim/disk.rs` the disks.

mod disk;
mod net;

use crate::{BoxFuture, Clock, Disk, Entropy, Env, Net};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Machines, the links between them, and one clock.
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
}

struct Inner {
    seed: u64,
    start: Instant,
    net: net::SimNet,
    machines: Mutex<BTreeMap<String, Machine>>,
}

#[derive(Clone)]
struct Machine {
    disk: disk::SimDisk,
    offsets: Arc<Mutex<Offsets>>,
    entropy: Arc<SimEntropy>,
}

/// How far the clocks of a machine are off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offsets {
    /// Added to the wall clock, milliseconds.
    pub wall_ms: i64,
    /// Added to the boot-time clock: time that the machine slept.
    pub slept: Duration,
}

/// Wall clock at the start of every world: 2026-01-01.
const WALL_START_MS: u64 = 1_767_225_600_000;

impl World {
    /// A world without machines. The seed decides everything that is random in it.
    pub fn new(seed: u64) -> World {
        let inner =
            Inner { seed, start: Instant::now(), net: net::SimNet::new(), machines: Mutex::default() };
        World { inner: Arc::new(inner) }
    }

    fn machine(&self, name: &str) -> Machine {
        let mut machines = self.inner.machines.lock();
        let entry = machines.entry(name.to_owned()).or_insert_with(|| {
            let seed = name.bytes().fold(self.inner.seed, |h, b| mix(h ^ u64::from(b)));
            Machine {
                disk: disk::SimDisk::new(mix(seed)),
                offsets: Arc::default(),
                entropy: Arc::new(SimEntropy::new(seed)),
            }
        });
        entry.clone()
    }

    /// The surroundings of a new process on a machine, made when it does not exist yet. The machine's
    /// name is its host name. A machine has one process: an earlier one can use the disk no more.
    pub fn env(&self, name: &str) -> Env {
        let machine = self.machine(name);
        Env {
            clock: Arc::new(SimClock { start: self.inner.start, offsets: machine.offsets.clone() }),
            entropy: machine.entropy.clone(),
            net: Arc::new(self.inner.net.host(name)) as Arc<dyn Net>,
            disk: Arc::new(machine.disk.process()) as Arc<dyn Disk>,
        }
    }

    /// A power cut: unflushed writes are lost at random, connections break, the old process is cut off.
    pub fn crash(&self, name: &str) {
        self.inner.net.crash(name);
        self.machine(name).disk.crash(true);
    }

    /// A killed process: what it wrote stays, connections break, the old process is cut off.
    pub fn kill(&self, name: &str) {
        self.inner.net.crash(name);
        self.machine(name).disk.crash(false);
    }

    /// Sets how far a machine's clocks are off.
    pub fn set_offsets(&self, name: &str, offsets: Offsets) {
        *self.machine(name).offsets.lock() = offsets;
    }

    /// Nothing goes from one machine to the other any more; what is sent waits.
    pub fn cut_one_way(&self, from: &str, to: &str) {
        self.inner.net.set_cut(from, to, true);
    }

    /// Cuts both directions.
    pub fn cut(&self, a: &str, b: &str) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// Mends both directions.
    pub fn heal(&self, a: &str, b: &str) {
        self.inner.net.set_cut(a, b, false);
        self.inner.net.set_cut(b, a, false);
    }

    /// Everything from one machine to the other takes so long.
    pub fn delay(&self, from: &str, to: &str, delay: Duration) {
        self.inner.net.set_delay(from, to, delay);
    }

    /// Breaks every connection between two machines, once.
    pub fn reset(&self, a: &str, b: &str) {
        self.inner.net.reset(a, b);
    }

    /// The disk of a machine, to damage and to inspect it.
    pub fn disk(&self, name: &str) -> disk::SimDisk {
        self.machine(name).disk
    }
}

pub use disk::SimDisk;

struct SimClock {
    start: Instant,
    offsets: Arc<Mutex<Offsets>>,
}

impl Clock for SimClock {
    fn wall_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        (WALL_START_MS + elapsed).saturating_add_signed(self.offsets.lock().wall_ms)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn boot(&self) -> Duration {
        self.start.elapsed() + self.offsets.lock().slept
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A seeded sequence (SplitMix64).
struct SimEntropy {
    state: Mutex<u64>,
}

pub(crate) fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl SimEntropy {
    fn new(seed: u64) -> SimEntropy {
        SimEntropy { state: Mutex::new(seed) }
    }
}

impl Entropy for SimEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        let mut state = self.state.lock();
        for chunk in buffer.chunks_mut(8) {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            chunk.copy_from_slice(&mix(*state).to_le_bytes()[..chunk.len()]);
        }
    }
}
