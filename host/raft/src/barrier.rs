//! The read barrier: before a node says anything about a stream that it does not own, its view must
//! hold everything that was committed before the question.
//!
//! The leader, which has committed an entry of its own term, gives its commit index after a quorum
//! confirmed it in a round begun after the question. A question serves only those who asked before it
//! was sent; who comes later shares the next one.

use crate::core::Core;
use crate::counters::count;
use crate::error::Unavailable;
use crate::peer::pool::Lane;
use crate::wire;
use openraft::ReadPolicy;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The leader's answer to a question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Read {
    /// Everything committed before the question is at or below this index.
    Index(u64),
    /// It cannot say: it does not lead, or no quorum confirms it.
    No(String),
}

/// So many wait for a question at most.
const QUEUE: usize = 65_536;
/// One question is given up after this and asked anew.
const QUESTION: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(30);

/// Asks questions, one at a time.
#[derive(Clone)]
pub(crate) struct Barrier {
    core: Arc<Core>,
    queue: mpsc::Sender<oneshot::Sender<()>>,
    trouble: Arc<Mutex<String>>,
}

impl Barrier {
    pub(crate) fn start(core: Arc<Core>) -> Barrier {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let trouble = Arc::new(Mutex::new("no answer from a leader".to_owned()));
        tokio::spawn(run(core.clone(), waiting, trouble.clone()));
        Barrier { core, queue, trouble }
    }

    /// Waits until the own view holds everything that was committed before this call.
    pub(crate) async fn wait(&self) -> Result<(), Unavailable> {
        count(&self.core.counters.barriers);
        let (done, passed) = oneshot::channel();
        if let Err(error) = self.queue.try_send(done) {
            return Err(Unavailable(match error {
                mpsc::error::TrySendError::Full(_) => "too many questions wait".to_owned(),
                mpsc::error::TrySendError::Closed(_) => "the raft member has stopped".to_owned(),
            }));
        }
        match self.core.env.timeout(self.core.options.read_deadline, passed).await {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(Unavailable("the raft member has stopped".to_owned())),
            None => Err(Unavailable(self.trouble.lock().clone())),
        }
    }
}

async fn run(core: Arc<Core>, mut queue: mpsc::Receiver<oneshot::Sender<()>>, trouble: Arc<Mutex<String>>) {
    let mut waiting: Vec<oneshot::Sender<()>> = Vec::new();
    let mut stop = core.stop.subscribe();
    loop {
        waiting.retain(|waiter| !waiter.is_closed());
        if waiting.is_empty() {
            tokio::select! {
                biased;
                waiter = queue.recv() => match waiter {
                    Some(waiter) => waiting.push(waiter),
                    None => return,
                },
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
        // Everybody who is here now asked before the question goes out; nobody else is served by it.
        while let Ok(waiter) = queue.try_recv() {
            waiting.push(waiter);
        }
        count(&core.counters.barrier_rounds);
        match core.env.timeout(QUESTION, ask(&core)).await {
            Some(Read::Index(index)) => {
                let served = std::mem::take(&mut waiting);
                let published = core.published.clone();
                tokio::spawn(async move {
                    published.reach(index).await;
                    for waiter in served {
                        let _ = waiter.send(());
                    }
                });
            }
            Some(Read::No(why)) => {
                *trouble.lock() = why;
                core.env.clock.sleep(PAUSE).await;
            }
            None => *trouble.lock() = "the leader does not answer".to_owned(),
        }
    }
}

async fn ask(core: &Arc<Core>) -> Read {
    match core.leader() {
        None => Read::No("there is no leader".to_owned()),
        Some(leader) if leader == core.me.member => on_leader(core).await,
        Some(leader) => {
            let message = wire::message(&());
            let asked = core.pool.ask(leader, Lane::Control, "/barrier", message, QUESTION);
            let answer = tokio::select! {
                biased;
                answer = asked => answer,
                () = core.leader_changes(Some(leader)) => {
                    return Read::No("the leader has changed".to_owned());
                }
            };
            let answer = answer.map_err(|e| e.to_string());
            let read = answer.and_then(|bytes| wire::read_message::<Result<Read, String>>(&bytes)?);
            read.unwrap_or_else(Read::No)
        }
    }
}

/// Answers a question, on the leader.
pub(crate) async fn on_leader(core: &Arc<Core>) -> Read {
    match core.raft.get_read_log_id(ReadPolicy::ReadIndex).await {
        Ok((read, _)) => Read::Index(read.index()),
        Err(error) => Read::No(error.to_string()),
    }
}
