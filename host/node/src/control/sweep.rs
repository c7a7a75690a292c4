//! Has streams deleted that are over and that nobody asks for. The leader does it, in parts with
//! pauses; a second node at it would do no harm.

use crate::node::Parts;
use crate::stream::Streams;
use std::sync::Arc;
use std::time::Duration;

/// It is looked so often.
const INTERVAL: Duration = Duration::from_secs(1);
/// Pause between two parts while there is more: what else is proposed comes first.
const PAUSE: Duration = Duration::from_millis(20);

/// Sweeps for ever.
pub async fn run(parts: Arc<Parts>, streams: Streams) {
    let mut pause = INTERVAL;
    loop {
        parts.env.clock.sleep(pause).await;
        pause = INTERVAL;
        if !parts.metadata.status().is_leader {
            continue;
        }
        match streams.sweep().await {
            Ok(0) => {}
            Ok(judged) => {
                tracing::debug!(judged, "swept streams that are over");
                pause = PAUSE;
            }
            Err(why) => tracing::debug!(%why, "streams that are over could not be swept"),
        }
    }
}
