use super::*;

fn setup(nodes: &str, streams: u64, events: &[&str]) -> Setup {
    let nodes = parse_nodes(nodes).expect("nodes");
    let mut parsed = Vec::new();
    for event in events {
        let event = parse_event(event, &nodes, &parsed).expect("an event");
        parsed.push(event);
    }
    Setup { nodes, streams, tenants: 10, proposer: None, events: parsed, rebalance: false }
}

fn run(setup: &Setup) -> Result<Vec<Step>, SimulateError> {
    let builtin = Trial::load(crate::builtin().1).expect("loads");
    simulate(&builtin, setup).map(|simulated| simulated.steps)
}

fn streams(step: &Step) -> Vec<u64> {
    step.spread.nodes.iter().map(|share| share.streams).collect()
}

#[test]
fn streams_follow_slots_and_nothing_moves_by_itself() {
    let steps = run(&setup("a:4,b:1", 100, &["join:c:5", "leave:a"])).expect("runs");
    assert_eq!(
        steps.iter().map(|step| step.what.as_str()).collect::<Vec<_>>(),
        ["100 streams placed", "c joins with slots 5", "a leaves"]
    );
    assert_eq!((streams(&steps[0]), steps[0].moved, steps[0].would_move), (vec![80, 20], 0, 0));
    assert_eq!(steps[0].spread.skew, 0.0);
    // Half of all slots joined: placing again would move half of the streams, and no more.
    assert_eq!((streams(&steps[1]), steps[1].moved, steps[1].would_move), (vec![80, 20, 0], 0, 50));
    assert_eq!(steps[1].spread.skew, 1.0);
    assert_eq!((streams(&steps[2]), steps[2].moved), (vec![20, 80], 80));
}

#[test]
fn a_rebalance_moves_what_was_announced() {
    let mut setup = setup("a,b", 100, &["join:c:2", "drain:a"]);
    setup.rebalance = true;
    let steps = run(&setup).expect("runs");
    assert_eq!((streams(&steps[1]), steps[1].moved, steps[1].would_move), (vec![25, 25, 50], 50, 0));
    assert_eq!(steps[2].spread.nodes[0].streams, 0);
    assert_eq!(steps[2].spread.nodes[0].of_its_share, None);
    assert_eq!(agreement(&steps[1], &steps[1]), 100);
    assert!(agreement(&steps[1], &steps[2]) < 100);
}

#[test]
fn without_candidates_streams_have_no_owner() {
    let steps = run(&setup("a:0,b", 10, &["leave:b", "slots:a:1", "join:b"])).expect("runs");
    assert_eq!((streams(&steps[1]), steps[1].spread.unplaced), (vec![0], 10));
    assert_eq!((steps[2].would_move, steps[3].spread.unplaced), (10, 10));
    assert_eq!(steps[3].spread.nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn events_about_nobody_are_refused() {
    assert_eq!(run(&setup("a", 1, &["leave:b"])), Err(SimulateError::NoNode("b".to_owned())));
    assert_eq!(run(&setup("a", 1, &["join:a"])), Err(SimulateError::Twice("a".to_owned())));
    let nobody = Setup { proposer: Some("z".to_owned()), ..setup("a", 1, &[]) };
    assert_eq!(run(&nobody), Err(SimulateError::NoNode("z".to_owned())));
}

#[test]
fn tenants_are_counted_by_the_nodes_they_reach() {
    let steps = run(&Setup { tenants: 2, ..setup("a,b,c", 100, &[]) }).expect("runs");
    assert_eq!(steps[0].spread.nodes_of_a_tenant, (3, 3.0, 3));
}

#[test]
fn nodes_and_events_are_read() {
    let nodes = parse_nodes("a:4:zone=eu:disk=ssd, 1:2,b").expect("nodes");
    let summary: Vec<_> = nodes.iter().map(|n| (n.name.as_str(), n.node.id, n.node.slots)).collect();
    assert_eq!(summary, [("a", 2, 4), ("1", 1, 2), ("b", 3, 1)]);
    assert_eq!(nodes[0].node.labels["disk"], "ssd");
    for wrong in ["", ",", ":4", "a:b", "a:1:2", "a:-1", "zone=eu", "a:1:=x"] {
        assert!(parse_nodes(wrong).is_err(), "{wrong}");
    }
    let Ok(Event::Join(joins)) = parse_event("join:c:3:zone=x", &nodes, &[]) else { panic!("joins") };
    assert_eq!((joins.node.id, joins.node.slots, joins.node.labels["zone"].as_str()), (4, 3, "x"));
    let Ok(Event::Join(back)) = parse_event("join:a", &nodes, &[]) else { panic!("joins") };
    assert_eq!(back.node.id, 2);
    for wrong in ["join", "join:", "leave:", "slots:a", "slots:a:x", "explode:a"] {
        assert!(parse_event(wrong, &nodes, &[]).is_err(), "{wrong}");
    }
}
