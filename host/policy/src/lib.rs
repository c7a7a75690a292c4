//! Runs policies: WebAssembly components that choose owners and routes.
//!
//! A policy can be slow, stupid or broken; nothing here lets it be more than that. It imports nothing, its
//! fuel, memory and stack are bounded, and when it fails the native rule decides and a counter rises.
//! This crate never touches the network, the disk or a clock.
//!
//! - `engine.rs`: the two engines, their limits, the fingerprint
//! - `bindings.rs`: what `wit/policy.wit` gives, and the translation from and to the metadata's types
//! - `policies.rs`: the policies of this node, compiled; which one routes. Start here
//! - `placement.rs`: one decision of placement inside apply
//! - `routing.rs`: one decision of routing on the path of a request
//! - `check.rs`, `battery.rs`: may this component become a policy of the cluster?
//! - `counters.rs`: what happened
//! - `trial.rs`: a policy without a cluster; `scenario/` and `simulate/` try it out on described ones

mod battery;
mod bindings;
mod check;
mod counters;
mod engine;
mod placement;
mod policies;
mod routing;
pub mod scenario;
pub mod simulate;
mod trial;

pub use check::{Description, Refused, Report, check};
pub use counters::{Cause, Counts};
pub use engine::{EngineError, Limits, MAX_COMPONENT_BYTES};
pub use policies::{HostFailure, NotReady, Options, Policies, Routed};
pub use routing::{Decision, Operation, Ownership, native_route};
pub use trial::{Lacking, Node, Placed, Trial};

use headwater_metadata::Digest;
use sha2::{Digest as _, Sha256};
use std::sync::LazyLock;

/// The policy that is embedded in the binary: *least-ratio*, with its digest.
pub fn builtin() -> (Digest, &'static [u8]) {
    static DIGEST: LazyLock<Digest> = LazyLock::new(|| digest_of(BUILTIN));
    (*DIGEST, BUILTIN)
}

const BUILTIN: &[u8] = include_bytes!("../../../guest/prebuilt/least-ratio.wasm");

/// SHA-256 of a component: its name in the cluster.
pub fn digest_of(component: &[u8]) -> Digest {
    Digest(Sha256::digest(component).into())
}
