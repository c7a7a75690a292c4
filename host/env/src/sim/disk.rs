//! Disks in memory. A write is kept aside until it is flushed; a power cut keeps or loses each write
//! that was not, one by one and perhaps in part, as a real disk may.

use super::mix;
use crate::{Disk, DiskFile, Lock};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A disk in memory.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    process: u64,
}

#[derive(Default)]
struct State {
    seed: u64,
    process: u64,
    dirs: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Arc<Mutex<File>>>,
    locks: BTreeMap<PathBuf, u64>,
    /// Flushes to let pass before one fails; only files whose path contains the text count.
    failing_sync: Option<(String, u64)>,
    full: bool,
    syncs: u64,
}

#[derive(Default, Debug)]
struct File {
    flushed: Vec<u8>,
    now: Vec<u8>,
    pending: Vec<Op>,
}

#[derive(Debug)]
enum Op {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

fn apply(bytes: &mut Vec<u8>, op: &Op) {
    match op {
        Op::SetLen(len) => bytes.resize(usize::try_from(*len).unwrap_or(usize::MAX), 0),
        Op::Write(offset, data) => {
            let start = usize::try_from(*offset).unwrap_or(usize::MAX);
            let end = start + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(data);
        }
    }
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} does not exist", path.display()))
}

impl SimDisk {
    pub(super) fn new(seed: u64) -> SimDisk {
        SimDisk { state: Arc::new(Mutex::new(State { seed, ..State::default() })), process: 0 }
    }

    /// The disk as a new process sees it.
    pub(super) fn process(&self) -> SimDisk {
        let mut state = self.state.lock();
        state.process += 1;
        SimDisk { state: self.state.clone(), process: state.process }
    }

    pub(super) fn crash(&self, power_cut: bool) {
        let mut state = self.state.lock();
        state.process += 1;
        state.locks.clear();
        state.failing_sync = None;
        state.full = false;
        let mut seed = state.seed;
        for file in state.files.values() {
            let mut file = file.lock();
            for op in std::mem::take(&mut file.pending) {
                seed = mix(seed);
                let op = match (power_cut, seed % 3, op) {
                    (true, 0, _) => continue,
                    (true, 1, Op::Write(offset, mut data)) => {
                        data.truncate(data.len() / 2);
                        Op::Write(offset, data)
                    }
                    (_, _, op) => op,
                };
                apply(&mut file.flushed, &op);
            }
            file.now = file.flushed.clone();
        }
        state.seed = seed;
    }

    /// Lets so many flushes of files whose path contains `name` pass; the next one fails.
    pub fn fail_sync(&self, name: &str, after: u64) {
        self.state.lock().failing_sync = Some((name.to_owned(), after));
    }

    /// Makes every write fail for want of space, or not any more.
    pub fn set_full(&self, full: bool) {
        self.state.lock().full = full;
    }

    /// Flushes so far.
    pub fn syncs(&self) -> u64 {
        self.state.lock().syncs
    }

    /// Every file, sorted.
    pub fn files(&self) -> Vec<PathBuf> {
        self.state.lock().files.keys().cloned().collect()
    }

    /// Changes the bytes of a file behind the back of whoever has it.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let state = self.state.lock();
        if let Some(file) = state.files.get(path) {
            let mut file = file.lock();
            file.pending.clear();
            change(&mut file.now);
            file.flushed = file.now.clone();
        }
    }

    /// Everything on the disk, to put back later (a backup).
    pub fn image(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.state.lock().files.iter().map(|(path, file)| (path.clone(), file.lock().now.clone())).collect()
    }

    /// Puts an image in place of everything on the disk.
    pub fn restore(&self, image: BTreeMap<PathBuf, Vec<u8>>) {
        let files = image.into_iter().map(|(path, bytes)| {
            let file = File { flushed: bytes.clone(), now: bytes, pending: Vec::new() };
            (path, Arc::new(Mutex::new(file)))
        });
        self.state.lock().files = files.collect();
    }

    /// Removes everything: a new disk.
    pub fn wipe(&self) {
        let mut state = self.state.lock();
        state.files.clear();
        state.dirs.clear();
    }

    /// Deletes a file behind the back of whoever has it.
    pub fn delete(&self, path: &Path) {
        self.state.lock().files.remove(path);
    }

    /// Removes a directory that [`SimDisk::make_dir`] made.
    pub fn remove_dir(&self, path: &Path) {
        self.state.lock().dirs.remove(path);
    }

    /// Puts a directory in the place of a file.
    pub fn make_dir(&self, path: &Path) {
        let mut state = self.state.lock();
        state.files.remove(path);
        state.dirs.insert(path.to_owned());
    }

    fn alive<T>(&self, f: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state.lock();
        if state.process != self.process {
            return Err(io::Error::other("this process has ended"));
        }
        f(&mut state)
    }
}

