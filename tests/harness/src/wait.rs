//! Waiting for conditions. A test that waits for a time is slow on a fast machine and wrong on a slow
//! one; so everything here asks again until the answer is right, and says at the end what it last saw.

use anyhow::{Result, anyhow};
use std::future::Future;
use std::time::{Duration, Instant};

/// The limit of a wait whose condition should hold within seconds.
pub const SOON: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(20);

/// Asks until the answer is `Ok`; after `limit` fails with `what` and the last error.
pub async fn wait_until<T, F>(what: &str, limit: Duration, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let start = Instant::now();
    loop {
        let error = match ask().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if start.elapsed() > limit {
            return Err(anyhow!("waited {limit:?} in vain for {what}; last: {error:#}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// [`wait_until`] with the usual limit.
pub async fn eventually<T, F>(what: &str, ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    wait_until(what, SOON, ask).await
}
