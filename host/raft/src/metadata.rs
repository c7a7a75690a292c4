//! The handle of the replicated metadata: what the rest of the node knows of this crate.

use crate::dir::DataDir;
use crate::error::*;
use crate::hooks::{Body, Hooks};
use crate::options::{Member, Options};
use crate::status::{Peer, Status};
use headwater_env::Env;
use headwater_metadata::{Command, NodeId, Outcome, Placement, Register, RetiredBy};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;

/// The replicated metadata. Cheap to clone.
#[derive(Clone)]
pub struct Metadata {
    inner: Arc<Inner>,
}

enum Inner {}

impl Metadata {
    /// Opens the log, starts the raft member and the peer listener; founds the cluster when the
    /// directory did (`DataDir::found`), joins it when the directory is new.
    /// `epoch` orders the addresses that this node tells its peers.
    pub async fn start(
        dir: DataDir,
        options: Options,
        epoch: u64,
        env: Env,
        placement: Arc<dyn Placement>,
        hooks: Arc<dyn Hooks>,
    ) -> Result<Metadata, StartError> {
        let _ = (dir, options, epoch, env, placement, hooks);
        Err(StartError::NothingToJoin)
    }

    /// Index of the last entry in the published view; wakes at each publication.
    pub fn views(&self) -> watch::Receiver<u64> {
        match *self.inner {}
    }

    /// Starts a session. From then on proposals go out under it. Repeating it with the same nonce is
    /// harmless.
    pub async fn register(&self, _register: Register) -> Result<(), RegisterError> {
        match *self.inner {}
    }

    /// Proposes a command under the session: exactly once, answered after the own view has it. When
    /// the caller goes away the command still gets its outcome.
    pub async fn propose(&self, _command: Command) -> Result<Outcome, ProposeError> {
        match *self.inner {}
    }

    /// Waits until the own view contains everything that was committed anywhere before this call.
    pub async fn barrier(&self) -> Result<(), Unavailable> {
        match *self.inner {}
    }

    /// Why the registered session ended, as soon as the own view or the log says so. Back to `None`
    /// with the next registration.
    pub fn session_end(&self) -> watch::Receiver<Option<RetiredBy>> {
        match *self.inner {}
    }

    /// Set when the member has stopped for good.
    pub fn fatal(&self) -> watch::Receiver<Option<Fatal>> {
        match *self.inner {}
    }

    /// The raft member now.
    pub fn status(&self) -> Status {
        match *self.inner {}
    }

    /// This member.
    pub fn me(&self) -> Member {
        match *self.inner {}
    }

    /// The address that the peer listener really has.
    pub fn listening(&self) -> SocketAddr {
        match *self.inner {}
    }

    /// The address book: to be kept in the store, so that new nodes find somebody to join.
    pub fn peers(&self) -> Vec<Peer> {
        match *self.inner {}
    }

    /// Relays a client's request to a node, once. Its path, query and headers arrive there unchanged,
    /// at [`Hooks::serve_forward`].
    pub async fn forward(
        &self,
        _node: NodeId,
        _request: http::Request<Body>,
    ) -> Result<http::Response<hyper::body::Incoming>, PeerError> {
        match *self.inner {}
    }

    /// Stops the member and its listener, and waits until the log is closed.
    pub async fn shutdown(&self) {
        match *self.inner {}
    }
}
