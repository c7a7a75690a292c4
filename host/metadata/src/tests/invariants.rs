//! What holds in every state, and between a state and the next.

use crate::digest::Sums;
use crate::weigh::weigh_scalars;
use crate::*;

/// Recomputes from scratch whatever the state keeps, and looks for what must never be.
pub(crate) fn check(state: &State) {
    let mut sums: Sums = weigh_scalars(state.next_stream, &state.active);
    sums.add(state.streams.recomputed());
    sums.add(state.nodes.recomputed());
    sums.add(state.live.recomputed());
    sums.add(state.retired.recomputed());
    sums.add(state.policies.recomputed());
    sums.add(state.audit.recomputed());
    sums.add(state.unlinked.recomputed());
    assert_eq!(state.digests(), sums.digests(), "digests are kept as computed from scratch");

    let again = snapshot::decode(&snapshot::encode(state)).expect("a state that was encoded");
    assert_eq!(again.digests(), state.digests());
    assert_eq!(again.derived, state.derived, "what is derived is kept as built from scratch");
    assert_eq!(again.index, state.index);

    state.streams.map().values().for_each(|stream| check_stream(state, stream));
    for (session, _) in state.live.map() {
        assert_eq!(state.session_of(session.node), Some(*session), "progress is kept of registered sessions");
    }
    for node in state.nodes() {
        if let Some(live) = &node.live {
            assert_eq!(live.session.epoch, node.highest);
            assert!(state.live.get(&live.session).is_some());
            assert!(state.retired(live.session).is_none(), "an ended session is never registered");
        }
        let counted = state.streams.map().values().filter(|stream| match stream.ownership {
            Ownership::Placed(on) => on == node.id && !stream.deleted,
            Ownership::Opened(session) => session.node == node.id,
            _ => false,
        });
        assert_eq!(state.assigned(node.id).total(), counted.count() as u64, "counts equal a recount");
    }
    for object in state.unlinked() {
        assert!(!state.refers_to(object), "an object that waits to be deleted is referred to");
    }
}

fn check_stream(state: &State, stream: &Stream) {
    let mut end = stream.fork.map_or(stream.start, |fork| fork.at);
    for run in stream.runs.iter() {
        assert_eq!(run.start, end, "runs are contiguous");
        assert!(run.end > run.start);
        assert!(state.refers_to(run.object));
        end = run.end;
    }
    assert_eq!(end, stream.end);
    assert!(stream.id < state.next_stream);
    if let Ownership::Opened(session) = stream.ownership {
        let ended = state.retired(session);
        let registered = state.session_state(session) == SessionState::Registered;
        assert!(registered || ended.is_some_and(|ended| !ended.recovered), "open in a session that is gone");
        assert!(stream.epoch > StreamEpoch(0));
    } else {
        assert_eq!(stream.transfer, None, "only an open stream can have a pending move");
    }
    if let Some(Transfer { source, target }) = stream.transfer {
        assert_ne!(source, target);
        assert!(state.session_of(target).is_some(), "a move to a node that is gone");
    }
    if let Some(fork) = stream.fork {
        let source = state.stream(fork.source).expect("a source is kept while it has forks");
        assert!(fork.at >= source.start && fork.at <= source.end);
        assert!(source.forks > 0);
    }
    assert!(!stream.deleted || stream.forks > 0, "a deleted stream is kept for its forks only");
}

/// What may change from one state to the next.
pub(crate) fn check_step(before: &State, after: &State) {
    assert!(after.next_stream >= before.next_stream, "ids are never used twice");
    for (id, old) in before.streams.map() {
        let Some(new) = after.stream(*id) else {
            continue;
        };
        assert!(new.epoch >= old.epoch, "stream epochs only grow");
        assert!(new.end >= old.end, "the committed end never goes back");
        assert!(!old.eof || (new.eof && new.end == old.end), "the end is final");
        if let Ownership::Opened(session) = new.ownership
            && new.ownership != old.ownership
        {
            assert_eq!(before.session_state(session), SessionState::Registered);
            assert!(new.epoch > old.epoch, "every open is a new epoch");
        }
    }
    for node in before.nodes() {
        let now = after.node(node.id).expect("nodes are never forgotten");
        assert!(now.highest >= node.highest, "epochs only grow");
    }
    for old in before.all_retired() {
        let new = after.retired(old.session).expect("ended sessions are never forgotten");
        assert_eq!(new.progress.trim, old.progress.trim, "the trim point of an ended session stays");
        assert!(new.recovered || !old.recovered);
    }
    for (session, old) in before.live.map() {
        if let Some(new) = after.live.get(session) {
            assert!(new.trim >= old.trim && new.number >= old.number);
        }
    }
}
