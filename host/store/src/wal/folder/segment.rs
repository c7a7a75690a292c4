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
