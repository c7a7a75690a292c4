//! Policies that misbehave in every way we know: the host goes on, the native rule decides, the counter of
//! the cause rises, and other policies and instances work as before.

use bytes::Bytes;
use headwater_guest_build::hostile::{Deed, Entry, When, component, hostile, module, world};
use headwater_metadata::{Candidate, Choice, Digest, NodeId, Placement, StreamId, Subject};
use headwater_policy::{
    Cause, Decision, MAX_COMPONENT_BYTES, Operation, Options, Ownership, Policies, Refused, Routed, builtin,
    check, digest_of,
};
use std::collections::BTreeMap;

const DEEDS: [(Deed, Cause); 8] = [
    (Deed::Panic, Cause::Trap),
    (Deed::Divide, Cause::Trap),
    (Deed::OutOfBounds, Cause::Trap),
    (Deed::Loop, Cause::Fuel),
    (Deed::Recurse, Cause::Trap),
    (Deed::Memory, Cause::Trap),
    (Deed::BadResult, Cause::Trap),
    (Deed::BadPointer, Cause::Trap),
];

fn subject(name: &str) -> Subject {
    Subject {
        id: StreamId(1),
        name: name.into(),
        content_type: "text/plain".into(),
        proposer: NodeId(1),
        proposer_labels: BTreeMap::new(),
    }
}

fn candidates() -> Vec<Candidate> {
    let node = |id| Candidate { id: NodeId(id), slots: 1, assigned: id, labels: BTreeMap::new() };
    vec![node(1), node(2), node(3)]
}

fn policies() -> Policies {
    let policies = Policies::new(Options::default()).expect("engines");
    policies.prepare(builtin().0, Bytes::from_static(builtin().1)).expect("the built-in policy compiles");
    policies
}

fn with(policies: &Policies, component: Vec<u8>) -> Digest {
    let digest = digest_of(&component);
    policies.prepare(digest, component.into()).expect("compiles");
    digest
}

/// The built-in policy answers, whatever went on before.
fn others_work(policies: &Policies) {
    assert_eq!(policies.place(builtin().0, &subject("/a"), &candidates()), Choice::Node(NodeId(1)));
}

#[test]
fn wsm_01_a_trap_in_placement_falls_back_and_the_next_call_works() {
    let policies = policies();
    for (deed, cause) in DEEDS {
        let digest = with(&policies, hostile(Entry::Place, deed, When::Provoked).expect("made"));
        let before = policies.counters();
        for _ in 0..3 {
            assert_eq!(policies.place(digest, &subject("/boom/1"), &candidates()), Choice::Fault, "{deed:?}");
            assert_eq!(
                policies.place(digest, &subject("/a"), &candidates()),
                Choice::Node(NodeId(1)),
                "{deed:?}"
            );
        }
        let after = policies.counters();
        assert_eq!(after.placement_fallback(cause) - before.placement_fallback(cause), 3, "{deed:?}");
        assert_eq!(after.fallbacks() - before.fallbacks(), 3, "{deed:?}: no other cause");
        others_work(&policies);
    }
}

#[test]
fn wsm_01_a_trap_in_routing_falls_back_and_the_instance_is_replaced() {
    let policies = policies();
    let owned = Ownership::Opened(NodeId(2));
    for (deed, cause) in DEEDS {
        let digest = with(&policies, hostile(Entry::Route, deed, When::Provoked).expect("made"));
        policies.set_active(digest).expect("ready");
        let before = policies.counters();
        for round in 0..300 {
            // Node 3 provokes it, one time in a hundred.
            let provoked = round % 100 == 50;
            let here = NodeId(if provoked { 3 } else { 1 });
            let routed = policies.route(here, Operation::Append, owned, |_| true);
            let expected = Routed {
                decision: Decision::Redirect(NodeId(2)),
                policy: Some(digest),
                fallback: provoked.then_some(cause),
            };
            assert_eq!(routed, expected, "{deed:?}");
        }
        let after = policies.counters();
        assert_eq!(after.route_fallback(cause) - before.route_fallback(cause), 3, "{deed:?}");
        assert_eq!(after.routing_discarded - before.routing_discarded, 3, "{deed:?}");
        assert_eq!(
            after.routing_instances - before.routing_instances,
            4,
            "{deed:?}: one, and one after each trap"
        );
        others_work(&policies);
    }
}

