//! Who uses an open stream: requests keep it from being closed as idle, live readers keep its TTL from
//! running out, touches renew it.

use super::open::OpenStream;
use headwater_env::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The uses of one open stream.
pub struct Uses {
    requests: AtomicUsize,
    live: AtomicUsize,
    /// End of the last request, monotonic milliseconds.
    used_ms: AtomicU64,
    /// Last touch, milliseconds since 1970.
    touched_ms: AtomicU64,
}

/// Marks a stream as in use for as long as it lives.
pub struct InUse {
    stream: Arc<OpenStream>,
    clock: Arc<dyn Clock>,
    looks: bool,
}

/// Marks a stream as having a live reader for as long as it lives.
pub struct Live {
    stream: Arc<OpenStream>,
}

impl Uses {
    /// Unused since `now` (monotonic), last touched at `touched_ms`.
    pub fn new(now: Duration, touched_ms: u64) -> Uses {
        Uses {
            requests: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            used_ms: AtomicU64::new(millis(now)),
            touched_ms: AtomicU64::new(touched_ms),
        }
    }

    /// Takes note of a use that renews a TTL.
    pub fn touch(&self, now_ms: u64) {
        self.touched_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    /// The last touch, milliseconds since 1970.
    pub fn touched_ms(&self) -> u64 {
        self.touched_ms.load(Ordering::Relaxed)
    }

    /// Whether anybody reads live.
    pub fn has_live_reader(&self) -> bool {
        self.live.load(Ordering::Relaxed) > 0
    }

    /// The end of the last use, monotonic; `None` while it is used.
    pub fn idle_since(&self) -> Option<Duration> {
        let idle = self.requests.load(Ordering::Relaxed) == 0;
        idle.then(|| Duration::from_millis(self.used_ms.load(Ordering::Relaxed)))
    }
}

impl InUse {
    /// Begins a use.
    pub fn new(stream: Arc<OpenStream>, clock: Arc<dyn Clock>) -> InUse {
        stream.uses.requests.fetch_add(1, Ordering::Relaxed);
        InUse { stream, clock, looks: false }
    }

    /// The stream.
    pub fn stream(&self) -> &Arc<OpenStream> {
        &self.stream
    }

    /// This use only looks at the stream: it does not put off the moment at which it counts as idle.
    pub fn looks(&mut self) {
        self.looks = true;
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let uses = &self.stream.uses;
        if !self.looks {
            uses.used_ms.fetch_max(millis(self.clock.monotonic()), Ordering::Relaxed);
        }
        uses.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Live {
    /// Begins to read live.
    pub fn new(stream: Arc<OpenStream>) -> Live {
        stream.uses.live.fetch_add(1, Ordering::Relaxed);
        Live { stream }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stream.uses.live.fetch_sub(1, Ordering::Relaxed);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
