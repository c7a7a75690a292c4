//! Entries are applied exactly once.

use super::*;

fn batch(by: Session, number: u64, commands: Vec<Command>) -> Entry {
    Entry::Batch(Batch { session: by, number, commands })
}

#[test]
fn the_same_number_and_entry_is_answered_from_memory() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let entry =
        batch(one, 1, vec![Command::CreateStream(create("/a")), Command::Place { stream: StreamId(9) }]);
    let first = cluster.entry(&entry);
    let digests = cluster.state.digests();
    for _ in 0..3 {
        assert_eq!(cluster.entry(&entry), first, "answered, not applied: a second create would be redundant");
        assert_eq!(cluster.state.digests(), digests);
    }
}

#[test]
fn the_same_number_with_another_entry_is_rejected() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    cluster.entry(&batch(one, 1, vec![Command::CreateStream(create("/a"))]));
    let digests = cluster.state.digests();
    let other = batch(one, 1, vec![Command::CreateStream(create("/b")), Command::ResetPlacement]);
    let rejection = Outcome::Rejected(Rejection::Number { number: 1, last: 1 });
    assert_eq!(cluster.entry(&other), [rejection.clone(), rejection]);
    assert_eq!(cluster.state.digests(), digests);
}

#[test]
fn a_lower_number_and_a_gap_are_rejected() {
    let mut cluster = Cluster::of(1);
    let one = session(1, 100);
    let entries: Vec<Entry> =
        (1..=3).map(|n| batch(one, n, vec![Command::CreateStream(create(&format!("/{n}")))])).collect();
    entries.iter().for_each(|entry| applied_all(cluster.entry(entry)));
    let digests = cluster.state.digests();
    for (number, entry) in [(1, entries[0].clone()), (2, entries[1].clone()), (0, batch(one, 0, reset()))] {
        let expected = Rejection::Number { number, last: 3 };
        assert_eq!(cluster.entry(&entry), [Outcome::Rejected(expected)]);
    }
    let gap = cluster.entry(&batch(one, 5, reset()));
    assert_eq!(gap, [Outcome::Rejected(Rejection::Number { number: 5, last: 3 })]);
    assert_eq!(cluster.state.digests(), digests);
}

#[test]
fn a_first_entry_has_number_one() {
    let mut cluster = Cluster::of(1);
    let outcome = cluster.entry(&batch(session(1, 100), 2, reset()));
    assert_eq!(outcome, [Outcome::Rejected(Rejection::Number { number: 2, last: 0 })]);
    let outcome = cluster.entry(&batch(session(1, 100), 0, reset()));
    assert_eq!(outcome, [Outcome::Rejected(Rejection::Number { number: 0, last: 0 })]);
}

#[test]
fn answers_stay_with_an_ended_session_until_it_is_recovered() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let entry = batch(two, 1, vec![Command::CreateStream(create("/a"))]);
    let first = cluster.entry(&entry);
    applied(cluster.evict(one, two));
    assert_eq!(cluster.entry(&entry), first, "its outcome is still told");
    let why = SessionState::Retired(RetiredBy::Evicted);
    let refused = [Outcome::Rejected(Rejection::NotRegistered { session: two, why })];
    assert_eq!(cluster.entry(&batch(two, 2, reset())), refused, "nothing new is applied");
    applied(cluster.recover(one, two, vec![], true));
    assert_eq!(cluster.entry(&entry), refused);
    assert_eq!(cluster.state.retired(two).map(|it| it.progress.number), Some(1));
}

#[test]
fn a_session_that_evicts_itself_is_told_so_and_does_nothing_more() {
    let mut cluster = Cluster::of(2);
    let two = session(2, 100);
    let entry = batch(
        two,
        1,
        vec![Command::Evict { session: two, silent: false }, Command::CreateStream(create("/a"))],
    );
    let outcomes = cluster.entry(&entry);
    let why = SessionState::Retired(RetiredBy::Evicted);
    let rejected = Outcome::Rejected(Rejection::NotRegistered { session: two, why });
    assert_eq!(outcomes, [Outcome::Applied(Answer::Done), rejected]);
    assert_eq!(cluster.entry(&entry), outcomes);
    assert!(cluster.state.stream_by_name("/a").is_none());
}

#[test]
fn a_new_session_of_a_node_counts_from_one() {
    let mut cluster = Cluster::of(1);
    cluster.create(session(1, 100), "/a");
    applied(cluster.register(registration(1, 200)));
    cluster.create(session(1, 200), "/b");
    assert_eq!(cluster.state.progress(session(1, 200)).map(|it| it.number), Some(1));
}

fn reset() -> Vec<Command> {
    vec![Command::ResetPlacement]
}

fn applied_all(outcomes: Vec<Outcome>) {
    outcomes.into_iter().for_each(|outcome| drop(applied(outcome)));
}
