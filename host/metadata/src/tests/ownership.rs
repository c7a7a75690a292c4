//! Placing, opening, closing: at most one owner, and what routing sees of it.

use super::*;

#[test]
fn place_chooses_the_lowest_share_and_a_second_place_is_redundant() {
    let mut cluster = Cluster::of(3);
    let (one, two) = (session(1, 100), session(2, 100));
    let streams: Vec<StreamId> = (0..3).map(|n| cluster.create(one, &format!("/{n}"))).collect();
    for (n, stream) in streams.iter().enumerate() {
        let owner = Answer::Owner(NodeId(n as u64 + 1));
        assert_eq!(applied(cluster.place(two, *stream)), owner);
        assert_eq!(redundant(cluster.place(one, *stream)), owner, "the loser of a race learns the owner");
    }
    assert_eq!(rejected(cluster.place(one, StreamId(99))), Rejection::NoStream(StreamId(99)));
}

#[test]
fn place_on_an_open_stream_answers_its_owner() {
    let mut cluster = Cluster::of(2);
    let two = session(2, 100);
    let stream = cluster.opened(two, "/s");
    assert_eq!(redundant(cluster.place(session(1, 100), stream)), Answer::Owner(NodeId(2)));
}

#[test]
fn a_thousand_streams_meet_the_slots_and_a_new_weight_moves_nothing() {
    let mut state = State::new();
    let fake = Fake::default();
    for (node, slots) in [(1, 4), (2, 1), (3, 1)] {
        let register = Register { info: info(node, slots), ..registration(node, 100) };
        state.apply(node, &Entry::Register(register), &fake);
    }
    let mut number = 0;
    let mut place = |state: &mut State, from: u64, to: u64| {
        for n in from..to {
            number += 1;
            let commands = vec![
                Command::CreateStream(create(&format!("/{n}"))),
                Command::Place { stream: StreamId(n + 1) },
            ];
            state.apply(number, &Entry::Batch(Batch { session: session(1, 100), number, commands }), &fake);
        }
    };
    let counts = |state: &State| [1, 2, 3].map(|node| state.assigned(NodeId(node)).total());
    place(&mut state, 0, 600);
    assert_eq!(counts(&state), [400, 100, 100]);
    let set = Command::SetNode { node: NodeId(2), slots: Some(4), labels: None, draining: None };
    state.apply_command(1, session(1, 100), &set, &fake);
    assert_eq!(counts(&state), [400, 100, 100]);
    place(&mut state, 600, 900);
    assert_eq!(counts(&state), [400, 400, 100]);
}

#[test]
fn nodes_without_slots_draining_or_not_registered_take_nothing() {
    let mut cluster = Cluster::of(3);
    let one = session(1, 100);
    applied(cluster.set(one, 1, Some(0), None));
    applied(cluster.set(one, 2, None, Some(true)));
    applied(cluster.evict(one, session(3, 100)));
    let stream = cluster.create(one, "/s");
    assert_eq!(rejected(cluster.place(one, stream)), Rejection::NoCandidate);
    assert!(!cluster.state.has_candidate());
    applied(cluster.set(one, 2, None, Some(false)));
    assert_eq!(applied(cluster.place(one, stream)), Answer::Owner(NodeId(2)));
}

#[test]
fn placed_on_a_node_that_is_gone_or_draining_counts_as_unplaced() {
    let mut cluster = Cluster::of(2);
    let one = session(1, 100);
    applied(cluster.set(one, 1, Some(0), None));
    let stream = cluster.create(one, "/s");
    assert_eq!(applied(cluster.place(one, stream)), Answer::Owner(NodeId(2)));
    applied(cluster.set(one, 2, None, Some(true)));
    assert_eq!(cluster.effective(stream), Effective::Placed(NodeId(2)), "nobody else could take it");
    assert_eq!(redundant(cluster.place(one, stream)), Answer::Owner(NodeId(2)));
    applied(cluster.set(one, 1, Some(1), None));
    assert_eq!(cluster.effective(stream), Effective::Unplaced);
    assert_eq!(applied(cluster.place(one, stream)), Answer::Owner(NodeId(1)));
    applied(cluster.set(one, 2, None, Some(false)));
    applied(cluster.evict(session(2, 100), one));
    assert_eq!(cluster.effective(stream), Effective::Unplaced);
    assert_eq!(applied(cluster.place(session(2, 100), stream)), Answer::Owner(NodeId(2)));
}

