//! Writes groups into the files of a folder that is held open.

use super::segment::aligned;
use super::{SEGMENT, SPARE, name};
use crate::store::Store;
use crate::wal::WalError;
use crate::wal::log::Log;
use bytes::Bytes;
use headwater_env::{BoxFuture, DiskFile, Folder, fail_point_blocking, is_flush_failure};
use headwater_metadata::{Session, WalSeq};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A log of append files.
pub(crate) struct FolderLog {
    store: Store,
    session: Session,
    shared: Arc<Shared>,
}

struct Shared {
    folder: Box<dyn Folder>,
    path: PathBuf,
    state: Mutex<State>,
    /// For those who must not wait for the state, which is locked while a group is flushed.
    files: AtomicU64,
    last: AtomicU64,
}

#[derive(Default)]
struct State {
    /// First numbers of the files, oldest first.
    files: VecDeque<u64>,
    /// The newest file.
    current: Option<Current>,
    spare: bool,
}

struct Current {
    file: Box<dyn DiskFile>,
    len: u64,
    offset: u64,
}

enum Failure {
    Passing(String),
    Final(WalError),
}

impl FolderLog {
    /// Over the folder that was made for the session, and is held since.
    pub(crate) fn new(store: &Store, session: Session, folder: Box<dyn Folder>, path: PathBuf) -> FolderLog {
        let shared = Arc::new(Shared {
            folder,
            path,
            state: Mutex::default(),
            files: AtomicU64::new(0),
            last: AtomicU64::new(0),
        });
        let log = FolderLog { store: store.clone(), session, shared };
        log.prepare();
        log
    }

    /// Makes the next file in advance.
    fn prepare(&self) {
        let shared = self.shared.clone();
        tokio::task::spawn_blocking(move || shared.prepare());
    }

    async fn append(&self, seq: WalSeq, parts: Vec<Bytes>) -> Result<(), WalError> {
        let frame = Bytes::from(padded(&parts));
        drop(parts);
        let mut backoff = self.store.backoff();
        loop {
            let (shared, frame) = (self.shared.clone(), frame.clone());
            let written = tokio::task::spawn_blocking(move || shared.append(seq, &frame)).await;
            match written {
                Ok(Ok(rolled)) => {
                    if rolled {
                        self.prepare();
                    }
                    return Ok(());
                }
                Ok(Err(Failure::Passing(reason))) => backoff.wait(&reason).await,
                Ok(Err(Failure::Final(error))) => {
                    if matches!(error, WalError::Fenced { .. }) {
                        tracing::warn!(session = %self.session, %seq, "the log is sealed");
                    }
                    return Err(error);
                }
                Err(error) => return Err(WalError::Failed(error.to_string().into())),
            }
        }
    }

    async fn is_there(&self) -> Result<(), WalError> {
        let shared = self.shared.clone();
        let at = WalSeq(self.shared.last.load(Ordering::Relaxed));
        let checked = tokio::task::spawn_blocking(move || shared.check(at)).await;
        match checked {
            Ok(Err(Failure::Final(error))) => Err(error),
            Ok(Err(Failure::Passing(reason))) => Err(WalError::Failed(reason.into())),
            Ok(Ok(())) => Ok(()),
            Err(error) => Err(WalError::Failed(error.to_string().into())),
        }
    }
}

