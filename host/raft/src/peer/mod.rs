//! Talking to the other members: one listener, authenticated HTTP/2, a version byte on each message.
//!
//! `auth` who may · `book` where they are · `pool` asking · `network` raft's messages out ·
//! `server` everything in · `receive` snapshots in · `hello` telling the own address, joining.

pub(crate) mod auth;
pub(crate) mod book;
pub(crate) mod hello;
pub(crate) mod network;
pub(crate) mod pool;
pub(crate) mod receive;
pub(crate) mod server;
