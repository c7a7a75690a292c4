//! Bodies: what is answered, and how what is uploaded is taken in, relayed, or drained.
//!
//! An upload is read only after the decision that it belongs here, so a client that waits for
//! `100 Continue` never sends it to the wrong node. One that was not asked for is drained up to a
//! limit after the answer: closing at once would make the kernel reset the connection and take the answer
//! with it. Next: `answer.rs`.

use crate::http::{Options, Shared};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use headwater_env::Env;
use http::{Version, header, request};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// An error of any kind, for bodies.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub enum Body {
    /// Nothing.
    Empty,
    /// In one piece.
    Full(Bytes),
    /// As it comes.
    Stream(UnsyncBoxBody<Bytes, BoxError>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Body::Empty => Poll::Ready(None),
            Body::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Body::Stream(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Empty => true,
            Body::Full(bytes) => bytes.is_empty(),
            Body::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Empty => SizeHint::with_exact(0),
            Body::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Stream(body) => body.size_hint(),
        }
    }
}

/// Why an upload was not taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UploadError {
    /// Over the limit.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The client stopped sending.
    #[error("the body stopped coming")]
    Stalled,
    /// The connection broke, or the framing did.
    #[error("the body ended early: {0}")]
    Broken(Arc<str>),
    /// Too much is being uploaded already.
    #[error("too many bytes are being uploaded at once")]
    Busy,
}

/// The body of a request, wherever it is.
pub struct Upload {
    place: Place,
    /// The client waits for `100 Continue`: asking for the body would make it come.
    held_back: bool,
    /// Drained before the answer, not after it.
    http2: bool,
    shared: Arc<Shared>,
}

enum Place {
    /// Not read.
    Wire(Incoming),
    /// In memory, with the right to be there.
    Memory(Bytes, OwnedSemaphorePermit),
    /// Given away, or none.
    Gone,
}

impl Upload {
    pub(super) fn new(head: &request::Parts, incoming: Incoming, shared: Arc<Shared>) -> Upload {
        let held_back = head.headers.contains_key(header::EXPECT);
        let http2 = head.version == Version::HTTP_2;
        Upload { place: Place::Wire(incoming), held_back, http2, shared }
    }

    /// Whether there is anything in it, as far as can be told without reading.
    pub fn is_empty(&self) -> bool {
        match &self.place {
            Place::Wire(incoming) => incoming.is_end_stream(),
            Place::Memory(bytes, _) => bytes.is_empty(),
            Place::Gone => true,
        }
    }

    /// Reads it whole, once; a second call answers the same bytes.
    pub async fn read(&mut self) -> Result<Bytes, UploadError> {
        if let Place::Wire(incoming) = &mut self.place {
            self.held_back = false;
            let (bytes, permit) = read_whole(incoming, &self.shared).await?;
            self.place = Place::Memory(bytes, permit);
        }
        match &self.place {
            Place::Memory(bytes, _) => Ok(bytes.clone()),
            Place::Wire(_) | Place::Gone => Ok(Bytes::new()),
        }
    }

    /// Over HTTP/2, reads what nobody wanted before the answer goes out. An answer that comes first is
    /// right by the book, but clients stop sending then and wait, or take the end of the stream for an error.
    pub async fn finish(&mut self) {
        if !self.http2 || self.held_back {
            return;
        }
        if let Place::Wire(incoming) = std::mem::replace(&mut self.place, Place::Gone) {
            drain(incoming, &self.shared.env, &self.shared.options).await;
        }
    }

    /// Hands it on, to be relayed.
    pub fn take(&mut self) -> UnsyncBoxBody<Bytes, BoxError> {
        match std::mem::replace(&mut self.place, Place::Gone) {
            Place::Wire(incoming) => incoming.map_err(Into::into).boxed_unsync(),
            Place::Memory(bytes, _permit) => Body::Full(bytes).boxed_unsync(),
            Place::Gone => Body::Empty.boxed_unsync(),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Place::Wire(incoming) = std::mem::replace(&mut self.place, Place::Gone) else { return };
        if !incoming.is_end_stream() && !self.held_back {
            let shared = self.shared.clone();
            tokio::spawn(async move { drain(incoming, &shared.env, &shared.options).await });
        }
    }
}

/// Reads and forgets, up to a size and a time. Beyond them the connection is closed.
async fn drain(mut incoming: Incoming, env: &Env, options: &Options) {
    let mut left = options.drain_bytes;
    let all = async {
        while let Some(Ok(frame)) = incoming.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    env.timeout(options.drain_time, all).await;
}

async fn read_whole(
    incoming: &mut Incoming,
    shared: &Shared,
) -> Result<(Bytes, OwnedSemaphorePermit), UploadError> {
    let limit = shared.options.max_body;
    let hint = incoming.size_hint();
    let declared = usize::try_from(hint.lower()).unwrap_or(usize::MAX);
    if declared > limit {
        return Err(UploadError::TooLarge { limit });
    }
    let mut permit = reserve(shared, declared).await?;
    let mut bytes = BytesMut::with_capacity(declared);
    let mut reserved = declared;
    while let Some(frame) = next_frame(incoming, shared).await? {
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > limit {
            return Err(UploadError::TooLarge { limit });
        }
        if length > reserved {
            let more = (length - reserved).max(CHUNK).min(limit - reserved);
            permit.merge(grow(shared, more)?);
            reserved += more;
        }
        // Copied, so that a few bytes do not keep a whole receive buffer alive.
        bytes.extend_from_slice(&data);
    }
    shared.counters.uploaded_bytes.fetch_add(bytes.len() as u64, Relaxed);
    Ok((bytes.freeze(), permit))
}

async fn next_frame(incoming: &mut Incoming, shared: &Shared) -> Result<Option<Frame<Bytes>>, UploadError> {
    // Most bodies come with their head: no timer for those.
    let frame = match incoming.frame().now_or_never() {
        Some(frame) => frame,
        None => shared
            .env
            .timeout(shared.options.body_stall, incoming.frame())
            .await
            .ok_or(UploadError::Stalled)?,
    };
    frame.transpose().map_err(|error| UploadError::Broken(error.to_string().into()))
}

/// Step by which a body of unknown length claims memory.
const CHUNK: usize = 256 << 10;

async fn reserve(shared: &Shared, bytes: usize) -> Result<OwnedSemaphorePermit, UploadError> {
    let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
    if let Ok(permit) = shared.uploads.clone().try_acquire_many_owned(permits) {
        return Ok(permit);
    }
    let wait = Semaphore::acquire_many_owned(shared.uploads.clone(), permits);
    match shared.env.timeout(shared.options.wait, wait).await {
        Some(Ok(permit)) => Ok(permit),
        _ => Err(UploadError::Busy),
    }
}

/// More for a body that has some already: never waits, since those who wait for each other would wait
/// for ever.
fn grow(shared: &Shared, bytes: usize) -> Result<OwnedSemaphorePermit, UploadError> {
    let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
    shared.uploads.clone().try_acquire_many_owned(permits).map_err(|_| UploadError::Busy)
}
