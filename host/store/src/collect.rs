//! Deletes what nothing refers to. It never decides that: keys and judgement are the caller's.

use crate::{Store, StoreError};
use headwater_metadata::{ObjectKey, Session};

/// Deletes data objects that were unlinked; gives those that are gone now.
pub async fn delete(store: &Store, objects: &[ObjectKey]) -> Vec<ObjectKey> {
    let _ = (store, objects);
    unimplemented!()
}

/// Data objects of a session whose recovery is in the caller's view, that `referenced` does not know.
pub async fn orphans(
    store: &Store,
    session: Session,
    referenced: impl Fn(ObjectKey) -> bool + Send,
) -> Result<Vec<ObjectKey>, StoreError> {
    let _ = (store, session, referenced);
    unimplemented!()
}
