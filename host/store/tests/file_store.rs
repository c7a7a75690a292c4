//! The store over a real folder, with a disk that fails as a test says.

use bytes::Bytes;
use futures_util::StreamExt;
use headwater_env::{Disk, DiskFile, Env, FlushFailed, Folder, Lock};
use headwater_metadata::{Epoch, NodeId, Position, Session, StreamEpoch, StreamId, WalForm, WalSeq};
use headwater_store::recover::{Replayed, replay};
use headwater_store::testing::{Fault, Faults, Op};
use headwater_store::wal::seal::seal;
use headwater_store::{Kind, Record, Store, Wal, WalError, WalOptions, collect, layout};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const N1: Session = Session { node: NodeId(1), epoch: Epoch(100) };
const N2: Session = Session { node: NodeId(2), epoch: Epoch(200) };

/// The machine's disk, with faults.
struct BadDisk {
    real: Arc<dyn Disk>,
    /// Creates left before the disk is full, and how many are refused then.
    room: AtomicI64,
    full: AtomicI64,
    /// Flushes of existing files that fail.
    bad_flushes: AtomicI64,
    /// Creates whose flush fails.
    bad_creates: AtomicI64,
    flushes: AtomicU64,
    log: Arc<BadLog>,
}

/// Faults of a folder that is held open.
#[derive(Debug, Default)]
struct BadLog {
    /// Files that cannot be made, because the disk is full.
    full: AtomicI64,
    /// Flushes of a group that fail.
    bad_flushes: AtomicI64,
    /// Looks at the name that fail.
    bad_looks: AtomicI64,
    /// Before the next look: rename the folder so.
    rename: Mutex<Option<(PathBuf, PathBuf)>>,
}

#[derive(Debug)]
struct BadFolder(Box<dyn Folder>, Arc<BadLog>);

#[derive(Debug)]
struct BadFile(Box<dyn DiskFile>, Arc<BadLog>);

impl Folder for BadFolder {
    fn create(&self, name: &str, len: u64) -> io::Result<Box<dyn DiskFile>> {
        if take(&self.1.full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(Box::new(BadFile(self.0.create(name, len)?, self.1.clone())))
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(BadFile(self.0.open(name)?, self.1.clone())))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        if take(&self.1.bad_looks) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if let Some((from, to)) = self.1.rename.lock().expect("not poisoned").take() {
            Env::real().disk.rename_new(&from, &to)?;
        }
        self.0.is_at(path)
    }
}

impl DiskFile for BadFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        match take(&self.1.bad_flushes) {
            true => Err(io::Error::other("the medium is gone")),
            false => self.0.sync(),
        }
    }
}

fn take(count: &AtomicI64) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n > 0).then_some(n - 1)).is_ok()
}

impl Disk for BadDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.real.create_dir_all(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.real.list(path)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.real.read(path)
    }
    fn write_atomic(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        self.real.write_atomic(path, contents)
    }
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        self.real.open(path, create)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.real.remove(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.real.lock(path)
    }
    fn make_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>> {
        Ok(Box::new(BadFolder(self.real.make_folder(path)?, self.log.clone())))
    }
    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>> {
        self.real.open_folder(path)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real.rename_new(from, to)
    }
    fn is_local(&self, _: &Path) -> io::Result<bool> {
        Ok(true)
    }
    fn create_new(&self, path: &Path, contents: &[Bytes]) -> io::Result<()> {
        if !take(&self.room) && take(&self.full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.real.create_new(path, contents)?;
        match take(&self.bad_creates) {
            true => Err(FlushFailed::wrap(io::Error::other("the medium is gone"))),
            false => Ok(()),
        }
    }
    fn flush(&self, path: &Path) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        match take(&self.bad_flushes) {
            true => Err(FlushFailed::wrap(io::Error::other("the medium is gone"))),
            false => self.real.flush(path),
        }
    }
}

struct Setup {
    folder: TempDir,
    disk: Arc<BadDisk>,
    store: Store,
    faults: Faults,
}

fn setup() -> Setup {
    let folder = TempDir::new().expect("a folder");
    let mut env = Env::real();
    let disk = Arc::new(BadDisk {
        real: env.disk.clone(),
        room: AtomicI64::new(i64::MAX),
        full: AtomicI64::new(0),
        bad_flushes: AtomicI64::new(0),
        bad_creates: AtomicI64::new(0),
        flushes: AtomicU64::new(0),
        log: Arc::default(),
    });
    env.disk = disk.clone();
    let faults = Faults::default();
    let url = format!("file://{}/store", folder.path().display());
    let store = Store::open(&url, env).expect("opened").wrapped(|objects| faults.wrap(objects));
    Setup { folder, disk, store, faults }
}

