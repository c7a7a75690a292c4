//! The checker itself: a history without a fault passes, and each kind of planted fault is found.

use super::*;

fn id(writer: u64, number: u64) -> RecordId {
    RecordId { writer, number }
}

fn at(position: usize) -> String {
    if position == 0 { "-1".to_owned() } else { format!("{position:08}") }
}

fn entry(began: u64, ended: u64, event: Event) -> Entry {
    let (began, ended) = (Duration::from_millis(began), Duration::from_millis(ended));
    Entry { stream: "/s".to_owned(), began, ended, event }
}

fn ack(began: u64, ended: u64, record: RecordId, next: usize) -> Entry {
    let outcome = Outcome::Acked { next: at(next), by: "http://n1".to_owned() };
    entry(began, ended, Event::Append { record, outcome })
}

fn unknown(began: u64, ended: u64, record: RecordId) -> Entry {
    entry(began, ended, Event::Append { record, outcome: Outcome::Unknown { why: "503".to_owned() } })
}

fn read(began: u64, ended: u64, from: usize, records: &[RecordId]) -> Entry {
    let body: String = records.iter().map(|r| r.line()).collect();
    let next = at(from + body.len());
    entry(began, ended, Event::Read { reader: 1, from: at(from), next, body, up_to_date: true })
}

fn len(records: &[RecordId]) -> usize {
    records.iter().map(|r| r.line().len()).sum()
}

const A: RecordId = RecordId { writer: 1, number: 0 };
const B: RecordId = RecordId { writer: 1, number: 1 };
const C: RecordId = RecordId { writer: 2, number: 0 };

fn healthy() -> Vec<Entry> {
    vec![
        ack(0, 1, A, len(&[A])),
        unknown(1, 3, C),
        read(2, 4, 0, &[A]),
        ack(4, 5, B, len(&[A, C, B])),
        read(6, 7, len(&[A]), &[C, B]),
        read(8, 9, 0, &[A, C, B]),
    ]
}

#[test]
fn a_history_without_a_fault_passes() {
    assert_eq!(check_stream(&healthy()), vec![]);
}

#[test]
fn a_record_knows_itself() {
    for writer in 0..50 {
        for number in 0..50 {
            let line = id(writer, number).line();
            assert_eq!(RecordId::parse(line.trim_end()), Some(id(writer, number)));
            assert_eq!(RecordId::parse(&line[..line.len() - 2]).filter(|_| line.len() > 8), None);
        }
    }
}

#[test]
fn a_lost_append_is_found() {
    let entries = [ack(0, 1, A, len(&[A])), ack(1, 2, B, len(&[A, B])), read(3, 4, 0, &[A])];
    assert_eq!(check_stream(&entries), vec![Violation::Lost(B)]);
}

#[test]
fn an_append_that_is_there_twice_is_found() {
    let acked = [ack(0, 1, A, len(&[A])), read(3, 4, 0, &[A, A])];
    assert_eq!(check_stream(&acked), vec![Violation::Twice(A)]);
    let not_acked = [unknown(0, 1, A), read(3, 4, 0, &[A, A])];
    assert_eq!(check_stream(&not_acked), vec![Violation::Twice(A)]);
}

#[test]
fn a_record_of_nobody_is_found() {
    let whole = [ack(0, 1, A, len(&[A])), read(3, 4, 0, &[A, C])];
    assert_eq!(check_stream(&whole), vec![Violation::Foreign(format!("{C:?}"))]);
    let mut torn = vec![ack(0, 1, A, len(&[A])), read(3, 4, 0, &[A])];
    if let Event::Read { body, next, .. } = &mut torn[1].event {
        body.push_str("1.1");
        *next = at(body.len());
    }
    assert_eq!(check_stream(&torn), vec![Violation::Foreign("1.1".to_owned())]);
}

#[test]
fn a_changed_order_is_found() {
    let entries = [ack(0, 1, A, len(&[B, A])), ack(0, 2, B, len(&[B])), read(3, 4, 0, &[B, A])];
    assert_eq!(check_stream(&entries), vec![Violation::Order(A, B)]);
}

#[test]
fn changed_bytes_are_found() {
    let mut entries = healthy();
    entries.push(read(10, 11, len(&[A]), &[B, C]));
    assert!(matches!(check_stream(&entries)[..], [Violation::Changed(_), ..]));
}

#[test]
fn an_offset_with_two_positions_is_found() {
    let moved = [ack(0, 1, A, len(&[A])), ack(1, 2, B, len(&[A, B])), read(3, 4, 0, &[A, C, B]), {
        let mut short = read(4, 5, 0, &[A, C, B]);
        if let Event::Read { body, up_to_date, .. } = &mut short.event {
            body.truncate(len(&[A]));
            *up_to_date = false;
        }
        short
    }];
    assert!(check_stream(&moved).iter().any(|v| matches!(v, Violation::Offset(_))));
    // An acknowledgement that names a place where another record ends.
    let wrong = [
        ack(0, 1, A, len(&[A])),
        ack(1, 2, B, len(&[A, C])),
        unknown(1, 2, C),
        read(3, 4, 0, &[A, C]),
        read(5, 6, len(&[A, C]), &[B]),
    ];
    assert!(check_stream(&wrong).contains(&Violation::Offset(at(len(&[A, C])))));
}

#[test]
fn offsets_that_go_back_are_found() {
    let back = |v: &Violation| matches!(v, Violation::Back { .. });
    let acks = [ack(0, 1, A, len(&[B, A])), ack(2, 3, C, len(&[C])), read(4, 5, 0, &[C, A])];
    assert!(check_stream(&acks).iter().any(back));
    let mut reads = healthy();
    reads.push(read(10, 11, len(&[A]), &[]));
    assert!(check_stream(&reads).iter().any(back));
}

#[test]
fn a_stale_read_is_found() {
    let stale = |v: &Violation| matches!(v, Violation::Stale { .. });
    // It lacks what was acknowledged before it began.
    let acked = [ack(0, 1, A, len(&[A])), read(2, 3, 0, &[]), read(4, 5, 0, &[A])];
    assert!(check_stream(&acked).iter().any(stale));
    // It lacks what another read had shown, though nobody was told that it is there.
    let shown = [unknown(0, 9, A), read(1, 2, 0, &[A]), read(3, 4, 0, &[]), read(10, 11, 0, &[A])];
    assert!(check_stream(&shown).iter().any(stale));
}

#[test]
fn two_acknowledgements_at_one_position_are_found() {
    let entries =
        [ack(0, 1, A, len(&[A])), ack(0, 1, C, len(&[A])), read(3, 4, 0, &[A]), read(5, 6, len(&[A]), &[C])];
    assert!(check_stream(&entries).contains(&Violation::SamePosition(A, C)));
}

#[test]
fn a_history_that_nobody_read_to_its_end_is_no_proof() {
    let entries = [read(0, 1, 0, &[]), ack(1, 2, A, len(&[A]))];
    assert!(check_stream(&entries).contains(&Violation::Unread));
}
