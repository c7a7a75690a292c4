//! redb's file over the disk of the environment. The first write or flush that fails is the last one:
//! after it everything fails, because pages that a failed flush left behind count as clean and a second
//! flush would claim what is not so.

use crate::counters::{Counters, count};
use headwater_env::DiskFile;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) struct Backend {
    file: Box<dyn DiskFile>,
    failed: AtomicBool,
    counters: Arc<Counters>,
}

impl Backend {
    pub(super) fn new(file: Box<dyn DiskFile>, counters: Arc<Counters>) -> Backend {
        Backend { file, failed: AtomicBool::new(false), counters }
    }

    fn guard<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier write or flush of the log failed"));
        }
        work().inspect_err(|_| self.failed.store(true, Ordering::Release))
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.guard(|| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.guard(|| {
            headwater_env::fail_point_blocking!("raft.log.sync", {
                return Err(io::Error::other("fail point raft.log.sync"));
            });
            count(&self.counters.log_flushes);
            self.file.sync()
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.guard(|| self.file.write_at(offset, data))
    }
}
