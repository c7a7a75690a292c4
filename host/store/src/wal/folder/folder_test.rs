//! The append-file form over a real folder: sealed at every moment, cut off, overwritten, used again.

use super::{ALIGN, END, SEGMENT, SPARE, name};
use crate::recover::{Replayed, delete_log, replay};
use crate::wal::seal::{SealedLog, seal};
use crate::wal::{Record, Ticket, Wal, WalError, WalOptions};
use crate::{Store, layout};
use bytes::Bytes;
use futures_util::StreamExt;
use headwater_env::Env;
use headwater_metadata::{Epoch, NodeId, Position, Session, StreamEpoch, StreamId, WalForm, WalSeq};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const N1: Session = Session { node: NodeId(1), epoch: Epoch(100) };
const N2: Session = Session { node: NodeId(2), epoch: Epoch(200) };

/// An eighth of a file.
const EIGHTH: usize = SEGMENT as usize / 8;

struct Setup {
    _folder: TempDir,
    store: Store,
    wal: Wal,
    open: PathBuf,
    sealed: PathBuf,
}

/// A folder on a file system of this machine alone: in a container, that of the images is none.
fn local_folder() -> TempDir {
    let disk = Env::real().disk;
    let places = [std::env::temp_dir(), "/dev/shm".into()];
    let local = places.iter().find(|place| disk.is_local(place).unwrap_or(false));
    TempDir::new_in(local.expect("the temporary folder or /dev/shm is on a local file system"))
        .expect("a folder")
}

async fn setup() -> Setup {
    let folder = local_folder();
    let store = Store::open(&format!("file://{}", folder.path().display()), Env::real()).expect("opened");
    let form = store.prepare_log(N1, WalForm::Files).await.expect("made");
    assert_eq!(form, WalForm::Files, "the tests need a local file system");
    let wal = Wal::start(&store, N1, 7, WalOptions::default(), Arc::new(()));
    let at = |path| store.file_path(&path).expect("a folder");
    let (open, sealed) = (at(layout::log_folder(N1)), at(layout::sealed_folder(N1)));
    Setup { _folder: folder, store, wal, open, sealed }
}

fn record(n: u64, len: usize) -> Record {
    Record {
        stream: StreamId(n % 3),
        epoch: StreamEpoch(1),
        start: Position(n),
        bytes: Bytes::from(vec![n as u8; len]),
        eof: false,
        meta: Bytes::from_static(b"meta"),
    }
}

async fn submit(wal: &Wal, record: Record) -> Ticket {
    let permit = wal.reserve(record.size()).await.expect("memory");
    wal.submit(permit, record)
}

async fn append(wal: &Wal, n: u64, len: usize) {
    assert_eq!(submit(wal, record(n, len)).await.await, Ok(WalSeq(n)));
}

async fn sealed(store: &Store, from: u64) -> SealedLog {
    seal(store, N1, WalForm::Files, WalSeq(from), N2).await.expect("sealed")
}

async fn replayed(store: &Store, log: &SealedLog) -> Vec<Replayed> {
    replay(store, log).collect().await
}

fn sound(n: u64, len: usize) -> Replayed {
    Replayed::Records { seq: WalSeq(n), records: vec![record(n, len)] }
}

impl Setup {
    /// Overwrites bytes of a file of the sealed log.
    fn overwrite(&self, file: &str, offset: u64, bytes: &[u8]) {
        let file = self.store.env().disk.open(&self.sealed.join(file), false).expect("there");
        file.write_at(offset, bytes).expect("written");
    }

    fn list(&self) -> Vec<String> {
        let names = self.store.env().disk.list(&self.sealed).expect("sealed");
        names.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
    }
}

