//! What a policy is written against: plain Rust types, one trait, one macro.
//!
//! A policy is one `impl Policy`. Natively it is an ordinary library with ordinary unit tests; nothing of
//! WebAssembly is compiled in. For `wasm32`, [`export_policy!`] adds the exports of the world in
//! `wit/policy.wit` and nothing else: a policy that imports something is refused by the host.
//!
//! ```
//! use headwater_policy_sdk::{Candidate, Description, NodeId, Policy, Subject, export_policy};
//!
//! /// Gives everything to the lowest node id.
//! pub struct Lowest;
//!
//! impl Policy for Lowest {
//!     fn describe() -> Description {
//!         Description::new("lowest", "1.0.0", "The lowest node id takes everything.")
//!     }
//!
//!     fn place(_: &Subject, candidates: &[Candidate]) -> Option<NodeId> {
//!         candidates.iter().map(|candidate| candidate.id).min()
//!     }
//! }
//!
//! export_policy!(Lowest);
//! ```
//!
//! [`least_ratio`] and [`draw`] are what the shipped policies share: the least filled node, and lots that
//! keep streams where they are when nodes come and go.

mod choose;
pub mod draw;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod exports;
mod types;

pub use choose::{by_ratio, least_ratio};
pub use types::*;

/// What a policy decides. All three are pure functions of their arguments: no clock, no randomness, and
/// no state that outlives a call (placement runs on a fresh instance each time).
pub trait Policy {
    /// What the policy is called and what it asks for.
    fn describe() -> Description;

    /// Chooses the owner of a stream: one of the candidates' ids, which come in id order. `None` leaves
    /// the choice to the host's built-in rule.
    fn place(subject: &Subject, candidates: &[Candidate]) -> Option<NodeId>;

    /// Decides where a request goes. Runs on every request. Unless it is overridden, requests go to the
    /// owner, and are served here when there is none.
    fn route(here: NodeId, operation: Operation, ownership: Ownership) -> Decision {
        let _ = operation;
        ownership.owner().filter(|owner| *owner != here).map_or(Decision::ServeHere, Decision::Redirect)
    }
}

/// Exports a [`Policy`] as a component when the crate is built for `wasm32`; does nothing otherwise, so
/// that one native test binary can link many policies.
#[macro_export]
macro_rules! export_policy {
    ($policy:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            struct Exported;
            $crate::__implement_exports!(Exported, $policy);
    $crate::exports::bindings::export_world!(Exported with_types_in $crate::exports::bindings);
        };
    };
}
