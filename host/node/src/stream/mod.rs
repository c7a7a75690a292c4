//! Streams that this node serves: what an open stream is, who may append, what readers see.
//!
//! Reads top to bottom: [`api`] (what is asked and answered). Nothing here knows HTTP.

pub mod api;
pub mod checkpoint;
pub mod tail;

pub use api::*;

use headwater_metadata::{Position, StreamId};
use std::sync::Arc;
use std::time::Duration;

/// The streams of one session. Cheap to clone.
#[derive(Clone)]
pub struct Streams {
    inner: Arc<Inner>,
}

struct Inner {}

impl Streams {
    /// Registers a stream, or finds it with the same configuration.
    pub async fn create(&self, _create: Create) -> Result<Created, StreamError> {
        self.inner.absent()
    }

    /// Appends; answers when the record is durable.
    pub async fn append(&self, _stream: StreamId, _append: Append) -> Result<Appended, StreamError> {
        self.inner.absent()
    }

    /// What the stream is now. Does not touch it.
    pub async fn info(&self, _stream: StreamId) -> Result<Info, StreamError> {
        self.inner.absent()
    }

    /// Reads what is there.
    pub async fn read(
        &self,
        _stream: StreamId,
        _from: From,
        _limits: ReadLimits,
    ) -> Result<Read, StreamError> {
        self.inner.absent()
    }

    /// Reads from a position, waiting up to `wait` for something to be there: data, or the end of a
    /// closed stream. When the time is over the answer is empty and up to date.
    pub async fn follow(
        &self,
        _stream: StreamId,
        _from: Position,
        _limits: ReadLimits,
        _wait: Duration,
    ) -> Result<Read, StreamError> {
        self.inner.absent()
    }

    /// Deletes the stream.
    pub async fn delete(&self, _stream: StreamId) -> Result<(), StreamError> {
        self.inner.absent()
    }
}

impl Inner {
    fn absent<T>(&self) -> Result<T, StreamError> {
        Err(StreamError::unavailable("the node is starting"))
    }
}
