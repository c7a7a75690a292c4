//! The local disk, as far as a node needs it: a data directory with a few files that are written
//! whole, one file that a database writes at random, and a lock.

use bytes::Bytes;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

/// A local disk. All calls block: use them at start, or from a thread that may wait.
pub trait Disk: Send + Sync {
    /// Calls never wait, so async code may make them where it is (a disk in memory).
    fn instant(&self) -> bool {
        false
    }
    /// Makes a directory and those above it, flushed.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Names in a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Reads a whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Puts a whole file in place of what is there, in one step that survives a power cut: written
    /// aside, flushed, renamed, the directory flushed.
    fn write_atomic(&self, path: &Path, contents: &[u8]) -> io::Result<()>;
    /// Opens for reading and writing at random; created when absent and `create`.
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file over another, the directory flushed.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Deletes a file; absent is fine.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a new file with these contents, durably: it is absent or whole at any moment, also after a
    /// power cut, and when this returns both the file and its name are on the medium. Directories above
    /// are made. `AlreadyExists` when the name is taken; [`is_flush_failure`] when a flush failed, after
    /// which nothing is known about what is on the medium.
    fn create_new(&self, path: &Path, contents: &[Bytes]) -> io::Result<()> {
        let _ = (path, contents);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Flushes an existing file and its name to the medium.
    fn flush(&self, path: &Path) -> io::Result<()> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes a folder under a name that must be free, with those above it, flushed, and holds it open.
    fn make_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Opens a folder that exists.
    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Renames a file or folder to a name that must be free, flushed.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Whether the path is on a file system of this machine alone, which tells at once what a name
    /// leads to.
    fn is_local(&self, path: &Path) -> io::Result<bool> {
        let _ = path;
        Ok(false)
    }
    /// Takes the lock of a data directory, or fails at once when another process has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;
}

/// An open file.
pub trait DiskFile: Send + Sync + Debug {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Reads exactly the buffer's length at `offset`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts or extends (with zeros).
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Flushes data and length to the medium.
    fn sync(&self) -> io::Result<()>;
    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A folder held open. Everything is relative to the folder itself, not to its name.
pub trait Folder: Send + Sync + Debug {
    /// Makes a new file of this many zeros, written and flushed with its name.
    fn create(&self, name: &str, len: u64) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file that exists.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file to a name that must be free, flushed.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Deletes a file; absent is fine.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Names in the folder, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Whether this name leads to this very folder now.
    fn is_at(&self, path: &Path) -> io::Result<bool>;
}

/// A held lock; released when dropped and when the process ends.
pub trait Lock: Send + Sync {
    /// The kernel's boot id, the device and the inode of the lock file.
    fn identity(&self) -> (String, u64, u64);
}

/// A flush that failed: the kernel may have dropped what was not written, and a later flush would not
/// say so.
#[derive(Debug, thiserror::Error)]
#[error("flush failed: {0}")]
pub struct FlushFailed(pub io::Error);

impl FlushFailed {
    /// As an error of the disk.
    pub fn wrap(error: io::Error) -> io::Error {
        io::Error::new(error.kind(), FlushFailed(error))
    }
}

/// Whether an error of the disk is a failed flush.
pub fn is_flush_failure(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<FlushFailed>())
}
