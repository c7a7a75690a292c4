//! Opens a store, proves that it can fence, and holds what the whole cluster shares in it.

use headwater_env::Env;
use headwater_metadata::NodeId;
use object_store::ObjectStore;
use std::sync::Arc;

/// What kind of store it is: how a write becomes durable depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder on this machine.
    File,
    /// An S3-compatible object store.
    S3,
    /// The memory of this process.
    Memory,
}

/// A shared store. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    objects: Arc<dyn ObjectStore>,
    kind: Kind,
    env: Env,
}

/// Why the store cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL is not one of a store.
    #[error("{url} is not a store: {reason}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// A request failed for good.
    #[error("the store failed to {what}: {reason}")]
    Failed {
        /// What was asked.
        what: String,
        /// What it said.
        reason: String,
    },
    /// The store does what it must not.
    #[error("the store cannot fence: {0}")]
    CannotFence(String),
    /// The start-up proof failed at this right.
    #[error("the store refuses to {right}: {reason}")]
    Right {
        /// read, write, list or delete.
        right: &'static str,
        /// What it said.
        reason: String,
    },
    /// Another cluster lives in the store.
    #[error("the store belongs to cluster {found:032x}, not {wanted:032x}")]
    ForeignCluster {
        /// In the store.
        found: u128,
        /// Asked for.
        wanted: u128,
    },
    /// An object does not read as what its name says.
    #[error("object {object} is damaged: {reason}")]
    Damaged {
        /// Its key.
        object: String,
        /// What is wrong.
        reason: String,
    },
}

impl Store {
    /// Opens `file:///path`, `s3://bucket/prefix` (credentials and endpoint from `AWS_*`) or `memory://`.
    pub fn open(url: &str, env: Env) -> Result<Store, StoreError> {
        let _ = (url, env);
        unimplemented!()
    }

    /// A store over any object store, for tests and simulations.
    pub fn from_object_store(objects: Arc<dyn ObjectStore>, kind: Kind, env: Env) -> Store {
        Store { inner: Arc::new(Inner { objects, kind, env }) }
    }

    /// Proves the store: creates an object twice (the second must be refused), reads, lists, deletes.
    pub async fn probe(&self) -> Result<(), StoreError> {
        unimplemented!()
    }

    /// The id of the cluster that lives here.
    pub async fn cluster_id(&self) -> Result<Option<u128>, StoreError> {
        unimplemented!()
    }

    /// Claims the store for a cluster; finding the same id there is success.
    pub async fn claim_cluster(&self, id: u128) -> Result<(), StoreError> {
        let _ = id;
        unimplemented!()
    }

    /// Publishes the peer address of a node, for nodes that join through the store.
    pub async fn put_peer(&self, node: NodeId, address: &str) -> Result<(), StoreError> {
        let _ = (node, address);
        unimplemented!()
    }

    /// The peer addresses that nodes have published.
    pub async fn peers(&self) -> Result<Vec<(NodeId, String)>, StoreError> {
        unimplemented!()
    }

    /// What kind of store it is.
    pub fn kind(&self) -> Kind {
        self.inner.kind
    }

    /// The surroundings.
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// The object store below.
    pub fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.inner.objects
    }
}
