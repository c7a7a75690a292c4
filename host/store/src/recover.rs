//! Reads a sealed log, record by record, and says what is missing, stream by stream.

use crate::Store;
use crate::wal::seal::SealedLog;
use crate::wal::{Extent, Record};
use futures_util::stream::{BoxStream, StreamExt};
use headwater_metadata::WalSeq;

/// One object of a sealed log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// Its records, in order.
    Records {
        /// Number of the object.
        seq: WalSeq,
        /// All of them.
        records: Vec<Record>,
    },
    /// The object exists and does not read: what it held is lost.
    Damaged {
        /// Number of the object.
        seq: WalSeq,
        /// Its key.
        object: String,
        /// What is wrong.
        reason: String,
        /// What it held, as its successor in the log says; `None` when that is unknown, so that any
        /// stream whose later records do not begin where its earlier ones end may have lost some.
        held: Option<Vec<Extent>>,
    },
}

/// The objects from the trim point to the seal, in order. A failing store is waited out.
pub fn replay<'a>(store: &'a Store, log: &SealedLog) -> BoxStream<'a, Replayed> {
    let _ = (store, log);
    futures_util::stream::empty().boxed()
}

/// Deletes the log of a session after the last part of its recovery was applied. The seal stays for
/// ever.
pub async fn delete_log(store: &Store, log: &SealedLog) {
    let _ = (store, log);
    unimplemented!()
}