#[test]
fn open_names_the_epoch_and_adds_one() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let stream = cluster.create(one, "/s");
    let wrong = Rejection::StreamEpoch { named: StreamEpoch(1), actual: StreamEpoch(0) };
    assert_eq!(rejected(cluster.open(one, stream, 1)), wrong);
    assert_eq!(applied(cluster.open(one, stream, 0)), Answer::Opened(StreamEpoch(1)));
    assert_eq!(redundant(cluster.open(one, stream, 0)), Answer::Opened(StreamEpoch(1)));
    assert_eq!(rejected(cluster.open(two, stream, 1)), Rejection::OpenElsewhere(one));
    applied(cluster.close(one, stream, 1, 0));
    assert_eq!(cluster.effective(stream), Effective::Closed(NodeId(1)));
    let late = Rejection::StreamEpoch { named: StreamEpoch(0), actual: StreamEpoch(1) };
    assert_eq!(rejected(cluster.open(two, stream, 0)), late, "a late copy opens nothing");
    assert_eq!(applied(cluster.open(two, stream, 1)), Answer::Opened(StreamEpoch(2)));
}

#[test]
fn open_from_a_node_that_was_not_chosen_re_places_the_stream_onto_it() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let stream = cluster.create(one, "/s");
    assert_eq!(applied(cluster.place(one, stream)), Answer::Owner(NodeId(1)));
    applied(cluster.open(two, stream, 0));
    assert_eq!((cluster.assigned(1), cluster.assigned(2)), (0, 1));
    assert_eq!(cluster.effective(stream), Effective::Opened(two));
}

#[test]
fn close_is_rejected_unless_everything_is_committed() {
    let mut cluster = Cluster::of(2);
    let (one, two) = (session(1, 100), session(2, 100));
    let stream = cluster.opened(one, "/s");
    let why = Rejection::NotFlushed { tail: Position(5), end: Position(0) };
    assert_eq!(rejected(cluster.close(one, stream, 1, 5)), why);
    applied(cluster.commit_one(one, stream, 1, run(one, 0, 0, 5)));
    assert_eq!(rejected(cluster.close(two, stream, 1, 5)), Rejection::NotOpen(two));
    let wrong = Rejection::StreamEpoch { named: StreamEpoch(2), actual: StreamEpoch(1) };
    assert_eq!(rejected(cluster.close(one, stream, 2, 5)), wrong);
    applied(cluster.close(one, stream, 1, 5));
    redundant(cluster.close(one, stream, 1, 5));
    assert_eq!(cluster.stream(stream).touched_ms, 5_000, "the last touch comes with it");
    assert_eq!(cluster.assigned(1), 0);
}

#[test]
fn a_closed_stream_can_be_placed_again() {
    let mut cluster = Cluster::of(2);
    let two = session(2, 100);
    let stream = cluster.opened(two, "/s");
    applied(cluster.close(two, stream, 1, 0));
    assert_eq!(applied(cluster.place(two, stream)), Answer::Owner(NodeId(1)));
    assert_eq!(cluster.stream(stream).epoch, StreamEpoch(1));
}

#[test]
fn totals_follow_every_kind_of_ownership() {
    let mut cluster = Cluster::of(2);
    let one = session(1, 100);
    cluster.create(one, "/unplaced");
    let placed = cluster.create(one, "/placed");
    applied(cluster.place(one, placed));
    cluster.opened(one, "/opened");
    let closed = cluster.opened(one, "/closed");
    applied(cluster.close(one, closed, 1, 0));
    let totals = cluster.state.totals();
    assert_eq!((totals.unplaced, totals.placed, totals.opened, totals.closed), (1, 1, 1, 1));
    assert_eq!(cluster.state.open_in(one).count(), 1);
    assert_eq!(cluster.state.placed_on(NodeId(1)).collect::<Vec<_>>(), [placed]);
    assert_eq!(cluster.state.assigned(NodeId(1)), Assigned { placed: 1, opened: 1 });
}
