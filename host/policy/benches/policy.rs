//! What a decision costs: through the component and natively. `cargo bench -p headwater-policy`.

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use headwater_metadata::{Candidate, NodeId, Placement, StreamId, Subject};
use headwater_policy::{Operation, Options, Ownership, Policies, builtin, native_route};
use headwater_policy_sdk as sdk;
use std::collections::BTreeMap;
use std::hint::black_box;

fn policies() -> Policies {
    let policies = Policies::new(Options::default()).expect("engines");
    policies.prepare(builtin().0, Bytes::from_static(builtin().1)).expect("compiles");
    policies.set_active(builtin().0).expect("ready");
    policies
}

fn route(c: &mut Criterion) {
    let policies = policies();
    let (here, owned) = (NodeId(1), Ownership::Opened(NodeId(2)));
    let mut group = c.benchmark_group("route");
    group.bench_function("component", |b| {
        b.iter(|| policies.route(black_box(here), Operation::Append, black_box(owned), |_| true))
    });
    group.bench_function("native", |b| b.iter(|| native_route(black_box(here), black_box(owned))));
    group.finish();
    let counts = policies.counters();
    assert_eq!(counts.fallbacks(), 0, "the component answered every time");
    assert_eq!(counts.routing_instances, 1, "one warm instance served every call");
}

fn place(c: &mut Criterion) {
    let policies = policies();
    let subject = Subject {
        id: StreamId(1),
        name: "/orders/eu/2024".into(),
        content_type: "application/json".into(),
        proposer: NodeId(1),
        proposer_labels: BTreeMap::new(),
    };
    let mut group = c.benchmark_group("place");
    for size in [3_u64, 100, 1000] {
        let candidates: Vec<_> = (1..=size)
            .map(|id| Candidate {
                id: NodeId(id),
                slots: 1 + (id % 4) as u32,
                assigned: id * 7919 % 100,
                labels: BTreeMap::new(),
            })
            .collect();
        group.bench_with_input(BenchmarkId::new("component", size), &candidates, |b, candidates| {
            b.iter(|| policies.place(builtin().0, &subject, black_box(candidates)))
        });
        let plain: Vec<_> = candidates
            .iter()
            .map(|c| sdk::Candidate { id: c.id.0, slots: c.slots, assigned: c.assigned, labels: Vec::new() })
            .collect();
        group.bench_with_input(BenchmarkId::new("native", size), &plain, |b, plain| {
            b.iter(|| least_ratio::decide::least_ratio(black_box(plain)))
        });
    }
    group.finish();
    assert_eq!(policies.counters().fallbacks(), 0, "the component answered every time");
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(700));
    targets = route, place
}
criterion_main!(benches);
