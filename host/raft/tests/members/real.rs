//! The same members on the real disk, the real network and a runtime with threads.

use crate::harness::{Noting, create, info, logging};
use headwater_env::Env;
use headwater_metadata::{
    Candidate, Choice, Command, Digest, Epoch, NodeId, Placement, Register, Session, Subject, sha256,
};
use headwater_raft::{ClusterId, DataDir, Hooks, Metadata, Options};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Waits, as the host of policies does until a policy is compiled.
#[derive(Default)]
struct Waiting {
    compiled: Mutex<bool>,
    changed: Condvar,
}

impl Placement for Waiting {
    fn place(&self, _: Digest, _: &Subject, _: &[Candidate]) -> Choice {
        let compiled = self.compiled.lock().unwrap();
        let _compiled = self.changed.wait_while(compiled, |compiled| !*compiled).unwrap();
        Choice::None
    }
    fn not_a_candidate(&self, _: Digest, _: NodeId) {}
    fn engine(&self) -> Digest {
        Digest([1; 32])
    }
}

/// Compiles slowly.
struct Compiling(Arc<Waiting>);

impl Hooks for Compiling {
    fn policy_arrived(&self, _: Digest, _: &bytes::Bytes) {
        std::thread::sleep(Duration::from_millis(300));
        *self.0.compiled.lock().unwrap() = true;
        self.0.changed.notify_all();
    }

    fn serve_forward(
        &self,
        request: http::Request<hyper::body::Incoming>,
    ) -> headwater_env::BoxFuture<'static, http::Response<headwater_raft::Body>> {
        Noting::default().serve_forward(request)
    }
}

async fn member(root: &Path, id: u64, cluster: Option<ClusterId>, join: Vec<String>) -> Metadata {
    let env = Env::real();
    let mut dir = DataDir::open(&env, &root.join(format!("n{id}")), NodeId(id)).unwrap();
    match cluster {
        Some(cluster) => dir.belong(cluster).unwrap(),
        None => drop(dir.found().unwrap()),
    }
    let mut options = Options::new("127.0.0.1:0".parse().unwrap());
    options.join = join;
    options.snapshot_every = 60;
    options.keep_entries = 10;
    let waiting = Arc::new(Waiting::default());
    let epoch = env.now_ms();
    let hooks = Arc::new(Compiling(waiting.clone()));
    let metadata = Metadata::start(dir, options, epoch, env, waiting, hooks).await.unwrap();
    let session = Session { node: NodeId(id), epoch: Epoch(epoch) };
    let register =
        Register { session, nonce: u128::from(id), continues: None, info: info(&format!("n{id}")) };
    while metadata.register(register.clone()).await.is_err() {}
    metadata
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_live_on_real_disks_and_sockets() {
    logging();
    let root = tempfile::tempdir().unwrap();
    let first = member(root.path(), 1, None, Vec::new()).await;
    let cluster = Some(first.status().cluster);
    let join = vec![first.listening().to_string()];
    let second = member(root.path(), 2, cluster, join.clone()).await;
    let third = member(root.path(), 3, cluster, join.clone()).await;

    // A policy that is not compiled yet holds up apply, not the runtime.
    let component = bytes::Bytes::from_static(b"\0asm");
    let put = Command::PutPolicy {
        name: "p".into(),
        version: "1".into(),
        needs_labels: false,
        component: component.clone(),
    };
    second.propose(put).await.unwrap();
    second.propose(Command::ActivatePolicy { policy: sha256(&component) }).await.unwrap();
    let headwater_metadata::Outcome::Applied(headwater_metadata::Answer::Stream(stream)) =
        second.propose(create("/placed")).await.unwrap()
    else {
        panic!("not created")
    };
    second.propose(Command::Place { stream }).await.unwrap();

    for (at, metadata) in [&first, &second, &third].into_iter().enumerate() {
        let names: Vec<String> = (0..100).map(|i| format!("/{at}/{i}")).collect();
        for name in &names {
            metadata.propose(create(name)).await.unwrap();
        }
        metadata.barrier().await.unwrap();
    }
    let status = first.status();
    assert!(status.snapshot.is_some() && status.counters.log_flushes > 0, "{status:?}");
    third.shutdown().await;
    drop(third);
    let third = member(root.path(), 3, cluster, join).await;
    third.barrier().await.unwrap();
    assert_eq!(third.view().totals().total(), 301);
    assert_eq!(third.view().digests().fencing, {
        let index = third.view().index();
        first.wait_for(|view| view.index() >= index).await;
        first.barrier().await.unwrap();
        third.wait_for(|view| view.index() >= first.view().index()).await;
        first.view().digests().fencing
    });
    for metadata in [first, second, third] {
        metadata.shutdown().await;
    }
}