#[tokio::test]
async fn what_is_acknowledged_is_replayed_and_a_sealed_log_takes_nothing() {
    let setup = setup().await;
    let Setup { store, wal, .. } = &setup;
    for n in 0..20 {
        append(wal, n, 10).await;
    }
    wal.prove().await.expect("not sealed");
    assert_eq!(wal.counters().proofs, 1);
    assert_eq!(wal.counters().objects, 20, "a look at the folder writes nothing");
    let log = sealed(store, 3).await;
    assert_eq!((log.from, log.end, log.form), (WalSeq(3), WalSeq(20), WalForm::Files));
    assert_eq!(replayed(store, &log).await, (3..20).map(|n| sound(n, 10)).collect::<Vec<_>>());
    assert_eq!(wal.prove().await, Err(WalError::Fenced { at: WalSeq(19) }));
    assert!(wal.ended().borrow().is_some());
    assert!(wal.reserve(1).await.is_err());
    // Again, from elsewhere, and after the files are gone: the end stays where it is.
    assert_eq!(sealed(store, 3).await, log);
    assert!(delete_log(store, &log).await);
    assert_eq!(setup.list(), [END]);
    assert_eq!(sealed(store, 3).await, log);
    assert!(delete_log(store, &log).await);
}

#[tokio::test]
async fn att_05_a_sealed_before_the_check_nothing_is_acknowledged() {
    let setup = setup().await;
    let Setup { store, wal, .. } = &setup;
    append(wal, 0, 10).await;
    // Renamed only: the sealer has not read yet. The owner writes and flushes into its folder.
    store.env().disk.rename_new(&setup.open, &setup.sealed).expect("renamed");
    assert_eq!(submit(wal, record(1, 10)).await.await, Err(WalError::Fenced { at: WalSeq(1) }));
    // What was not acknowledged may be there; what was, must.
    let log = sealed(store, 0).await;
    assert_eq!(log.end, WalSeq(2));
    assert_eq!(replayed(store, &log).await, [sound(0, 10), sound(1, 10)]);
}

#[tokio::test]
async fn att_05_a_an_absent_folder_is_an_error_never_an_empty_log() {
    let setup = setup().await;
    let other = Session { epoch: Epoch(101), ..N1 };
    let error = seal(&setup.store, other, WalForm::Files, WalSeq(0), N2).await.expect_err("no folder");
    assert!(error.to_string().contains("neither") && error.to_string().contains("1/101"), "{error}");
    // Made before it was registered, and never written to: an empty log.
    let log = sealed(&setup.store, 0).await;
    assert_eq!((log.from, log.end), (WalSeq(0), WalSeq(0)));
    assert_eq!(submit(&setup.wal, record(0, 10)).await.await, Err(WalError::Fenced { at: WalSeq(0) }));
    // And it is made once.
    assert!(setup.store.prepare_log(other, WalForm::Files).await.is_ok());
    assert!(setup.store.prepare_log(other, WalForm::Files).await.is_err());
}

#[tokio::test]
async fn att_05_b_the_next_file_is_made_in_the_folder_that_is_held_not_under_its_name() {
    let setup = setup().await;
    let Setup { store, wal, .. } = &setup;
    append(wal, 0, 7 * EIGHTH).await;
    let log = sealed(store, 0).await;
    // The next group needs a new file.
    assert_eq!(submit(wal, record(1, 7 * EIGHTH)).await.await, Err(WalError::Fenced { at: WalSeq(1) }));
    assert!(!setup.open.exists(), "nothing makes the name again");
    assert_eq!(log.end, WalSeq(1), "written behind the end");
    assert_eq!(replayed(store, &log).await, [sound(0, 7 * EIGHTH)]);
}

#[tokio::test]
async fn att_05_c_the_form_that_was_registered_is_the_form_that_is_sealed() {
    let setup = setup().await;
    let objects = Session { epoch: Epoch(102), ..N1 };
    let form = setup.store.prepare_log(objects, WalForm::Objects).await.expect("nothing to do");
    assert_eq!(form, WalForm::Objects);
    let wal = Wal::start(&setup.store, objects, 7, WalOptions::default(), Arc::new(()));
    assert_eq!(submit(&wal, record(0, 10)).await.await, Ok(WalSeq(0)));
    let log = seal(&setup.store, objects, form, WalSeq(0), N2).await.expect("sealed");
    assert_eq!(replayed(&setup.store, &log).await, [sound(0, 10)]);
    assert!(submit(&wal, record(1, 10)).await.await.is_err());
    // No object's key can make the name of a folder.
    for key in [layout::wal(N1, WalSeq(0)), layout::data_of(N1), layout::cluster(), layout::probes()] {
        assert!(!key.prefix_matches(&"files".into()));
    }
    let memory = Store::open("memory://", Env::real()).expect("opened");
    assert_eq!(memory.prepare_log(N1, WalForm::Files).await.expect("objects"), WalForm::Objects);
    let error = seal(&memory, N1, WalForm::Files, WalSeq(0), N2).await.expect_err("another store");
    assert!(error.to_string().contains("not a folder"), "{error}");
}

