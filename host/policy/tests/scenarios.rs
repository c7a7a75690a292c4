//! Every policy of the workspace decides what its scenarios say, and every one has some.

// Reads what is in the repository; nothing of the product runs here.
#![allow(clippy::disallowed_methods)]

use headwater_guest_build::Workspace;
use headwater_policy::Trial;
use headwater_policy::scenario::{Scenario, run};
use headwater_policy::simulate::{Setup, agreement, parse_event, parse_nodes, simulate};

fn policy(name: &str) -> Trial {
    let component = std::fs::read(Workspace::default().component(name)).expect("prebuilt");
    Trial::load(&component).expect("loads")
}

#[test]
fn shipped_policies_decide_as_their_scenarios_say() {
    let workspace = Workspace::default();
    for name in workspace.policies().expect("policies") {
        let folder = workspace.root().join("guest").join(&name).join("scenarios");
        let files = std::fs::read_dir(&folder).unwrap_or_else(|_| panic!("{name} has no scenarios"));
        let policy = policy(&name);
        let mut cases = 0;
        for file in files {
            let path = file.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("readable");
            let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            for outcome in run(&policy, &scenario).expect("runs") {
                assert!(outcome.passed(), "{}: {outcome:#?}", path.display());
                cases += 1;
            }
        }
        assert!(cases > 0, "{name} has no scenarios");
    }
}

fn setup(nodes: &str, streams: u64, event: &str) -> Setup {
    let nodes = parse_nodes(nodes).expect("nodes");
    let events = vec![parse_event(event, &nodes, &[]).expect("an event")];
    Setup { nodes, streams, tenants: 20, proposer: None, events, rebalance: false }
}

#[test]
fn a_join_moves_a_share_under_rendezvous_and_under_least_ratio() {
    let setup = setup("a:4,b:4", 1000, "join:c:4");
    let steps =
        ["rendezvous", "least-ratio"].map(|name| simulate(&policy(name), &setup).expect("runs").steps);
    for steps in &steps {
        assert!(steps[1].would_move.abs_diff(333) < 70, "{}", steps[1].would_move);
    }
    assert!(agreement(&steps[0][0], &steps[1][0]) < 1000, "they place differently");
}

#[test]
fn a_tenant_reaches_two_nodes_under_tenant_shuffle() {
    let setup = setup("a,b,c,d,e,f", 600, "leave:a");
    for step in simulate(&policy("tenant-shuffle"), &setup).expect("runs").steps {
        assert_eq!(step.spread.nodes_of_a_tenant.2, 2);
        assert!(step.spread.nodes_of_a_tenant.0 >= 1);
    }
    let spread = simulate(&policy("least-ratio"), &setup).expect("runs").steps[0].spread.nodes_of_a_tenant;
    assert_eq!(spread.2, 6, "without it some tenant is everywhere");
}
