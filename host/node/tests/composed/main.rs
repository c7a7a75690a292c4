//! Composed nodes in one process: three of them on a clock, a network and disks that the test owns, over
//! one store in memory. Everything is real but the surroundings.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the test owns the clock: tokio's, paused"
)]

mod admin;
mod cluster;
mod harness;
mod starting;
