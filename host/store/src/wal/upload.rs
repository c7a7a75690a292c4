//! Stores one object of the log, whatever the store answers on the way.
//!
//! The contents of a number never change: they are encoded once, before the first put.

use super::format::{self, Decoded};
use super::{Extent, Record, WalError};
use crate::Store;
use crate::layout;
use crate::request::Created;
use headwater_env::fail_point;
use headwater_metadata::{Session, WalSeq};
use std::sync::Arc;

/// One object, complete.
pub(super) struct Upload {
    pub store: Store,
    pub session: Session,
    pub nonce: u128,
    pub seq: WalSeq,
    pub before: Option<Arc<[Extent]>>,
    pub records: Arc<[Record]>,
}

impl Upload {
    /// Resolves when the object is durable and ours, or the session is over.
    pub(super) async fn run(self) -> Result<(), WalError> {
        let parts = format::encode(self.session, self.nonce, self.seq, self.before.as_deref(), &self.records);
        let path = layout::wal(self.session, self.seq);
        fail_point!("store.wal.before_put");
        let created = self.store.create(&path, &parts).await;
        fail_point!("store.wal.after_put");
        let found = match created {
            Ok(Created::Stored) => return Ok(()),
            Ok(Created::Taken(found)) => found,
            Err(reason) => return Err(WalError::Failed(format!("{path}: {reason}").into())),
        };
        match format::decode(self.session, self.seq, &found) {
            Ok(Decoded::Seal { by }) => {
                tracing::warn!(session = %self.session, %by, seq = %self.seq, "the log is sealed");
                Err(WalError::Fenced { at: self.seq })
            }
            Ok(Decoded::Records { nonce, .. }) => {
                let whose =
                    if nonce == self.nonce { "this process, with other contents" } else { "another process" };
                Err(WalError::Failed(format!("{path} was written by {whose}").into()))
            }
            Err(damage) => Err(WalError::Failed(format!("{path} is damaged: {}", damage.reason).into())),
        }
    }
}
