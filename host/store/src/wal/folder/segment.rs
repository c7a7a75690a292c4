//! One file of a log as bytes: groups one after the other, each as an object would be, and behind them
//! zeros or what the file held before it was used again.
//!
//! What is old is told by its number: a file is only used again when all its groups are below those
//! that it will hold.

use super::ALIGN;
use crate::header::{self, Header, Kind};
use crate::wal::format::{self, Damage, Decoded};
use bytes::Bytes;
use headwater_metadata::{Session, WalSeq};

/// A group as it was found.
pub(super) type Found = (WalSeq, Result<Decoded, Damage>);

/// Length that a group takes.
pub(super) fn aligned(len: u64) -> u64 {
    len.div_ceil(ALIGN) * ALIGN
}

/// The nonce of the process that wrote the file, from its very beginning: what lies deeper may be
/// anything that a client sent.
pub(super) fn nonce(session: Session, file: &Bytes) -> Option<u128> {
    let header = Header::decode(file).ok()?;
    (header.session == session && header.kind == Kind::Records).then_some(header.nonce)
}

/// The groups from number `next` on, in order, and the number after the last. A group that does not
/// read is reported if one behind it was begun; otherwise it is where a write was cut off.
pub(super) fn groups(session: Session, nonce: u128, mut next: u64, file: &Bytes) -> (Vec<Found>, u64) {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((begin, seq)) = find(session, nonce, next, file, at) {
        // What lies between was acknowledged, or nothing would have been written after it.
        for lost in next..seq {
            let damage = match lost == next {
                true => damage_at(session, next, file, at),
                false => Damage { reason: "it is overwritten".into(), ..Damage::default() },
            };
            found.push((WalSeq(lost), Err(damage)));
        }
        next = seq;
        let Some(group) = whole(file, begin) else { break };
        found.push((WalSeq(seq), format::decode(session, WalSeq(seq), &group)));
        at = begin + aligned(group.len() as u64) as usize;
        next = seq + 1;
    }
    // The last one may be sound in its header alone: a write that was cut off.
    let cut = found.last().is_some_and(|(seq, read)| read.is_err() && seq.0 + 1 == next);
    if cut {
        found.pop();
        next -= 1;
    }
    (found, next)
}

/// The first header of this process with a number of at least `next`, from `at` on.
fn find(session: Session, nonce: u128, next: u64, file: &Bytes, at: usize) -> Option<(usize, u64)> {
    (at..file.len()).step_by(ALIGN as usize).find_map(|begin| {
        let header = Header::decode(&file[begin..]).ok()?;
        let ours = header.session == session && header.nonce == nonce && header.kind == Kind::Records;
        (ours && header.seq >= next).then_some((begin, header.seq))
    })
}

/// The bytes of the group that begins here.
fn whole(file: &Bytes, begin: usize) -> Option<Bytes> {
    let header = Header::decode(&file[begin..]).ok()?;
    let len = usize::try_from(header.body).ok()?.checked_add(header::LEN)?;
    let end = begin.checked_add(len)?;
    (end <= file.len()).then(|| file.slice(begin..end))
}

fn damage_at(session: Session, seq: u64, file: &Bytes, at: usize) -> Damage {
    match format::decode(session, WalSeq(seq), &file.slice(at.min(file.len())..)) {
        Err(damage) => damage,
        Ok(_) => Damage { reason: "it is out of place".into(), ..Damage::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Record;
    use headwater_metadata::{Epoch, NodeId, Position, StreamEpoch, StreamId};
    use proptest::prelude::*;

    const SESSION: Session = Session { node: NodeId(3), epoch: Epoch(9) };
    const NONCE: u128 = 7;

    fn group(seq: u64, len: usize) -> Vec<u8> {
        let record = Record {
            stream: StreamId(seq),
            epoch: StreamEpoch(1),
            start: Position(0),
            bytes: vec![seq as u8; len].into(),
            eof: false,
            meta: Bytes::new(),
        };
        let mut bytes = format::encode(SESSION, NONCE, WalSeq(seq), None, &[record]).concat();
        bytes.resize(aligned(bytes.len() as u64) as usize, 0);
        bytes
    }

    /// A file with groups from `first` on, over what it held before; where each group ends.
    fn file(first: u64, lens: &[usize], old: &[usize]) -> (Vec<u8>, Vec<u8>, Vec<usize>) {
        let mut before: Vec<u8> =
            old.iter().enumerate().flat_map(|(n, len)| group(first - 100 + n as u64, *len)).collect();
        let groups: Vec<Vec<u8>> =
            lens.iter().enumerate().map(|(n, len)| group(first + n as u64, *len)).collect();
        let len = groups.iter().map(Vec::len).sum::<usize>().max(before.len()) + ALIGN as usize;
        before.resize(len, 0);
        let (mut after, mut at, mut ends) = (before.clone(), 0, Vec::new());
        for group in groups {
            after[at..at + group.len()].copy_from_slice(&group);
            at += group.len();
            ends.push(at);
        }
        (before, after, ends)
    }

    fn lens() -> impl Strategy<Value = Vec<usize>> {
        proptest::collection::vec(0usize..20_000, 0..8)
    }

    proptest! {
        /// A power cut: some pages of the last write reached the medium. Whole groups before it are
        /// all there, and nothing else is made up.
        #[test]
        fn a_cut_write_is_the_end(lens in lens(), old in lens(), pages in proptest::collection::vec(any::<bool>(), 8)) {
            let (before, mut after, ends) = file(1000, &lens, &old);
            let start = if ends.len() > 1 { ends[ends.len() - 2] } else { 0 };
            let end = ends.last().copied().unwrap_or_default();
            let mut cut = false;
            for (n, at) in (start..end).step_by(ALIGN as usize).enumerate() {
                if !pages[n % pages.len()] {
                    let page = at..at + ALIGN as usize;
                    cut |= before[page.clone()] != after[page.clone()];
                    after[page.clone()].copy_from_slice(&before[page]);
                }
            }
            let (found, next) = groups(SESSION, NONCE, 1000, &after.into());
            let whole = lens.len() - usize::from(cut);
            prop_assert_eq!(next, 1000 + whole as u64);
            prop_assert_eq!(found.len(), whole);
            prop_assert!(found.iter().all(|(_, read)| read.is_ok()));
        }

        /// Damage anywhere: every number up to the last sound group is accounted for, and what reads
        /// is what was written.
        #[test]
        fn damage_is_a_gap_or_the_end(lens in lens(), at: proptest::sample::Index, len in 1usize..30_000) {
            let (_, mut after, ends) = file(1000, &lens, &[]);
            let at = at.index(after.len());
            let end = (at + len).min(after.len());
            after[at..end].fill(0xa5);
            let (found, next) = groups(SESSION, NONCE, 1000, &after.into());
            prop_assert_eq!(found.len() as u64, next - 1000);
            for (n, (seq, read)) in found.iter().enumerate() {
                prop_assert_eq!(seq.0, 1000 + n as u64);
                let begin = if n == 0 { 0 } else { ends[n - 1] };
                let untouched = ends[n] <= at || begin >= end;
                match read {
                    Ok(Decoded::Records { records, .. }) => {
                        prop_assert_eq!(&records[0].bytes[..], &vec![seq.0 as u8; lens[n]][..]);
                    }
                    Ok(other) => prop_assert!(false, "{:?}", other),
                    Err(_) => prop_assert!(!untouched),
                }
            }
        }
    }
}
