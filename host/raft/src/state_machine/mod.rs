//! The replicated state under raft: applies entries, publishes views, builds and installs snapshots.
//!
//! Applying is pure (`headwater_metadata`) and in memory; a restart begins at the snapshot and replays
//! the log. Only an entry that asks a policy may wait, and it waits away from the async workers.
//! Nothing here decides; `snapshot.rs` has the files, `publish.rs` what readers see.

pub(crate) mod publish;
pub(crate) mod snapshot;

use crate::counters::{Counters, add, count};
use crate::dir::DataDir;
use crate::error::DirError;
use crate::options::Paths;
use crate::types::{Applied, Config, Entry, LogId, SnapshotMeta, StoredMembership};
use futures_util::{Stream, StreamExt};
use headwater_env::Env;
use headwater_metadata::{self as metadata, Command, Outcome, Placement, State};
use openraft::entry::RaftEntry;
use openraft::storage::{EntryResponder, RaftStateMachine, Snapshot};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use parking_lot::Mutex;
use publish::Published;
use snapshot::SnapshotFile;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// So many entries are applied between two publications at most.
const CHUNK: usize = 64;

/// The state machine.
pub(crate) struct Machine {
    env: Env,
    paths: Paths,
    placement: Arc<dyn Placement>,
    counters: Arc<Counters>,
    published: Arc<Published>,
    current: Arc<Mutex<Option<SnapshotFile>>>,
    state: State,
    last_applied: Option<LogId>,
    membership: StoredMembership,
}

impl Machine {
    /// Opens the snapshot of a data directory. Blocks. `purged` is where the log begins: a snapshot
    /// must reach it.
    pub(crate) fn open(
        dir: &DataDir,
        purged: Option<LogId>,
        placement: Arc<dyn Placement>,
        counters: Arc<Counters>,
    ) -> Result<Machine, DirError> {
        let found = snapshot::open_current(&dir.env, &dir.paths)?;
        let covered = found.as_ref().and_then(|(file, _)| file.meta.last_log_id);
        if covered < purged {
            let folder = dir.paths.snapshots();
            return Err(DirError::damaged(folder, "the snapshot that the purged log needs is gone"));
        }
        let (current, state) = match found {
            Some((file, state)) => (Some(file), state),
            None => (None, State::new()),
        };
        let meta = current.as_ref().map(|file| file.meta.clone()).unwrap_or_default();
        let published = Published::new(&state, meta.last_log_id.map_or(0, |id| id.index));
        Ok(Machine {
            env: dir.env.clone(),
            paths: dir.paths.clone(),
            placement,
            counters,
            published: Arc::new(published),
            current: Arc::new(Mutex::new(current)),
            state,
            last_applied: meta.last_log_id,
            membership: meta.last_membership,
        })
    }

    pub(crate) fn published(&self) -> Arc<Published> {
        self.published.clone()
    }

    async fn apply_entry(&mut self, index: u64, entry: Arc<metadata::Entry>) -> io::Result<Vec<Outcome>> {
        headwater_env::fail_point!("raft.apply", {
            return Err(io::Error::other("fail point raft.apply"));
        });
        let asks = self.state.asks_policy(&entry);
        if asks.is_some_and(|engine| engine != self.placement.engine()) {
            count(&self.counters.foreign_engine_entries);
        }
        let mut state = self.state.clone();
        let placement = self.placement.clone();
        // A panic must end the member, not a task that others wait for.
        let work = move || {
            catch_unwind(AssertUnwindSafe(|| {
                let outcomes = state.apply(index, &entry, &*placement);
                (state, outcomes)
            }))
        };
        let result = if asks.is_some() { self.env.blocking(work).await } else { work() };
        let (state, outcomes) =
            result.map_err(|_| io::Error::other(format!("applying entry {index} panicked")))?;
        self.state = state;
        count(&self.counters.entries_applied);
        Ok(outcomes)
    }