fn start(store: &Store) -> Wal {
    Wal::start(store, N1, 7, WalOptions::default(), Arc::new(()))
}

fn record(n: u64) -> Record {
    Record {
        stream: StreamId(1),
        epoch: StreamEpoch(1),
        start: Position(n),
        bytes: Bytes::from_static(b"x"),
        eof: false,
        meta: Bytes::new(),
    }
}

async fn append(wal: &Wal, n: u64) -> Result<WalSeq, WalError> {
    let record = record(n);
    let permit = wal.reserve(record.size()).await?;
    wal.submit(permit, record).await
}

async fn recovered(store: &Store) -> Vec<Replayed> {
    let log = seal(store, N1, WalForm::Objects, WalSeq(0), N2).await.expect("sealed");
    replay(store, &log).collect().await
}

#[tokio::test]
async fn a_folder_is_a_store() {
    let Setup { store, folder, .. } = setup();
    assert_eq!(store.kind(), Kind::File);
    store.probe().await.expect("proven");
    assert_eq!(store.cluster_id().await.expect("read"), None);
    store.claim_cluster(5).await.expect("claimed");
    store.claim_cluster(5).await.expect("its own is fine");
    assert_eq!(store.cluster_id().await.expect("read"), Some(5));
    let error = store.claim_cluster(6).await.expect_err("another cluster").to_string();
    assert!(error.contains("belongs to cluster") && error.ends_with(&format!("not {:032x}", 6)), "{error}");
    for (node, address) in [(10, "http://ten"), (1, "http://old"), (1, "http://one")] {
        store.put_peer(NodeId(node), address).await.expect("published");
    }
    let peers = store.peers().await.expect("read");
    assert_eq!(peers, [(NodeId(1), "http://one".into()), (NodeId(10), "http://ten".into())]);
    let wal = start(&store);
    for n in 0..20 {
        assert_eq!(append(&wal, n).await, Ok(WalSeq(n)));
    }
    // A second process that opens the same folder reads it all.
    let url = format!("file://{}/store", folder.path().display());
    let other = Store::open(&url, Env::real()).expect("opened");
    assert_eq!(recovered(&other).await.len(), 20);
    assert_eq!(append(&wal, 20).await, Err(WalError::Fenced { at: WalSeq(20) }));
}

