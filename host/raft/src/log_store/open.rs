//! Opening the log: everything in it is read and verified before raft sees any of it. A member whose
//! log is damaged or missing must not vote, so each finding is an error that names the file.

use super::backend::Backend;
use super::format::{self, COMMITTED, LOG, META, OWNER, PURGED, VOTE};
use crate::counters::Counters;
use crate::dir::DataDir;
use crate::error::DirError;
use crate::types::{Entry, LogId, Vote};
use openraft::entry::RaftEntry;
use redb::{Database, ReadableDatabase, ReadableTable};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// What was found.
pub(super) struct Opened {
    pub db: Database,
    pub vote: Option<Vote>,
    pub purged: Option<LogId>,
    pub committed: Option<LogId>,
    pub last: Option<LogId>,
    /// The newest entries, to begin with.
    pub tail: Vec<(Entry, usize)>,
}

/// Opens the log of a data directory, or makes it when the directory never had one.
pub(super) fn open(dir: &mut DataDir, counters: &Arc<Counters>, keep: usize) -> Result<Opened, DirError> {
    let path = dir.paths.log();
    let disk = dir.env.disk.clone();
    if !dir.identity.log_made {
        // Nothing in a file from a first start that was broken off has been acknowledged.
        disk.remove(&path).map_err(|e| DirError::io(&path, e))?;
    }
    let file = match disk.open(&path, !dir.identity.log_made) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(DirError::damaged(path, "the raft log is gone"));
        }
        Err(e) => return Err(DirError::io(path, e)),
    };
    if dir.identity.log_made && file.is_empty().map_err(|e| DirError::io(&path, e))? {
        return Err(DirError::damaged(path, "the raft log is empty"));
    }
    let backend = Backend::new(file, counters.clone());
    let fresh = !dir.identity.log_made;
    let member = dir.identity.member;
    // redb's own code may panic on bytes that it did not write.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let db = database(backend, &path)?;
        if fresh {
            claim(&db, member).map_err(|why| DirError::damaged(&path, why))?;
        }
        verify(db, member, keep).map_err(|why| DirError::damaged(&path, why))
    }));
    let opened = opened.unwrap_or_else(|_| Err(DirError::damaged(&path, "the raft log is damaged")))?;
    dir.mark_log_made()?;
    Ok(opened)
}

fn database(backend: Backend, path: &Path) -> Result<Database, DirError> {
    let mut builder = redb::Builder::new();
    builder.set_cache_size(16 << 20).set_check_integrity_on_open(true).set_repair_callback(|_| {
        tracing::info!("the raft log was not closed: recovering it to its last complete flush");
    });
    builder.create_with_backend(backend).map_err(|error| match error {
        redb::DatabaseError::Storage(redb::StorageError::Io(error))
            if error.kind() != io::ErrorKind::InvalidData && error.kind() != io::ErrorKind::UnexpectedEof =>
        {
            DirError::io(path, error)
        }
        error => DirError::damaged(path, error.to_string()),
    })
}

fn claim(db: &Database, member: u64) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let transaction = db.begin_write().map_err(|e| text(&e))?;
    {
        transaction.open_table(LOG).map_err(|e| text(&e))?;
        let mut meta = transaction.open_table(META).map_err(|e| text(&e))?;
        let row = format::seal(OWNER.as_bytes(), &member);
        meta.insert(OWNER, row.as_slice()).map_err(|e| text(&e))?;
    }
    transaction.commit().map_err(|e| text(&e))
}

fn verify(db: Database, member: u64, keep: usize) -> Result<Opened, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let transaction = db.begin_read().map_err(|e| text(&e))?;
    let meta = transaction.open_table(META).map_err(|e| text(&e))?;
    let owner: u64 = row(&meta, OWNER)?.ok_or("the log names no member")?;
    if owner != member {
        return Err("the raft log is another member's".to_owned());
    }
    let vote = row(&meta, VOTE)?;
    let purged: Option<LogId> = row(&meta, PURGED)?;
    let committed = row(&meta, COMMITTED)?;
    let log = transaction.open_table(LOG).map_err(|e| text(&e))?;
    let mut last = purged;
    let first = purged.map_or(0, |id| id.index + 1);
    let mut tail = std::collections::VecDeque::new();
    for (entry, next) in log.iter().map_err(|e| text(&e))?.zip(first..) {
        let (key, value) = entry.map_err(|e| text(&e))?;
        let index = key.value();
        if index != next {
            return Err(format!("entry {next} is missing"));
        }
        let entry = decode(index, value.value())?;
        last = Some(entry.log_id());
        tail.push_back((entry, value.value().len()));
        if tail.len() > keep {
            tail.pop_front();
        }
    }
    if last.is_some() && vote.is_none() {
        return Err("the vote is missing".to_owned());
    }
    drop(meta);
    drop(log);
    drop(transaction);
    Ok(Opened { db, vote, purged, committed, last, tail: tail.into() })
}

fn row<T: serde::de::DeserializeOwned>(
    meta: &redb::ReadOnlyTable<&'static str, &'static [u8]>,
    key: &str,
) -> Result<Option<T>, String> {
    let value = meta.get(key).map_err(|e| e.to_string())?;
    value.map(|v| format::open(key.as_bytes(), v.value()).map_err(|why| format!("{key}: {why}"))).transpose()
}

/// Decodes and verifies an entry.
pub(super) fn decode(index: u64, bytes: &[u8]) -> Result<Entry, String> {
    let entry: Entry =
        format::open(&format::index_key(index), bytes).map_err(|why| format!("entry {index}: {why}"))?;
    if entry.log_id().index != index {
        return Err(format!("entry {index} is stored in the wrong place"));
    }
    Ok(entry)
}
