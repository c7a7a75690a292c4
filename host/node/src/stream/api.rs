//! What a caller asks of a stream and what it is answered: plain types, no behaviour.
//!
//! Nothing here knows HTTP: offsets are positions, errors are typed. `http/error.rs` is the one table
//! from [`StreamError`] to statuses. `mod.rs` has the handle that takes these.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use headwater_metadata::{Expiry, NodeId, Position, StreamId};
use std::sync::Arc;
use std::time::Duration;

/// Registers a stream, with its first content perhaps.
#[derive(Clone, Debug)]
pub struct Create {
    /// The URL path, percent-encoded as the client sent it, with the leading slash.
    pub name: Arc<str>,
    /// Content type as the client sent it, or the default.
    pub content_type: Arc<str>,
    /// When it ends by itself.
    pub expiry: Expiry,
    /// Created closed.
    pub eof: bool,
    /// First content, in stored form; empty for none.
    pub body: Bytes,
    /// It begins with what another stream has.
    pub fork: Option<ForkFrom>,
}

/// Where a fork begins. A fork whose `Create` names no expiry gets its source's.
#[derive(Clone, Debug)]
pub struct ForkFrom {
    /// Name of the source.
    pub source: Arc<str>,
    /// Everything before this place of the source is the fork's too.
    pub at: From,
    /// And so much past it: bytes, or messages in a JSON stream. At most up to the source's tail.
    pub past: u64,
    /// The content type is the source's, whatever the `Create` has.
    pub inherits_content_type: bool,
}

/// What became of a [`Create`].
#[derive(Clone, Debug)]
pub enum Created {
    /// The stream is new.
    New(Info),
    /// It was there, with the same configuration.
    Existing(Info),
}

/// Adds to a stream, closes it for appends, or both.
#[derive(Clone, Debug)]
pub struct Append {
    /// Content type of the request; only a request that has a body must name it.
    pub content_type: Option<String>,
    /// The bytes in stored form (a JSON stream stores each message followed by a comma), or why the
    /// body cannot be stored. The error is answered only when nothing earlier in the order of checks
    /// applies, so a caller may parse first.
    pub body: Result<Bytes, InvalidBody>,
    /// No appends after this one, for ever.
    pub eof: bool,
    /// The idempotent producer that sends it.
    pub producer: Option<Producer>,
    /// The writer's own order: `Stream-Seq`, compared byte by byte.
    pub seq: Option<String>,
}

/// The body is not what the stream's content type asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidBody(pub String);

/// One request of an idempotent producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    /// The producer's own name; not empty.
    pub id: Arc<str>,
    /// Its epoch.
    pub epoch: u64,
    /// Number of the request in that epoch, from 0.
    pub seq: u64,
}

/// An append that is durable, or a duplicate of one that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The position after it; for a duplicate the tail.
    pub tail: Position,
    /// The stream is closed for appends now.
    pub eof: bool,
    /// Nothing was added: the producer sent this before, or the stream was closed already.
    pub duplicate: bool,
    /// The producer's epoch and the highest number accepted in it.
    pub producer: Option<(u64, u64)>,
}

/// A stream as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its id: never used for another stream.
    pub id: StreamId,
    /// The URL path.
    pub name: Arc<str>,
    /// Content type as given at creation.
    pub content_type: Arc<str>,
    /// When it ends by itself.
    pub expiry: Expiry,
    /// The moment at which it ends unless touched before, milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// First position that is still kept.
    pub start: Position,
    /// The position after the last durable byte.
    pub tail: Position,
    /// Closed for appends.
    pub eof: bool,
}

/// Where to read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The first position that is kept.
    Start,
    /// The tail.
    Now,
    /// This position.
    At(Position),
}

/// How much one read may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// About this many bytes; a read ends where an append or a committed run ends, so it may be more.
    pub bytes: u64,
}

impl Default for ReadLimits {
    fn default() -> ReadLimits {
        ReadLimits { bytes: 8 << 20 }
    }
}

/// The bytes of a read, in stored form. An error breaks the answer off: it must not end cleanly.
pub type Body = BoxStream<'static, Result<Bytes, StreamError>>;

