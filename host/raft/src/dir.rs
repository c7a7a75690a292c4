//! The data directory: its lock and its identity file (node, raft member, cluster).
//!
//! The raft member's id is random and made with the directory, so a node that lost its disk comes back
//! as a new member and never votes with a memory that it no longer has.

use crate::error::DirError;
use crate::options::{ClusterId, Paths};
use headwater_env::{Env, Lock};
use headwater_metadata::{LockIdentity, NodeId};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// A data directory that this process holds.
pub struct DataDir {
    pub(crate) paths: Paths,
    pub(crate) identity: Identity,
    pub(crate) env: Env,
    lock: Box<dyn Lock>,
}

/// What the identity file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub node: NodeId,
    pub member: u64,
    pub cluster: Option<ClusterId>,
    /// This directory founded the cluster.
    pub founder: bool,
    /// The log file was made: from then on it must be there.
    pub log_made: bool,
}

const MAGIC: &[u8; 8] = b"hwident1";

impl DataDir {
    /// Takes the lock, and reads the identity or makes a new one.
    pub fn open(env: &Env, path: &Path, node: NodeId) -> Result<DataDir, DirError> {
        let paths = Paths { root: path.to_owned() };
        env.disk.create_dir_all(path).map_err(|e| DirError::io(path, e))?;
        let lock = env.disk.lock(&paths.lock()).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => DirError::InUse(path.to_owned()),
            _ => DirError::io(paths.lock(), e),
        })?;
        let file = paths.identity();
        let identity = match env.disk.read(&file) {
            Ok(bytes) => crate::wire::open_file::<Identity>(MAGIC, &bytes)
                .map_err(|why| DirError::damaged(&file, why))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                for left in [paths.log(), paths.snapshots(), paths.book()] {
                    if Self::exists(env, &left) {
                        return Err(DirError::damaged(&file, "the identity file is gone"));
                    }
                }
                Identity {
                    node,
                    // 0 is left out so that it can never be mistaken for "none".
                    member: env.entropy.u64().max(1),
                    cluster: None,
                    founder: false,
                    log_made: false,
                }
            }
            Err(e) => return Err(DirError::io(file, e)),
        };
        if identity.node != node {
            return Err(DirError::ForeignNode { path: path.to_owned(), found: identity.node, wanted: node });
        }
        let dir = DataDir { paths, identity, env: env.clone(), lock };
        dir.save()?;
        Ok(dir)
    }

    fn exists(env: &Env, path: &Path) -> bool {
        env.disk.open(path, false).is_ok() || env.disk.list(path).is_ok()
    }

    /// The cluster that the directory belongs to; `None` when it is new.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.identity.cluster
    }

    /// Makes the id of a new cluster, flushed in the directory before anything else knows it. A repeat
    /// (the process died before the store had it) gives the same id.
    pub fn found(&mut self) -> Result<ClusterId, DirError> {
        if let Some(cluster) = self.identity.cluster {
            return Ok(cluster);
        }
        let cluster = ClusterId(self.env.entropy.u128());
        self.identity.cluster = Some(cluster);
        self.identity.founder = true;
        self.save()?;
        Ok(cluster)
    }

    /// Ties the directory to the cluster that the store or a peer named.
    pub fn belong(&mut self, cluster: ClusterId) -> Result<(), DirError> {
        match self.identity.cluster {
            Some(found) if found != cluster => {
                Err(DirError::ForeignCluster { path: self.paths.root.clone(), found, wanted: cluster })
            }
            Some(_) => Ok(()),
            None => {
                self.identity.cluster = Some(cluster);
                self.save()
            }
        }
    }

    /// Whether this directory founded its cluster.
    pub fn is_founder(&self) -> bool {
        self.identity.founder
    }

    /// Whether the raft log was ever made here: whether this member may have voted.
    pub fn has_log(&self) -> bool {
        self.identity.log_made
    }

    /// Gives up the cluster that this directory wanted to found. Only for one that nobody else can
    /// know of: it was never put into the store, and no log was made.
    pub fn renounce(&mut self) -> Result<(), DirError> {
        if self.identity.founder && !self.identity.log_made {
            self.identity.cluster = None;
            self.identity.founder = false;
            self.save()?;
        }
        Ok(())
    }

    /// The raft member's id.
    pub fn member(&self) -> u64 {
        self.identity.member
    }

    /// The node whose directory it is.
    pub fn node(&self) -> NodeId {
        self.identity.node
    }

    /// Identity of the held lock.
    pub fn lock(&self) -> LockIdentity {
        let (boot, device, inode) = self.lock.identity();
        LockIdentity { boot, device, inode }
    }

    pub(crate) fn mark_log_made(&mut self) -> Result<(), DirError> {
        if !self.identity.log_made {
            self.identity.log_made = true;
            self.save()?;
        }
        Ok(())
    }

    fn save(&self) -> Result<(), DirError> {
        let file = self.paths.identity();
        let bytes = crate::wire::seal_file(MAGIC, &self.identity);
        self.env.disk.write_atomic(&file, &bytes).map_err(|e| DirError::io(file, e))
    }
}
