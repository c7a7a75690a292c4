//! The policies of this node: which have arrived, which are compiled, which one routes.
//!
//! Placement is asked by digest, from inside apply; routing goes to the one that was set active. What a
//! guest does wrong ends in the native rule and a counter. What the host lacks makes placement wait, and
//! ends the node if that lasts, since answering otherwise than the other nodes would fork the state.

use crate::bindings::PolicyPre;
use crate::counters::{Cause, Counters, Counts};
use crate::engine::{self, EngineError, Guest, Limits};
use crate::placement::{self, PlaceError};
use crate::routing::{Decision, Operation, Ownership, Pool, native_route, sensible};
use crate::{builtin, digest_of};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use headwater_metadata::{Candidate, Choice, Digest, NodeId, Placement, Subject};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

/// What the host lacked although apply had waited for it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("placement by policy {policy} needs {missing}, and waiting did not help")]
pub struct HostFailure {
    /// The policy that was asked.
    pub policy: Digest,
    /// What is missing.
    pub missing: String,
}

/// A policy cannot route yet, or never.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// It has not arrived here.
    #[error("policy {0} has not arrived at this node")]
    NotArrived(Digest),
    /// It is not compiled yet.
    #[error("policy {0} is not compiled yet")]
    NotCompiled(Digest),
    /// It cannot be compiled.
    #[error("policy {0} cannot run: {1}")]
    Broken(Digest, Arc<str>),
}

/// How a node runs its policies.
#[derive(Clone)]
pub struct Options {
    /// How long apply waits for what the host lacks.
    pub patience: Duration,
    /// Told when that did not help. It is expected not to return: the node must stop. If it does
    /// return, apply panics.
    pub on_host_failure: Arc<dyn Fn(&HostFailure) + Send + Sync>,
    /// Warm instances kept for routing, for each policy.
    pub routing_instances: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            patience: Duration::from_secs(30),
            on_host_failure: Arc::new(|_| {}),
            routing_instances: 2 * std::thread::available_parallelism().map_or(4, usize::from),
        }
    }
}

/// A route, who decided it, and why it was not the policy when it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Where the request goes.
    pub decision: Decision,
    /// The policy that was asked; `None` when none is active.
    pub policy: Option<Digest>,
    /// The native rule decided, for this cause.
    pub fallback: Option<Cause>,
}

struct Compiled {
    placement: PolicyPre<Guest>,
    routing: Pool,
}

/// A policy that has arrived.
struct Arrived {
    digest: Digest,
    component: Bytes,
    compiled: OnceLock<Result<Compiled, Arc<str>>>,
}

/// The policies of this node.
pub struct Policies {
    placement: Engine,
    routing: Engine,
    fingerprint: Digest,
    options: Options,
    arrived: Mutex<BTreeMap<Digest, Arc<Arrived>>>,
    arrival: Condvar,
    /// Held while something compiles: one at a time, one core.
    compiler: Mutex<()>,
    active: ArcSwapOption<Arrived>,
    counters: Counters,
}

impl Policies {
    /// Makes the engines. The built-in policy has arrived, but is not compiled before it is asked for.
    pub fn new(options: Options) -> Result<Policies, EngineError> {
        let placement = engine::placement(Limits::STANDARD)?;
        let fingerprint = engine::fingerprint(&placement, Limits::STANDARD);
        let policies = Policies {
            placement,
            routing: engine::routing(Limits::STANDARD)?,
            fingerprint,
            options,
            arrived: Mutex::default(),
            arrival: Condvar::new(),
            compiler: Mutex::default(),
            active: ArcSwapOption::empty(),
            counters: Counters::default(),
        };
        let (digest, component) = builtin();
        policies.arrive(digest, Bytes::from_static(component));
        Ok(policies)
    }

    /// Takes a component in, without compiling it: cheap, may be called from anywhere, as soon as the log
    /// or a snapshot brings it. From then on a placement can run it, compiling it itself if need be.
    pub fn arrive(&self, digest: Digest, component: Bytes) {
        self.arrived
            .lock()
            .entry(digest)
            .or_insert_with(|| Arc::new(Arrived { digest, component, compiled: OnceLock::new() }));
        self.arrival.notify_all();
    }

