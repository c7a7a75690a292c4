//! Live reads: waits until there is something past a position, or the stream has ended there.
//!
//! Live reading opens a stream, and keeps it open. What wakes a reader is the stream's own state here,
//! never the metadata's, so nobody hears of a closing before its last bytes.

use super::Inner;
use super::api::{From, Read, ReadLimits, StreamError};
use super::counters::count;
use super::open::{Ended, Phase};
use super::read::Missed;
use super::uses::Live;
use headwater_metadata::{Position, StreamId};
use std::sync::Arc;
use std::time::Duration;

impl Inner {
    pub(super) async fn follow(
        self: &Arc<Self>,
        id: StreamId,
        from: Position,
        limits: ReadLimits,
        wait: Duration,
    ) -> Result<Read, StreamError> {
        count(&self.counters.follows);
        let end = self.env.clock.monotonic() + wait;
        loop {
            let until = self.deadline();
            let in_use = match self.open(id).await {
                // Nothing comes after the gap until a person decides; what is before it can be read.
                Err(StreamError::Damaged { .. }) => return self.read(id, From::At(from), limits).await,
                opened => opened?,
            };
            let stream = in_use.stream().clone();
            stream.uses.touch(self.env.clock.wall_ms());
            let live = Live::new(stream.clone());
            let mut watch = stream.watch();
            let ready = watch.wait_for(|p| {
                p.durable != from || p.eof || !matches!(p.phase, Phase::Serving | Phase::Flushing)
            });
            drop(self.env.timeout(self.left(end), ready).await);
            stream.uses.touch(self.env.clock.wall_ms());
            drop(live);
            let phase = stream.published().phase;
            match phase {
                Phase::Ended(Ended::Fenced) => return Err(StreamError::Fenced),
                Phase::Ended(Ended::Deleted) => return Err(StreamError::NotFound),
                Phase::Ended(Ended::Closed) | Phase::Handed => {
                    drop(in_use);
                    if phase == Phase::Handed {
                        self.wait_phase(&stream, until).await?;
                    }
                    continue;
                }
                Phase::Serving | Phase::Flushing => {}
            }
            match self.read_open(in_use, From::At(from), limits, until).await {
                Ok(read) => return Ok(read),
                Err(Missed::Failed(error)) => return Err(error),
                Err(Missed::Look) => {}
            }
        }
    }
}
