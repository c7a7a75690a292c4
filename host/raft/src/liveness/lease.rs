//! The node's side: sending heartbeats, and the lease that their answers give.

use super::moment::Moment;
use super::{Answered, Beat, beat, lease_length};
use crate::core::Core;
use crate::counters::count;
use crate::peer::pool::Lane;
use crate::wire;
use headwater_metadata::Session;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The lease of this process's session. Cheap to clone.
#[derive(Clone)]
pub struct Lease {
    core: Arc<Core>,
    held: Arc<Mutex<Option<(Session, Moment)>>>,
    store_failed: Arc<Mutex<Option<Duration>>>,
}

impl Lease {
    pub(crate) fn new(core: Arc<Core>) -> Lease {
        Lease { core, held: Arc::default(), store_failed: Arc::default() }
    }

    /// Whether the session's lease holds now. What it shall vouch for is read first, the lease is
    /// checked after.
    pub fn holds(&self, session: Session) -> bool {
        let now = Moment::now(&self.core.env);
        match *self.held.lock() {
            Some((of, sent)) => of == session && sent.passed(&now) < self.length(),
            None => false,
        }
    }

    /// L: how long a lease runs. After a retirement that was not for silence, a recovery waits twice
    /// that.
    pub fn length(&self) -> Duration {
        lease_length(self.core.options.evict_after)
    }

    /// Says whether the shared store takes what this node puts. The leader is told.
    pub fn store_works(&self, works: bool) {
        let mut failed = self.store_failed.lock();
        match works {
            true => *failed = None,
            false => {
                failed.get_or_insert_with(|| self.core.env.clock.boot());
            }
        }
    }

    fn beat(&self, session: Session) -> Beat {
        let failed = *self.store_failed.lock();
        let since = failed.map(|since| self.core.env.clock.boot().saturating_sub(since));
        let store_fails_ms = since.map(|since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        Beat { session, evict_after: self.core.options.evict_after, store_fails_ms }
    }

    /// Sends heartbeats while there is a session.
    pub(crate) async fn keep(self, mut sessions: watch::Receiver<Option<Session>>) {
        let interval = beat(self.core.options.evict_after);
        let mut stop = self.core.stop.subscribe();
        loop {
            let session = *sessions.borrow_and_update();
            if let Some(session) = session {
                self.once(session, interval).await;
            }
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                changed = sessions.changed() => if changed.is_err() { return },
                () = self.core.env.clock.sleep(interval) => {}
            }
        }
    }

    async fn once(&self, session: Session, interval: Duration) {
        let sent = Moment::now(&self.core.env);
        let answer = match self.core.leader() {
            None => return,
            Some(leader) if leader == self.core.me.member => {
                self.core.liveness.answer(&self.core, &self.beat(session))
            }
            Some(leader) => {
                let message = wire::message(&self.beat(session));
                let asked = self.core.pool.ask(leader, Lane::Control, "/heartbeat", message, interval * 2);
                let answer = asked.await.map_err(|error| error.to_string());
                let answer = answer.and_then(|bytes| wire::read_message::<Result<Answered, String>>(&bytes)?);
                answer.unwrap_or_else(Answered::No)
            }
        };
        match answer {
            Answered::Held => {
                count(&self.core.counters.leases_renewed);
                *self.held.lock() = Some((session, sent));
            }
            Answered::No(why) => tracing::debug!(%session, why, "no lease"),
        }
    }
}
