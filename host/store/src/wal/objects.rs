//! One object for each group, whatever the store answers on the way.

use super::WalError;
use super::format::{self, Decoded};
use super::log::Log;
use crate::layout;
use crate::request::Created;
use crate::{Kind, Store};
use bytes::Bytes;
use headwater_env::BoxFuture;
use headwater_metadata::{Session, WalSeq};

/// A log of objects.
pub(super) struct ObjectLog {
    pub store: Store,
    pub session: Session,
    pub nonce: u128,
}

impl ObjectLog {
    async fn create(&self, seq: WalSeq, parts: Vec<Bytes>) -> Result<(), WalError> {
        let path = layout::wal(self.session, seq);
        let found = match self.store.create(&path, &parts).await {
            Ok(Created::Stored) => return Ok(()),
            Ok(Created::Taken(found)) => found,
            Err(reason) => return Err(WalError::Failed(format!("{path}: {reason}").into())),
        };
        match format::decode(self.session, seq, &found) {
            Ok(Decoded::Seal { by }) => {
                tracing::warn!(session = %self.session, %by, %seq, "the log is sealed");
                Err(WalError::Fenced { at: seq })
            }
            Ok(Decoded::Records { nonce, .. }) => {
                let whose =
                    if nonce == self.nonce { "this process, with other contents" } else { "another process" };
                Err(WalError::Failed(format!("{path} was written by {whose}").into()))
            }
            Err(damage) => Err(WalError::Failed(format!("{path} is damaged: {}", damage.reason).into())),
        }
    }

    async fn delete_range(&self, from: WalSeq, below: WalSeq) -> bool {
        let numbers: Vec<u64> = (from.0..below.0).collect();
        for chunk in numbers.chunks(500) {
            let paths = chunk.iter().map(|seq| layout::wal(self.session, WalSeq(*seq))).collect();
            if let Err(failure) = self.store.delete_many(paths).await {
                tracing::debug!(?failure, "deleting trimmed objects of the log failed; later again");
                return false;
            }
        }
        true
    }
}

impl Log for ObjectLog {
    fn write(&self, seq: WalSeq, parts: Vec<Bytes>) -> BoxFuture<'_, Result<(), WalError>> {
        Box::pin(self.create(seq, parts))
    }

    fn check(&self) -> Option<BoxFuture<'_, Result<(), WalError>>> {
        // An object behind the seal can be created: only the order of the log tells.
        None
    }

    fn delete(&self, from: WalSeq, below: WalSeq) -> BoxFuture<'_, bool> {
        Box::pin(self.delete_range(from, below))
    }

    fn in_flight(&self) -> usize {
        if self.store.kind() == Kind::File { 2 } else { 4 }
    }

    fn overlaps(&self) -> bool {
        true
    }

    fn pieces(&self, groups: u64) -> u64 {
        groups
    }
}
