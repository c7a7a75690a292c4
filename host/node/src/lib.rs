//! One node of Headwater, and the commands of its binary.
//!
//! The module map, from the outside in: `cli` (the commands), `config` (what `serve` may be told),
//! `node` (the composition root: build, start, drain in reverse), `http` (the way of a request),
//! `stream` (what an open stream is), `control` (what a node does unasked), `admin` (a listener of
//! its own).

pub mod admin;
pub mod cli;
pub mod config;
pub mod control;
pub mod http;
mod messages;
pub mod node;
pub mod stream;
