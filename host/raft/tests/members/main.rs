//! Whole raft members in one process, on a clock, a network and disks that the test owns.

mod faults;
mod forming;
mod harness;
mod storage;
