//! A folder held by a handle: what is done in it reaches that very folder, whatever its name leads to
//! by then.

use super::RealFile;
use crate::{DiskFile, FlushFailed, Folder};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// File systems of one machine, on which names and inodes mean what they say at once: ext, xfs, btrfs,
/// f2fs, bcachefs, zfs, tmpfs.
const LOCAL: [u64; 7] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0xca45_1a4e, 0x2fc1_2fc1, 0x0102_1994];

#[derive(Debug)]
pub(super) struct RealFolder(OwnedFd);

impl RealFolder {
    pub(super) fn open(path: &Path) -> io::Result<RealFolder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(RealFolder(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        rustix::fs::fsync(&self.0).map_err(|error| FlushFailed::wrap(error.into()))
    }

    fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o644))?))
    }
}

/// Whether the file system that holds this path is one of [`LOCAL`].
pub(super) fn is_local(path: &Path) -> io::Result<bool> {
    let kind = rustix::fs::statfs(path)?.f_type;
    Ok(LOCAL.contains(&u64::try_from(kind).unwrap_or_default()))
}

/// Renames to a name that must be free; the folder of the new name is flushed.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?;
    RealFolder::open(super::RealDisk::parent(to))?.sync()
}

impl Folder for RealFolder {
    fn create(&self, name: &str, len: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut file = self.file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        // Written, not only reserved: overwriting it later then changes nothing but its data.
        let zeros = vec![0; 1 << 20];
        let mut left = len;
        while left > 0 {
            let piece = left.min(zeros.len() as u64);
            file.write_all(&zeros[..usize::try_from(piece).unwrap_or(zeros.len())])?;
            left -= piece;
        }
        file.sync_all().map_err(FlushFailed::wrap)?;
        self.sync()?;
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(self.file(name, OFlags::RDWR)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        rustix::fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE)?;
        self.sync()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            other => Ok(other?),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if let Ok(name) = name.into_string()
                && name != "."
                && name != ".."
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let held = rustix::fs::fstat(&self.0)?;
        match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => Ok((there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
