//! Policies in the log, and what placement asks of them.

use super::*;
use bytes::Bytes;

pub(super) fn put(name: &str, component: &[u8]) -> Command {
    Command::PutPolicy {
        name: name.into(),
        version: "1".into(),
        needs_labels: false,
        component: Bytes::copy_from_slice(component),
    }
}

fn activate(policy: Digest) -> Command {
    Command::ActivatePolicy { policy }
}

/// A cluster of three with a policy active that answers as told.
fn with_policy(choice: Choice, needs_labels: bool) -> (Cluster, Digest) {
    let mut cluster = Cluster::of(3);
    cluster.placement = Fake::choosing(choice);
    let one = session(1, 100);
    let component = Bytes::from_static(b"component");
    let digest = sha256(&component);
    let put = Command::PutPolicy { name: "p".into(), version: "1".into(), needs_labels, component };
    assert_eq!(applied(cluster.propose(one, put)), Answer::Policy(digest));
    assert_eq!(applied(cluster.propose(one, activate(digest))), Answer::Policy(digest));
    (cluster, digest)
}

#[test]
fn a_policy_is_put_activated_and_rolled_back() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let (a, b) = (sha256(b"a"), sha256(b"b"));
    assert_eq!(rejected(cluster.propose(one, activate(a))), Rejection::NoPolicy(a));
    applied(cluster.propose(one, put("p", b"a")));
    redundant(cluster.propose(one, put("p", b"a")));
    applied(cluster.propose(one, put("p", b"b")));
    assert_eq!(cluster.state.policy_by_name("p").map(|it| it.digest), Some(b));
    applied(cluster.propose(one, put("p", b"a")));
    assert_eq!(cluster.state.policy_by_name("p").map(|it| it.digest), Some(a), "the newest of its name");
    assert_eq!(cluster.state.active_policy().policy, Digest::BUILTIN);
    applied(cluster.propose(one, activate(a)));
    applied(cluster.propose(one, activate(b)));
    let index = cluster.index;
    redundant(cluster.propose(one, activate(b)));
    assert_eq!(*cluster.state.active_policy(), Active { policy: b, index, previous: Some(a) });
    applied(cluster.propose(one, activate(a)));
    assert_eq!(cluster.state.active_policy().previous, Some(b));
    applied(cluster.propose(one, activate(Digest::BUILTIN)));
    assert_eq!(cluster.state.active_policy().policy, Digest::BUILTIN, "always there");
    let trail: Vec<PolicyChange> = cluster.state.audit().map(|it| it.change).collect();
    let puts = [PolicyChange::Put; 3];
    assert_eq!(trail, [&puts[..], &[PolicyChange::Activated; 4]].concat());
}

#[test]
fn a_policy_in_use_is_not_removed() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let digests = [b"a", b"b", b"c"].map(|it| sha256(it));
    for component in [b"a", b"b", b"c"] {
        applied(cluster.propose(one, put("p", component)));
    }
    let remove = |policy| Command::RemovePolicy { policy };
    applied(cluster.propose(one, activate(digests[0])));
    applied(cluster.propose(one, activate(digests[1])));
    assert_eq!(rejected(cluster.propose(one, remove(digests[0]))), Rejection::PolicyInUse(digests[0]));
    assert_eq!(rejected(cluster.propose(one, remove(digests[1]))), Rejection::PolicyInUse(digests[1]));
    applied(cluster.propose(one, remove(digests[2])));
    assert_eq!(rejected(cluster.propose(one, remove(digests[2]))), Rejection::NoPolicy(digests[2]));
}

#[test]
fn components_and_their_number_have_limits() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let largest = vec![0; MAX_COMPONENT];
    let too_large = vec![0; MAX_COMPONENT + 1];
    let index = cluster.index + 1;
    let mut copy = cluster.state.clone();
    applied(copy.apply_command(index, one, &put("p", &largest), &cluster.placement));
    let outcome = copy.apply_command(index, one, &put("p", &too_large), &cluster.placement);
    assert!(matches!(rejected(outcome), Rejection::TooLarge(_)));
    for n in 0..MAX_POLICIES {
        applied(cluster.propose(one, put("p", &n.to_le_bytes())));
    }
    assert!(matches!(rejected(cluster.propose(one, put("p", b"one more"))), Rejection::TooLarge(_)));
}

#[test]
fn the_trail_of_changes_is_bounded() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    for n in 0..300 {
        let command = if n % 2 == 0 { put("a", b"1") } else { put("a", b"2") };
        applied(cluster.propose(one, command));
    }
    assert_eq!(cluster.state.audit().count(), 256);
}

