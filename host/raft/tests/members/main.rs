//! Whole raft members in one process, on a clock, a network and disks that the test owns.

mod forming;
mod harness;