/// Bytes of a stream from one position to another.
pub struct Read {
    /// The stream.
    pub id: StreamId,
    /// Its content type.
    pub content_type: Arc<str>,
    /// Where the bytes begin.
    pub start: Position,
    /// Where they end: the position to read from next.
    pub next: Position,
    /// `next` was the tail when the read was made.
    pub up_to_date: bool,
    /// The stream is closed for appends and `next` is its end.
    pub eof: bool,
    /// When the stream ends by itself unless touched before, milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// The bytes, `next - start` of them.
    pub body: Body,
}

impl Read {
    /// Number of stored bytes.
    pub fn len(&self) -> u64 {
        self.next.0.saturating_sub(self.start.0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why a stream did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// No such stream.
    #[error("the stream does not exist")]
    NotFound,
    /// Deleted, but kept for its forks: the name cannot be used.
    #[error("the stream is deleted and kept for its forks")]
    Deleted,
    /// The name is taken by a stream with another configuration.
    #[error("the stream exists with another configuration ({what} differs)")]
    ConfigMismatch {
        /// What differs.
        what: &'static str,
    },
    /// What was to be forked does not exist.
    #[error("the source of the fork does not exist")]
    SourceNotFound,
    /// What was to be forked is deleted, and kept for its forks alone.
    #[error("the source of the fork is deleted")]
    SourceDeleted,
    /// The fork would begin with more than its source has.
    #[error("the fork sub-offset leads beyond the source's tail {tail}")]
    ForkBeyondTail {
        /// The source's tail.
        tail: Position,
    },
    /// The position is no longer kept.
    #[error("the stream is kept from position {start} on")]
    Gone {
        /// First position that is kept.
        start: Position,
    },
    /// The position is beyond the tail.
    #[error("the offset is beyond the tail {tail}")]
    BeyondTail {
        /// The tail.
        tail: Position,
    },
    /// The request's content type is missing.
    #[error("an append with a body needs a Content-Type")]
    ContentTypeMissing,
    /// The request's content type is not the stream's.
    #[error("the stream's content type is {expected}")]
    ContentType {
        /// The stream's.
        expected: Arc<str>,
    },
    /// The stream is closed for appends.
    #[error("the stream is closed")]
    Closed {
        /// Its end.
        tail: Position,
    },
    /// Nothing to append.
    #[error("the body is empty")]
    EmptyBody,
    /// The body is not what the content type asks for.
    #[error("{0}")]
    InvalidBody(#[from] InvalidBody),
    /// The body is larger than a record may be.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// What a record may have.
        limit: u64,
    },
    /// A later epoch of the producer exists.
    #[error("the producer is at epoch {epoch}")]
    ProducerFenced {
        /// That epoch.
        epoch: u64,
    },
    /// A new epoch of a producer must start at 0.
    #[error("a new producer epoch starts at sequence number 0")]
    ProducerStart,
    /// A number of the producer is missing.
    #[error("the producer's next sequence number is {expected}, not {received}")]
    ProducerGap {
        /// The next one.
        expected: u64,
        /// The request's.
        received: u64,
    },
    /// `Stream-Seq` is not after the last one.
    #[error("Stream-Seq must be after {last:?}")]
    SeqConflict {
        /// The last one.
        last: Arc<str>,
    },
    /// Records were lost: no appends until a person accepts that.
    #[error("the stream is damaged at position {at}: it takes no appends until the loss is accepted")]
    Damaged {
        /// Where the gap begins.
        at: Position,
    },
    /// Another node has the stream.
    #[error("the stream is on node {0}")]
    Moved(NodeId),
    /// No node takes streams.
    #[error("no node takes streams: every node has no slots, is draining or is not registered")]
    NoCandidate,
    /// Not now. Nothing is known to have been done; a repeat may find that it was.
    #[error("{reason}")]
    Unavailable {
        /// Why, for people.
        reason: &'static str,
        /// When to try again.
        retry_after: Duration,
    },
    /// This node's session has ended: it owns nothing any more.
    #[error("this node was fenced; another one has its streams or will have them")]
    Fenced,
    /// Stored bytes cannot be read.
    #[error("the store: {0}")]
    Store(Arc<str>),
}

impl StreamError {
    /// Unavailable, to be tried again in a second.
    pub(crate) fn unavailable(reason: &'static str) -> StreamError {
        StreamError::Unavailable { reason, retry_after: Duration::from_secs(1) }
    }
}
