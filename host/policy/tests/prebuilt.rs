//! The prebuilt components are what they say: made from these sources, and deciding as the native policy does.
//!
//! Needs neither the Wasm target nor a network. Where the target is installed, the components are built
//! again as well; the run says which of these it did.

// Reads what is in the repository; nothing of the product runs here.
#![allow(clippy::disallowed_methods)]

use bytes::Bytes;
use headwater_guest_build::{Manifest, Toolchain, Workspace, build, differences, sha256};
use headwater_metadata::{Candidate, Choice, NodeId, Placement, StreamId, Subject};
use headwater_policy::{
    Decision, Operation, Options, Ownership, Policies, builtin, check, digest_of, native_route,
};
use headwater_policy_sdk as sdk;
use headwater_policy_sdk::Policy;
use highest_id::HighestId;
use least_ratio::LeastRatio;
use rendezvous::Rendezvous;
use reserved::Reserved;
use std::collections::BTreeMap;
use std::io::Write;
use tenant_shuffle::TenantShuffle;
use zone_affinity::ZoneAffinity;

const INPUTS: u64 = 10_000;

/// Past the capture of the test's output: what was compared must be visible in every run.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "prebuilt policies: {what}");
}

/// Numbers that look random and are the same in every run (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Small numbers, so that ratios tie, and now and then any number.
    fn count(&mut self) -> u64 {
        let small = self.below(12);
        if self.below(8) == 0 { self.next() } else { small }
    }
}

fn case(numbers: &mut Numbers) -> (Subject, Vec<Candidate>) {
    let mut ids: Vec<u64> = (0..numbers.below(9)).map(|_| numbers.count()).collect();
    ids.sort_unstable();
    ids.dedup();
    let candidates = ids.into_iter().map(|id| Candidate {
        id: NodeId(id),
        slots: 1 + (numbers.count() as u32 % u32::MAX),
        assigned: numbers.count(),
        labels: labels(numbers),
    });
    let candidates = candidates.collect();
    let top = [format!("{:x}", numbers.next()), "billing".to_owned(), "billing/eu".to_owned(), String::new()];
    let top = &top[numbers.below(4) as usize];
    let subject = Subject {
        id: StreamId(numbers.next()),
        name: format!("/{top}/ü/{}", "n".repeat(numbers.below(40) as usize)).into(),
        content_type: "text/plain".into(),
        proposer: NodeId(numbers.count()),
        proposer_labels: labels(numbers),
    };
    (subject, candidates)
}

/// What the shipped policies look at, and what they do not; every label may be missing.
fn labels(numbers: &mut Numbers) -> BTreeMap<String, String> {
    const VALUES: [(&str, [&str; 4]); 4] = [
        ("rack", ["1", "2", "3", ""]),
        ("reserved", ["/billing", "/billing/eu, /audit", "", "other"]),
        ("zone", ["a", "b", "c", ""]),
        ("zone-fallback", ["b", "c,a", " d , a", ","]),
    ];
    let mut labels = BTreeMap::new();
    for (key, values) in VALUES {
        if numbers.below(2) == 0 {
            labels.insert(key.to_owned(), values[numbers.below(4) as usize].to_owned());
        }
    }
    labels
}

fn sdk_labels(labels: &BTreeMap<String, String>) -> Vec<sdk::Label> {
    labels.iter().map(|(key, value)| sdk::Label { key: key.clone(), value: value.clone() }).collect()
}

fn native_place<P: Policy>(subject: &Subject, candidates: &[Candidate]) -> Choice {
    let candidates: Vec<_> = candidates
        .iter()
        .map(|c| sdk::Candidate {
            id: c.id.0,
            slots: c.slots,
            assigned: c.assigned,
            labels: sdk_labels(&c.labels),
        })
        .collect();
    let subject = sdk::Subject {
        id: subject.id.0,
        name: subject.name.to_string(),
        content_type: subject.content_type.to_string(),
        proposer: subject.proposer.0,
        proposer_labels: sdk_labels(&subject.proposer_labels),
    };
    P::place(&subject, &candidates).map_or(Choice::None, |node| Choice::Node(NodeId(node)))
}