impl Log for FolderLog {
    fn write(&self, seq: WalSeq, parts: Vec<Bytes>) -> BoxFuture<'_, Result<(), WalError>> {
        Box::pin(self.append(seq, parts))
    }

    fn check(&self) -> Option<BoxFuture<'_, Result<(), WalError>>> {
        Some(Box::pin(self.is_there()))
    }

    fn delete(&self, _: WalSeq, below: WalSeq) -> BoxFuture<'_, bool> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let trimmed = tokio::task::spawn_blocking(move || shared.trim(below)).await;
            matches!(trimmed, Ok(Ok(())))
        })
    }

    fn in_flight(&self) -> usize {
        1
    }

    fn overlaps(&self) -> bool {
        // One flush covers what was written before it; a second group on its way would gain nothing.
        false
    }

    fn pieces(&self, _: u64) -> u64 {
        self.shared.files.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Writes and flushes a group, then looks whether the folder is still ours. True when a new file
    /// was begun.
    fn append(&self, seq: WalSeq, frame: &[u8]) -> Result<bool, Failure> {
        let mut state = self.state.lock();
        self.last.store(seq.0, Ordering::Relaxed);
        let fits = state.current.as_ref().is_some_and(|file| file.offset + frame.len() as u64 <= file.len);
        if !fits {
            self.roll(&mut state, seq, frame.len() as u64).map_err(failure)?;
        }
        if let Some(current) = &mut state.current {
            current.file.write_at(current.offset, frame).map_err(failure)?;
            current.file.sync().map_err(|error| failed(&error))?;
            fail_point_blocking!("store.wal.before_check");
            self.check(seq)?;
            current.offset += frame.len() as u64;
        }
        Ok(!fits)
    }

    /// The check without which nothing is acknowledged.
    fn check(&self, at: WalSeq) -> Result<(), Failure> {
        match self.folder.is_at(&self.path) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::Final(WalError::Fenced { at })),
            Err(error) => Err(Failure::Passing(format!("{}: {error}", self.path.display()))),
        }
    }

    /// Begins the next file.
    fn roll(&self, state: &mut State, seq: WalSeq, needed: u64) -> io::Result<()> {
        let name = name(seq.0);
        let (file, len) = if state.spare && needed <= SEGMENT {
            self.folder.rename(SPARE, &name)?;
            state.spare = false;
            (self.folder.open(&name)?, SEGMENT)
        } else {
            let len = needed.max(SEGMENT);
            // What an earlier attempt left: it holds nothing that was acknowledged.
            self.folder.remove(&name)?;
            (self.folder.create(&name, len)?, len)
        };
        state.files.push_back(seq.0);
        self.files.store(state.files.len() as u64, Ordering::Relaxed);
        state.current = Some(Current { file, len, offset: 0 });
        Ok(())
    }

    fn prepare(&self) {
        const UNFINISHED: &str = "spare.new";
        if self.state.lock().spare {
            return;
        }
        let made = self.folder.remove(UNFINISHED).and_then(|()| self.folder.create(UNFINISHED, SEGMENT));
        match made.and_then(|_| self.folder.rename(UNFINISHED, SPARE)) {
            Ok(()) => self.state.lock().spare = true,
            // A file that was trimmed came first, or there is no room: it is made when it is needed.
            Err(_) => drop(self.folder.remove(UNFINISHED)),
        }
    }

    /// Lets go of the files that hold nothing from `below` on; one of them is used again.
    fn trim(&self, below: WalSeq) -> io::Result<()> {
        let mut state = self.state.lock();
        while state.files.get(1).is_some_and(|second| *second <= below.0) {
            let Some(first) = state.files.front().copied() else { break };
            if state.spare {
                self.folder.remove(&name(first))?;
            } else {
                self.folder.rename(&name(first), SPARE)?;
                state.spare = true;
            }
            state.files.pop_front();
            self.files.store(state.files.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The pieces as one, filled up with zeros.
fn padded(parts: &[Bytes]) -> Vec<u8> {
    let len: usize = parts.iter().map(Bytes::len).sum();
    let mut frame = Vec::with_capacity(aligned(len as u64) as usize);
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    frame.resize(aligned(len as u64) as usize, 0);
    frame
}

fn failed(error: &io::Error) -> Failure {
    Failure::Final(WalError::Failed(format!("a file of the log: {error}").into()))
}

fn failure(error: io::Error) -> Failure {
    match error.kind() {
        _ if is_flush_failure(&error) => failed(&error),
        // Room may come back; anything else of a file that is open will not mend itself.
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::Interrupted => {
            Failure::Passing(format!("a file of the log: {error}"))
        }
        _ => failed(&error),
    }
}
