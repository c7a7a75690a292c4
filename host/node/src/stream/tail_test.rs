//! Tables of admission: each row is a request against a state, and what it must be answered.

use super::super::api::InvalidBody;
use super::*;

fn tail() -> Tail {
    Tail {
        content_type: "Text/Plain; charset=utf-8".into(),
        end: Position(10),
        eof: false,
        writers: Writers::default(),
        damaged: None,
        limit: 100,
    }
}

fn append(body: &'static str) -> Append {
    Append {
        content_type: Some("text/plain".into()),
        body: Ok(Bytes::from_static(body.as_bytes())),
        eof: false,
        producer: None,
        seq: None,
    }
}

fn by(id: &str, epoch: u64, seq: u64) -> Option<Producer> {
    Some(Producer { id: id.into(), epoch, seq })
}

fn admit(tail: &mut Tail, append: &Append) -> Result<Appended, StreamError> {
    match tail.admit(append, 7)? {
        Admission::Duplicate(appended) => Ok(appended),
        Admission::Admit(admitted) => {
            assert_eq!(admitted.start, tail.end);
            assert_eq!(admitted.meta.time_ms, 7);
            tail.accept(&admitted);
            let producer = append.producer.as_ref().map(|p| (p.epoch, p.seq));
            Ok(Appended { tail: tail.end, eof: tail.eof, duplicate: false, producer })
        }
    }
}

fn ok(tail: u64, producer: Option<(u64, u64)>) -> Result<Appended, StreamError> {
    Ok(Appended { tail: Position(tail), eof: false, duplicate: false, producer })
}

fn again(tail: u64, producer: Option<(u64, u64)>) -> Result<Appended, StreamError> {
    Ok(Appended { tail: Position(tail), eof: false, duplicate: true, producer })
}

#[test]
fn appends_get_positions_in_order() {
    let mut tail = tail();
    assert_eq!(admit(&mut tail, &append("abc")), ok(13, None));
    assert_eq!(admit(&mut tail, &append("d")), ok(14, None));
}

#[test]
fn the_first_check_that_fails_decides() {
    let closed = Tail { eof: true, ..tail() };
    let damaged = Tail { damaged: Some(Position(5)), ..tail() };
    let mut with_seq = tail();
    with_seq.writers.seq = Some("b".into());
    let bad = || Append { body: Err(InvalidBody("bad".into())), ..append("") };
    let alien = |a: Append| Append { content_type: Some("application/json".into()), ..a };
    let untyped = |a: Append| Append { content_type: None, ..a };
    let gap = |a: Append| Append { producer: by("p", 0, 3), ..a };
    let low = |a: Append| Append { seq: Some("a".into()), ..a };
    let expected = tail().content_type;
    let gap_error = StreamError::ProducerGap { expected: 0, received: 3 };
    let rows: Vec<(&str, &Tail, Append, StreamError)> = vec![
        ("empty, open", &with_seq, append(""), StreamError::EmptyBody),
        ("empty before closed", &closed, append(""), StreamError::EmptyBody),
        ("untyped before closed", &closed, untyped(append("x")), StreamError::ContentTypeMissing),
        ("closed", &closed, append("x"), StreamError::Closed { tail: Position(10) }),
        ("closed before type", &closed, alien(append("x")), StreamError::Closed { tail: Position(10) }),
        ("closed before body", &closed, bad(), StreamError::Closed { tail: Position(10) }),
        ("closed before producer", &closed, gap(append("x")), StreamError::Closed { tail: Position(10) }),
        (
            "type before damaged",
            &damaged,
            alien(append("x")),
            StreamError::ContentType { expected: expected.clone() },
        ),
        ("type before producer", &with_seq, alien(gap(append("x"))), StreamError::ContentType { expected }),
        ("damaged", &damaged, append("x"), StreamError::Damaged { at: Position(5) }),
        ("producer before seq", &with_seq, low(gap(append("x"))), gap_error),
        ("seq before body", &with_seq, low(bad()), StreamError::SeqConflict { last: "b".into() }),
        ("body", &with_seq, bad(), StreamError::InvalidBody(InvalidBody("bad".into()))),
    ];
    for (name, tail, append, error) in rows {
        assert_eq!(tail.admit(&append, 7), Err(error), "{name}");
    }
    let large = Append { body: Ok(Bytes::from(vec![0; 101])), ..append("") };
    assert_eq!(tail().admit(&large, 7), Err(StreamError::TooLarge { limit: 100 }));
}

