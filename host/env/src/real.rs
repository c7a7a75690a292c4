//! The seams over the operating system.

mod folder;

use crate::{
    BoxFuture, Clock, Connection, Disk, DiskFile, Entropy, FlushFailed, Folder, Listener, Lock, Net,
};
use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// The machine's clocks. With the feature `faults`, `HEADWATER_FAULT_CLOCK_OFFSET_MS` moves the wall clock.
pub(crate) struct RealClock {
    offset_ms: i64,
}

impl RealClock {
    pub(crate) fn new() -> RealClock {
        #[cfg(feature = "faults")]
        let offset_ms = crate::faults::clock_offset_ms();
        #[cfg(not(feature = "faults"))]
        let offset_ms = 0;
        RealClock { offset_ms }
    }
}

fn read_clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

impl Clock for RealClock {
    fn wall_ms(&self) -> u64 {
        let ms = read_clock(ClockId::Realtime).as_millis();
        u64::try_from(ms).unwrap_or(u64::MAX).saturating_add_signed(self.offset_ms)
    }

    fn monotonic(&self) -> Duration {
        read_clock(ClockId::Monotonic)
    }

    fn boot(&self) -> Duration {
        read_clock(ClockId::Boottime)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

pub(crate) struct RealEntropy;

impl Entropy for RealEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        // Without the kernel's randomness no identity is safe: there is nothing to go on with.
        getrandom::fill(buffer).expect("the operating system gives no randomness");
    }
}

pub(crate) struct RealNet;

struct RealListener {
    listener: TcpListener,
    local: SocketAddr,
}

impl Net for RealNet {
    fn bind(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            #[allow(clippy::disallowed_methods)]
            let bound = TcpListener::bind(address).await;
            let listener =
                bound.map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {address}: {e}")))?;
            let local = listener.local_addr()?;
            Ok(Box::new(RealListener { listener, local }) as Box<dyn Listener>)
        })
    }

    fn connect<'a>(&'a self, authority: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Connection>>> {
        Box::pin(async move {
            #[allow(clippy::disallowed_methods)]
            let connected = TcpStream::connect(authority).await;
            let stream = connected
                .map_err(|e| io::Error::new(e.kind(), format!("cannot connect to {authority}: {e}")))?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }
}

impl Listener for RealListener {
    fn local(&self) -> SocketAddr {
        self.local
    }

    fn accept(&self) -> BoxFuture<'_, io::Result<(Box<dyn Connection>, SocketAddr)>> {
        Box::pin(async move {
            let (stream, peer) = self.listener.accept().await?;
            stream.set_nodelay(true)?;
            Ok((Box::new(stream) as Box<dyn Connection>, peer))
        })
    }
}

/// The machine's file system.
pub struct RealDisk;

impl RealDisk {
    fn sync_dir(path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    /// A new file beside `path`: its name ends in `#` and digits, which object stores over a folder
    /// take for an unfinished upload.
    fn aside(path: &Path) -> io::Result<(PathBuf, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let mut aside = path.as_os_str().to_owned();
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            aside.push(format!("#{}{number:06}", std::process::id()));
            let aside = PathBuf::from(aside);
            match OpenOptions::new().write(true).create_new(true).open(&aside) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                other => return other.map(|file| (aside, file)),
            }
        }
    }

    /// Gives the file its name, unless the name is taken.
    fn publish(aside: &Path, path: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, aside, CWD, path, RenameFlags::NOREPLACE) {
            // The file system does not know the flag: a hard link does the same in two steps.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                fs::hard_link(aside, path)?;
                fs::remove_file(aside)
            }
            other => Ok(other?),
        }
    }

    fn parent(path: &Path) -> &Path {
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }
}

impl Disk for RealDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let parent = Self::parent(path);
        if parent != path {
            self.create_dir_all(parent)?;
        }
        match fs::create_dir(path) {
            Ok(()) => Self::sync_dir(parent),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut names =
            fs::read_dir(path)?.map(|entry| entry.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn write_atomic(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".tmp");
        let aside = PathBuf::from(aside);
        let mut file = File::create(&aside)?;
        file.write_all(contents)?;
        file.sync_all()?;
        self.rename(&aside, path)
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let existed = path.exists();
        let file = OpenOptions::new().read(true).write(true).create(create).truncate(false).open(path)?;
        if !existed {
            Self::sync_dir(Self::parent(path))?;
        }
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        Self::sync_dir(Self::parent(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn create_new(&self, path: &Path, contents: &[Bytes]) -> io::Result<()> {
        let taken = || io::Error::new(io::ErrorKind::AlreadyExists, format!("{} exists", path.display()));
        if fs::symlink_metadata(path).is_ok() {
            return Err(taken());
        }
        let parent = Self::parent(path);
        let (aside, mut file) = match Self::aside(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.create_dir_all(parent)?;
                Self::aside(path)?
            }
            other => other?,
        };
        let published = contents
            .iter()
            .try_for_each(|part| file.write_all(part))
            .and_then(|()| file.sync_data().map_err(FlushFailed::wrap))
            .and_then(|()| Self::publish(&aside, path));
        if let Err(error) = published {
            // What is left is ignored by its name; nobody waits for this.
            let _ = fs::remove_file(&aside);
            return Err(if error.kind() == io::ErrorKind::AlreadyExists { taken() } else { error });
        }
        Self::sync_dir(parent).map_err(FlushFailed::wrap)
    }

    fn flush(&self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        file.sync_all().map_err(FlushFailed::wrap)?;
        Self::sync_dir(Self::parent(path)).map_err(FlushFailed::wrap)
    }

    fn make_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>> {
        let parent = Self::parent(path);
        self.create_dir_all(parent)?;
        fs::create_dir(path)?;
        let folder = folder::RealFolder::open(path)?;
        folder.sync()?;
        Self::sync_dir(parent).map_err(FlushFailed::wrap)?;
        Ok(Box::new(folder))
    }

    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>> {
        Ok(Box::new(folder::RealFolder::open(path)?))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        folder::rename_new(from, to)
    }

    fn is_local(&self, path: &Path) -> io::Result<bool> {
        folder::is_local(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        let meta = file.metadata()?;
        let boot =
            fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        Ok(Box::new(RealLock { identity: (boot, meta.dev(), meta.ino()), _file: file }))
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

struct RealLock {
    identity: (String, u64, u64),
    _file: File,
}

impl Lock for RealLock {
    fn identity(&self) -> (String, u64, u64) {
        self.identity.clone()
    }
}
