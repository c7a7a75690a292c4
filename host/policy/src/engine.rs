//! The two engines, one for placement and one for routing, and what bounds a guest in them.
//!
//! Everything that can make two nodes differ is fixed here: no threads, no relaxed SIMD, canonical NaNs,
//! costs of operators of our own, code for the baseline of the architecture and never for the processor
//! that happens to be there. Neither engine looks at a clock.

use crate::counters::Cause;
use headwater_metadata::Digest;
use sha2::{Digest as _, Sha256};
use std::hash::{Hash, Hasher};
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, OperatorCost, PoolConcurrencyLimitError,
    PoolingAllocationConfig, ResourceLimiter, Store, Trap, VariableOperatorCost,
};

/// The largest component that can become a policy.
pub const MAX_COMPONENT_BYTES: usize = 8 << 20;

/// Placements that may run at the same time in one process; apply needs one, checks and simulations share
/// the rest.
const PLACEMENT_INSTANCES: u32 = 16;
const KEEP_RESIDENT: usize = 256 << 10;
const MAX_TABLE_ELEMENTS: usize = 20_000;

/// What a call may use. The same on every node of a version: part of the engine's fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Fuel of a placement, whatever the number of candidates.
    pub place_fuel: u64,
    /// Fuel of a placement for each candidate, on top.
    pub place_fuel_per_candidate: u64,
    /// Fuel of a route.
    pub route_fuel: u64,
    /// Linear memory of an instance in bytes.
    pub memory: usize,
    /// Stack of a call in bytes.
    pub stack: usize,
}

impl Limits {
    /// What policies get. An endless loop takes about 4 ms in a placement and 0.2 ms in a route.
    pub const STANDARD: Limits = Limits {
        place_fuel: 20_000_000,
        place_fuel_per_candidate: 20_000,
        route_fuel: 1_000_000,
        memory: 64 << 20,
        stack: 256 << 10,
    };

    /// What a policy must make do with when it is pushed, so that none comes near a limit later.
    pub(crate) const STRICT: Limits = Limits {
        place_fuel: Self::STANDARD.place_fuel / 4,
        place_fuel_per_candidate: Self::STANDARD.place_fuel_per_candidate / 4,
        route_fuel: Self::STANDARD.route_fuel / 4,
        memory: Self::STANDARD.memory / 4,
        stack: Self::STANDARD.stack / 4,
    };

    /// Fuel of a placement among this many candidates.
    pub fn place_fuel(&self, candidates: usize) -> u64 {
        self.place_fuel + self.place_fuel_per_candidate * candidates as u64
    }
}

/// An engine could not be made: the host's affair, and the end of the start.
#[derive(Debug, thiserror::Error)]
#[error("the WebAssembly engine does not start on this machine: {0}")]
pub struct EngineError(String);

/// Engine of placement: pooled memory, so that a fresh instance is cheap.
pub(crate) fn placement(limits: Limits) -> Result<Engine, EngineError> {
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(PLACEMENT_INSTANCES)
        .total_core_instances(PLACEMENT_INSTANCES * 4)
        .total_memories(PLACEMENT_INSTANCES * 2)
        .total_tables(PLACEMENT_INSTANCES * 4)
        .max_memories_per_component(2)
        .max_core_instances_per_component(16)
        .max_tables_per_component(4)
        .max_memory_size(limits.memory)
        .table_elements(MAX_TABLE_ELEMENTS)
        .linear_memory_keep_resident(KEEP_RESIDENT);
    let mut config = common(limits)?;
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    // Address space for each slot, no more than a guest may have.
    config.memory_reservation(limits.memory as u64);
    Engine::new(&config).map_err(|error| EngineError(format!("{error:#}")))
}

/// Engine of routing: instances live long, so memory comes on demand.
pub(crate) fn routing(limits: Limits) -> Result<Engine, EngineError> {
    let mut config = common(limits)?;
    config.memory_reservation(limits.memory as u64);
    Engine::new(&config).map_err(|error| EngineError(format!("{error:#}")))
}

fn common(limits: Limits) -> Result<Config, EngineError> {
    let mut config = Config::new();
    // A named target switches off the detection of the processor's features.
    config.target(&baseline()).map_err(|error| EngineError(format!("{error:#}")))?;
    config
        .consume_fuel(true)
        .operator_cost(costs())
        .max_wasm_stack(limits.stack)
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .relaxed_simd_deterministic(true)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_backtrace_max_frames(None)
        // One compile uses one core, so that an arriving policy does not take the node's others.
        .parallel_compilation(false);
    Ok(config)
}

/// Fixed here, so that an update of the library does not change what a policy can afford.
fn costs() -> OperatorCost {
    let mut costs = OperatorCost::new();
    costs.variable = VariableOperatorCost {
        memory_copy_per_byte: 1,
        memory_fill_per_byte: 1,
        memory_init_per_byte: 1,
        // A page must be cleared, 64 KiB of it.
        memory_grow_per_page: 255,
        ..VariableOperatorCost::new()
    };
    costs
}

/// The machine's architecture and system without anything about its processor.
fn baseline() -> String {
    let system = match std::env::consts::OS {
        "macos" => "apple-darwin",
        "windows" => "pc-windows-msvc",
        _ if cfg!(target_env = "musl") => "unknown-linux-musl",
        _ => "unknown-linux-gnu",
    };
    format!("{}-{system}", std::env::consts::ARCH)
}

/// What decides whether two engines place alike: wasmtime's own hash of version, target and settings,
/// and our limits.
pub(crate) fn fingerprint(engine: &Engine, limits: Limits) -> Digest {
    struct Sha(Sha256);
    impl Hasher for Sha {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            unreachable!("only the whole digest is asked for")
        }
    }
    let mut sha = Sha(Sha256::new_with_prefix(b"headwater engine 1"));
    engine.precompile_compatibility_hash().hash(&mut sha);
    limits.hash(&mut sha);
    Digest(sha.0.finalize().into())
}

/// What belongs to one instance: the limiter of its memory.
pub(crate) struct Guest {
    memory: usize,
    /// The host had no memory for a growth that the limit allows: no other node need have seen that.
    pub(crate) host_failed: bool,
}

impl Guest {
    pub(crate) fn store(engine: &Engine, memory: usize, fuel: u64) -> Store<Guest> {
        let mut store = Store::new(engine, Guest { memory, host_failed: false });
        store.limiter(|guest| guest);
        store.set_fuel(fuel).expect("the engine meters fuel");
        store
    }
}

impl ResourceLimiter for Guest {
    fn memory_growing(&mut self, _: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= self.memory && maximum.is_none_or(|maximum| desired <= maximum))
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        // Beyond what 32 bits can address the growth fails before the limiter is asked: the guest's fault.
        self.host_failed |= !error.to_string().contains("memory type's limits");
        Ok(())
    }

    fn table_growing(&mut self, _: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE_ELEMENTS && maximum.is_none_or(|maximum| desired <= maximum))
    }

    fn instances(&self) -> usize {
        16
    }

    fn tables(&self) -> usize {
        4
    }

    fn memories(&self) -> usize {
        2
    }
}

/// The host had no instance to give: nothing that the guest did.
pub(crate) fn is_host_affair(error: &wasmtime::Error) -> bool {
    error.is::<PoolConcurrencyLimitError>()
}

/// Names the guest's fault.
pub(crate) fn cause_of(error: &wasmtime::Error) -> Cause {
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => Cause::Fuel,
        _ => Cause::Trap,
    }
}
