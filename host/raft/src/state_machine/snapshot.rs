//! Snapshots as files: `snapshots/{index}-{term}.snap`, a checked head (what it covers, the
//! membership) and the checked form of the state. One is current; a new one takes its place only when
//! it is whole and flushed. The same bytes go over the wire to a member that lags.

use crate::error::DirError;
use crate::options::Paths;
use crate::types::SnapshotMeta;
use crate::wire;
use headwater_env::{DiskFile, Env};
use headwater_metadata::{State, snapshot};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"hwsnap01";
/// Magic, length and checksum of the head.
const FIXED: usize = 16;
const WRITE_BYTES: usize = 1 << 20;

/// What a snapshot says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Head {
    meta: SnapshotMeta,
    body_len: u64,
    body_crc: u32,
}

/// A snapshot on disk, open for reading.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotFile {
    pub path: PathBuf,
    pub file: Arc<dyn DiskFile>,
    pub len: u64,
    pub meta: SnapshotMeta,
}

fn name(meta: &SnapshotMeta) -> String {
    let (index, term) = meta.last_log_id.map_or((0, 0), |id| (id.index, id.leader_id.term));
    format!("{index:020}-{term}.snap")
}

/// Encodes a state and writes it as the current snapshot. Blocks.
pub(crate) fn build(env: &Env, paths: &Paths, meta: SnapshotMeta, state: &State) -> io::Result<SnapshotFile> {
    let body = snapshot::encode(state);
    let head = Head { meta: meta.clone(), body_len: body.len() as u64, body_crc: crc32c::crc32c(&body) };
    let head = wire::encode(&head);
    let mut bytes = Vec::with_capacity(FIXED + head.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&head).to_le_bytes());
    bytes.extend_from_slice(&head);

    let aside = paths.snapshots().join("building.tmp");
    env.disk.remove(&aside)?;
    let file = env.disk.open(&aside, true)?;
    file.write_at(0, &bytes)?;
    let mut at = bytes.len() as u64;
    for piece in body.chunks(WRITE_BYTES) {
        file.write_at(at, piece)?;
        at += piece.len() as u64;
    }
    file.sync()?;
    headwater_env::fail_point_blocking!("raft.snapshot.written", {
        return Err(io::Error::other("fail point raft.snapshot.written"));
    });
    let path = paths.snapshots().join(name(&meta));
    env.disk.rename(&aside, &path)?;
    Ok(SnapshotFile { path, file: file.into(), len: at, meta })
}

/// Opens and verifies a snapshot file, and decodes its state. Blocks.
pub(crate) fn load(env: &Env, path: &Path) -> Result<(SnapshotFile, State), String> {
    let (file, bytes) = read(env, path)?;
    let (_, body) = split(&bytes)?;
    let state = snapshot::decode(body).map_err(|e| e.to_string())?;
    Ok((file, state))
}

/// Opens and verifies a snapshot file. Blocks.
pub(crate) fn check(env: &Env, path: &Path) -> Result<SnapshotFile, String> {
    Ok(read(env, path)?.0)
}

fn read(env: &Env, path: &Path) -> Result<(SnapshotFile, Vec<u8>), String> {
    let file = env.disk.open(path, false).map_err(|e| e.to_string())?;
    let len = file.len().map_err(|e| e.to_string())?;
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| "too large")?];
    file.read_at(0, &mut bytes).map_err(|e| e.to_string())?;
    let (head, body) = split(&bytes)?;
    if head.body_len != body.len() as u64 {
        return Err(format!("the snapshot has {} bytes instead of {}", body.len(), head.body_len));
    }
    if crc32c::crc32c(body) != head.body_crc {
        return Err("the checksum of the snapshot does not match".to_owned());
    }
    Ok((SnapshotFile { path: path.to_owned(), file: file.into(), len, meta: head.meta }, bytes))
}

fn split(bytes: &[u8]) -> Result<(Head, &[u8]), String> {
    let cut = "the snapshot is cut short";
    let rest = bytes.strip_prefix(MAGIC).ok_or("not a snapshot of this version")?;
    let (len, rest) = rest.split_first_chunk::<4>().ok_or(cut)?;
    let (crc, rest) = rest.split_first_chunk::<4>().ok_or(cut)?;
    let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| cut)?;
    let (head, body) = rest.split_at_checked(len).ok_or(cut)?;
    if crc32c::crc32c(head) != u32::from_le_bytes(*crc) {
        return Err("the checksum of the snapshot's head does not match".to_owned());
    }
    Ok((wire::decode(head)?, body))
}

/// Makes a received file, already verified, the current snapshot. Blocks.
pub(crate) fn adopt(env: &Env, paths: &Paths, received: &SnapshotFile) -> io::Result<SnapshotFile> {
    received.file.sync()?;
    let path = paths.snapshots().join(name(&received.meta));
    if path != received.path {
        env.disk.rename(&received.path, &path)?;
    }
    Ok(SnapshotFile { path, ..received.clone() })
}

/// Removes snapshots older than `current`, and what was left half-made. Blocks.
pub(crate) fn tidy(env: &Env, paths: &Paths, current: &Path) -> io::Result<()> {
    for path in env.disk.list(&paths.snapshots())? {
        let older = path.extension().is_some_and(|e| e == "snap") && path.as_path() < current;
        if older {
            env.disk.remove(&path)?;
        }
    }
    Ok(())
}

/// Finds the current snapshot at the start. Anything wrong with it is an error that names the file.
pub(crate) fn open_current(env: &Env, paths: &Paths) -> Result<Option<(SnapshotFile, State)>, DirError> {
    let folder = paths.snapshots();
    env.disk.create_dir_all(&folder).map_err(|e| DirError::io(&folder, e))?;
    let files = env.disk.list(&folder).map_err(|e| DirError::io(&folder, e))?;
    for left in files.iter().filter(|path| path.extension().is_some_and(|e| e == "tmp")) {
        env.disk.remove(left).map_err(|e| DirError::io(left, e))?;
    }
    let Some(newest) = files.iter().rfind(|path| path.extension().is_some_and(|e| e == "snap")) else {
        return Ok(None);
    };
    let (file, state) = load(env, newest).map_err(|why| DirError::damaged(newest, why))?;
    if newest.file_name() != Some(name(&file.meta).as_ref()) {
        return Err(DirError::damaged(newest, "the snapshot is not the one that its name says"));
    }
    tidy(env, paths, newest).map_err(|e| DirError::io(folder, e))?;
    Ok(Some((file, state)))
}
