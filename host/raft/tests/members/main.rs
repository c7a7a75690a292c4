//! Whole raft members in one process, on a clock, a network and disks that the test owns.
// The tests own the clock; what is unwrapped here is what they expect.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod faults;
mod forming;
mod harness;
mod life;
mod liveness;
mod real;
mod storage;
