//! Deletes what nothing refers to. It never decides that: keys and judgement are the caller's.
//!
//! Deleting is slow on purpose: whoever reads or appends goes first.

use crate::layout;
use crate::{Store, StoreError};
use headwater_metadata::{ObjectKey, Session};
use std::time::Duration;

/// Objects deleted in one request.
const BATCH: usize = 200;
/// Pause after each.
const PAUSE: Duration = Duration::from_millis(100);

/// Deletes data objects that were unlinked by a command that has been applied; gives those that are
/// gone now. What fails is left out: ask again later.
pub async fn delete(store: &Store, objects: &[ObjectKey]) -> Vec<ObjectKey> {
    let mut gone = Vec::new();
    let mut batches = objects.chunks(BATCH).peekable();
    while let Some(batch) = batches.next() {
        match store.delete_many(batch.iter().map(|key| layout::data(*key)).collect()).await {
            Ok(()) => gone.extend_from_slice(batch),
            Err(failure) => {
                // A store that is overloaded gets no more work of this kind.
                tracing::debug!(?failure, left = objects.len() - gone.len(), "deleting objects failed");
                return gone;
            }
        }
        if batches.peek().is_some() {
            store.env().clock.sleep(PAUSE + store.held()).await;
        }
    }
    gone
}

/// Data objects of a session that `referenced` does not know. The caller's view must contain the
/// session's recovery: until then a commit may still refer to any of them.
pub async fn orphans(
    store: &Store,
    session: Session,
    referenced: impl Fn(ObjectKey) -> bool + Send,
) -> Result<Vec<ObjectKey>, StoreError> {
    let listed = store.list(layout::data_of(session)).await?;
    let keys = listed.iter().filter_map(layout::parse_data).filter(|key| key.session == session);
    Ok(keys.filter(|key| !referenced(*key)).collect())
}

/// Deletes unfinished files that a killed process of a recovered session left in a store that is a
/// folder. Elsewhere there are none.
pub async fn delete_leftovers(store: &Store, session: Session) -> usize {
    let mut deleted = 0;
    for folder in [layout::wal_of(session), layout::data_of(session)] {
        deleted += store.delete_unfinished(&folder).await;
    }
    deleted
}