    /// Takes a component in and compiles it. Blocks for that long (tens of milliseconds for a small one,
    /// seconds for a large one): call it on a thread for blocking work. Repeating it is harmless; a
    /// second caller waits for the first.
    pub fn prepare(&self, digest: Digest, component: Bytes) -> Result<(), NotReady> {
        self.arrive(digest, component);
        let arrived = self.find(digest).ok_or(NotReady::NotArrived(digest))?;
        self.compiled(&arrived).as_ref().map(|_| ()).map_err(|why| NotReady::Broken(digest, why.clone()))
    }

    /// Compiled, and able to run.
    pub fn is_ready(&self, digest: Digest) -> bool {
        self.find(digest).is_some_and(|arrived| matches!(arrived.compiled.get(), Some(Ok(_))))
    }

    /// Every policy that is ready.
    pub fn ready(&self) -> Vec<Digest> {
        let arrived = self.arrived.lock();
        arrived.values().filter(|a| matches!(a.compiled.get(), Some(Ok(_)))).map(|a| a.digest).collect()
    }

    /// From now on this policy routes. Requests in flight finish on the one before.
    pub fn set_active(&self, digest: Digest) -> Result<(), NotReady> {
        let arrived = self.find(digest).ok_or(NotReady::NotArrived(digest))?;
        match arrived.compiled.get() {
            None => Err(NotReady::NotCompiled(digest)),
            Some(Err(why)) => Err(NotReady::Broken(digest, why.clone())),
            Some(Ok(_)) => {
                self.active.store(Some(arrived));
                Ok(())
            }
        }
    }

    /// From now on the native rule routes.
    pub fn set_native(&self) {
        self.active.store(None);
    }

    /// The policy that routes; `None` is the native rule.
    pub fn active(&self) -> Option<Digest> {
        self.active.load().as_ref().map(|arrived| arrived.digest)
    }

    /// Lets go of a policy; its code is freed when the last call on it ends. The built-in one stays.
    pub fn remove(&self, digest: Digest) {
        if digest != builtin().0 {
            self.arrived.lock().remove(&digest);
            if self.active() == Some(digest) {
                self.set_native();
            }
        }
    }

    /// Where a request goes. Never blocks. `is_node` says whether a node exists that a policy names.
    pub fn route(
        &self,
        here: NodeId,
        operation: Operation,
        ownership: Ownership,
        is_node: impl Fn(NodeId) -> bool,
    ) -> Routed {
        let active = self.active.load();
        let Some((arrived, Ok(compiled))) = active.as_ref().and_then(|a| Some((a, a.compiled.get()?))) else {
            return Routed { decision: native_route(here, ownership), policy: None, fallback: None };
        };
        self.counters.routes.fetch_add(1, Relaxed);
        let answer = compiled.routing.route(&self.counters, here, operation, ownership);
        let decision = answer.and_then(|decision| sensible(decision, here, is_node));
        let policy = Some(arrived.digest);
        match decision {
            Ok(decision) => Routed { decision, policy, fallback: None },
            Err(cause) => {
                let times = self.counters.route_fell_back(cause);
                if worth_a_line(times) {
                    let (policy, cause) = (arrived.digest, cause.as_str());
                    tracing::warn!(%policy, cause, times, "the native rule routes instead of the policy");
                }
                Routed { decision: native_route(here, ownership), policy, fallback: Some(cause) }
            }
        }
    }

    /// What happened so far.
    pub fn counters(&self) -> Counts {
        self.counters.snapshot()
    }

    fn find(&self, digest: Digest) -> Option<Arc<Arrived>> {
        self.arrived.lock().get(&digest).cloned()
    }

