//! Seals a log of append files: the folder is renamed, everything in it flushed, its end written down.
//!
//! Neither name being there is an error, never an empty log: the folder was made before its session was
//! registered.

use super::read;
use super::{END, parse_name};
use crate::layout;
use crate::store::{Store, StoreError};
use bytes::Bytes;
use headwater_env::{Disk, fail_point_blocking};
use headwater_metadata::{Session, WalSeq};
use std::io;
use std::path::Path;

/// Seals the log and gives the number after its last group.
pub(crate) async fn seal(
    store: &Store,
    session: Session,
    from: WalSeq,
    by: Session,
) -> Result<WalSeq, StoreError> {
    let failed =
        |reason: String| StoreError::Failed { what: format!("seal the log of session {session}"), reason };
    let path = |path: object_store::path::Path| {
        let found = store.file_path(&path);
        found.ok_or_else(|| failed("it is a log of files, and this store is not a folder".into()))
    };
    let (open, sealed) = (path(layout::log_folder(session))?, path(layout::sealed_folder(session))?);
    let disk = store.env().disk.clone();
    let work = move || seal_blocking(&*disk, session, from, by, &open, &sealed);
    let sealed = tokio::task::spawn_blocking(work).await.map_err(|error| failed(error.to_string()))?;
    sealed.map(WalSeq).map_err(|error| failed(error.to_string()))
}

fn seal_blocking(
    disk: &dyn Disk,
    session: Session,
    from: WalSeq,
    by: Session,
    open: &Path,
    sealed: &Path,
) -> io::Result<u64> {
    fail_point_blocking!("store.seal.before_rename");
    match disk.rename_new(open, sealed) {
        Ok(()) => tracing::info!(%session, folder = %sealed.display(), "sealed the log"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let folder = disk.open_folder(sealed).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let (open, sealed) = (open.display(), sealed.display());
            io::Error::new(
                error.kind(),
                format!("neither {open} nor {sealed} exists: is this the right store?"),
            )
        }
        _ => error,
    })?;
    fail_point_blocking!("store.seal.after_rename");
    if let Some(end) = read_end(disk, sealed)? {
        return Ok(end);
    }
    // What the owner wrote and did not flush is read as well, so it has to be on the medium before the
    // end is written down behind it.
    for file in folder.list()?.iter().filter(|name| parse_name(name).is_some()) {
        folder.open(file)?.sync()?;
    }
    let end = read::end(folder, session, from.0)?;
    let text = Bytes::from(format!("{end}\nsealed by {by}\n"));
    match disk.create_new(&sealed.join(END), &[text]) {
        Ok(()) => Ok(end),
        // Another sealer was first; the owner may have written between the two of us.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            read_end(disk, sealed)?.ok_or_else(|| io::Error::other("the end of the log cannot be read"))
        }
        Err(error) => Err(error),
    }
}

fn read_end(disk: &dyn Disk, sealed: &Path) -> io::Result<Option<u64>> {
    let path = sealed.join(END);
    let text = match disk.read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let first = std::str::from_utf8(&text).ok().and_then(|text| text.lines().next()?.parse().ok());
    let damaged = || io::Error::other(format!("{} is damaged", path.display()));
    first.map(Some).ok_or_else(damaged)
}

/// Deletes the files of a sealed log. The folder and its end stay for ever.
pub(crate) async fn delete(store: &Store, session: Session) -> bool {
    let Some(sealed) = store.file_path(&layout::sealed_folder(session)) else { return false };
    let disk = store.env().disk.clone();
    let work = move || -> io::Result<()> {
        let folder = disk.open_folder(&sealed)?;
        if read_end(&*disk, &sealed)?.is_none() {
            return Err(io::Error::other("it is not sealed"));
        }
        folder.list()?.iter().filter(|name| *name != END).try_for_each(|name| folder.remove(name))
    };
    let deleted = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten();
    if let Err(error) = &deleted {
        tracing::warn!(%error, %session, "deleting a recovered log failed; later again");
    }
    deleted.is_ok()
}
