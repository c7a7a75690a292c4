//! Raft's own messages to one member, for openraft.

use super::pool::{Lane, Pool};
use super::receive::{Part, PartAnswer};
use crate::counters::{Counters, count};
use crate::error::PeerError;
use crate::state_machine::snapshot::SnapshotFile;
use crate::types::{Config, MemberInfo, Vote};
use crate::wire;
use bytes::Bytes;
use headwater_env::Env;
use openraft::OptionalSend;
use openraft::alias::SnapshotOf;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Entries must reach the peer's disk before it answers, and a slow disk is no reason to repeat them.
const APPEND: Duration = Duration::from_secs(4);
/// Large messages have more time: a second for so many bytes.
const SLOWEST: u32 = 256 << 10;
const PART_BYTES: usize = 1 << 20;
const PART: Duration = Duration::from_secs(10);
/// The last part is answered when the snapshot is installed.
const INSTALL: Duration = Duration::from_secs(120);

/// Makes links.
pub(crate) struct Network {
    pub pool: Arc<Pool>,
    pub env: Env,
    pub counters: Arc<Counters>,
}

impl RaftNetworkFactory<Config> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: u64, _: &MemberInfo) -> Link {
        Link { target, pool: self.pool.clone(), env: self.env.clone(), counters: self.counters.clone() }
    }
}

/// The way to one member.
pub(crate) struct Link {
    target: u64,
    pool: Arc<Pool>,
    env: Env,
    counters: Arc<Counters>,
}

fn rpc_error(error: &PeerError) -> RPCError<Config> {
    match error {
        // Raft waits a little before it tries again.
        PeerError::NotSent { .. } | PeerError::UnknownNode(_) | PeerError::Refused { .. } => {
            RPCError::Unreachable(Unreachable::from_string(error))
        }
        PeerError::Broken { .. } => RPCError::Network(NetworkError::from_string(error)),
    }
}

impl Link {
    async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        lane: Lane,
        path: &str,
        request: &Q,
        limit: Duration,
    ) -> Result<A, RPCError<Config>> {
        let message = wire::message(request);
        let size = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let limit = limit + Duration::from_secs(1) * (size / SLOWEST);
        let answer = self.pool.ask(self.target, lane, path, message, limit).await;
        let answer = answer.map_err(|error| rpc_error(&error))?;
        let answer: Result<A, String> = wire::read_message(&answer)
            .map_err(|why| RPCError::Unreachable(Unreachable::from_string(why)))?;
        answer.map_err(|why| RPCError::Unreachable(Unreachable::from_string(why)))
    }

    async fn send_parts(
        &self,
        vote: Vote,
        file: &SnapshotFile,
    ) -> Result<SnapshotResponse<Config>, RPCError<Config>> {
        let mut part = Part { vote, meta: file.meta.clone(), len: file.len, offset: 0, data: Bytes::new() };
        let mut progress = (0, 0);
        loop {
            // The first, empty part asks how much of this snapshot is there already.
            let last = part.offset + part.data.len() as u64 == file.len;
            let limit = if last { INSTALL } else { PART };
            let answer: PartAnswer = self.call(Lane::Bulk, "/raft/snapshot", &part, limit).await?;
            count(&self.counters.snapshot_chunks_sent);
            let have = match answer {
                PartAnswer::Done { vote } => {
                    count(&self.counters.snapshots_sent);
                    return Ok(SnapshotResponse::new(vote));
                }
                PartAnswer::Have(have) => have.min(file.len),
            };
            progress = if have > progress.0 { (have, 0) } else { (progress.0, progress.1 + 1) };
            if progress.1 > 8 {
                let why = "the snapshot makes no progress";
                return Err(RPCError::Unreachable(Unreachable::from_string(why)));
            }
            headwater_env::fail_point!("raft.snapshot.send");
            let size = usize::try_from(file.len - have).map_or(PART_BYTES, |left| left.min(PART_BYTES));
            let from = file.file.clone();
            let read = move || {
                let mut data = vec![0; size];
                from.read_at(have, &mut data).map(|()| data)
            };
            let data = self.env.blocking(read).await;
            let data = data.map_err(|e| RPCError::Unreachable(Unreachable::from_string(e)))?;
            part.offset = have;
            part.data = data.into();
        }
    }
}

impl RaftNetworkV2<Config> for Link {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Config>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Config>, RPCError<Config>> {
        let limit = if rpc.entries.is_empty() { option.hard_ttl() } else { APPEND };
        self.call(Lane::Control, "/raft/append", &rpc, limit).await
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Config>,
        option: RPCOption,
    ) -> Result<VoteResponse<Config>, RPCError<Config>> {
        self.call(Lane::Control, "/raft/vote", &rpc, option.hard_ttl()).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Config>,
        option: RPCOption,
    ) -> Result<VoteResponse<Config>, RPCError<Config>> {
        self.call(Lane::Control, "/raft/prevote", &rpc, option.hard_ttl()).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotOf<Config, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Config>, StreamingError<Config>> {
        tokio::select! {
            biased;
            closed = cancel => Err(closed.into()),
            sent = self.send_parts(vote, &snapshot.snapshot) => Ok(sent?),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Config>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Config>, RPCError<Config>> {
        self.call(Lane::Control, "/raft/transfer", &request, option.hard_ttl()).await
    }
}