fn route_case(numbers: &mut Numbers) -> (NodeId, (Operation, sdk::Operation), (Ownership, sdk::Ownership)) {
    let operation = match numbers.below(6) {
        0 => (Operation::Create, sdk::Operation::Create),
        1 => (Operation::Append, sdk::Operation::Append),
        2 => (Operation::Read, sdk::Operation::Read),
        3 => (Operation::Tail, sdk::Operation::Tail),
        4 => (Operation::Inspect, sdk::Operation::Inspect),
        _ => (Operation::Delete, sdk::Operation::Delete),
    };
    let (a, b) = (numbers.count(), numbers.count());
    let ownership = match numbers.below(6) {
        0 => (Ownership::Unregistered, sdk::Ownership::Unregistered),
        1 => (Ownership::Unplaced, sdk::Ownership::Unplaced),
        2 => (Ownership::Placed(NodeId(a)), sdk::Ownership::Placed(a)),
        3 => (Ownership::Opened(NodeId(a)), sdk::Ownership::Opened(a)),
        4 => (Ownership::Closed(NodeId(a)), sdk::Ownership::Closed(a)),
        _ => (
            Ownership::Transferring { source: NodeId(a), target: NodeId(b) },
            sdk::Ownership::Transferring { source: a, target: b },
        ),
    };
    (NodeId(numbers.count()), operation, ownership)
}

/// The component and the native policy decide alike on many random inputs.
fn decide_alike<P: Policy>(component: &[u8]) {
    let policies = Policies::new(Options::default()).expect("engines");
    let digest = digest_of(component);
    policies.prepare(digest, Bytes::copy_from_slice(component)).expect("compiles");
    policies.set_active(digest).expect("ready");
    let mut numbers = Numbers(1);
    for _ in 0..INPUTS {
        let (subject, candidates) = case(&mut numbers);
        let native = native_place::<P>(&subject, &candidates);
        assert_eq!(policies.place(digest, &subject, &candidates), native, "{subject:?} {candidates:?}");

        let (here, operation, ownership) = route_case(&mut numbers);
        let native = match P::route(here.0, operation.1, ownership.1) {
            sdk::Decision::ServeHere => Decision::Here,
            sdk::Decision::Redirect(node) => Decision::Redirect(NodeId(node)),
            sdk::Decision::Forward(node) => Decision::Forward(NodeId(node)),
        };
        let routed = policies.route(here, operation.0, ownership.0, |_| true);
        assert_eq!((routed.decision, routed.fallback), (native, None), "{here} {operation:?} {ownership:?}");
    }
    let counts = policies.counters();
    assert_eq!((counts.placements, counts.routes), (INPUTS, INPUTS));
    assert_eq!(counts.routing_instances, 1, "one thread needs one warm instance");
}

/// Who has a stream, seen from node 1, and where the request goes: every state, here and elsewhere, each
/// with and without a transfer on its way.
fn routes_from_node_one() -> Vec<(Ownership, Decision)> {
    use Ownership::*;
    let (here, there, third) = (NodeId(1), NodeId(2), NodeId(3));
    let moving = |source, target| Transferring { source, target };
    vec![
        (Unregistered, Decision::Here),
        (moving(there, here), Decision::Here),
        (moving(here, there), Decision::Redirect(there)),
        (moving(there, third), Decision::Redirect(third)),
        (Opened(here), Decision::Here),
        (Opened(there), Decision::Redirect(there)),
        (Placed(here), Decision::Here),
        (Placed(there), Decision::Redirect(there)),
        (Unplaced, Decision::Here),
        (Closed(here), Decision::Here),
        (Closed(there), Decision::Here),
    ]
}

