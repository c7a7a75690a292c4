//! The two forms of a log behind one trait. `objects.rs` is one object for each group, anywhere;
//! `folder/` is append files in a folder of this machine. `flusher.rs` is above both.

use super::WalError;
use bytes::Bytes;
use headwater_env::BoxFuture;
use headwater_metadata::WalSeq;

/// Where the groups of a log go.
pub(super) trait Log: Send + Sync + 'static {
    /// Stores the group of this number; resolves when it is durable and the log was not sealed at or
    /// before it, or when the session is over. The contents of a number never change.
    fn write(&self, seq: WalSeq, parts: Vec<Bytes>) -> BoxFuture<'_, Result<(), WalError>>;

    /// Whether the log is not sealed, asked from now on; `None` where only a write can tell.
    fn check(&self) -> Option<BoxFuture<'_, Result<(), WalError>>>;

    /// Deletes groups below this number, which are covered. False when some could not be.
    fn delete(&self, from: WalSeq, below: WalSeq) -> BoxFuture<'_, bool>;

    /// Groups on their way at a time, unless the settings say otherwise.
    fn in_flight(&self) -> usize;

    /// Groups may be on their way at the same time at all.
    fn overlaps(&self) -> bool;

    /// How many objects or files hold so many groups.
    fn pieces(&self, groups: u64) -> u64;
}
