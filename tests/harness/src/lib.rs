//! The harness of the whole-cluster tests: real `headwater serve` processes on free ports, with logs
//! that are kept, faults that can be planted, and histories that a checker judges.
//!
//! It knows the product from outside only: the command line, HTTP and the admin API. Tests wait for
//! conditions ([`wait`]) and never for a time; every request has a limit ([`LIVE`]).
//!
//! Start with `cluster.rs`; `node.rs` is one process, `http.rs` the client, `proxy.rs` and `s3.rs` stand
//! between nodes and between a node and its store, `load.rs` writes and reads while faults happen,
//! `checker.rs` decides whether what came back was right.

#![allow(
    clippy::disallowed_methods,
    reason = "the harness is the world around the nodes: it owns real clocks, sockets and files"
)]

pub mod admin;
pub mod chaos;
pub mod checker;
pub mod cluster;
pub mod history;
pub mod http;
pub mod load;
pub mod node;
mod ports;
pub mod proxy;
pub mod raw;
mod run;
pub mod s3;
pub mod wait;

pub use admin::Admin;
pub use cluster::{Builder, Cluster, Store};
pub use http::{Answer, Client};
pub use node::Node;
pub use run::run;
pub use wait::{eventually, wait_until};

use std::time::Duration;

/// Every request gets a final answer within this time: never a silent hang.
pub const LIVE: Duration = Duration::from_secs(30);
