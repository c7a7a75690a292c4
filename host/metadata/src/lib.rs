//! The cluster's metadata as a pure state machine: commands in, a new state and answers out.
//!
//! No async, no IO, no clock, no randomness, no iteration over unordered maps: the same log gives the
//! same state on every node. `model.rs` has the nouns, `command.rs` the verbs, `placement.rs` the one
//! question that apply asks of a policy.

pub mod command;
pub mod model;
pub mod placement;

pub use command::*;
pub use model::*;
pub use placement::*;
