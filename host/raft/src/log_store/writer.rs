//! The one writer of the log: takes everything that waits, writes it in one transaction, flushes once,
//! and only then says so. The first failure is the last: raft is told, and the node stops.

use super::format::{self, COMMITTED, LOG, META, PURGED, VOTE};
use super::{Shared, index_of};
use crate::counters::add;
use crate::error::Fatal;
use crate::types::{Config, LogId, Vote};
use openraft::storage::IOFlushed;
use redb::{Database, ReadableTable};
use std::io;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Something to write. In the order of the queue.
pub(super) enum Write {
    Append {
        rows: Vec<(u64, Vec<u8>)>,
        flushed: IOFlushed<Config>,
    },
    Vote {
        vote: Vote,
        done: oneshot::Sender<io::Result<()>>,
    },
    /// Drops entries from this index on.
    Truncate {
        from: u64,
        done: oneshot::Sender<io::Result<()>>,
    },
    /// Drops entries up to this one.
    Purge {
        upto: LogId,
    },
    /// Answers when everything before it is written.
    Close {
        done: oneshot::Sender<()>,
    },
}

/// So many bytes go into one transaction at most.
const BATCH_BYTES: usize = 8 << 20;

pub(super) async fn run(shared: Arc<Shared>, mut queue: mpsc::Receiver<Write>) {
    let mut dead: Option<String> = None;
    while let Some(first) = queue.recv().await {
        let mut batch = vec![first];
        let mut bytes = 0;
        while bytes < BATCH_BYTES
            && let Ok(next) = queue.try_recv()
        {
            if let Write::Append { rows, .. } = &next {
                bytes += rows.iter().map(|(_, row)| row.len()).sum::<usize>();
            }
            batch.push(next);
        }
        let result = match &dead {
            Some(why) => Err(io::Error::other(why.clone())),
            None => {
                let (back, result) = write(&shared, batch).await;
                batch = back;
                result
            }
        };
        if let Err(error) = &result
            && dead.is_none()
        {
            // Never tried again: what the failed flush left behind counts as written.
            tracing::error!(%error, "writing the raft log failed; this member stops");
            dead = Some(error.to_string());
            shared.fatal.report(Fatal::Disk(format!("raft log: {error}")));
        }
        answer(&shared, batch, &result);
    }
}

async fn write(shared: &Arc<Shared>, batch: Vec<Write>) -> (Vec<Write>, io::Result<()>) {
    let committed = shared.memory.lock().committed;
    let theirs = shared.clone();
    shared
        .env
        .blocking(move || {
            let db = theirs.db.lock().clone();
            let result = match db {
                Some(db) => commit(&db, &batch, committed).map_err(|e| match e {
                    redb::Error::Io(e) => e,
                    e => io::Error::other(e.to_string()),
                }),
                None => Err(io::Error::other("the log is closed")),
            };
            (batch, result)
        })
        .await
}

fn commit(db: &Database, batch: &[Write], committed: Option<LogId>) -> Result<(), redb::Error> {
    let transaction = db.begin_write()?;
    {
        let mut log = transaction.open_table(LOG)?;
        let mut meta = transaction.open_table(META)?;
        for write in batch {
            match write {
                Write::Append { rows, .. } => {
                    for (index, row) in rows {
                        log.insert(*index, row.as_slice())?;
                    }
                }
                Write::Vote { vote, .. } => {
                    meta.insert(VOTE, format::seal(VOTE.as_bytes(), vote).as_slice())?;
                }
                Write::Truncate { from, .. } => {
                    log.retain_in(*from.., |_, _| false)?;
                }
                Write::Purge { upto } => {
                    headwater_env::fail_point_blocking!("raft.log.purge");
                    log.retain_in(..=upto.index, |_, _| false)?;
                    meta.insert(PURGED, format::seal(PURGED.as_bytes(), upto).as_slice())?;
                }
                Write::Close { .. } => {}
            }
        }
        if let Some(committed) = committed {
            // Only what the log or the purge point covers: a point beyond both could not be replayed.
            let last = log.last()?.map(|(key, _)| key.value());
            if last >= Some(committed.index) {
                meta.insert(COMMITTED, format::seal(COMMITTED.as_bytes(), &committed).as_slice())?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

fn answer(shared: &Shared, batch: Vec<Write>, result: &io::Result<()>) {
    let copy = || match result {
        Ok(()) => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    };
    for write in batch {
        match write {
            Write::Append { rows, flushed } => {
                if result.is_ok() {
                    add(&shared.counters.log_entries, rows.len());
                    if let Some((index, _)) = rows.last() {
                        shared.memory.lock().flushed(*index);
                    }
                }
                flushed.io_completed(copy());
            }
            Write::Vote { done, .. } | Write::Truncate { done, .. } => {
                let _ = done.send(copy());
            }
            Write::Purge { upto } => {
                tracing::debug!(upto = index_of(Some(upto)), ok = result.is_ok(), "purged the log");
            }
            Write::Close { done } => {
                let _ = done.send(());
            }
        }
    }
}
