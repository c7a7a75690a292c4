//! The address book: where each member's peer listener is. Hints outside of raft's membership, on
//! disk, so that a cluster that restarts finds itself; of two addresses of a member the one with the
//! higher epoch is right.

use crate::counters::{Counters, count};
use crate::options::Paths;
use crate::status::Peer;
use crate::wire;
use headwater_env::Env;
use headwater_metadata::NodeId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

const MAGIC: &[u8; 8] = b"hwpeers1";

/// The address book of one member.
pub(crate) struct Book {
    path: PathBuf,
    env: Env,
    counters: Arc<Counters>,
    peers: Mutex<BTreeMap<u64, Peer>>,
    saving: tokio::sync::Mutex<()>,
    changed: watch::Sender<u64>,
}

impl Book {
    /// Reads the book. Blocks. A damaged book is an empty one: it holds hints alone.
    pub(crate) fn open(env: &Env, paths: &Paths, counters: Arc<Counters>) -> Book {
        let path = paths.book();
        let read = match env.disk.read(&path) {
            Ok(bytes) => wire::open_file::<Vec<Peer>>(MAGIC, &bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.to_string()),
        };
        let peers = read.unwrap_or_else(|why| {
            tracing::warn!(path = %path.display(), %why, "the address book is unreadable; starting an empty one");
            Vec::new()
        });
        let peers = peers.into_iter().map(|peer| (peer.member, peer)).collect();
        Book {
            path,
            env: env.clone(),
            counters,
            peers: Mutex::new(peers),
            saving: tokio::sync::Mutex::new(()),
            changed: watch::Sender::new(0),
        }
    }

    /// Takes in what others say, and keeps what is newer. True when something changed.
    pub(crate) async fn learn(&self, news: impl IntoIterator<Item = Peer>) -> bool {
        let mut changed = false;
        {
            let mut peers = self.peers.lock();
            for peer in news {
                if peers.get(&peer.member).is_none_or(|known| known.epoch < peer.epoch) {
                    count(&self.counters.addresses_learned);
                    tracing::debug!(member = peer.member, node = %peer.node, address = peer.address, "peer address");
                    peers.insert(peer.member, peer);
                    changed = true;
                }
            }
        }
        if changed {
            self.save().await;
        }
        changed
    }

    /// Forgets members that are no longer in the membership while a later one of their node is.
    pub(crate) async fn forget_succeeded(&self, has_member: impl Fn(u64) -> bool) {
        let gone: Vec<u64> = {
            let peers = self.peers.lock();
            let succeeded = |old: &Peer| {
                let mut later = peers.values().filter(|new| new.node == old.node && new.epoch > old.epoch);
                !has_member(old.member) && later.any(|new| has_member(new.member))
            };
            peers.values().filter(|old| succeeded(old)).map(|old| old.member).collect()
        };
        if !gone.is_empty() {
            self.peers.lock().retain(|member, _| !gone.contains(member));
            self.save().await;
        }
    }

    async fn save(&self) {
        let _one_at_a_time = self.saving.lock().await;
        let bytes = wire::seal_file(MAGIC, &self.all());
        let (env, path) = (self.env.clone(), self.path.clone());
        let work = move || env.disk.write_atomic(&path, &bytes);
        if let Err(error) = self.env.blocking(work).await {
            tracing::warn!(%error, path = %self.path.display(), "the address book cannot be written");
        }
        self.changed.send_modify(|version| *version += 1);
    }

    /// Moves with each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Everything in it, by member.
    pub(crate) fn all(&self) -> Vec<Peer> {
        self.peers.lock().values().cloned().collect()
    }

    /// What is known of a member.
    pub(crate) fn get(&self, member: u64) -> Option<Peer> {
        self.peers.lock().get(&member).cloned()
    }

    /// The newest member of a node.
    pub(crate) fn of_node(&self, node: NodeId) -> Option<Peer> {
        let peers = self.peers.lock();
        peers.values().filter(|peer| peer.node == node).max_by_key(|peer| peer.epoch).cloned()
    }
}
