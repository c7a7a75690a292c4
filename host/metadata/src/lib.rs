//! The cluster's metadata as a pure state machine: commands in, a new state and answers out.
//!
//! No async, no IO, no clock, no randomness, no iteration over unordered maps: the same log gives the
//! same state on every node. `model.rs` has the nouns, `command.rs` the verbs, `placement.rs` the one
//! question that apply asks of a policy. `state.rs` holds the values, `apply/` has the rules, `view.rs`
//! what readers see, `snapshot.rs` the stored form, `digest.rs` how two nodes find out that they differ.

mod apply;
pub mod command;
mod digest;
pub mod least_ratio;
pub mod model;
pub mod placement;
mod records;
mod runs;
pub mod snapshot;
mod state;
#[cfg(test)]
mod tests;
mod view;
mod weigh;

pub use apply::{MAX_COMPONENT, MAX_CONTENT_TYPE, MAX_NAME, MAX_POLICIES};
pub use command::*;
pub use digest::{Digests, sha256};
pub use model::*;
pub use placement::*;
pub use records::*;
pub use runs::Runs;
pub use state::{State, Totals};
pub use view::{Assigned, Effective, View};
