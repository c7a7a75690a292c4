//! Carries the plan out: each action in a task of its own, one task for each action at a time.
//!
//! Decides nothing. What fails is tried again after a pause, as long as the plan still asks for it.

use super::collect;
use super::plan::{Action, Facts, plan};
use super::sweep;
use crate::node::Parts;
use crate::stream::Streams;
use headwater_metadata::{Command, Outcome, Session};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// The plan is made at least this often.
const TICK: Duration = Duration::from_millis(250);
/// And at most this often.
const PAUSE: Duration = Duration::from_millis(10);
/// What failed is tried again after this time.
const RETRY: Duration = Duration::from_secs(1);

/// Plans and acts for one session, until it is dropped.
pub async fn run(parts: Arc<Parts>, streams: Streams, me: Session) {
    let mut views = parts.metadata.views();
    let mut keepers = JoinSet::new();
    keepers.spawn(collect::run(parts.clone()));
    keepers.spawn(sweep::run(parts.clone(), streams.clone()));
    let mut control = Control {
        heard: BTreeMap::new(),
        waits: BTreeMap::new(),
        busy: BTreeSet::new(),
        tasks: JoinSet::new(),
        parts,
        streams,
        me,
    };
    loop {
        views.borrow_and_update();
        control.turn();
        let clock = control.parts.env.clock.clone();
        tokio::select! {
            changed = views.changed() => {
                if changed.is_err() {
                    return;
                }
                clock.sleep(PAUSE).await;
            }
            Some(done) = control.tasks.join_next() => {
                if let Ok((action, done)) = done {
                    control.finished(action, done);
                }
            }
            () = clock.sleep(TICK) => {}
        }
    }
}

struct Control {
    parts: Arc<Parts>,
    streams: Streams,
    me: Session,
    /// When this process heard of the end of a session, monotonic.
    heard: BTreeMap<Session, Duration>,
    /// Actions that failed, and when they may be tried again.
    waits: BTreeMap<Action, Duration>,
    busy: BTreeSet<Action>,
    tasks: JoinSet<(Action, bool)>,
}

impl Control {
    fn turn(&mut self) {
        let (view, now) = (self.parts.metadata.view(), self.parts.env.clock.monotonic());
        let unrecovered: BTreeSet<Session> = view.unrecovered().map(|ended| ended.session).collect();
        self.heard.retain(|session, _| unrecovered.contains(session));
        for session in unrecovered {
            self.heard.entry(session).or_insert(now);
        }
        let known_for = self.heard.iter().map(|(s, heard)| (*s, now.saturating_sub(*heard))).collect();
        let facts = Facts {
            view: &view,
            me: self.me,
            lock: &self.parts.lock,
            known_for: &known_for,
            evict_after: self.parts.config.evict_after,
        };
        self.waits.retain(|_, until| *until > now);
        for action in plan(&facts) {
            if !self.waits.contains_key(&action) && self.busy.insert(action) {
                let (parts, streams) = (self.parts.clone(), self.streams.clone());
                self.tasks.spawn(async move { (action, perform(&parts, &streams, action).await) });
            }
        }
    }

    fn finished(&mut self, action: Action, done: bool) {
        self.busy.remove(&action);
        if !done {
            self.waits.insert(action, self.parts.env.clock.monotonic() + RETRY);
        }
    }
}

/// Does it; false when it has to be tried again.
async fn perform(parts: &Parts, streams: &Streams, action: Action) -> bool {
    match action {
        Action::Recover(session) => recover(parts, streams, session).await,
        Action::Disown(session) => {
            let proposed = parts.metadata.propose(Command::Disown { session }).await;
            matches!(proposed, Ok(Outcome::Applied(_) | Outcome::Redundant(_)))
        }
        Action::HandOver(stream) => match streams.close(stream).await {
            Ok(()) => true,
            Err(why) => {
                tracing::warn!(%stream, %why, "a stream cannot be handed over yet");
                false
            }
        },
    }
}

async fn recover(parts: &Parts, streams: &Streams, session: Session) -> bool {
    tracing::info!(%session, "recovers an ended session");
    match streams.recover(session).await {
        Ok(_) => {
            collect::orphans(parts, session).await;
            true
        }
        Err(why) => {
            tracing::warn!(%session, %why, "the recovery is not done; it is tried again");
            false
        }
    }
}