#[test]
fn a_trap_at_every_entry_leaves_the_host_going() {
    let policies = policies();
    for entry in [Entry::Start, Entry::Realloc, Entry::Place, Entry::Route] {
        for (deed, cause) in DEEDS.into_iter().filter(|(deed, _)| !matches!(deed, Deed::BadResult)) {
            let digest = with(&policies, hostile(entry, deed, When::Always).expect("made"));
            policies.set_active(digest).expect("ready");
            let placed = policies.place(digest, &subject("/a"), &candidates());
            let routed = policies.route(NodeId(1), Operation::Read, Ownership::Placed(NodeId(2)), |_| true);
            assert_eq!(routed.decision, Decision::Redirect(NodeId(2)), "{entry:?} {deed:?}");
            let places = matches!(entry, Entry::Start | Entry::Realloc | Entry::Place);
            assert_eq!(
                placed,
                if places { Choice::Fault } else { Choice::Node(NodeId(1)) },
                "{entry:?} {deed:?}"
            );
            let routes = matches!(entry, Entry::Start | Entry::Route);
            assert_eq!(routed.fallback, routes.then_some(cause), "{entry:?} {deed:?}");
            others_work(&policies);
        }
    }
}

#[test]
fn nonsense_is_told_from_faults() {
    let policies = policies();
    let stranger = with(&policies, hostile(Entry::Place, Deed::Names(77), When::Always).expect("made"));
    // Placement answers what the guest said; apply knows the candidates and reports back.
    assert_eq!(policies.place(stranger, &subject("/a"), &candidates()), Choice::Node(NodeId(77)));
    policies.not_a_candidate(stranger, NodeId(77));
    assert_eq!(policies.counters().placement_fallback(Cause::NotACandidate), 1);

    let shy = with(&policies, hostile(Entry::Place, Deed::NoAnswer, When::Always).expect("made"));
    assert_eq!(policies.place(shy, &subject("/a"), &candidates()), Choice::None);
    assert_eq!(policies.counters().placement_fallback(Cause::NoAnswer), 1);

    let lost = with(&policies, hostile(Entry::Route, Deed::Names(77), When::Always).expect("made"));
    policies.set_active(lost).expect("ready");
    let owned = Ownership::Opened(NodeId(2));
    let routed = policies.route(NodeId(1), Operation::Read, owned, |node| node.0 <= 3);
    assert_eq!((routed.decision, routed.fallback), (Decision::Redirect(NodeId(2)), Some(Cause::Nonsense)));
    // A redirect to oneself would never end.
    let routed = policies.route(NodeId(77), Operation::Read, owned, |_| true);
    assert_eq!((routed.decision, routed.fallback), (Decision::Redirect(NodeId(2)), Some(Cause::Nonsense)));
    assert_eq!(policies.counters().route_fallback(Cause::Nonsense), 2);
    assert_eq!(policies.counters().routing_discarded, 0, "nonsense does not poison an instance");
}

#[test]
fn wsm_02_concurrent_endless_loops_end_by_their_fuel() {
    let policies = policies();
    let digest = with(&policies, hostile(Entry::Route, Deed::Loop, When::Always).expect("made"));
    policies.set_active(digest).expect("ready");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let routed = policies.route(NodeId(1), Operation::Read, Ownership::Unplaced, |_| true);
                    assert_eq!((routed.decision, routed.fallback), (Decision::Here, Some(Cause::Fuel)));
                }
            });
        }
    });
    assert_eq!(policies.counters().route_fallback(Cause::Fuel), 80);
    others_work(&policies);
}

#[test]
fn wsm_02_routing_that_keeps_failing_is_suspended_and_comes_back() {
    let policies = policies();
    let digest = with(&policies, hostile(Entry::Route, Deed::Loop, When::Provoked).expect("made"));
    policies.set_active(digest).expect("ready");
    let ask = |here| policies.route(NodeId(here), Operation::Read, Ownership::Unplaced, |_| true).fallback;
    for _ in 0..10_000 {
        assert!(matches!(ask(3), Some(Cause::Fuel | Cause::Suspended)));
    }
    let counts = policies.counters();
    assert!((100..=120).contains(&counts.route_fallback(Cause::Fuel)), "{counts:?}");
    assert_eq!(counts.route_fallback(Cause::Fuel) + counts.route_fallback(Cause::Suspended), 10_000);
    // Suspended for everybody, until one of the probes is answered.
    let recovered = (0..2_000).position(|_| ask(1).is_none()).expect("it is probed");
    assert!((0..1_000).all(|_| ask(1).is_none()), "back after {recovered} requests");
}