#[test]
fn the_active_policy_chooses_and_sees_candidates_in_id_order() {
    let (mut cluster, digest) = with_policy(Choice::Node(NodeId(3)), false);
    let stream = cluster.create(session(2, 100), "/s");
    assert_eq!(applied(cluster.place(session(2, 100), stream)), Answer::Owner(NodeId(3)));
    let asked = cluster.placement.asked.lock().expect("no panic").clone();
    let (policy, subject, candidates) = asked.last().expect("it was asked");
    assert_eq!(*policy, digest);
    assert_eq!((subject.id, &*subject.name, subject.proposer), (stream, "/s", NodeId(2)));
    assert!(subject.proposer_labels.is_empty());
    assert_eq!(candidates.iter().map(|it| it.id.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(candidates.iter().all(|it| it.labels.is_empty()));
}

#[test]
fn labels_are_given_to_policies_that_ask_for_them() {
    let (mut cluster, _) = with_policy(Choice::None, true);
    let stream = cluster.create(session(2, 100), "/s");
    applied(cluster.place(session(2, 100), stream));
    let asked = cluster.placement.asked.lock().expect("no panic").clone();
    let (_, subject, candidates) = asked.last().expect("it was asked");
    assert_eq!(subject.proposer_labels["zone"], "z2");
    assert_eq!(candidates[2].labels["zone"], "z3");
}

#[test]
fn the_built_in_rule_decides_when_the_policy_does_not() {
    for choice in [Choice::None, Choice::Fault, Choice::Node(NodeId(9))] {
        let (mut cluster, _) = with_policy(choice, false);
        let stream = cluster.create(session(1, 100), "/s");
        assert_eq!(applied(cluster.place(session(1, 100), stream)), Answer::Owner(NodeId(1)));
        let nonsense = cluster.placement.nonsense.lock().expect("no panic").clone();
        let expected = if choice == Choice::Node(NodeId(9)) { vec![NodeId(9); 2] } else { vec![] };
        assert_eq!(nonsense, expected, "told once per asking");
    }
}

#[test]
fn a_draining_node_is_not_a_candidate_whatever_the_policy_says() {
    let (mut cluster, _) = with_policy(Choice::Node(NodeId(3)), false);
    let one = session(1, 100);
    applied(cluster.set(one, 3, None, Some(true)));
    let stream = cluster.create(one, "/s");
    assert_eq!(applied(cluster.place(one, stream)), Answer::Owner(NodeId(1)));
}

#[test]
fn no_policy_is_asked_while_engines_differ() {
    let (mut cluster, digest) = with_policy(Choice::Node(NodeId(3)), false);
    let one = session(1, 100);
    assert_eq!(cluster.state.common_engine(), Some(ENGINE));
    let other = NodeInfo { engine: Digest([8; 32]), ..info(2, 1) };
    applied(cluster.register(Register { info: other.clone(), ..registration(2, 200) }));
    assert_eq!(cluster.state.common_engine(), None);
    let stream = cluster.create(one, "/s");
    let place = Entry::Batch(Batch { session: one, number: 1, commands: vec![Command::Place { stream }] });
    assert_eq!(cluster.state.asks_policy(&place), None);
    assert_eq!(applied(cluster.place(one, stream)), Answer::Owner(NodeId(1)));
    assert_eq!(cluster.state.active_policy().policy, digest, "it stays active");
    applied(cluster.evict(one, session(2, 200)));
    assert_eq!(cluster.state.common_engine(), Some(ENGINE), "ended sessions do not count");
    assert_eq!(cluster.state.asks_policy(&place), Some(ENGINE));
    let next = cluster.create(one, "/t");
    assert_eq!(applied(cluster.place(one, next)), Answer::Owner(NodeId(3)));
}

#[test]
fn an_entry_asks_a_policy_only_when_it_places_under_one() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let stream = cluster.create(one, "/s");
    applied(cluster.propose(one, put("p", b"a")));
    let entry = |commands| Entry::Batch(Batch { session: one, number: 1, commands });
    let place = Command::Place { stream };
    assert_eq!(cluster.state.asks_policy(&entry(vec![place.clone()])), None);
    let commands = vec![activate(sha256(b"a")), place];
    assert_eq!(cluster.state.asks_policy(&entry(commands)), Some(ENGINE));
    assert_eq!(cluster.state.asks_policy(&entry(vec![activate(sha256(b"a"))])), None);
    assert_eq!(cluster.state.asks_policy(&Entry::Register(registration(1, 100))), None);
}

#[test]
fn reset_placement_unplaces_what_is_placed_and_leaves_what_is_open() {
    let (mut cluster, digest) = with_policy(Choice::Node(NodeId(3)), false);
    let one = session(1, 100);
    let placed = cluster.create(one, "/placed");
    applied(cluster.place(one, placed));
    let opened = cluster.opened(one, "/opened");
    let commands = vec![Command::Place { stream: placed }, Command::ResetPlacement];
    let outcomes = cluster.batch(session(2, 100), commands);
    assert_eq!(
        outcomes[0],
        Outcome::Redundant(Answer::Done),
        "also an answer of the same entry says nothing"
    );
    assert_eq!(cluster.stream(placed).ownership, Ownership::Unplaced);
    assert_eq!(cluster.stream(opened).ownership, Ownership::Opened(one));
    assert_eq!((cluster.assigned(1), cluster.assigned(3)), (1, 0));
    assert_eq!(cluster.state.active_policy().policy, Digest::BUILTIN);
    assert!(cluster.state.policy(digest).is_some(), "policies stay");
}
