//! Reads a sealed log, object by object, and says what is missing.
//!
//! A damaged object is reported and the reading goes on: what it means is a question of each stream.
//! Whose records it held is known from the object after it.

use crate::Store;
use crate::layout;
use crate::wal::folder;
use crate::wal::format::{self, Damage, Decoded};
use crate::wal::seal::SealedLog;
use crate::wal::{Extent, Record};
use futures_util::stream::{self, BoxStream, StreamExt};
use headwater_metadata::{Session, WalForm, WalSeq};

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
    /// The object does not read well, or is absent: records were lost.
    Damaged {
        /// Number of the object.
        seq: WalSeq,
        /// Its key.
        object: String,
        /// What is wrong.
        reason: String,
        /// The records that do read, in order.
        salvaged: Vec<Record>,
        /// What it held, as its successor in the log says; `None` when that is not known: then any
        /// stream open in the session may have lost records here.
        held: Option<Vec<Extent>>,
    },
}

/// Objects asked for at a time.
const AHEAD: usize = 8;

type Read = (WalSeq, Result<Decoded, Damage>);

/// The objects from the trim point to the seal, in order. A failing store is waited out; the caller
/// bounds it.
pub fn replay<'a>(store: &'a Store, log: &SealedLog) -> BoxStream<'a, Replayed> {
    let SealedLog { session, form, .. } = *log;
    let (from, end) = (log.from, log.end);
    let objects = match log.form {
        WalForm::Objects => stream::iter(from.0..end.0)
            .map(move |seq| read(store, session, WalSeq(seq)))
            .buffered(AHEAD)
            .boxed(),
        WalForm::Files => folder::read(store, session, from, end),
    };
    // Each object waits for its successor, which may have to say what it held.
    let paired = objects.map(Some).chain(stream::iter([None])).scan(None::<Read>, move |last, object| {
        let before = last.take();
        let held = object.as_ref().and_then(|(_, read)| before_of(read));
        *last = object;
        let replayed = before.and_then(|(seq, read)| judge(session, form, seq, read, held));
        std::future::ready(Some(replayed))
    });
    paired.filter_map(std::future::ready).boxed()
}

async fn read(store: &Store, session: Session, seq: WalSeq) -> Read {
    let damaged = |reason: String| Damage { reason, ..Damage::default() };
    let read = match store.get(&layout::wal(session, seq)).await {
        Ok(Some(object)) => format::decode(session, seq, &object),
        Ok(None) => Err(damaged("it is absent".into())),
        Err(reason) => Err(damaged(reason)),
    };
    (seq, read)
}

/// What an object says of the one before it.
fn before_of(read: &Result<Decoded, Damage>) -> Option<Vec<Extent>> {
    match read {
        Ok(Decoded::Records { before, .. }) => before.clone(),
        Ok(Decoded::Seal { .. }) => None,
        Err(damage) => damage.before.clone(),
    }
}

fn judge(
    session: Session,
    form: WalForm,
    seq: WalSeq,
    read: Result<Decoded, Damage>,
    held: Option<Vec<Extent>>,
) -> Option<Replayed> {
    let damage = match read {
        Ok(Decoded::Records { records, .. }) => return Some(Replayed::Records { seq, records }),
        // A sealer with an older view sealed a number that the owner had trimmed: nothing is here.
        Ok(Decoded::Seal { .. }) => return None,
        Err(damage) => damage,
    };
    let object = match form {
        WalForm::Objects => layout::wal(session, seq).to_string(),
        WalForm::Files => format!("{} (number {seq})", layout::sealed_folder(session)),
    };
    tracing::error!(object, reason = damage.reason, "an object of a sealed log is damaged");
    Some(Replayed::Damaged { seq, object, reason: damage.reason, salvaged: damage.salvaged, held })
}

/// Deletes the log of a session after the last part of its recovery was applied; false when some of it
/// could not be deleted yet. A seal stays for ever.
pub async fn delete_log(store: &Store, log: &SealedLog) -> bool {
    if log.form == WalForm::Files {
        return folder::delete(store, log.session).await;
    }
    let path = |seq| layout::wal(log.session, WalSeq(seq));
    let numbers: Vec<_> = (log.from.0..log.end.0).map(path).collect();
    for chunk in numbers.chunks(500) {
        if let Err(failure) = store.delete_many(chunk.to_vec()).await {
            tracing::warn!(?failure, session = %log.session, "deleting a recovered log failed; later again");
            return false;
        }
    }
    // Uploads that overlapped lie behind the seal, what the owner did not get to delete lies before
    // the trim point: a listing that misses some leaves garbage, nothing worse.
    let Ok(listed) = store.list(layout::wal_of(log.session)).await else { return false };
    let mut clean = true;
    for path in listed {
        let Some((_, seq)) = layout::parse_wal(&path) else { continue };
        if seq == log.end {
            continue;
        }
        let (_, found) = read(store, log.session, seq).await;
        let seal = matches!(found, Ok(Decoded::Seal { .. }));
        clean &= seal || store.delete_once(&path).await.is_ok();
    }
    clean
}
