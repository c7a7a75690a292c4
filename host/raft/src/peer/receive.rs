//! Receiving a snapshot in parts. What has arrived survives a broken connection: the sender asks first
//! how much is there and goes on from that. Nothing is installed before it is whole and verified.

use crate::counters::{Counters, count};
use crate::options::Paths;
use crate::state_machine::snapshot::{self, SnapshotFile};
use crate::types::{Raft, SnapshotMeta, Vote};
use bytes::Bytes;
use headwater_env::{DiskFile, Env};
use openraft::async_runtime::WatchReceiver;
use openraft::storage::Snapshot;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A part of a snapshot. The first one is empty.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    pub vote: Vote,
    pub meta: SnapshotMeta,
    pub len: u64,
    pub offset: u64,
    pub data: Bytes,
}

/// The answer to a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum PartAnswer {
    /// So many bytes are there.
    Have(u64),
    /// Nothing more is needed: it is installed, or this member knows of a later leader.
    Done {
        /// This member's vote.
        vote: Vote,
    },
}

/// Receives snapshots, one at a time.
pub(crate) struct Receiver {
    env: Env,
    paths: Paths,
    counters: Arc<Counters>,
    current: tokio::sync::Mutex<Option<Receiving>>,
}

struct Receiving {
    meta: SnapshotMeta,
    len: u64,
    have: u64,
    file: Arc<dyn DiskFile>,
}

impl Receiver {
    pub(crate) fn new(env: Env, paths: Paths, counters: Arc<Counters>) -> Receiver {
        Receiver { env, paths, counters, current: tokio::sync::Mutex::new(None) }
    }

    /// Takes a part.
    pub(crate) async fn receive(&self, raft: &Raft, part: Part) -> Result<PartAnswer, String> {
        let mut current = self.current.lock().await;
        let vote = raft.metrics().borrow_watched().vote;
        if vote > part.vote {
            return Ok(PartAnswer::Done { vote });
        }
        let same = current.as_ref().is_some_and(|at| at.meta == part.meta && at.len == part.len);
        if !same {
            *current = Some(self.begin(&part).await?);
        }
        let Some(receiving) = current.as_mut() else { return Err("no snapshot is coming".to_owned()) };
        if part.data.is_empty() || part.offset != receiving.have {
            return Ok(PartAnswer::Have(receiving.have));
        }
        if part.offset + part.data.len() as u64 > part.len {
            return Err("the part is beyond the snapshot's end".to_owned());
        }
        count(&self.counters.snapshot_chunks_received);
        let (file, offset, data) = (receiving.file.clone(), part.offset, part.data.clone());
        let write = move || file.write_at(offset, &data);
        self.env.blocking(write).await.map_err(|e| e.to_string())?;
        receiving.have += part.data.len() as u64;
        if receiving.have < receiving.len {
            return Ok(PartAnswer::Have(receiving.have));
        }
        *current = None;
        let file = self.check(&part.meta).await?;
        let snapshot = Snapshot { meta: part.meta, snapshot: file };
        let answer = raft.install_full_snapshot(part.vote, snapshot).await.map_err(|e| e.to_string())?;
        Ok(PartAnswer::Done { vote: answer.vote })
    }

    async fn begin(&self, part: &Part) -> Result<Receiving, String> {
        let (env, path) = (self.env.clone(), self.paths.snapshots().join("receiving.tmp"));
        let open = move || {
            env.disk.remove(&path)?;
            env.disk.open(&path, true)
        };
        let file = self.env.blocking(open).await.map_err(|e| e.to_string())?;
        Ok(Receiving { meta: part.meta.clone(), len: part.len, have: 0, file: file.into() })
    }

    async fn check(&self, meta: &SnapshotMeta) -> Result<SnapshotFile, String> {
        let (env, path) = (self.env.clone(), self.paths.snapshots().join("receiving.tmp"));
        let file = self.env.blocking(move || snapshot::check(&env, &path)).await?;
        match file.meta == *meta {
            true => Ok(file),
            false => Err("the snapshot is not the one that was announced".to_owned()),
        }
    }
}
