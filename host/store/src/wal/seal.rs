//! Ends the log of a retired session, so that it can acknowledge nothing more.

use crate::{Store, StoreError};
use headwater_metadata::{Session, WalSeq};

/// A log that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedLog {
    /// Whose log it is.
    pub session: Session,
    /// The first number that may hold records that are not committed.
    pub from: WalSeq,
    /// The number of the seal: everything before it is the complete log.
    pub end: WalSeq,
}

/// Seals the log of `session`, whose trim point is `from` in a view that contains its retirement.
/// Idempotent; two at once are harmless. Waits out a failing store; the caller bounds it.
pub async fn seal(
    store: &Store,
    session: Session,
    from: WalSeq,
    by: Session,
) -> Result<SealedLog, StoreError> {
    let _ = (store, session, from, by);
    unimplemented!()
}