#[test]
fn the_table_of_routes_holds_natively_and_through_the_component() {
    let policies = Policies::new(Options::default()).expect("engines");
    let (digest, component) = builtin();
    policies.prepare(digest, Bytes::from_static(component)).expect("compiles");
    policies.set_active(digest).expect("ready");
    let operations = [
        Operation::Create,
        Operation::Append,
        Operation::Read,
        Operation::Tail,
        Operation::Inspect,
        Operation::Delete,
    ];
    for (ownership, expected) in routes_from_node_one() {
        assert_eq!(native_route(NodeId(1), ownership), expected, "natively: {ownership:?}");
        for operation in operations {
            let routed = policies.route(NodeId(1), operation, ownership, |_| true);
            assert_eq!((routed.decision, routed.fallback), (expected, None), "{operation:?} {ownership:?}");
        }
    }
}

/// The native side of a policy by its name; a new policy of the workspace must be added here.
fn decides_as_native(name: &str, component: &[u8]) {
    match name {
        "least-ratio" => decide_alike::<LeastRatio>(component),
        "highest-id" => decide_alike::<HighestId>(component),
        "rendezvous" => decide_alike::<Rendezvous>(component),
        "reserved" => decide_alike::<Reserved>(component),
        "tenant-shuffle" => decide_alike::<TenantShuffle>(component),
        "zone-affinity" => decide_alike::<ZoneAffinity>(component),
        other => panic!("the policy {other} is not compared with its native side"),
    }
}

#[test]
fn every_hash_of_the_manifest_matches() {
    let found = differences(&Workspace::default()).expect("readable");
    assert!(found.is_empty(), "run `cargo build-policies`:\n{}", found.join("\n"));
    say("all hashes match the sources");
}

#[test]
fn the_built_in_policy_is_the_prebuilt_one() {
    let manifest = Manifest::read(&Workspace::default()).expect("manifest");
    assert_eq!(builtin().0.to_string(), manifest.policies["least-ratio"].component);
    assert_eq!(builtin().0, digest_of(builtin().1));
}

#[test]
fn prebuilt_components_decide_as_the_native_policies_do() {
    let workspace = Workspace::default();
    for name in workspace.policies().expect("policies") {
        let component = std::fs::read(workspace.component(&name)).expect("prebuilt");
        let report = check(&component, 10).expect("accepted");
        assert_eq!(report.description.name, name);
        decides_as_native(&name, &component);
    }
    say("components and native policies decided alike on 10000 random inputs each");
}

#[test]
fn the_built_in_policy_and_the_fallback_of_the_metadata_are_one_rule() {
    let policies = Policies::new(Options::default()).expect("engines");
    let mut numbers = Numbers(2);
    for _ in 0..INPUTS {
        let (subject, candidates) = case(&mut numbers);
        let fallback =
            headwater_metadata::least_ratio::choose(&candidates).map_or(Choice::None, Choice::Node);
        assert_eq!(policies.place(builtin().0, &subject, &candidates), fallback, "{candidates:?}");
        let (here, operation, ownership) = route_case(&mut numbers);
        let routed = policies.route(here, operation.0, ownership.0, |_| true);
        assert_eq!(routed.decision, headwater_policy::native_route(here, ownership.0), "not active: native");
    }
    say("the built-in policy and the fallback placed alike on 10000 random inputs");
}

#[test]
fn a_rebuild_gives_the_same() {
    let workspace = Workspace::default();
    let toolchain = Toolchain::detect().expect("rustc");
    if !toolchain.has_target() {
        say("not rebuilt, the target wasm32-unknown-unknown is not installed");
        return;
    }
    let manifest = Manifest::read(&workspace).expect("manifest");
    let same = manifest.is_by(&toolchain);
    for (name, recorded) in &manifest.policies {
        let component = build(&workspace, &toolchain, name).expect("builds");
        if same {
            assert_eq!(
                sha256(&component),
                recorded.component,
                "{name}: another component from the same sources"
            );
        } else {
            decides_as_native(name, &component);
        }
    }
    match same {
        true => say("rebuilt with the same rustc, equal bytes"),
        false => say(&format!("rebuilt with {}, equal decisions", toolchain.version)),
    }
}
