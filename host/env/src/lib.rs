//! The seams: wall clock, monotonic and boot-time clocks, sleeping, randomness, listening and
//! connecting, and the local disk reach the rest of the host through [`Env`] alone, so that a whole
//! cluster can run in one process on a clock and a network that a test owns.
//!
//! `real.rs` is the operating system, `sim.rs` the fakes. The object store is a seam of its own
//! (`object_store::ObjectStore`). Nothing else in the workspace calls `SystemTime::now`,
//! `Instant::now`, `TcpListener::bind`, a random generator or the file system.

mod disk;
#[cfg(feature = "faults")]
#[allow(clippy::disallowed_methods, reason = "a fail point waits in real time")]
pub mod faults;
#[allow(clippy::disallowed_methods, reason = "the operating system behind the seams")]
mod real;
#[allow(clippy::disallowed_methods, reason = "the fakes behind the seams, on the paused clock of tokio")]
pub mod sim;

pub use disk::{Disk, DiskFile, FlushFailed, Folder, Lock, is_flush_failure};
pub use real::RealDisk;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// A boxed future, for object-safe async methods.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Everything a node asks of its surroundings. Cheap to clone.
#[derive(Clone)]
pub struct Env {
    /// Clocks and sleeping.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Listening and connecting.
    pub net: Arc<dyn Net>,
    /// The local disk: data directory, raft log, snapshots.
    pub disk: Arc<dyn Disk>,
}

impl Env {
    /// The operating system.
    pub fn real() -> Env {
        Env {
            clock: Arc::new(real::RealClock::new()),
            entropy: Arc::new(real::RealEntropy),
            net: Arc::new(real::RealNet),
            disk: Arc::new(RealDisk),
        }
    }

    /// Wall clock in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// Runs code that uses the disk, or may wait for other reasons, away from the async workers. On a
    /// disk in memory it runs where it is, so that a simulation stays in order.
    pub async fn blocking<T, F>(&self, work: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        if self.disk.instant() {
            return work();
        }
        match tokio::task::spawn_blocking(work).await {
            Ok(value) => value,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Only a runtime that is being torn down cancels: nobody is left to see a value.
            Err(_) => std::future::pending().await,
        }
    }

    /// Runs `future` for at most `limit`; `None` when the time is over first.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.clock.sleep(limit) => None,
        }
    }
}

/// The clocks of one machine.
pub trait Clock: Send + Sync {
    /// Wall clock in milliseconds since 1970. May jump.
    fn wall_ms(&self) -> u64;
    /// Time that passes evenly and stops while the machine sleeps; from an arbitrary start.
    fn monotonic(&self) -> Duration;
    /// Like `monotonic`, and goes on while the machine sleeps.
    fn boot(&self) -> Duration;
    /// Resolves after `duration` of monotonic time.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// A source of randomness.
pub trait Entropy: Send + Sync {
    /// Fills the buffer.
    fn fill(&self, buffer: &mut [u8]);

    /// A random number.
    fn u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A random number wide enough to be unique.
    fn u128(&self) -> u128 {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}

/// A connection in both directions.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// A network.
pub trait Net: Send + Sync {
    /// Listens; port 0 takes any free one. The error names the address.
    fn bind(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>>;
    /// Connects to `host:port`; a name is resolved at every call.
    fn connect<'a>(&'a self, authority: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Connection>>>;
}

/// A listening socket.
pub trait Listener: Send + Sync {
    /// The address that it really has.
    fn local(&self) -> SocketAddr;
    /// The next connection and where it comes from.
    fn accept(&self) -> BoxFuture<'_, io::Result<(Box<dyn Connection>, SocketAddr)>>;
}

/// Passes a fail point: `fail_point!("name")` waits or ends the process as a test says;
/// `fail_point!("name", { … })` runs the block when the point is set to `error`. Nothing without the
/// feature `faults` of the crate that uses it.
#[macro_export]
macro_rules! fail_point {
    ($name:expr) => {
        #[cfg(feature = "faults")]
        {
            let _ = $crate::faults::point($name).await;
        }
    };
    ($name:expr, $error:block) => {
        #[cfg(feature = "faults")]
        if $crate::faults::point($name).await {
            $error
        }
    };
}

/// [`fail_point!`] for code that blocks.
#[macro_export]
macro_rules! fail_point_blocking {
    ($name:expr) => {
        #[cfg(feature = "faults")]
        {
            let _ = $crate::faults::point_blocking($name);
        }
    };
    ($name:expr, $error:block) => {
        #[cfg(feature = "faults")]
        if $crate::faults::point_blocking($name) {
            $error
        }
    };
}