#[tokio::test]
async fn att_05_d_no_folder_where_names_may_be_stale() {
    // The kernel's own file system is none that counts as local.
    let env = Env::real();
    assert!(!env.disk.is_local("/proc".as_ref()).expect("a file system"));
    let folder = local_folder();
    assert!(env.disk.is_local(folder.path()).expect("a file system"));
}

#[tokio::test]
async fn files_are_begun_when_full_and_used_again_when_trimmed() {
    let setup = setup().await;
    let Setup { store, wal, .. } = &setup;
    for n in 0..20 {
        append(wal, n, 3 * EIGHTH).await;
        if n == 12 {
            // Two to a file: 0 1, 2 3, … Everything below 9 is committed.
            assert_eq!(wal.backlog().0, 7);
            wal.delete_below(WalSeq(9)).await;
            assert_eq!(wal.backlog(), (3, 4 * 3 * EIGHTH as u64));
        }
    }
    append(wal, 20, 20 * EIGHTH).await;
    append(wal, 21, 10).await;
    let log = sealed(store, 9).await;
    assert_eq!(log.end, WalSeq(22));
    let expected = (9..20).map(|n| sound(n, 3 * EIGHTH));
    let expected: Vec<_> = expected.chain([sound(20, 20 * EIGHTH), sound(21, 10)]).collect();
    assert!(replayed(store, &log).await == expected, "every group from the trim point on");
    // What was trimmed is deleted or was used again.
    let files = setup.list().iter().filter(|name| name.ends_with(".log")).count();
    assert_eq!(files, 8, "{:?}", setup.list());
}

#[tokio::test]
async fn an_old_group_in_a_file_that_is_used_again_is_not_read() {
    let setup = setup().await;
    let Setup { store, wal, .. } = &setup;
    for n in 0..3 {
        append(wal, n, 5 * EIGHTH).await;
    }
    wal.delete_below(WalSeq(2)).await;
    // The file of group 0 or 1 is taken for 3 and holds the old group behind the new one.
    append(wal, 3, 10).await;
    append(wal, 4, 8 * EIGHTH).await;
    let log = sealed(store, 2).await;
    let expected = [sound(2, 5 * EIGHTH), sound(3, 10), sound(4, 8 * EIGHTH)];
    assert!(replayed(store, &log).await == expected);
}

#[tokio::test]
async fn a_write_that_was_cut_off_is_the_end_of_the_log() {
    let setup = setup().await;
    let Setup { store, wal, .. } = &setup;
    for n in 0..3 {
        append(wal, n, 10_000).await;
    }
    // The owner dies in the middle of the third: its header is on the medium, its end is not.
    store.env().disk.rename_new(&setup.open, &setup.sealed).expect("renamed");
    setup.overwrite(&name(0), 2 * 3 * ALIGN + ALIGN, &[0; 100]);
    let log = sealed(store, 0).await;
    assert_eq!(log.end, WalSeq(2));
    assert_eq!(replayed(store, &log).await, [sound(0, 10_000), sound(1, 10_000)]);
}

