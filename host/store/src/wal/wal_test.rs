//! The log against a store that fails in every way that it is known to.

use super::seal::{SealedLog, seal};
use super::*;
use crate::recover::{Replayed, delete_log, replay};
use crate::testing::{Fault, Faults, Gate, Op};
use crate::{Kind, Store, layout};
use futures_util::StreamExt;
use headwater_env::Env;
use headwater_metadata::{Epoch, NodeId, Session, WalForm};
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;
use std::time::Duration;

const N1: Session = Session { node: NodeId(1), epoch: Epoch(100) };
const N2: Session = Session { node: NodeId(2), epoch: Epoch(200) };
const NONCE: u128 = 77;

/// A faulty store and the sound one below it.
fn stores() -> (Store, Store, Faults) {
    let below: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let faults = Faults::default();
    let sound = Store::from_object_store(below, Kind::Memory, Env::real());
    (sound.wrapped(|objects| faults.wrap(objects)), sound, faults)
}

fn start(store: &Store, session: Session) -> Wal {
    Wal::start(store, session, NONCE, WalOptions::default(), Arc::new(()))
}

fn record(stream: u64, start: u64, text: &str) -> Record {
    Record {
        stream: StreamId(stream),
        epoch: StreamEpoch(1),
        start: Position(start),
        bytes: Bytes::copy_from_slice(text.as_bytes()),
        eof: false,
        meta: Bytes::from_static(b"meta"),
    }
}

async fn submit(wal: &Wal, record: Record) -> Ticket {
    let permit = wal.reserve(record.size()).await.expect("memory");
    wal.submit(permit, record)
}

/// Lets the tasks do what they can without time passing.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

