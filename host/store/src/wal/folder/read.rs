//! Reads the groups of a folder, from a number on.

use super::segment::{Found, groups, nonce};
use super::{name, parse_name};
use crate::layout;
use crate::store::Store;
use crate::wal::format::Damage;
use bytes::Bytes;
use headwater_env::Folder;
use headwater_metadata::{Session, WalSeq};
use std::io;

/// The groups from `from` to `end` of a sealed log, each as found. What was written behind the end is
/// never read.
pub(crate) async fn read(store: &Store, session: Session, from: WalSeq, end: WalSeq) -> Vec<Found> {
    let lost = |reason: &str| {
        let damage = Damage { reason: reason.to_owned(), ..Damage::default() };
        move |seq: u64| (WalSeq(seq), Err(damage.clone()))
    };
    let Some(path) = store.file_path(&layout::sealed_folder(session)) else {
        return (from.0..end.0).map(lost("this store is not a folder")).collect();
    };
    let disk = store.env().disk.clone();
    let work = move || load(&*disk.open_folder(&path)?, session, from.0);
    let loaded = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten();
    let (mut found, next) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return (from.0..end.0).map(lost(&error.to_string())).collect(),
    };
    found.retain(|(seq, _)| *seq < end);
    found.extend((next..end.0).map(lost("it is absent")));
    found
}

/// The groups from `from` on, in order, and the number after the last one.
pub(super) fn load(folder: &dyn Folder, session: Session, from: u64) -> io::Result<(Vec<Found>, u64)> {
    let firsts: Vec<u64> = folder.list()?.iter().filter_map(|name| parse_name(name)).collect();
    let needed =
        firsts.iter().enumerate().filter(|(n, _)| firsts.get(n + 1).is_none_or(|second| *second > from));
    let mut files = Vec::new();
    for (_, first) in needed {
        let file = folder.open(&name(*first))?;
        let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
        file.read_at(0, &mut bytes)?;
        files.push((*first, Bytes::from(bytes)));
    }
    let (mut found, mut next) = (Vec::new(), from);
    // Without it there is no telling a group from a client's bytes; then nothing was written, or the
    // beginning of every file is gone.
    let Some(nonce) = files.iter().find_map(|(_, file)| nonce(session, file)) else {
        return Ok((found, next));
    };
    for (first, file) in &files {
        let (groups, end) = groups(session, nonce, *first, file);
        if groups.is_empty() {
            continue;
        }
        // A file is begun only when the group before it was written.
        for lost in next..*first {
            let damage = Damage { reason: "it is absent".into(), ..Damage::default() };
            found.push((WalSeq(lost), Err(damage)));
        }
        found.extend(groups.into_iter().filter(|(seq, _)| seq.0 >= from));
        next = end.max(from);
    }
    Ok((found, next))
}
