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

fn highest_id() -> Bytes {
    Bytes::from_static(include_bytes!("../../../guest/prebuilt/highest-id.wasm"))
}

#[test]
fn wsm_05_a_swap_under_load_fails_no_request_and_frees_the_old_code() {
    let policies = policies();
    let (first, second) = (builtin().0, digest_of(&highest_id()));
    policies.prepare(first, Bytes::from_static(builtin().1)).expect("compiles");
    policies.prepare(second, highest_id()).expect("compiles");
    policies.set_active(first).expect("ready");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let seen = [const { std::sync::atomic::AtomicU64::new(0) }; 2];
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    let routed =
                        policies.route(NodeId(1), Operation::Read, Ownership::Opened(NodeId(2)), |_| true);
                    assert_eq!((routed.decision, routed.fallback), (Decision::Redirect(NodeId(2)), None));
                    let policy = routed.policy.expect("every decision names its policy");
                    seen[usize::from(policy == second)].fetch_add(1, Relaxed);
                }
            });
        }
        let both_decided = || seen.iter().all(|times| times.load(Relaxed) > 100);
        for round in (0..).take_while(|round| *round < 200 || !both_decided()) {
            policies.set_active(if round % 2 == 0 { second } else { first }).expect("ready");
            // Placement asks by digest, whatever routes.
            let candidates = [candidate(1, 1, 0), candidate(2, 1, 0)];
            assert_eq!(policies.place(first, &subject(), &candidates), Choice::Node(NodeId(1)));
            assert_eq!(policies.place(second, &subject(), &candidates), Choice::Node(NodeId(2)));
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(policies.counters().fallbacks(), 0);

    let code = Arc::downgrade(&policies.find(second).expect("there"));
    policies.set_active(first).expect("ready");
    policies.remove(second);
    assert!(code.upgrade().is_none(), "nothing holds the code of a removed policy");
}

#[test]
fn other_limits_are_another_engine() {
    let engine = engine::placement(Limits::STANDARD).expect("engine");
    let standard = engine::fingerprint(&engine, Limits::STANDARD);
    let more = Limits { place_fuel: Limits::STANDARD.place_fuel + 1, ..Limits::STANDARD };
    assert_ne!(standard, engine::fingerprint(&engine, more), "fuel decides when an answer is lost");
    let strict = engine::placement(Limits::STRICT).expect("engine");
    assert_ne!(standard, engine::fingerprint(&strict, Limits::STANDARD), "so does the stack");
}