#[tokio::test]
async fn obj_04_damage_inside_the_log_is_reported_and_the_rest_is_read() {
    let setup = setup().await;
    let Setup { store, wal, .. } = &setup;
    for n in 0..6 {
        append(wal, n, 10_000).await;
    }
    store.env().disk.rename_new(&setup.open, &setup.sealed).expect("renamed");
    // A bit of group 1, the whole of group 3; group 5 is cut off.
    setup.overwrite(&name(0), 3 * ALIGN + 5_000, &[0xff]);
    setup.overwrite(&name(0), 9 * ALIGN, &[0; 3 * ALIGN as usize]);
    setup.overwrite(&name(0), 15 * ALIGN + 5_000, &[0xff]);
    let log = sealed(store, 0).await;
    assert_eq!(log.end, WalSeq(5));
    let found = replayed(store, &log).await;
    assert_eq!(found.len(), 5);
    for (n, found) in found.into_iter().enumerate() {
        match found {
            Replayed::Damaged { seq, object, reason, held, .. } => {
                assert!(n == 1 || n == 3);
                assert_eq!(seq, WalSeq(n as u64));
                assert!(object.contains("files/1/100"), "{object}");
                assert!(!reason.is_empty());
                assert_eq!(held.expect("its successor says")[0].stream, StreamId(n as u64 % 3));
            }
            other => assert_eq!(other, sound(n as u64, 10_000)),
        }
    }
}

#[tokio::test]
async fn obj_04_a_file_of_zeros_is_a_gap() {
    let setup = setup().await;
    let Setup { store, wal, .. } = &setup;
    for n in 0..3 {
        append(wal, n, 5 * EIGHTH).await;
    }
    let log = sealed(store, 0).await;
    setup.overwrite(&name(1), 0, &vec![0; SEGMENT as usize]);
    let found = replayed(store, &log).await;
    assert_eq!(found.len(), 3);
    assert!(matches!(&found[1], Replayed::Damaged { seq: WalSeq(1), held: Some(_), .. }), "{:?}", found[1]);
    assert!(found[2] == sound(2, 5 * EIGHTH));
}

#[tokio::test]
async fn a_clients_bytes_are_never_taken_for_a_group() {
    let setup = setup().await;
    let Setup { store, wal, .. } = &setup;
    append(wal, 0, 10).await;
    // Somebody knows the form, the session and the numbers, and sends whole groups: all but the nonce.
    let forged = crate::wal::format::encode(N1, 8, WalSeq(5), None, &[record(5, 10)]).concat();
    let mut payload = vec![0; 64 << 10];
    for at in (0..payload.len() - 1024).step_by(512) {
        let len = forged.len().min(512);
        payload[at..at + len].copy_from_slice(&forged[..len]);
    }
    let carrier = Record { bytes: payload.into(), ..record(1, 0) };
    assert_eq!(submit(wal, carrier).await.await, Ok(WalSeq(1)));
    store.env().disk.rename_new(&setup.open, &setup.sealed).expect("renamed");
    // The carrier itself was cut off, so that its inside is searched for what may follow.
    setup.overwrite(&name(0), ALIGN, &[0; 200]);
    let log = sealed(store, 0).await;
    assert_eq!(log.end, WalSeq(1));
    assert_eq!(replayed(store, &log).await, [sound(0, 10)]);
}

#[tokio::test]
async fn groups_form_while_one_is_flushed() {
    let setup = setup().await;
    let Setup { store, wal, .. } = &setup;
    let mut tickets = Vec::new();
    for n in 0..500 {
        tickets.push(submit(wal, record(n, 10)).await);
    }
    for ticket in tickets {
        ticket.await.expect("durable");
    }
    let counters = wal.counters();
    assert!(counters.objects < 100 && counters.largest_group > 10, "{counters:?}");
    assert_eq!((counters.overlapping, counters.in_flight_max), (0, 1));
    let log = sealed(store, 0).await;
    let mut records = Vec::new();
    for found in replayed(store, &log).await {
        let Replayed::Records { records: more, .. } = found else { panic!("{found:?}") };
        records.extend(more);
    }
    assert_eq!(records, (0..500).map(|n| record(n, 10)).collect::<Vec<_>>());
    // A spare was made meanwhile.
    for _ in 0..500 {
        if setup.list().iter().any(|name| name == SPARE) {
            return;
        }
        store.env().clock.sleep(Duration::from_millis(10)).await;
    }
    assert!(setup.list().iter().any(|name| name.starts_with("spare")), "{:?}", setup.list());
}
