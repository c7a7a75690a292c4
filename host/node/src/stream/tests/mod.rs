//! The streams of whole processes, in one process: a real metadata state, a real write-ahead log over
//! an object store in memory, a clock that tests own, and crashes between any two requests.

mod crash;
mod fake;
mod forks;
mod life;
mod ownership;
mod real;

/// Lets the paused clock run on.
#[allow(clippy::disallowed_methods, reason = "tests own this clock")]
async fn pause(time: std::time::Duration) {
    tokio::time::sleep(time).await;
}
