//! Settings of the streams of a node. The doc comments are the manual.

use headwater_store::WalOptions;
use std::time::Duration;

/// Settings of the streams of a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// An open stream that nobody has asked for is flushed and closed after this time.
    pub idle_close: Duration,
    /// At most so many streams are open; the least recently used idle ones make room.
    pub max_open: usize,
    /// How long a request waits for a transfer, a recovery, memory or room before it is told to come
    /// again.
    pub wait: Duration,
    /// How long a read waits for the proof that this node still has the stream.
    pub proof_wait: Duration,
    /// The most bytes that one append may have.
    pub append_limit: u64,
    /// A commit is made when so many bytes are durable and not committed,
    pub commit_bytes: u64,
    /// or so many objects of the write-ahead log,
    pub commit_objects: u64,
    /// or when the oldest is of this age.
    pub commit_age: Duration,
    /// About this many bytes go into one data object.
    pub object_bytes: u64,
    /// So often it is looked for small runs to be joined.
    pub compact_every: Duration,
    /// About this many bytes of a stream are one run: reads that reach a limit end where runs end.
    pub run_bytes: u64,
    /// Bytes that may be logged and not committed; more wait.
    pub uncommitted_bytes: usize,
    /// Committed bytes that are kept in memory for readers near the tail.
    pub tail_bytes: u64,
    /// The write-ahead log's.
    pub wal: WalOptions,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            idle_close: Duration::from_secs(600),
            max_open: 10_000,
            wait: Duration::from_secs(10),
            proof_wait: Duration::from_secs(2),
            append_limit: 32 << 20,
            commit_bytes: 16 << 20,
            commit_objects: 1024,
            commit_age: Duration::from_secs(10),
            object_bytes: 32 << 20,
            compact_every: Duration::from_secs(30),
            run_bytes: 4 << 20,
            uncommitted_bytes: 256 << 20,
            tail_bytes: 64 << 20,
            wal: WalOptions::default(),
        }
    }
}