impl Disk for SimDisk {
    fn instant(&self) -> bool {
        true
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.alive(|state| {
            state.dirs.extend(path.ancestors().map(Path::to_owned));
            Ok(())
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.alive(|state| {
            if !state.dirs.contains(path) {
                return Err(not_found(path));
            }
            let names = state.files.keys().chain(&state.dirs).filter(|p| p.parent() == Some(path));
            Ok(names.cloned().collect::<BTreeSet<_>>().into_iter().collect())
        })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.alive(|state| {
            if state.dirs.contains(path) {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
            }
            let file = state.files.get(path).ok_or_else(|| not_found(path))?;
            Ok(file.lock().now.clone())
        })
    }

    fn write_atomic(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        self.alive(|state| {
            if state.full {
                return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left"));
            }
            state.flush(path)?;
            let bytes = contents.to_vec();
            let file = File { flushed: bytes.clone(), now: bytes, pending: Vec::new() };
            state.files.insert(path.to_owned(), Arc::new(Mutex::new(file)));
            Ok(())
        })
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        self.alive(|state| {
            if state.dirs.contains(path) {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
            }
            if !create && !state.files.contains_key(path) {
                return Err(not_found(path));
            }
            let file = state.files.entry(path.to_owned()).or_default().clone();
            Ok(Box::new(SimFile { disk: self.clone(), path: path.to_owned(), file }) as Box<dyn DiskFile>)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.alive(|state| {
            let file = state.files.remove(from).ok_or_else(|| not_found(from))?;
            state.files.insert(to.to_owned(), file);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.alive(|state| {
            state.files.remove(path);
            Ok(())
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.alive(|state| {
            if state.locks.contains_key(path) {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "locked"));
            }
            state.locks.insert(path.to_owned(), self.process);
            Ok(Box::new(SimLock { disk: self.clone(), path: path.to_owned() }) as Box<dyn Lock>)
        })
    }
}

impl State {
    fn flush(&mut self, path: &Path) -> io::Result<()> {
        self.syncs += 1;
        if let Some((name, left)) = &mut self.failing_sync
            && path.to_string_lossy().contains(name.as_str())
        {
            if *left == 0 {
                self.failing_sync = None;
                return Err(io::Error::other("the flush failed"));
            }
            *left -= 1;
        }
        Ok(())
    }
}

struct SimFile {
    disk: SimDisk,
    path: PathBuf,
    file: Arc<Mutex<File>>,
}

impl std::fmt::Debug for SimFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SimFile").field(&self.path).finish()
    }
}

impl SimFile {
    fn change(&self, op: Op) -> io::Result<()> {
        self.disk.alive(|state| {
            if state.full {
                return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left"));
            }
            let mut file = self.file.lock();
            apply(&mut file.now, &op);
            file.pending.push(op);
            Ok(())
        })
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.disk.alive(|_| Ok(self.file.lock().now.len() as u64))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.disk.alive(|_| {
            let file = self.file.lock();
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let bytes = start.checked_add(buffer.len()).and_then(|end| file.now.get(start..end));
            let bytes = bytes.ok_or(io::ErrorKind::UnexpectedEof)?;
            buffer.copy_from_slice(bytes);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(Op::Write(offset, bytes.to_vec()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Op::SetLen(len))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.alive(|state| {
            // As on a real disk: after a failed flush the pages count as clean, and what was not
            // written is lost with the next power cut although later flushes succeed.
            let result = state.flush(&self.path);
            let file = &mut *self.file.lock();
            for op in std::mem::take(&mut file.pending) {
                if result.is_ok() {
                    apply(&mut file.flushed, &op);
                }
            }
            result
        })
    }
}

struct SimLock {
    disk: SimDisk,
    path: PathBuf,
}

impl Lock for SimLock {
    fn identity(&self) -> (String, u64, u64) {
        ("sim".to_owned(), self.disk.process, 1)
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        if state.locks.get(&self.path) == Some(&self.disk.process) {
            state.locks.remove(&self.path);
        }
    }
}
