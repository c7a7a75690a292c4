//! The built-in policy on this node's engines.

// A late arrival is made by a thread that sleeps.
#![allow(clippy::disallowed_methods)]

use super::*;
use headwater_metadata::StreamId;

fn policies() -> Policies {
    Policies::new(Options::default()).expect("engines")
}

fn subject() -> Subject {
    Subject {
        id: StreamId(1),
        name: "/a".into(),
        content_type: "text/plain".into(),
        proposer: NodeId(1),
        proposer_labels: BTreeMap::new(),
    }
}

fn candidate(id: u64, slots: u32, assigned: u64) -> Candidate {
    Candidate { id: NodeId(id), slots, assigned, labels: BTreeMap::new() }
}

#[test]
fn the_built_in_policy_places_and_routes() {
    let policies = policies();
    let (digest, component) = builtin();
    assert!(!policies.is_ready(digest), "it is compiled when it is needed");
    assert_eq!(policies.set_active(digest), Err(NotReady::NotCompiled(digest)));
    let native = policies.route(NodeId(1), Operation::Append, Ownership::Opened(NodeId(2)), |_| true);
    assert_eq!(native, Routed { decision: Decision::Redirect(NodeId(2)), policy: None, fallback: None });

    policies.prepare(digest, Bytes::from_static(component)).expect("compiles");
    policies.prepare(digest, Bytes::from_static(component)).expect("a repeat is harmless");
    policies.set_active(digest).expect("ready");
    assert_eq!(policies.ready(), [digest]);
    assert_eq!(
        policies.place(digest, &subject(), &[candidate(1, 1, 1), candidate(2, 4, 3)]),
        Choice::Node(NodeId(2))
    );
    let routed = policies.route(NodeId(1), Operation::Append, Ownership::Opened(NodeId(2)), |_| true);
    assert_eq!(
        routed,
        Routed { decision: Decision::Redirect(NodeId(2)), policy: Some(digest), fallback: None }
    );

    let counts = policies.counters();
    assert_eq!((counts.compiled, counts.placements, counts.routes, counts.fallbacks()), (1, 1, 1, 0));
}

#[test]
fn the_built_in_policy_passes_the_check() {
    let report = crate::check(builtin().1, 3).expect("accepted");
    assert_eq!(report.description.name, "least-ratio");
    assert!(report.place_fuel > 0 && report.route_fuel > 0);
}

#[test]
fn placement_compiles_what_has_only_arrived() {
    let policies = policies();
    assert_eq!(policies.place(builtin().0, &subject(), &[candidate(3, 1, 0)]), Choice::Node(NodeId(3)));
}

#[test]
fn the_same_engine_has_the_same_fingerprint() {
    assert_eq!(policies().engine(), policies().engine());
}

#[test]
fn a_component_under_a_false_digest_never_runs() {
    let policies = policies();
    let digest = Digest([7; 32]);
    let refused = policies.prepare(digest, Bytes::from_static(builtin().1));
    assert!(matches!(refused, Err(NotReady::Broken(d, _)) if d == digest), "{refused:?}");
    assert_eq!(policies.place(digest, &subject(), &[candidate(3, 1, 0)]), Choice::Fault);
    assert_eq!(policies.counters().placement_fallback(Cause::Broken), 1);
}

#[test]
fn placement_waits_for_a_policy_that_arrives_late() {
    let policies = Arc::new(policies());
    let digest = digest_of(b"late");
    let late = policies.clone();
    let arrival = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        late.arrive(digest, Bytes::from_static(b"late"));
    });
    // It arrives, and is no component: the guest's fault, not the host's.
    assert_eq!(policies.place(digest, &subject(), &[candidate(3, 1, 0)]), Choice::Fault);
    assert_eq!(policies.counters().waits, 1);
    arrival.join().expect("arrival");
}

#[test]
fn a_policy_that_never_arrives_stops_the_node() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let policies = Policies::new(Options {
        patience: Duration::from_millis(10),
        on_host_failure: Arc::new(move |failure| tell.lock().push(failure.policy)),
        ..Options::default()
    })
    .expect("engines");
    let digest = Digest([9; 32]);
    let placed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        policies.place(digest, &subject(), &[candidate(3, 1, 0)])
    }));
    assert!(placed.is_err(), "no answer is better than one that other nodes do not share");
    assert_eq!(*told.lock(), [digest]);
}

#[test]
fn a_removed_policy_is_gone_and_the_built_in_one_stays() {
    let policies = policies();
    let component = Bytes::from_static(b"not a component");
    let digest = digest_of(&component);
    policies.arrive(digest, component);
    policies.remove(digest);
    assert_eq!(policies.set_active(digest), Err(NotReady::NotArrived(digest)));
    policies.remove(builtin().0);
    assert_eq!(policies.set_active(builtin().0), Err(NotReady::NotCompiled(builtin().0)));
}
