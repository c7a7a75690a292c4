//! Bringing one entry to the leader, once. Repeating is the caller's business: an entry under its
//! number, or a registration with its nonce, may be brought any number of times.

use super::request::Ids;
use crate::core::Core;
use crate::counters::count;
use crate::peer::pool::Lane;
use crate::types::Proposal;
use crate::wire;
use headwater_metadata::{Entry, Outcome};
use openraft::errors::{ClientWriteError, RaftError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// What came of one try.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Tried {
    /// It is in the log at this index, and this is what applying it answered.
    Applied {
        /// Its place.
        index: u64,
        /// One outcome for each command.
        outcomes: Vec<Outcome>,
    },
    /// Not applied as far as one knows; it may have been, or may still be.
    Again(String),
    /// The member has stopped.
    Stopped(String),
}

/// A forwarded entry is tried anew after this.
const FORWARD: Duration = Duration::from_secs(5);
/// So long one try waits for a leader.
const LEADERLESS: Duration = Duration::from_millis(500);

/// Brings an entry to the leader, wherever it is.
pub(super) async fn once(core: &Arc<Core>, entry: &Arc<Entry>, requests: &[String]) -> Tried {
    let leader = core.leader();
    let Some(leader) = leader else {
        core.env.timeout(LEADERLESS, core.leader_changes(None)).await;
        return Tried::Again("there is no leader".to_owned());
    };
    if leader == core.me.member {
        return locally(core, entry.clone()).await;
    }
    count(&core.counters.forwards_sent);
    let message = wire::message(&(&**entry, requests));
    let asked = core.pool.ask(leader, Lane::Control, "/propose", message, FORWARD);
    let answer = tokio::select! {
        biased;
        answer = asked => answer,
        () = core.leader_changes(Some(leader)) => {
            return Tried::Again("the leader has changed".to_owned());
        }
    };
    headwater_env::fail_point!("raft.propose.answer", {
        return Tried::Again("fail point raft.propose.answer".to_owned());
    });
    let tried = answer.map_err(|error| error.to_string());
    let tried = tried.and_then(|bytes| wire::read_message::<Result<Tried, String>>(&bytes)?);
    match tried {
        // The other member has stopped; this one goes on.
        Ok(Tried::Stopped(why)) | Err(why) => Tried::Again(why),
        Ok(tried) => tried,
    }
}

/// An entry that a follower brings, with the ids of the requests that it comes from.
pub(crate) type Brought = (Entry, Vec<String>);

/// Proposes an entry that a follower brought.
pub(crate) async fn on_leader(core: &Arc<Core>, (entry, requests): Brought) -> Tried {
    if let Entry::Batch(batch) = &entry {
        let (session, number) = (batch.session, batch.number);
        tracing::debug!(%session, number, requests = %Ids(&requests), "takes a proposal");
    }
    if !core.is_leader() {
        return Tried::Again("this member does not lead".to_owned());
    }
    locally(core, Arc::new(entry)).await
}

async fn locally(core: &Arc<Core>, entry: Arc<Entry>) -> Tried {
    match core.raft.client_write(Proposal(entry)).await {
        Ok(written) => Tried::Applied { index: written.log_id.index, outcomes: written.data.outcomes },
        Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward))) => {
            // Also right after an election, until a quorum has confirmed the new leader.
            Tried::Again(format!("this member does not lead ({:?})", forward.reason))
        }
        Err(RaftError::APIError(error)) => Tried::Again(error.to_string()),
        Err(RaftError::Fatal(error)) => Tried::Stopped(error.to_string()),
    }
}
