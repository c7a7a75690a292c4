//! Tests of whole clusters: real `headwater serve` processes, asked over HTTP. A file per topic.
//!
//! They wait for conditions and assert no speed. `HEADWATER_ROUNDS` says how often the rounds of
//! `durability.rs` are repeated.

#![allow(
    clippy::disallowed_methods,
    reason = "the tests stand around the nodes: they own real files, processes and sockets"
)]

mod common;
mod durability;
mod failover;
mod faults;
mod hostile_policy;
mod hot_swap;
mod moves;
mod no_quorum;
mod placement;
mod quickstart;
mod redirects;
mod registration;
mod request_ids;
mod snapshots;
mod store;
mod wire;
