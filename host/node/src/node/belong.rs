//! Which cluster this node belongs to: what the data directory says, what the store says, and what a
//! person meant by `--join`.
//!
//! The data directory knows a new cluster's id, flushed, before the store does: a node that dies
//! between the two finds its own id in the store the next time, which is success. Every other
//! disagreement is refused in words that name both ids. `mod.rs` calls this before raft starts.

use headwater_env::Env;
use headwater_raft::{ClusterId, DataDir, DirError};
use headwater_store::{Kind, Store, StoreError};
use std::time::Duration;

/// How long a node waits for the first node of its cluster to found it.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);

/// Why the node belongs nowhere.
#[derive(Debug, thiserror::Error)]
pub enum BelongError {
    /// The data directory.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Two clusters meet.
    #[error(
        "the data directory belongs to cluster {directory}, the store to cluster {store}: they do not go \
         together. Give the node the store of its cluster with --store, or, if it shall join the store's \
         cluster, an empty --data directory"
    )]
    TwoClusters {
        /// In the data directory.
        directory: ClusterId,
        /// In the store.
        store: ClusterId,
    },
    /// The store was emptied, or is another one.
    #[error(
        "the data directory belongs to cluster {0}, but the store holds no cluster: it is not the store \
         that this cluster writes to, or it was emptied. Check --store; to begin a new cluster, empty the \
         data directory too"
    )]
    StoreWithoutCluster(ClusterId),
    /// `memory://` and a directory of an earlier process.
    #[error(
        "the data directory is of an earlier process, and memory:// kept nothing of what that stored: \
         empty the data directory, or use a store that lasts"
    )]
    NothingKept,
    /// `--join`, but nobody founded a cluster in this store.
    #[error(
        "--join was given, but the store holds no cluster: either this is not the store of the nodes to \
         join, or the first node of the cluster has not started. It is the one to start without --join"
    )]
    NobodyFounded,
    /// The store has a cluster, nobody to ask.
    #[error(
        "the store belongs to cluster {0}, but names no peer address to join it through: give one with --join"
    )]
    NobodyToAsk(ClusterId),
}

/// Settles which cluster the directory belongs to, founding one if nobody did, and gives the peer
/// addresses to join through or to tell the own address to.
pub async fn settle(
    env: &Env,
    dir: &mut DataDir,
    store: &Store,
    join: &[String],
) -> Result<Vec<String>, BelongError> {
    let in_store = store.cluster_id().await?.map(ClusterId);
    match (dir.cluster(), in_store) {
        (Some(own), Some(found)) if own == found => {}
        (Some(directory), Some(store)) => return Err(BelongError::TwoClusters { directory, store }),
        (Some(own), None) if dir.is_founder() && !dir.has_log() => store.claim_cluster(own.0).await?,
        (Some(_), None) if store.kind() == Kind::Memory => return Err(BelongError::NothingKept),
        (Some(own), None) => return Err(BelongError::StoreWithoutCluster(own)),
        (None, Some(found)) => dir.belong(found)?,
        (None, None) if join.is_empty() => found(dir, store).await?,
        (None, None) => dir.belong(founded(env, store).await?)?,
    }
    peers(env, dir, store, join).await
}

/// Founds a cluster, or belongs to the one that another node has founded in this very moment.
async fn found(dir: &mut DataDir, store: &Store) -> Result<(), BelongError> {
    let own = dir.found()?;
    match store.claim_cluster(own.0).await {
        Ok(()) => {
            tracing::info!(cluster = %own, "founds a cluster");
            Ok(())
        }
        Err(StoreError::ForeignCluster { found, .. }) => {
            // The store never had our id: nobody else can know it, so it can be given up.
            dir.renounce()?;
            dir.belong(ClusterId(found))?;
            tracing::info!(cluster = %ClusterId(found), "another node has founded the cluster; joins it");
            Ok(())
        }
        Err(e) => Err(e.into()),
    }
}

/// Waits until the first node of the cluster has founded it.
async fn founded(env: &Env, store: &Store) -> Result<ClusterId, BelongError> {
    let started = env.clock.monotonic();
    tracing::info!("the store holds no cluster yet: waits for the first node to found it");
    loop {
        if let Some(id) = store.cluster_id().await? {
            return Ok(ClusterId(id));
        }
        if env.clock.monotonic().saturating_sub(started) > PATIENCE {
            return Err(BelongError::NobodyFounded);
        }
        env.clock.sleep(PAUSE).await;
    }
}

/// `--join` and what the nodes have left in the store; waits for somebody when this one needs one.
async fn peers(env: &Env, dir: &DataDir, store: &Store, join: &[String]) -> Result<Vec<String>, BelongError> {
    let alone = !dir.is_founder() && !dir.has_log();
    let started = env.clock.monotonic();
    loop {
        let stored = store.peers().await?;
        let mut peers = join.to_vec();
        for (_, address) in stored.into_iter().filter(|(node, _)| *node != dir.node()) {
            if !peers.contains(&address) {
                peers.push(address);
            }
        }
        if !peers.is_empty() || !alone {
            return Ok(peers);
        }
        if env.clock.monotonic().saturating_sub(started) > PATIENCE {
            let cluster = dir.cluster().unwrap_or(ClusterId(0));
            return Err(BelongError::NobodyToAsk(cluster));
        }
        env.clock.sleep(PAUSE).await;
    }
}