#[test]
fn wsm_04_nothing_that_could_differ_between_nodes_reaches_an_answer() {
    // Names the node whose id is the bits of a NaN, made in a way that processors answer differently.
    let nans = [
        "(f64.div (f64.const 0) (f64.const 0))",
        "(f64.add (f64.const nan:0x8000000000123) (f64.const 1))",
        "(f64.sqrt (f64.const -1))",
        "(f64.sub (f64.const inf) (f64.const inf))",
        "(f64.promote_f32 (f32.div (f32.const 0) (f32.const 0)))",
    ];
    let policies = policies();
    for nan in nans {
        let text = module(Entry::Place, Deed::Names(424_242), When::Always)
            .replace("(i64.const 424242)", &format!("(i64.reinterpret_f64 {nan})"));
        let digest = with(&policies, component(&world().expect("world"), &text).expect("made"));
        let placed = policies.place(digest, &subject("/a"), &candidates());
        assert_eq!(placed, Choice::Node(NodeId(0x7ff8_0000_0000_0000)), "{nan}");
    }
    // What an earlier call left behind is not there: each placement has a fresh instance.
    let counting = module(Entry::Place, Deed::Names(424_242), When::Always)
        .replace("(global $heap", "(global $calls (mut i64) (i64.const 0)) (global $heap")
        .replace("(i64.const 424242)", "(global.get $calls)")
        .replace("(i32.store8 (i32.const 1024) (i32.const 1))", "(global.set $calls (i64.add (global.get $calls) (i64.const 1))) (i32.store8 (i32.const 1024) (i32.const 1))");
    let digest = with(&policies, component(&world().expect("world"), &counting).expect("made"));
    for _ in 0..10 {
        assert_eq!(policies.place(digest, &subject("/a"), &candidates()), Choice::Node(NodeId(1)));
    }
}

#[test]
fn wsm_04_threads_relaxed_simd_and_large_memories_are_not_there() {
    let with_code = |code: &str| {
        let text = module(Entry::Place, Deed::NoAnswer, When::Always).replacen("(func $start ", code, 1);
        check(&component(&world().expect("world"), &text).expect("made"), 3)
    };
    with_code("(func $start ").expect("as it is");
    let simd = "(func $start (drop (i32x4.trunc_sat_f32x4_s (v128.const i32x4 1 2 3 4))) ";
    with_code(simd).expect("SIMD is deterministic");
    let relaxed = "(func $start (drop (i32x4.relaxed_trunc_f32x4_s (v128.const i32x4 1 2 3 4))) ";
    assert!(matches!(with_code(relaxed), Err(Refused::Malformed(_))));
    let threads = "(func $start (drop (i32.atomic.load (i32.const 0))) ";
    assert!(matches!(with_code(threads), Err(Refused::Malformed(_))));
}

#[test]
fn wsm_03_memory_stops_at_the_limit_however_it_is_asked_for() {
    let policies = policies();
    let answer = "(i32.store8 (i32.const 1024) (i32.ne (local.get 9) (i32.const 0)))";
    let good = module(Entry::Place, Deed::NoAnswer, When::Provoked);
    assert!(good.contains(answer));
    let grow = |pages: &str| {
        let grown = format!("(memory.grow (i32.const {pages}))");
        good.replace(answer, &format!("(if (i32.eq {grown} (i32.const -1)) (then unreachable)) {answer}"))
    };
    // 65535 and more cannot be addressed at all; 1100 pages are beyond the limit; 16 are not.
    for (pages, allowed) in [("16", true), ("1100", false), ("65535", false), ("65536", false), ("-1", false)]
    {
        let digest = with(&policies, component(&world().expect("world"), &grow(pages)).expect("made"));
        let placed = policies.place(digest, &subject("/a"), &candidates());
        assert_eq!(placed == Choice::Fault, !allowed, "{pages} pages: {placed:?}");
    }
    assert_eq!(policies.counters().waits, 0, "never taken for a lack of the host");
    // One that starts too large is refused.
    let large =
        module(Entry::Place, Deed::NoAnswer, When::Always).replace("\"memory\") 1)", "\"memory\") 2000)");
    assert!(check(&component(&world().expect("world"), &large).expect("made"), 3).is_err());
}