    fn compiled<'a>(&self, arrived: &'a Arrived) -> &'a Result<Compiled, Arc<str>> {
        arrived.compiled.get_or_init(|| {
            let _one_at_a_time = self.compiler.lock();
            let compiled = self.compile(arrived).map_err(|error| Arc::from(format!("{error:#}")));
            match &compiled {
                Ok(_) => self.counters.compiled.fetch_add(1, Relaxed),
                Err(why) => {
                    tracing::error!(policy = %arrived.digest, %why, "policy cannot run");
                    0
                }
            };
            compiled
        })
    }

    fn compile(&self, arrived: &Arrived) -> wasmtime::Result<Compiled> {
        if digest_of(&arrived.component) != arrived.digest {
            wasmtime::bail!("the component is not the one that its digest names");
        }
        let pre = |engine: &Engine| {
            let component = Component::new(engine, &arrived.component)?;
            // The linker stays empty: a policy reaches nothing but its arguments.
            PolicyPre::new(Linker::new(engine).instantiate_pre(&component)?)
        };
        Ok(Compiled {
            placement: pre(&self.placement)?,
            routing: Pool::new(pre(&self.routing)?, Limits::STANDARD, self.options.routing_instances),
        })
    }

    /// The policy, once it has arrived; waits for it as long as the host is patient.
    fn await_arrival(&self, digest: Digest) -> Option<Arc<Arrived>> {
        let mut arrived = self.arrived.lock();
        if !arrived.contains_key(&digest) {
            self.counters.waits.fetch_add(1, Relaxed);
            tracing::warn!(policy = %digest, "placement waits for a policy that has not arrived");
            self.arrival.wait_while_for(&mut arrived, |a| !a.contains_key(&digest), self.options.patience);
        }
        arrived.get(&digest).cloned()
    }

    /// Waits in growing steps while the host lacks something, up to its patience.
    fn place_patiently(
        &self,
        compiled: &Compiled,
        subject: &Subject,
        candidates: &[Candidate],
    ) -> Result<Option<NodeId>, PlaceError> {
        let (mut pause, mut waited) = (Duration::from_millis(1), Duration::ZERO);
        loop {
            match placement::place(&compiled.placement, Limits::STANDARD, subject, candidates) {
                Err(PlaceError::Host(missing)) if waited < self.options.patience => {
                    self.counters.waits.fetch_add(1, Relaxed);
                    tracing::warn!(%missing, "placement waits for the host");
                    pause_for(pause);
                    waited += pause;
                    pause = (pause * 2).min(Duration::from_millis(250));
                }
                answer => return answer.map(|answer| answer.node),
            }
        }
    }

    fn fell_back(&self, policy: Digest, cause: Cause) {
        let times = self.counters.placement_fell_back(cause);
        if worth_a_line(times) {
            let cause = cause.as_str();
            tracing::warn!(%policy, cause, times, "the native rule places instead of the policy");
        }
    }

    fn stop(&self, policy: Digest, missing: String) -> ! {
        let failure = HostFailure { policy, missing };
        tracing::error!(%failure, "the node must stop");
        (self.options.on_host_failure)(&failure);
        panic!("{failure}");
    }
}

/// Apply waits for its own machine here, on its own thread: not a time that a simulation decides about.
#[allow(clippy::disallowed_methods)]
fn pause_for(pause: Duration) {
    std::thread::sleep(pause);
}

/// The first time, and then ever more rarely: a broken policy fails on each request.
fn worth_a_line(times: u64) -> bool {
    times.is_power_of_two()
}

impl Placement for Policies {
    fn place(&self, policy: Digest, subject: &Subject, candidates: &[Candidate]) -> Choice {
        self.counters.placements.fetch_add(1, Relaxed);
        let Some(arrived) = self.await_arrival(policy) else {
            self.stop(policy, "the component, which has not arrived".to_owned());
        };
        let Ok(compiled) = self.compiled(&arrived) else {
            self.fell_back(policy, Cause::Broken);
            return Choice::Fault;
        };
        match self.place_patiently(compiled, subject, candidates) {
            Ok(Some(node)) => Choice::Node(node),
            Ok(None) => {
                self.counters.placement_fell_back(Cause::NoAnswer);
                Choice::None
            }
            Err(PlaceError::Guest(cause)) => {
                self.fell_back(policy, cause);
                Choice::Fault
            }
            Err(PlaceError::Host(missing)) => self.stop(policy, missing),
        }
    }

    fn arrived(&self, policy: Digest, component: &Bytes) {
        self.arrive(policy, component.clone());
    }

    fn not_a_candidate(&self, policy: Digest, named: NodeId) {
        let times = self.counters.placement_fell_back(Cause::NotACandidate);
        if worth_a_line(times) {
            tracing::warn!(%policy, %named, times, "the policy named a node that is not a candidate");
        }
    }

    fn engine(&self) -> Digest {
        self.fingerprint
    }
}

#[cfg(test)]
#[path = "policies_test.rs"]
mod tests;
