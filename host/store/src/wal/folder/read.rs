//! Reads the groups of a folder, from a number on.

use super::segment::{Found, groups, nonce};
use super::{name, parse_name};
use crate::header;
use crate::layout;
use crate::store::Store;
use crate::wal::format::Damage;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use headwater_env::Folder;
use headwater_metadata::{Session, WalSeq};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;

/// The groups from `from` to `end` of a sealed log, each as found. What was written behind the end is
/// never read.
pub(crate) fn read(store: &Store, session: Session, from: WalSeq, end: WalSeq) -> BoxStream<'static, Found> {
    let (disk, path) = (store.env().disk.clone(), store.file_path(&layout::sealed_folder(session)));
    let open = move || {
        let path = path.ok_or_else(|| io::Error::other("this store is not a folder"))?;
        Walk::new(disk.open_folder(&path)?, session, from.0)
    };
    let files = stream::once(tokio::task::spawn_blocking(open)).flat_map(|opened| {
        let walk = opened.map_err(io::Error::other).flatten();
        stream::try_unfold(walk, |walk: io::Result<Walk>| async {
            let mut walk = walk?;
            let step = tokio::task::spawn_blocking(move || (walk.step(), walk));
            let (found, walk) = step.await.map_err(io::Error::other)?;
            Ok::<_, io::Error>(found?.map(|found| (found, Ok(walk))))
        })
    });
    // Up to the end, whatever fails on the way.
    let read = files.map(Some).chain(stream::iter([None])).scan(from.0, move |next, file| {
        let found = match file {
            Some(Ok(found)) => found,
            Some(Err(error)) => lost(*next..end.0, &error.to_string()),
            None => lost(*next..end.0, "it is absent"),
        };
        let found: Vec<Found> = found.into_iter().filter(|(seq, _)| *seq < end).collect();
        *next = found.last().map_or(*next, |(seq, _)| seq.0 + 1);
        std::future::ready(Some(stream::iter(found)))
    });
    read.flatten().boxed()
}

/// The number after the last group from `from` on.
pub(super) fn end(folder: Box<dyn Folder>, session: Session, from: u64) -> io::Result<u64> {
    let mut walk = Walk::new(folder, session, from)?;
    while walk.step()?.is_some() {}
    Ok(walk.next)
}

fn lost(numbers: Range<u64>, reason: &str) -> Vec<Found> {
    let damage = Damage { reason: reason.to_owned(), ..Damage::default() };
    numbers.map(|seq| (WalSeq(seq), Err(damage.clone()))).collect()
}

/// Goes through the files of a folder, one at a time in memory.
struct Walk {
    folder: Box<dyn Folder>,
    session: Session,
    /// Of the process that wrote the log; without it there is no telling a group from a client's bytes.
    nonce: Option<u128>,
    from: u64,
    /// The number that is next.
    next: u64,
    files: VecDeque<u64>,
}

impl Walk {
    fn new(folder: Box<dyn Folder>, session: Session, from: u64) -> io::Result<Walk> {
        let mut files: VecDeque<u64> = folder.list()?.iter().filter_map(|name| parse_name(name)).collect();
        while files.get(1).is_some_and(|second| *second <= from) {
            files.pop_front();
        }
        let mut written_by = None;
        for first in &files {
            let file = folder.open(&name(*first))?;
            let mut header =
                vec![0; header::LEN.min(usize::try_from(file.len()?).map_err(io::Error::other)?)];
            file.read_at(0, &mut header)?;
            written_by = nonce(session, &Bytes::from(header));
            if written_by.is_some() {
                break;
            }
        }
        Ok(Walk { folder, session, nonce: written_by, from, next: from, files })
    }

    /// The groups of the next file; `None` behind the last one.
    fn step(&mut self) -> io::Result<Option<Vec<Found>>> {
        // Without a nonce nothing was written, or the beginning of every file is gone.
        let (Some(first), Some(nonce)) = (self.files.pop_front(), self.nonce) else { return Ok(None) };
        let file = self.folder.open(&name(first))?;
        let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
        file.read_at(0, &mut bytes)?;
        let (groups, end) = groups(self.session, nonce, first, &Bytes::from(bytes));
        if groups.is_empty() {
            return Ok(Some(Vec::new()));
        }
        // A file is begun only when the group before it was written.
        let mut found = lost(self.next..first, "it is absent");
        found.extend(groups.into_iter().filter(|(seq, _)| seq.0 >= self.from));
        self.next = end.max(self.from);
        Ok(Some(found))
    }
}
