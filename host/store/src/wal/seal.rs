//! Ends the log of a retired session, so that it can acknowledge nothing more.
//!
//! The end of a log is the first absent number, found by asking for one number after the other from
//! the trim point on; a listing is never asked. There a seal is created if absent: whoever gets the
//! number first, the owner or a sealer, has it. A seal is never deleted. (A log of append files is sealed
//! in `folder/`.)

use super::folder;
use super::format::{self, Decoded};
use crate::layout;
use crate::request::Created;
use crate::{Store, StoreError};
use futures_util::stream::{self, StreamExt};
use headwater_env::fail_point;
use headwater_metadata::{Session, WalForm, WalSeq};

/// A log that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedLog {
    /// Whose log it is.
    pub session: Session,
    /// Its form, as the session registered it.
    pub form: WalForm,
    /// The first number that may hold records that are not committed.
    pub from: WalSeq,
    /// The number of the seal: everything before it is the complete log.
    pub end: WalSeq,
}

/// What is at a number.
enum Found {
    Absent,
    Seal,
    /// Records, or something damaged: it takes the number either way.
    Object,
}

/// Numbers asked for at a time.
const AHEAD: usize = 16;

/// Seals the log of `session`, of the form that it registered, whose trim point is `from` in a view that
/// contains its retirement. Idempotent; two at once are harmless. Waits out a failing store; the caller
/// bounds it.
pub async fn seal(
    store: &Store,
    session: Session,
    form: WalForm,
    from: WalSeq,
    by: Session,
) -> Result<SealedLog, StoreError> {
    let end = match form {
        WalForm::Objects => seal_objects(store, session, from, by).await?,
        WalForm::Files => folder::seal(store, session, from, by).await?,
    };
    Ok(SealedLog { session, form, from, end })
}

async fn seal_objects(
    store: &Store,
    session: Session,
    from: WalSeq,
    by: Session,
) -> Result<WalSeq, StoreError> {
    let nonce = store.env().entropy.u128();
    let mut first = from;
    loop {
        let (at, found) = first_end(store, session, first).await?;
        if matches!(found, Found::Seal) {
            return Ok(at);
        }
        fail_point!("store.seal.before_put");
        let parts = format::encode_seal(session, nonce, at, by);
        let path = layout::wal(session, at);
        let created = store.create(&path, &parts).await;
        let failed = |reason| StoreError::Failed { what: format!("seal {path}"), reason };
        match created.map_err(failed)? {
            Created::Stored => {
                tracing::info!(%session, seq = %at, "sealed the log");
                return Ok(at);
            }
            // The owner, or another sealer, was first: look again from there.
            Created::Taken(_) => first = at,
        }
    }
}

/// The first number from `first` on that is absent or a seal.
async fn first_end(store: &Store, session: Session, first: WalSeq) -> Result<(WalSeq, Found), StoreError> {
    let numbers = stream::iter(first.0..).map(|seq| async move {
        let seq = WalSeq(seq);
        (seq, look(store, session, seq).await)
    });
    let mut answers = std::pin::pin!(numbers.buffered(AHEAD));
    while let Some((seq, found)) = answers.next().await {
        match found {
            Ok(Found::Object) => {}
            Ok(end) => return Ok((seq, end)),
            Err(reason) => {
                return Err(StoreError::Failed {
                    what: format!("look at {}", layout::wal(session, seq)),
                    reason,
                });
            }
        }
    }
    Err(StoreError::Failed { what: "find the end of a log".into(), reason: "it has no end".into() })
}

async fn look(store: &Store, session: Session, seq: WalSeq) -> Result<Found, String> {
    let Some(object) = store.get(&layout::wal(session, seq)).await? else { return Ok(Found::Absent) };
    match format::decode(session, seq, &object) {
        Ok(Decoded::Seal { .. }) => Ok(Found::Seal),
        _ => Ok(Found::Object),
    }
}
