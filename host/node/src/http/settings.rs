//! Limits and times of the front end.

use crate::config::Routing;
use crate::stream::ReadLimits;
use std::time::Duration;

/// Settings of the front end. The doc comments are the manual.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a request for another node is sent there or relayed, when the policy does not say.
    pub routing: Routing,
    /// Largest body; more is 413.
    pub max_body: usize,
    /// All bodies in memory at once; more wait, then 503.
    pub max_uploads: usize,
    /// Largest head; more is 431.
    pub max_head: usize,
    /// Longest path and query; more is 414.
    pub max_target: usize,
    /// Time for a head to come whole, and for a connection to rest between requests.
    pub head_time: Duration,
    /// Longest pause in a body; more is 408.
    pub body_stall: Duration,
    /// After an answer that did not need the body, so much of it is still read,
    pub drain_bytes: usize,
    /// for so long; then the connection is closed.
    pub drain_time: Duration,
    /// How long a request waits for a stream that is on its way.
    pub wait: Duration,
    /// How long a long-poll waits for data.
    pub long_poll: Duration,
    /// After this time an SSE answer ends, and the client comes again.
    pub sse_life: Duration,
    /// A silent SSE answer gets a comment after this time.
    pub sse_comment: Duration,
    /// Live readers at once; more is 503.
    pub max_live: u64,
    /// How much one read answers.
    pub read_limits: ReadLimits,
    /// How much an SSE answer asks of its stream at once.
    pub sse_limits: ReadLimits,
    /// Time that requests under way get when the node stops.
    pub drain_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            routing: Routing::Redirect,
            max_body: 32 << 20,
            max_uploads: 256 << 20,
            max_head: 128 << 10,
            max_target: 32 << 10,
            head_time: Duration::from_secs(30),
            body_stall: Duration::from_secs(30),
            drain_bytes: 64 << 20,
            drain_time: Duration::from_secs(60),
            wait: Duration::from_secs(10),
            long_poll: Duration::from_secs(25),
            sse_life: Duration::from_secs(60),
            sse_comment: Duration::from_secs(15),
            max_live: 100_000,
            read_limits: ReadLimits::default(),
            sse_limits: ReadLimits { bytes: 256 << 10 },
            drain_timeout: Duration::from_secs(10),
        }
    }
}
