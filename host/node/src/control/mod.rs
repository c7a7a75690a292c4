//! What a node does unasked: recovers ended sessions, hands streams over, deletes what nothing refers to.
//!
//! `plan.rs` decides, from a view and the time alone; `execute.rs` does it, each action in a task of
//! its own; `collect.rs` cleans the store, `sweep.rs` deletes streams that are over, `health.rs` tells the leader whether it works. Nothing here is needed for safety: whatever two nodes do at
//! the same time, the metadata log takes it once.

mod collect;
mod execute;
mod health;
mod plan;
mod sweep;

pub use execute::run;
pub use health::watch_store;
pub use plan::{Action, Facts, plan};
