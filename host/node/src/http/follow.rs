//! A live read as server-sent events: reads on as the stream grows, for about a minute, then the client
//! comes again. `sse.rs` has the form of the events.

use crate::http::Shared;
use crate::http::body::{Body, BoxError};
use crate::http::counters::Gauge;
use crate::http::serve::Target;
use crate::http::sse::{Encoder, Encoding, State};
use crate::stream::{Read, StreamError, Streams};
use bytes::Bytes;
use futures_util::StreamExt;
use headwater_metadata::{Position, StreamId};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use std::sync::Arc;
use std::time::Duration;

/// The rest of a stream as events, for about a minute.
pub struct Follower {
    encoder: Encoder,
    /// Where the read under way ends, or the next one begins.
    position: Position,
    read: Option<Read>,
    /// When the answer ends so that the client comes again, monotonic.
    end: Duration,
    cursor: u64,
    shared: Arc<Shared>,
    streams: Streams,
    id: StreamId,
    over: bool,
    _waiting: Gauge,
}

impl Follower {
    /// Begins with what was read already.
    pub fn new(shared: Arc<Shared>, streams: Streams, target: &Target, read: Read, cursor: u64) -> Follower {
        let encoding = Encoding::of(&read.content_type);
        Follower {
            encoder: Encoder::new(encoding, target.family, read.start),
            position: read.next,
            read: Some(read),
            end: shared.env.clock.monotonic() + shared.options.sse_life,
            cursor,
            streams,
            id: target.id,
            over: false,
            _waiting: Gauge::new(&shared.counters, |c| &c.live_readers),
            shared,
        }
    }

    /// The events as the body of an answer.
    pub fn into_body(self) -> Body {
        let frames = futures_util::stream::unfold(self, |mut follower| async move {
            let next = follower.next().await?;
            Some((next.map(Frame::data), follower))
        });
        Body::Stream(StreamBody::new(frames).boxed_unsync())
    }

    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if self.over {
                return None;
            }
            let events = match self.read.take() {
                Some(read) => match self.piece(read).await {
                    Ok(events) => events,
                    // Broken off, not ended: what was announced is not there.
                    Err(error) => {
                        self.over = true;
                        return Some(Err(error.into()));
                    }
                },
                None => self.follow().await?,
            };
            if !events.is_empty() {
                return Some(Ok(Bytes::from(events)));
            }
        }
    }

    /// The next piece of a read, as events.
    async fn piece(&mut self, mut read: Read) -> Result<String, StreamError> {
        let done = State { up_to_date: read.up_to_date, closed: read.eof, cursor: self.cursor };
        let piece = match read.body.next().await {
            Some(piece) => piece?,
            None => {
                self.over = read.eof;
                return Ok(self.encoder.piece(&[], Some(done), self.cursor));
            }
        };
        read.start.0 += piece.len() as u64;
        let last = (read.start == read.next).then_some(done);
        let events = self.encoder.piece(&piece, last, self.cursor);
        match last {
            Some(_) => self.over = read.eof,
            None => self.read = Some(read),
        }
        Ok(events)
    }

    /// Waits for more. Nothing for a while is a comment, which finds out readers that are gone.
    async fn follow(&mut self) -> Option<String> {
        let left = self.end.saturating_sub(self.shared.env.clock.monotonic());
        if left.is_zero() {
            return None;
        }
        let wait = left.min(self.shared.options.sse_comment);
        let mut stop = self.shared.stop.subscribe();
        let more = self.streams.follow(self.id, self.position, self.shared.options.sse_limits, wait);
        let read = tokio::select! {
            read = more => read,
            _ = stop.wait_for(|stop| *stop) => return None,
        };
        match read {
            Ok(read) if read.is_empty() && !read.eof => Some(":\n\n".to_owned()),
            Ok(read) => {
                self.position = read.next;
                self.read = Some(read);
                Some(String::new())
            }
            // Moved, fenced, deleted: the client comes again from its last offset and is told.
            Err(error) => {
                tracing::debug!(stream = %self.id, %error, "a live read ends");
                None
            }
        }
    }
}