    async fn apply_one(&mut self, entry: Entry) -> io::Result<(Applied, bool)> {
        let id = entry.log_id();
        if let Some(membership) = entry.get_membership() {
            self.membership = StoredMembership::new(Some(id), membership);
        }
        self.last_applied = Some(id);
        let EntryPayload::Normal(proposal) = entry.payload else {
            self.state.advance(id.index);
            return Ok((Applied::default(), false));
        };
        let puts = matches!(&*proposal.0, metadata::Entry::Batch(batch)
            if batch.commands.iter().any(|command| matches!(command, Command::PutPolicy { .. })));
        let outcomes = self.apply_entry(id.index, proposal.0).await?;
        Ok((Applied { outcomes }, puts))
    }

    fn publish(&self, policies_changed: bool) {
        let applied = self.last_applied.map_or(0, |id| id.index);
        self.published.publish(&self.state, applied, policies_changed);
    }

    fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: self.last_applied, last_membership: self.membership.clone() }
    }
}

impl RaftStateMachine<Config> for Machine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.last_applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Config>>> + Unpin + OptionalSend,
    {
        let mut chunks = entries.ready_chunks(CHUNK);
        while let Some(chunk) = chunks.next().await {
            let mut answers = Vec::with_capacity(chunk.len());
            for item in chunk {
                let (entry, responder) = item?;
                let (applied, puts) = self.apply_one(entry).await?;
                if puts {
                    // At once: a placement later in this very chunk may wait for the component.
                    self.publish(true);
                }
                answers.extend(responder.map(|responder| (responder, applied)));
            }
            // First the view, then the answers: who has an answer sees what it speaks of.
            self.publish(false);
            for (responder, applied) in answers {
                responder.send(applied);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder {
            env: self.env.clone(),
            paths: self.paths.clone(),
            counters: self.counters.clone(),
            current: self.current.clone(),
            state: self.state.clone(),
            meta: self.meta(),
        }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, received: SnapshotFile) -> io::Result<()> {
        let (env, paths) = (self.env.clone(), self.paths.clone());
        let work = move || {
            let (file, state) = snapshot::load(&env, &received.path).map_err(io::Error::other)?;
            let file = snapshot::adopt(&env, &paths, &file)?;
            headwater_env::fail_point_blocking!("raft.snapshot.installed");
            snapshot::tidy(&env, &paths, &file.path)?;
            Ok::<_, io::Error>((file, state))
        };
        let (file, state) = self.env.blocking(work).await?;
        if &file.meta != meta {
            return Err(io::Error::other("the snapshot is not the one that was announced"));
        }
        self.state = state;
        self.last_applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        *self.current.lock() = Some(file);
        count(&self.counters.snapshots_installed);
        self.publish(true);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot2>> {
        Ok(self.current.lock().clone().map(offer))
    }
}

type Snapshot2 = openraft::alias::SnapshotOf<Config, SnapshotFile>;

fn offer(file: SnapshotFile) -> Snapshot2 {
    Snapshot { meta: file.meta.clone(), snapshot: file }
}

/// Builds a snapshot beside the apply path, from a copy of the state.
pub(crate) struct Builder {
    env: Env,
    paths: Paths,
    counters: Arc<Counters>,
    current: Arc<Mutex<Option<SnapshotFile>>>,
    state: State,
    meta: SnapshotMeta,
}

impl RaftSnapshotBuilder<Config> for Builder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot2> {
        let (env, paths, meta) = (self.env.clone(), self.paths.clone(), self.meta.clone());
        let (state, current) = (self.state.clone(), self.current.clone());
        let work = move || {
            let file = snapshot::build(&env, &paths, meta, &state)?;
            let mut current = current.lock();
            // One that was installed meanwhile may reach further.
            if current.as_ref().is_none_or(|old| old.meta.last_log_id <= file.meta.last_log_id) {
                *current = Some(file.clone());
            }
            if let Some(current) = current.as_ref() {
                snapshot::tidy(&env, &paths, &current.path)?;
            }
            Ok::<_, io::Error>(file)
        };
        let file = self.env.blocking(work).await?;
        count(&self.counters.snapshots_built);
        add(&self.counters.snapshot_bytes_built, usize::try_from(file.len).unwrap_or(usize::MAX));
        tracing::info!(
            index = file.meta.last_log_id.map_or(0, |id| id.index),
            bytes = file.len,
            "built a snapshot"
        );
        Ok(offer(file))
    }
}
