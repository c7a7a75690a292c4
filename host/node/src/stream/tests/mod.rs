//! The streams of whole processes, in one process: a real metadata state, a real write-ahead log over
//! an object store in memory, a clock that tests own, and crashes between any two requests.

mod crash;
mod fake;
mod life;
mod ownership;
mod real;
