//! The stored form: what comes back is what was there, and garbage is refused, not believed.

use super::*;
use crate::snapshot::{DecodeError, decode, encode, peek};
use proptest::prelude::*;

/// A state with something of everything.
fn full() -> Cluster {
    let mut cluster = Cluster::of(4);
    let (one, two, three) = (session(1, 100), session(2, 100), session(3, 100));
    for n in 0..20 {
        cluster.create(one, &format!("/{n}"));
    }
    applied(cluster.place(one, StreamId(1)));
    let stream = cluster.opened(two, "/opened");
    for n in 0..20 {
        applied(cluster.commit_one(two, stream, 1, run(two, n, n, n + 1)));
    }
    let fork = Some(ForkOf { source: stream, epoch: StreamEpoch(1), at: Position(5) });
    cluster.create_as(two, CreateStream { fork, ..create("/fork") });
    applied(cluster.delete(two, stream, 1));
    let moving = cluster.opened(three, "/moving");
    applied(cluster.commit_one(three, moving, 1, run(three, 0, 0, 9)));
    applied(cluster.transfer(one, moving, 1, 2));
    let gone = cluster.opened(one, "/gone");
    applied(cluster.commit_one(one, gone, 1, run(one, 0, 0, 9)));
    applied(cluster.delete(one, gone, 1));
    applied(cluster.propose(one, policies::put("p", &[7; 1000])));
    applied(cluster.propose(one, Command::ActivatePolicy { policy: sha256(&[7; 1000]) }));
    applied(cluster.evict(one, three));
    applied(cluster.register(registration(4, 200)));
    cluster
}

#[test]
fn a_state_comes_back_as_it_was() {
    let cluster = full();
    let bytes = encode(&cluster.state);
    let back = decode(&bytes).expect("it was just encoded");
    assert_eq!(back.digests(), cluster.state.digests());
    assert_eq!(back.index(), cluster.index);
    assert_eq!(encode(&back), bytes);
    assert_eq!(peek(&bytes), Some((cluster.state.digests(), cluster.index)));
    assert_eq!(back.policies().next().map(|policy| policy.component.len()), Some(1000));
    assert_eq!(decode(&encode(&State::new())).expect("empty").digests(), State::new().digests());
}

#[test]
fn content_types_are_shared_again_after_reading() {
    let cluster = full();
    let back = decode(&encode(&cluster.state)).expect("it was just encoded");
    let types: Vec<_> = back.streams_by_name(None, "").map(|stream| stream.content_type.clone()).collect();
    assert!(types.windows(2).all(|pair| std::sync::Arc::ptr_eq(&pair[0], &pair[1])));
}

#[test]
fn every_damaged_bit_is_noticed() {
    let bytes = encode(&full().state);
    assert_eq!(decode(&bytes[..20]).err(), Some(DecodeError::NotASnapshot));
    assert_eq!(decode(&bytes[..bytes.len() - 1]).err(), Some(DecodeError::Checksum));
    let mut newer = bytes.clone();
    newer[8] = 99;
    assert_eq!(decode(&newer).err(), Some(DecodeError::Version { found: 99 }));
    for at in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(decode(&damaged).is_err(), "byte {at}");
    }
}

/// Gives a body the header that it would have.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = encode(&State::new())[..12].to_vec();
    bytes.extend(sha256(body).0);
    bytes.extend(body);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(decode(&bytes).is_err());
        prop_assert!(decode(&sealed(&bytes)).is_err());
        let _ = peek(&bytes);
        let _ = peek(&sealed(&bytes));
    }

    /// A body that is nearly right, under a checksum that fits it: refused or harmless, never a panic.
    #[test]
    fn a_changed_body_never_panics(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6)) {
        let bytes = encode(&full().state);
        let mut body = bytes[44..].to_vec();
        let len = body.len();
        for (at, value) in changes {
            body[usize::from(at) % len] = value;
        }
        if let Ok(state) = decode(&sealed(&body)) {
            let _ = (encode(&state), state.totals().total(), state.view());
        }
    }
}