#[test]
fn content_types_are_compared_without_parameters() {
    let same = Append { content_type: Some(" TEXT/plain ;x=y".into()), ..append("x") };
    assert_eq!(admit(&mut tail(), &same), ok(11, None));
    let closing = Append { content_type: Some("image/png".into()), eof: true, ..append("") };
    assert!(matches!(tail().admit(&closing, 7), Ok(Admission::Admit(_))), "a close without body has no type");
}

#[test]
fn producers_are_served_once_and_in_order() {
    let mut tail = tail();
    let rows = [
        (by("p", 1, 1), Err(StreamError::ProducerGap { expected: 0, received: 1 })),
        (by("p", 1, 0), ok(11, Some((1, 0)))),
        (by("p", 1, 0), again(11, Some((1, 0)))),
        (by("p", 1, 2), Err(StreamError::ProducerGap { expected: 1, received: 2 })),
        (by("p", 1, 1), ok(12, Some((1, 1)))),
        (by("p", 1, 0), again(12, Some((1, 1)))),
        (by("q", 0, 0), ok(13, Some((0, 0)))),
        (by("p", 0, 2), Err(StreamError::ProducerFenced { epoch: 1 })),
        (by("p", 2, 2), Err(StreamError::ProducerStart)),
        (by("p", 2, 0), ok(14, Some((2, 0)))),
        (by("p", 1, 2), Err(StreamError::ProducerFenced { epoch: 2 })),
        (by("p", 2, 1), ok(15, Some((2, 1)))),
    ];
    for (row, (producer, expected)) in rows.into_iter().enumerate() {
        let request = Append { producer, ..append("x") };
        assert_eq!(admit(&mut tail, &request), expected, "row {row}");
    }
}

#[test]
fn a_repeat_wins_over_stream_seq_and_a_bad_repeat_over_its_body() {
    let mut tail = tail();
    let first = Append { producer: by("p", 0, 0), seq: Some("a".into()), ..append("x") };
    assert_eq!(admit(&mut tail, &first), ok(11, Some((0, 0))));
    assert_eq!(admit(&mut tail, &first), again(11, Some((0, 0))));
    let bad = Append { body: Err(InvalidBody("bad".into())), ..first };
    assert_eq!(admit(&mut tail, &bad), again(11, Some((0, 0))));
}

#[test]
fn a_refused_append_changes_no_producer() {
    let mut tail = tail();
    let bad = Append { body: Err(InvalidBody("bad".into())), producer: by("p", 0, 0), ..append("") };
    assert!(admit(&mut tail, &bad).is_err());
    assert_eq!(admit(&mut tail, &Append { producer: by("p", 0, 0), ..append("x") }), ok(11, Some((0, 0))));
}

#[test]
fn stream_seq_grows_byte_by_byte() {
    let mut tail = tail();
    for (seq, grows) in
        [("09", true), ("1", true), ("09", false), ("1", false), ("10", true), ("a", true), ("B", false)]
    {
        let request = Append { seq: Some(seq.into()), ..append("x") };
        assert_eq!(admit(&mut tail, &request).is_ok(), grows, "{seq}");
    }
}

#[test]
fn closing_is_final_and_may_be_repeated() {
    let closed_at = |tail: u64, duplicate, producer| {
        Ok(Appended { tail: Position(tail), eof: true, duplicate, producer })
    };
    let mut plain = tail();
    let close = Append { content_type: None, eof: true, ..append("") };
    assert_eq!(admit(&mut plain, &close), closed_at(10, false, None));
    assert_eq!(admit(&mut plain, &close), closed_at(10, true, None));
    let with_body = Append { eof: true, ..append("x") };
    let error = Err(StreamError::Closed { tail: Position(10) });
    assert_eq!(admit(&mut plain, &with_body), error);
    assert_eq!(admit(&mut plain, &Append { producer: by("p", 0, 0), ..close.clone() }), error);

    let mut produced = tail();
    let last = Append { eof: true, producer: by("p", 0, 0), ..append("end") };
    assert_eq!(admit(&mut produced, &last), closed_at(13, false, Some((0, 0))));
    assert_eq!(admit(&mut produced, &last), closed_at(13, true, Some((0, 0))));
    let error = Err(StreamError::Closed { tail: Position(13) });
    assert_eq!(admit(&mut produced, &Append { producer: by("p", 0, 1), ..last.clone() }), error);
    assert_eq!(admit(&mut produced, &Append { producer: by("q", 0, 0), ..last }), error);
    assert_eq!(admit(&mut produced, &close), closed_at(13, true, None));
}