#[tokio::test]
async fn a_url_that_is_no_store_is_refused_in_plain_words() {
    for (url, words) in [
        ("ftp://host/path", "ftp: none of file, s3, memory"),
        ("nonsense", "relative URL"),
        ("s3://", "names no bucket"),
        ("s3:///prefix", "names no bucket"),
        ("file://host/path", "not a path of this machine"),
        ("file:///proc/nowhere", "/proc/nowhere is not a store"),
    ] {
        let error = Store::open(url, Env::real()).expect_err("refused").to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn obj_04_a_full_disk_makes_appends_wait() {
    let Setup { store, disk, .. } = setup();
    let wal = start(&store);
    disk.room.store(9, Ordering::SeqCst);
    disk.full.store(3, Ordering::SeqCst);
    for n in 0..15 {
        append(&wal, n).await.expect("durable in the end");
    }
    assert_eq!(disk.full.load(Ordering::SeqCst), 0);
    assert_eq!(store.counters().snapshot().retries, 3);
}

#[tokio::test]
async fn a_failed_flush_ends_the_session() {
    let Setup { store, disk, .. } = setup();
    let wal = start(&store);
    append(&wal, 0).await.expect("durable");
    disk.bad_creates.store(1, Ordering::SeqCst);
    let error = append(&wal, 1).await.expect_err("not known to be durable");
    assert!(error.to_string().contains("flush failed"), "{error}");
    assert_eq!(append(&wal, 2).await, Err(error), "nothing is taken after it");
}

#[tokio::test]
async fn att_24_b_an_object_that_is_there_is_flushed_before_it_is_believed() {
    let Setup { store, disk, faults, .. } = setup();
    let wal = start(&store);
    // The first put made the object and its answer was lost; the second finds it.
    faults.add(Op::Put, "wal/", Fault::AnswerLost, 1);
    append(&wal, 0).await.expect("durable");
    assert_eq!(disk.flushes.load(Ordering::SeqCst), 1);
    assert_eq!(store.counters().snapshot().lost_answers, 1);
    faults.add(Op::Put, "wal/", Fault::AnswerLost, 1);
    disk.bad_flushes.store(1, Ordering::SeqCst);
    let error = append(&wal, 1).await.expect_err("not flushed");
    assert!(error.to_string().contains("flush failed"), "{error}");
}

#[tokio::test]
async fn obj_04_what_a_power_cut_leaves() {
    let Setup { store, folder, disk, .. } = setup();
    let wal = start(&store);
    for n in 0..4 {
        append(&wal, n).await.expect("durable");
    }
    let file = |seq: u64| folder.path().join("store").join(layout::wal(N1, WalSeq(seq)).to_string());
    // An unfinished file, of the owner and under the next number; one object without bytes.
    let mut unfinished = file(4).into_os_string();
    unfinished.push("#4711000001");
    disk.real.write_atomic(Path::new(&unfinished), b"half").expect("written");
    disk.real.write_atomic(&file(1), b"").expect("written");
    disk.real.write_atomic(&file(2), &[0; 200]).expect("written");
    let replayed = recovered(&store).await;
    assert_eq!(replayed.len(), 4, "what is unfinished is not in the log");
    for (n, object) in replayed.iter().enumerate() {
        match object {
            Replayed::Records { .. } => assert!(n == 0 || n == 3),
            Replayed::Damaged { object, .. } => {
                assert!(n == 1 || n == 2);
                assert!(object.ends_with(&format!("1/100/{n:020}")), "{object}");
            }
        }
    }
    assert_eq!(collect::delete_leftovers(&store, N1).await, 1);
    assert!(!Path::new(&unfinished).exists());
    assert!(file(3).exists());
}

#[tokio::test]
async fn an_owner_stops_at_an_object_that_is_not_its_own() {
    let Setup { store, folder, disk, .. } = setup();
    let wal = start(&store);
    append(&wal, 0).await.expect("durable");
    let file = folder.path().join("store").join(layout::wal(N1, WalSeq(1)).to_string());
    disk.real.write_atomic(&file, b"").expect("written");
    let error = append(&wal, 1).await.expect_err("taken").to_string();
    assert!(error.contains("wal/1/100/00000000000000000001 is damaged"), "{error}");
}

async fn start_files(store: &Store) -> Wal {
    let form = store.prepare_log(N1, WalForm::Files).await.expect("made");
    assert_eq!(form, WalForm::Files);
    start(store)
}

#[tokio::test]
async fn append_files_wait_for_room_and_repeat_what_may_mend() {
    let Setup { store, disk, .. } = setup();
    disk.log.full.store(3, Ordering::SeqCst);
    let wal = start_files(&store).await;
    for n in 0..5 {
        disk.log.bad_looks.store(n, Ordering::SeqCst);
        assert_eq!(append(&wal, n as u64).await, Ok(WalSeq(n as u64)));
    }
    assert_eq!(disk.log.full.load(Ordering::SeqCst), 0);
    assert!(store.counters().snapshot().retries >= 10);
    let log = seal(&store, N1, WalForm::Files, WalSeq(0), N2).await.expect("sealed");
    assert_eq!(log.end, WalSeq(5));
    let found: Vec<_> = replay(&store, &log).collect().await;
    assert!(found.iter().all(|found| matches!(found, Replayed::Records { .. })), "{found:?}");
}

#[tokio::test]
async fn a_failed_flush_of_an_append_file_ends_the_session() {
    let Setup { store, disk, .. } = setup();
    let wal = start_files(&store).await;
    append(&wal, 0).await.expect("durable");
    disk.log.bad_flushes.store(1, Ordering::SeqCst);
    let error = append(&wal, 1).await.expect_err("not known to be durable");
    assert!(error.to_string().contains("the medium is gone"), "{error}");
    assert_eq!(append(&wal, 2).await, Err(error), "nothing is taken after it");
}

#[tokio::test]
async fn att_05_a_a_rename_between_flush_and_check_means_no_acknowledgement() {
    let Setup { store, disk, folder, .. } = setup();
    let wal = start_files(&store).await;
    append(&wal, 0).await.expect("durable");
    let at = |path: object_store::path::Path| folder.path().join("store").join(path.to_string());
    let rename = (at(layout::log_folder(N1)), at(layout::sealed_folder(N1)));
    *disk.log.rename.lock().expect("not poisoned") = Some(rename);
    assert_eq!(append(&wal, 1).await, Err(WalError::Fenced { at: WalSeq(1) }));
    assert_eq!(append(&wal, 2).await, Err(WalError::Fenced { at: WalSeq(1) }));
    // The successor renamed first and reads now: all that was acknowledged, perhaps more.
    let log = seal(&store, N1, WalForm::Files, WalSeq(0), N2).await.expect("sealed");
    assert_eq!(replay(&store, &log).collect::<Vec<_>>().await.len(), 2);
}