#[test]
fn a_push_of_a_policy_that_misbehaves_is_refused() {
    for (deed, cause) in DEEDS {
        for entry in [Entry::Place, Entry::Route] {
            let refused = check(&hostile(entry, deed, When::Always).expect("made"), 3).expect_err("refused");
            let Refused::Battery(why) = refused else { panic!("{entry:?} {deed:?}: {refused:?}") };
            assert!(why.contains(cause.as_str()), "{why}");
        }
        for entry in [Entry::Describe, Entry::DescribeReturn] {
            let refused = check(&hostile(entry, deed, When::Always).expect("made"), 3).expect_err("refused");
            assert!(matches!(refused, Refused::Description(_)), "{entry:?} {deed:?}: {refused:?}");
        }
        let refused =
            check(&hostile(Entry::Start, deed, When::Always).expect("made"), 3).expect_err("refused");
        assert!(matches!(refused, Refused::Battery(_)), "{deed:?}: {refused:?}");
    }
    for entry in [Entry::Place, Entry::Route] {
        let refused =
            check(&hostile(entry, Deed::Names(77), When::Always).expect("made"), 3).expect_err("refused");
        assert!(matches!(refused, Refused::Battery(_)), "{refused:?}");
        // What must be provoked gets through: only the fallback guards against it.
        check(&hostile(entry, Deed::Panic, When::Provoked).expect("made"), 3).expect("accepted");
    }
    check(&hostile(Entry::Place, Deed::NoAnswer, When::Always).expect("made"), 3)
        .expect("no answer is an answer");
}

#[test]
fn what_is_not_a_policy_is_refused_with_the_reason() {
    let good = builtin().1;
    let nine_megabytes = vec![0; 9 << 20];
    assert_eq!(check(&nine_megabytes, 3), Err(Refused::TooLarge(9 << 20)));
    assert!(nine_megabytes.len() > MAX_COMPONENT_BYTES);
    assert!(matches!(check(b"", 3), Err(Refused::Malformed(_))));
    assert!(matches!(check(b"#!/bin/sh", 3), Err(Refused::Malformed(_))));
    assert!(matches!(check(&good[..good.len() / 2], 3), Err(Refused::Malformed(_))));
    assert_eq!(check(b"\0asm\x01\0\0\0", 3), Err(Refused::CoreModule));
    assert!(matches!(check(b"\0asm\x0d\0\x01\0", 3), Err(Refused::Exports(_))), "an empty component");
    for at in (8..good.len()).step_by(997) {
        let mut damaged = good.to_vec();
        damaged[at] ^= 0x55;
        // Most are refused; a changed constant may pass. What matters is that the host goes on.
        let _ = check(&damaged, 3);
    }
}

#[test]
fn imports_are_refused_by_name() {
    let wit =
        world().expect("world").replace("world policy {", "world policy {\n  import now: func() -> u64;");
    let module = module(Entry::Place, Deed::NoAnswer, When::Always)
        .replacen("(module", "(module (import \"$root\" \"now\" (func $now (result i64)))", 1)
        .replacen("(func $start ", "(func $start (drop (call $now))", 1);
    let refused = check(&component(&wit, &module).expect("made"), 3).expect_err("refused");
    assert_eq!(refused, Refused::Imports(vec!["now".to_owned()]));
    assert!(refused.to_string().contains("now"));
}

#[test]
fn wsm_07_another_version_of_the_world_is_refused_with_both_named() {
    let (wit, module) = (world().expect("world"), module(Entry::Place, Deed::NoAnswer, When::Always));
    let version = |v: &str| {
        let component = component(&wit.replace("@0.1.0", v), &module.replace("@0.1.0", v)).expect("made");
        check(&component, 3)
    };
    version("@0.1.0").expect("ours");
    for other in ["@0.2.0", "@1.0.0", "@0.0.9"] {
        let refused = version(other).expect_err("refused").to_string();
        assert!(refused.contains(&format!("headwater:policy{other}")), "{refused}");
        assert!(refused.contains("headwater:policy@0.1.0"), "{refused}");
    }
}

#[test]
fn wsm_07_types_are_checked_and_not_only_names() {
    let module = module(Entry::Place, Deed::NoAnswer, When::Always);
    let wit = world().expect("world");
    let one_field_more = wit.replace("    slots: u32,", "    slots: u32,\n    weight: u32,");
    assert_ne!(wit, one_field_more);
    let refused = check(&component(&one_field_more, &module).expect("made"), 3);
    assert!(matches!(refused, Err(Refused::Exports(_))), "{refused:?}");

    let no_routing = wit.replace("  export routing;\n", "");
    assert_ne!(wit, no_routing);
    let refused = check(&component(&no_routing, &module).expect("made"), 3);
    assert!(matches!(refused, Err(Refused::Exports(_))), "{refused:?}");
}

#[test]
fn a_policy_without_its_exports_that_reaches_the_log_falls_back() {
    let policies = Policies::new(Options::default()).expect("engines");
    let component = b"\0asm\x0d\0\x01\0".to_vec();
    let digest = digest_of(&component);
    assert!(policies.prepare(digest, component.into()).is_err());
    assert_eq!(policies.place(digest, &subject("/a"), &candidates()), Choice::Fault);
    assert_eq!(policies.counters().placement_fallback(Cause::Broken), 1);
}
