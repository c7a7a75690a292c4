//! Deletes from the store what nothing refers to: objects that the log unlinked, and leftovers of
//! recovered sessions.
//!
//! Two-phase: unlinked by a command, deleted here after a while (a reader that began before may still
//! need the bytes), then forgotten by a command. One node, the leader, deletes; a second one would do
//! no harm.

use crate::node::Parts;
use headwater_metadata::{Command, ObjectKey, Session};
use headwater_store::collect as store;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(5);
/// An unlinked object stays for this long: reads that began before end in this time.
const GRACE: Duration = Duration::from_secs(60);
/// Objects in one command.
const PART: usize = 500;

/// Collects for ever.
pub async fn run(parts: Arc<Parts>) {
    let mut seen: BTreeMap<ObjectKey, Duration> = BTreeMap::new();
    let mut swept = BTreeSet::new();
    loop {
        parts.env.clock.sleep(INTERVAL).await;
        let (view, now) = (parts.metadata.view(), parts.env.clock.monotonic());
        if !parts.metadata.status().is_leader {
            seen.clear();
            continue;
        }
        // One at a time: what was left when a recovery was cut short, or came late, is in no hurry.
        let ended = view.all_retired().filter(|ended| ended.recovered).map(|ended| ended.session);
        if let Some(session) = ended.into_iter().find(|session| !swept.contains(session)) {
            swept.insert(session);
            orphans(&parts, session).await;
        }
        seen.retain(|object, _| !view.refers_to(*object));
        for object in view.unlinked() {
            seen.entry(object).or_insert(now);
        }
        let ripe = |since: &Duration| now.saturating_sub(*since) >= GRACE;
        let due: Vec<ObjectKey> =
            seen.iter().filter(|(_, since)| ripe(since)).map(|(object, _)| *object).take(PART).collect();
        if due.is_empty() {
            continue;
        }
        let objects = store::delete(&parts.store, &due).await;
        for object in &objects {
            seen.remove(object);
        }
        tracing::debug!(deleted = objects.len(), "deleted objects that nothing refers to");
        if let Err(why) = parts.metadata.propose(Command::Forget { objects }).await {
            tracing::debug!(%why, "deleted objects are not forgotten yet");
        }
    }
}

/// Deletes what a recovered session left in the store without any reference. Its entries can no longer
/// apply, so references only become fewer.
pub async fn orphans(parts: &Parts, session: Session) {
    let view = parts.metadata.view();
    if !view.retired(session).is_some_and(|ended| ended.recovered) {
        return;
    }
    match store::orphans(&parts.store, session, |object| view.refers_to(object)).await {
        Ok(orphans) if orphans.is_empty() => {}
        Ok(orphans) => {
            let deleted = store::delete(&parts.store, &orphans).await.len();
            tracing::info!(%session, deleted, found = orphans.len(), "deleted leftovers of an ended session");
        }
        Err(why) => tracing::warn!(%session, %why, "leftovers of an ended session could not be listed"),
    }
}