async fn read_back(store: &Store, log: &SealedLog) -> Vec<Record> {
    let mut all = Vec::new();
    let mut replayed = replay(store, log);
    while let Some(object) = replayed.next().await {
        match object {
            Replayed::Records { records, .. } => all.extend(records),
            damaged => panic!("{damaged:?}"),
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn what_is_acknowledged_is_replayed_in_order() {
    let (store, _, _) = stores();
    let wal = start(&store, N1);
    let mut tickets = Vec::new();
    for n in 0..100 {
        tickets.push(submit(&wal, record(n % 7, n, "x")).await);
        if n % 10 == 0 {
            settle().await;
        }
    }
    let mut last = WalSeq(0);
    for ticket in tickets {
        let seq = ticket.await.expect("durable");
        assert!(seq >= last);
        last = seq;
    }
    assert_eq!(wal.durable(), WalSeq(last.0 + 1));
    let log = seal(&store, N1, WalForm::Objects, WalSeq(0), N2).await.expect("sealed");
    assert_eq!(log, SealedLog { session: N1, form: WalForm::Objects, from: WalSeq(0), end: wal.durable() });
    let records = read_back(&store, &log).await;
    assert_eq!(records.len(), 100);
    assert!(records.iter().enumerate().all(|(n, found)| *found == record(n as u64 % 7, n as u64, "x")));
}

#[tokio::test(start_paused = true)]
async fn records_that_arrive_meanwhile_share_the_next_object() {
    let (store, _, faults) = stores();
    let gate = Gate::default();
    faults.add(Op::Put, "wal/", Fault::Late(gate.clone()), 1);
    let options = WalOptions { in_flight: Some(1), ..WalOptions::default() };
    let wal = Wal::start(&store, N1, NONCE, options, Arc::new(()));
    let first = submit(&wal, record(1, 0, "x")).await;
    settle().await;
    let mut others = Vec::new();
    for n in 1..64 {
        others.push(submit(&wal, record(1, n, "x")).await);
    }
    settle().await;
    gate.open();
    assert_eq!(first.await, Ok(WalSeq(0)));
    for ticket in others {
        assert_eq!(ticket.await, Ok(WalSeq(1)));
    }
    let counters = wal.counters();
    assert_eq!((counters.objects, counters.records, counters.largest_group), (2, 64, 63));
    assert_eq!((counters.overlapping, counters.in_flight_max), (0, 1));
}

/// Two objects: the second is stored while the first is on its way. Says how often that was seen.
async fn overlap(in_flight: usize) -> (u64, u64) {
    let (store, sound, faults) = stores();
    let gate = Gate::default();
    faults.add(Op::Put, layout::wal(N1, WalSeq(0)), Fault::Late(gate.clone()), 1);
    let options = WalOptions { in_flight: Some(in_flight), ..WalOptions::default() };
    let wal = Wal::start(&store, N1, NONCE, options, Arc::new(()));
    let mut first = submit(&wal, record(1, 0, "a")).await;
    settle().await;
    let mut second = submit(&wal, record(1, 1, "b")).await;
    settle().await;
    let stored = sound.objects().head(&layout::wal(N1, WalSeq(1))).await.is_ok();
    assert_eq!(stored, in_flight > 1);
    // Stored, and still not acknowledged: the one before it is not.
    assert!(futures_util::poll!(&mut second).is_pending());
    assert!(futures_util::poll!(&mut first).is_pending());
    assert_eq!(wal.durable(), WalSeq(0));
    gate.open();
    assert_eq!(first.await, Ok(WalSeq(0)));
    assert_eq!(second.await, Ok(WalSeq(1)));
    let counters = wal.counters();
    (counters.overlapping, counters.in_flight_max)
}

#[tokio::test(start_paused = true)]
async fn uploads_overlap_and_are_acknowledged_in_order() {
    assert_eq!(overlap(4).await, (1, 2));
    assert_eq!(overlap(1).await, (0, 1), "the counter must see that nothing overlapped");
}

#[tokio::test(start_paused = true)]
async fn the_sink_hears_of_each_object_in_order_before_its_tickets() {
    #[derive(Default)]
    struct Heard(Mutex<Vec<(WalSeq, usize)>>);
    impl Sink for Heard {
        fn durable(&self, seq: WalSeq, records: &[Record]) {
            self.0.lock().push((seq, records.len()));
        }
    }
    let (store, _, faults) = stores();
    let gate = Gate::default();
    faults.add(Op::Put, layout::wal(N1, WalSeq(0)), Fault::Late(gate.clone()), 1);
    let heard = Arc::new(Heard::default());
    let wal = Wal::start(&store, N1, NONCE, WalOptions::default(), heard.clone());
    let first = submit(&wal, record(1, 0, "a")).await;
    settle().await;
    let second = submit(&wal, record(1, 1, "b")).await;
    settle().await;
    assert!(heard.0.lock().is_empty());
    // Nobody waits for the first any more: it is logged all the same.
    drop(first);
    gate.open();
    second.await.expect("durable");
    assert_eq!(*heard.0.lock(), [(WalSeq(0), 1), (WalSeq(1), 1)]);
}

#[tokio::test(start_paused = true)]
async fn obj_03_a_lost_answer_is_told_from_a_rival() {
    for fault in [
        Fault::AnswerLost,
        Fault::DoneThenConflict,
        Fault::DoneThenPrecondition,
        Fault::DoneThenHang,
        Fault::Conflict,
        Fault::Unavailable,
        Fault::Hang,
    ] {
        let (store, _, faults) = stores();
        let wal = start(&store, N1);
        faults.add(Op::Put, "wal/", fault.clone(), 3);
        for n in 0..5 {
            let ticket = submit(&wal, record(1, n, "x")).await;
            assert_eq!(ticket.await, Ok(WalSeq(n)), "{fault:?}");
        }
        assert_eq!(faults.failed(), 3, "{fault:?}");
        let lost = store.counters().snapshot().lost_answers;
        let done = !matches!(fault, Fault::Conflict | Fault::Unavailable | Fault::Hang);
        assert_eq!(lost > 0, done, "{fault:?}");
        let log = seal(&store, N1, WalForm::Objects, WalSeq(0), N2).await.expect("sealed");
        assert_eq!(read_back(&store, &log).await.len(), 5, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn obj_03_a_real_rival_ends_the_session() {
    // The owner is paused before its put; a successor seals; the owner goes on.
    let (store, sound, faults) = stores();
    let wal = start(&store, N1);
    submit(&wal, record(1, 0, "a")).await.await.expect("durable");
    let gate = Gate::default();
    faults.add(Op::Put, "wal/", Fault::Late(gate.clone()), 1);
    let late = submit(&wal, record(1, 1, "b")).await;
    settle().await;
    let log = seal(&sound, N1, WalForm::Objects, WalSeq(0), N2).await.expect("sealed");
    assert_eq!(log.end, WalSeq(1));
    gate.open();
    assert_eq!(late.await, Err(WalError::Fenced { at: WalSeq(1) }));
    let ended = wal.ended().borrow().clone();
    assert_eq!(ended, Some(WalError::Fenced { at: WalSeq(1) }));
    assert_eq!(wal.reserve(10).await.err(), ended);
    assert_eq!(wal.prove().await.err(), ended);
    assert_eq!(read_back(&sound, &log).await, [record(1, 0, "a")]);
}

#[tokio::test(start_paused = true)]
async fn att_06_a_number_never_changes_its_contents() {
    // A: put 0 = {r1} times out and is still on its way; r2 arrives; the first copy lands.
    let (store, sound, faults) = stores();
    let gate = Gate::default();
    faults.add(Op::Put, "wal/", Fault::Late(gate.clone()), 1);
    faults.add(Op::Put, "wal/", Fault::Unavailable, 3);
    let options = WalOptions { in_flight: Some(1), ..WalOptions::default() };
    let wal = Wal::start(&store, N1, NONCE, options, Arc::new(()));
    let first = submit(&wal, record(1, 0, "r1")).await;
    settle().await;
    store.env().clock.sleep(Duration::from_secs(16)).await;
    let second = submit(&wal, record(1, 2, "r2")).await;
    gate.open();
    assert_eq!(first.await, Ok(WalSeq(0)));
    assert_eq!(second.await, Ok(WalSeq(1)));
    let log = seal(&sound, N1, WalForm::Objects, WalSeq(0), N2).await.expect("sealed");
    assert_eq!(read_back(&sound, &log).await, [record(1, 0, "r1"), record(1, 2, "r2")]);

    // A process cloned with its memory: equal session and nonce, other contents. Neither believes that
    // the other's object is its own.
    let clone = start(&sound, Session { epoch: Epoch(101), ..N1 });
    let twin = start(&sound, Session { epoch: Epoch(101), ..N1 });
    clone_and_twin(&clone, &twin).await;
}

async fn clone_and_twin(clone: &Wal, twin: &Wal) {
    submit(clone, record(1, 0, "of the one")).await.await.expect("durable");
    let lost = submit(twin, record(1, 0, "of the other")).await.await;
    assert!(matches!(lost, Err(WalError::Failed(_))), "{lost:?}");
    assert!(twin.ended().borrow().is_some());
}

#[tokio::test(start_paused = true)]
async fn att_06_a_store_that_ignores_the_condition_is_refused() {
    let (store, _, faults) = stores();
    store.probe().await.expect("a sound store");
    faults.add(Op::Put, "probe/", Fault::IgnoreCondition, 2);
    let error = store.probe().await.expect_err("no conditional puts");
    assert!(error.to_string().contains("If-None-Match"), "{error}");
    for (op, right) in [(Op::Put, "create"), (Op::Get, "read"), (Op::List, "list"), (Op::Delete, "delete")] {
        let (store, _, faults) = stores();
        faults.add(op, "probe", Fault::Denied, 100);
        let error = store.probe().await.expect_err("a right is missing").to_string();
        assert!(error.contains(&format!("refuses to {right}")), "{error}");
        assert!(op == Op::List || error.contains("403"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn att_18_a_proof_behind_a_seal_fails() {
    let (store, sound, faults) = stores();
    let wal = start(&store, N1);
    for n in 0..8 {
        submit(&wal, record(1, n, "x")).await.await.expect("durable");
    }
    // 1. Put 8 is slow. 2. The seal is created at 8. 3. The empty object 9 is created.
    let gate = Gate::default();
    faults.add(Op::Put, layout::wal(N1, WalSeq(8)), Fault::Late(gate.clone()), 1);
    let slow = submit(&wal, record(1, 8, "x")).await;
    settle().await;
    let log = seal(&sound, N1, WalForm::Objects, WalSeq(0), N2).await.expect("sealed");
    assert_eq!(log.end, WalSeq(8));
    let prover = wal.clone();
    let proof = tokio::spawn(async move { prover.prove().await });
    settle().await;
    sound.objects().head(&layout::wal(N1, WalSeq(9))).await.expect("9 was created behind the seal");
    assert!(!proof.is_finished());
    gate.open();
    assert_eq!(proof.await.expect("joined"), Err(WalError::Fenced { at: WalSeq(8) }));
    assert_eq!(slow.await, Err(WalError::Fenced { at: WalSeq(8) }));
    assert_eq!(read_back(&sound, &log).await.len(), 8, "what lies behind the seal is never read");
}

#[tokio::test(start_paused = true)]
async fn one_proof_serves_all_who_asked_before_it_began() {
    let (store, _, faults) = stores();
    let gate = Gate::default();
    faults.add(Op::Put, "wal/", Fault::Late(gate.clone()), 1);
    let options = WalOptions { in_flight: Some(1), ..WalOptions::default() };
    let wal = Wal::start(&store, N1, NONCE, options, Arc::new(()));
    let first = submit(&wal, record(1, 0, "x")).await;
    settle().await;
    let mut proofs = Vec::new();
    for _ in 0..10 {
        let wal = wal.clone();
        proofs.push(tokio::spawn(async move { wal.prove().await }));
    }
    settle().await;
    assert!(proofs.iter().all(|proof| !proof.is_finished()), "the object on its way began before they asked");
    gate.open();
    first.await.expect("durable");
    for proof in proofs {
        proof.await.expect("joined").expect("proven");
    }
    let counters = wal.counters();
    assert_eq!((counters.objects, counters.empty, counters.proofs), (2, 1, 10));
}

#[tokio::test(start_paused = true)]
async fn a_seal_races_an_upload_and_one_of_them_has_the_number() {
    // The upload was done and its answer is late: the seal goes behind it, and the record counts.
    let (store, sound, faults) = stores();
    let gate = Gate::default();
    faults.add(Op::Put, "wal/", Fault::AnswerLate(gate.clone()), 1);
    let wal = start(&store, N1);
    let ticket = submit(&wal, record(1, 0, "x")).await;
    settle().await;
    let log = seal(&sound, N1, WalForm::Objects, WalSeq(0), N2).await.expect("sealed");
    assert_eq!(log.end, WalSeq(1));
    gate.open();
    assert_eq!(ticket.await, Ok(WalSeq(0)), "acknowledged, and in what the successor reads");
    assert_eq!(read_back(&sound, &log).await, [record(1, 0, "x")]);
    let next = submit(&wal, record(1, 1, "y")).await.await;
    assert_eq!(next, Err(WalError::Fenced { at: WalSeq(1) }));
}

#[tokio::test(start_paused = true)]
async fn what_is_below_the_seal_is_still_acknowledged() {
    // 0 is slow, 1 finds a seal? It cannot: a seal goes to the first absent number. So 1 is fenced
    // only when 0 exists, and 0 may be acknowledged afterwards.
    let (store, sound, faults) = stores();
    let gate = Gate::default();
    faults.add(Op::Put, layout::wal(N1, WalSeq(0)), Fault::AnswerLate(gate.clone()), 1);
    let wal = start(&store, N1);
    let first = submit(&wal, record(1, 0, "x")).await;
    settle().await;
    let log = seal(&sound, N1, WalForm::Objects, WalSeq(0), N2).await.expect("sealed");
    let second = submit(&wal, record(1, 1, "y")).await.await;
    assert_eq!(second, Err(WalError::Fenced { at: WalSeq(1) }));
    assert!(wal.ended().borrow().is_some());
    gate.open();
    assert_eq!(first.await, Ok(WalSeq(0)));
    assert_eq!(read_back(&sound, &log).await, [record(1, 0, "x")]);
}

#[tokio::test(start_paused = true)]
async fn sealing_twice_and_at_once_is_harmless() {
    let (store, sound, faults) = stores();
    let wal = start(&store, N1);
    for n in 0..40 {
        submit(&wal, record(1, n, "x")).await.await.expect("durable");
    }
    faults.add(Op::Put, "wal/", Fault::AnswerLost, 1);
    faults.add(Op::Get, "wal/", Fault::Unavailable, 5);
    let (one, two) = tokio::join!(
        seal(&store, N1, WalForm::Objects, WalSeq(0), N2),
        seal(&sound, N1, WalForm::Objects, WalSeq(3), N1)
    );
    let (one, two) = (one.expect("sealed"), two.expect("sealed"));
    assert_eq!((one.end, two.end), (WalSeq(40), WalSeq(40)));
    assert_eq!(seal(&sound, N1, WalForm::Objects, WalSeq(40), N2).await.expect("sealed").end, WalSeq(40));
}

#[tokio::test(start_paused = true)]
async fn obj_07_a_listing_that_hides_the_newest_objects_hides_no_record() {
    let (store, _, faults) = stores();
    let wal = start(&store, N1);
    for n in 0..30 {
        submit(&wal, record(1, n, "x")).await.await.expect("durable");
    }
    faults.hide(|path| layout::parse_wal(path).is_some_and(|(_, seq)| seq.0 > 10));
    let log = seal(&store, N1, WalForm::Objects, WalSeq(0), N2).await.expect("sealed");
    assert_eq!(read_back(&store, &log).await.len(), 30);
    assert_eq!(faults.asked(Op::List), 0, "nothing rests on a listing");
}

#[tokio::test(start_paused = true)]
async fn trimming_deletes_below_what_was_applied_and_a_probe_starts_there() {
    let (store, sound, faults) = stores();
    let wal = start(&store, N1);
    for n in 0..10 {
        submit(&wal, record(n % 2, n, "x")).await.await.expect("durable");
    }
    // Stream 0 is committed up to 5 (its records 0, 2, 4), stream 1 wholly.
    let trim = wal.trim_point(|extent| extent.stream == StreamId(1) || extent.end <= Position(5));
    assert_eq!(trim, WalSeq(6));
    assert_eq!(wal.trim_point(|_| true), WalSeq(10));
    assert_eq!(wal.backlog(), (10, 10));
    faults.add(Op::Delete, "wal/", Fault::Unavailable, 1);
    wal.delete_below(trim).await;
    wal.delete_below(trim).await;
    assert_eq!(wal.backlog(), (4, 4));
    for seq in 0..10 {
        let exists = sound.objects().head(&layout::wal(N1, WalSeq(seq))).await.is_ok();
        assert_eq!(exists, seq >= 6, "{seq}");
    }
    let log = seal(&store, N1, WalForm::Objects, trim, N2).await.expect("sealed");
    assert_eq!(log.end, WalSeq(10));
    assert_eq!(read_back(&store, &log).await.len(), 4);
    // After the recovery: everything goes, the seal stays, node 10 is not touched.
    let ten = start(&sound, Session { node: NodeId(10), epoch: Epoch(100) });
    submit(&ten, record(1, 0, "x")).await.await.expect("durable");
    assert!(delete_log(&store, &log).await);
    let left = sound.list(layout::wal_of(N1)).await.expect("listed");
    assert_eq!(left, [layout::wal(N1, log.end)]);
    assert_eq!(sound.list(layout::wal_of(ten.session())).await.expect("listed").len(), 1);
    assert_eq!(seal(&store, N1, WalForm::Objects, log.end, N2).await.expect("sealed").end, log.end);
}

#[tokio::test(start_paused = true)]
async fn obj_04_a_zeroed_object_is_named_and_its_streams_are_known() {
    let (store, sound, _) = stores();
    let wal = start(&store, N1);
    for n in 0..6 {
        submit(&wal, record(n, 0, "x")).await.await.expect("durable");
    }
    for (seq, contents) in [(2, vec![0u8; 300]), (4, Vec::new())] {
        let path = layout::wal(N1, WalSeq(seq));
        sound.objects().put(&path, contents.into()).await.expect("damaged by hand");
    }
    let log = seal(&store, N1, WalForm::Objects, WalSeq(0), N2).await.expect("sealed");
    assert_eq!(log.end, WalSeq(6), "a damaged object takes its number all the same");
    let replayed: Vec<_> = replay(&store, &log).collect().await;
    assert_eq!(replayed.len(), 6);
    for (n, object) in replayed.into_iter().enumerate() {
        match object {
            Replayed::Records { seq, records } => {
                assert_eq!((seq, records), (WalSeq(n as u64), vec![record(n as u64, 0, "x")]));
            }
            Replayed::Damaged { seq, object, reason, held, .. } => {
                assert!(n == 2 || n == 4);
                assert_eq!(object, layout::wal(N1, seq).to_string());
                assert!(reason.contains(if n == 2 { "zeros" } else { "too few" }), "{reason}");
                let held = held.expect("its successor is sound");
                assert_eq!(held.len(), 1);
                assert_eq!((held[0].stream, held[0].end), (StreamId(n as u64), Position(1)));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_a_slow_store_makes_callers_wait() {
    let (store, _, faults) = stores();
    faults.add(Op::Put, "wal/", Fault::Unavailable, 200);
    let options = WalOptions { memory_bytes: 1000, ..WalOptions::default() };
    let wal = Wal::start(&store, N1, NONCE, options, Arc::new(()));
    assert!(matches!(wal.reserve(1001).await, Err(WalError::TooLarge { size: 1001, limit: 1000 })));
    let permit = wal.reserve(1000).await.expect("memory");
    let ticket = wal.submit(permit, record(1, 0, "x"));
    let env = store.env().clone();
    assert!(env.timeout(Duration::from_secs(30), wal.reserve(1)).await.is_none());
    ticket.await.expect("durable once the store is well");
    wal.reserve(1000).await.expect("memory");
    assert!(faults.failed() > 10);
    assert!(store.counters().snapshot().retries > 10);
}

#[tokio::test(start_paused = true)]
async fn objects_are_bounded_and_a_large_record_goes_alone() {
    let (store, _, faults) = stores();
    let gate = Gate::default();
    faults.add(Op::Put, "wal/", Fault::Late(gate.clone()), 1);
    let options = WalOptions { in_flight: Some(1), object_bytes: 1000, ..WalOptions::default() };
    let wal = Wal::start(&store, N1, NONCE, options, Arc::new(()));
    let mut tickets = vec![submit(&wal, record(1, 0, "x")).await];
    settle().await;
    let large = "y".repeat(5000);
    for text in [&large[..200], &large[..200], &large[..200], &large, &large[..200]] {
        tickets.push(submit(&wal, record(1, 1, text)).await);
    }
    gate.open();
    let mut numbers = Vec::new();
    for ticket in tickets {
        numbers.push(ticket.await.expect("durable").0);
    }
    assert_eq!(numbers, [0, 1, 1, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_writes_what_was_submitted() {
    let (store, _, _) = stores();
    let wal = start(&store, N1);
    let ticket = submit(&wal, record(1, 0, "x")).await;
    wal.shutdown().await;
    assert_eq!(ticket.await, Ok(WalSeq(0)));
    let permit = wal_permit();
    assert_eq!(wal.submit(permit, record(1, 1, "y")).await, Err(WalError::Shutdown));
    assert_eq!(wal.reserve(1).await.err(), Some(WalError::Shutdown));
}

/// A permit of another log: enough to call `submit`.
fn wal_permit() -> Permit {
    let (store, _, _) = stores();
    let wal = start(&store, N2);
    futures_util::FutureExt::now_or_never(wal.reserve(1)).expect("free").expect("open")
}

#[tokio::test(start_paused = true)]
async fn a_dropped_log_ends() {
    let (store, _, faults) = stores();
    faults.add(Op::Put, "wal/", Fault::Hang, u64::MAX);
    let wal = start(&store, N1);
    let ticket = submit(&wal, record(1, 0, "x")).await;
    settle().await;
    drop(wal);
    assert_eq!(ticket.await, Err(WalError::Shutdown));
}
