use super::*;
use proptest::prelude::*;

const SESSION: Session = Session { node: NodeId(3), epoch: Epoch(1_700_000_000_000) };

fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

fn record() -> impl Strategy<Value = Record> {
    let numbers = any::<(u64, u64, u32, bool)>();
    (numbers, prop_oneof![9 => bytes(200), 1 => bytes(40_000)], bytes(60)).prop_map(
        |((stream, epoch, start, eof), bytes, meta)| Record {
            stream: StreamId(stream),
            epoch: StreamEpoch(epoch),
            start: Position(u64::from(start)),
            bytes,
            eof,
            meta,
        },
    )
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    proptest::collection::vec(record(), 0..6)
}

fn join(parts: &[Bytes]) -> Bytes {
    parts.concat().into()
}

proptest! {
    #[test]
    fn round_trip(before in proptest::option::of(records()), records in records(), seq: u64, nonce: u128) {
        let before = before.map(|records| extents(&records));
        let object = join(&encode(SESSION, nonce, WalSeq(seq), before.as_deref(), &records));
        let decoded = decode(SESSION, WalSeq(seq), &object);
        prop_assert_eq!(decoded, Ok(Decoded::Records { nonce, before, records }));
    }

    #[test]
    fn an_altered_object_never_gives_an_altered_record(records in records(), bit: proptest::sample::Index) {
        let mut object = encode(SESSION, 7, WalSeq(1), None, &records).concat();
        let bit = bit.index(object.len() * 8);
        object[bit / 8] ^= 1 << (bit % 8);
        let damage = decode(SESSION, WalSeq(1), &object.into()).expect_err("altered");
        prop_assert!(damage.salvaged.len() <= records.len());
        prop_assert!(damage.salvaged.iter().all(|record| records.contains(record)));
    }

    #[test]
    fn a_cut_object_gives_a_prefix(records in records(), cut: proptest::sample::Index) {
        let object = join(&encode(SESSION, 7, WalSeq(1), None, &records));
        let cut = object.slice(..cut.index(object.len()));
        let damage = decode(SESSION, WalSeq(1), &cut).expect_err("cut");
        prop_assert!(records.starts_with(&damage.salvaged));
    }

    #[test]
    fn garbage_never_panics(mut garbage in proptest::collection::vec(any::<u8>(), 0..400), seal: bool) {
        let _ = decode(SESSION, WalSeq(1), &garbage.clone().into());
        // Behind a header that is right.
        let kind = if seal { Kind::Seal } else { Kind::Records };
        let digest = header::digest(&[garbage.clone().into()]);
        let body = garbage.len() as u64;
        let header = Header { kind, session: SESSION, nonce: 0, seq: 1, count: u32::MAX, body, digest };
        let mut object = header.encode().to_vec();
        object.append(&mut garbage);
        let _ = decode(SESSION, WalSeq(1), &object.into());
    }
}

#[test]
fn an_object_of_another_session_or_number_is_refused() {
    let object = join(&encode(SESSION, 7, WalSeq(1), None, &[]));
    let other = Session { epoch: Epoch(2), ..SESSION };
    assert!(decode(other, WalSeq(1), &object).is_err());
    assert!(decode(SESSION, WalSeq(2), &object).is_err());
    assert!(decode(SESSION, WalSeq(1), &object).is_ok());
}

#[test]
fn a_record_moved_to_another_number_or_place_does_not_pass() {
    let record = Record {
        stream: StreamId(1),
        epoch: StreamEpoch(1),
        start: Position(0),
        bytes: Bytes::from_static(b"abc"),
        eof: false,
        meta: Bytes::new(),
    };
    let object = join(&encode(SESSION, 7, WalSeq(1), None, &[record.clone(), record]));
    let body = object.slice(header::LEN + 8..);
    assert_eq!(take_records(SESSION, WalSeq(1), &body, 2).1, 0);
    assert_eq!(take_records(SESSION, WalSeq(2), &body, 2).1, 2);
    let second = body.slice(RECORD + 3..);
    assert_eq!(take_records(SESSION, WalSeq(1), &second, 1).1, 1);
}

#[test]
fn a_seal_names_its_maker() {
    let by = Session { node: NodeId(9), epoch: Epoch(8) };
    let object = join(&encode_seal(SESSION, 5, WalSeq(4), by));
    assert_eq!(decode(SESSION, WalSeq(4), &object), Ok(Decoded::Seal { by }));
    assert!(decode(SESSION, WalSeq(4), &object.slice(..object.len() - 1)).is_err());
}

#[test]
fn damage_is_named() {
    for (object, reason) in [
        (Bytes::new(), "0 bytes are too few for a header"),
        (Bytes::from(vec![0; 4096]), "it is filled with zeros"),
        (Bytes::from(vec![1; 4096]), "it does not begin as an object of ours"),
    ] {
        assert_eq!(decode(SESSION, WalSeq(0), &object).expect_err("damaged").reason, reason);
    }
}
