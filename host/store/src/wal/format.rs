//! The stored form of an object of the log.
//!
//! A header, then the extents of the object before it (so that a damaged object's streams are known
//! from its successor), then the records. Each record's checksum covers the session, the number of
//! the object and its place in it, so that no old bytes pass for a record. `writer.rs` writes these,
//! `seal.rs` and `recover.rs` read them.

use super::{Extent, Record};
use crate::header::{self, Header, Kind, u32_at, u64_at};
use bytes::{BufMut, Bytes, BytesMut};
use headwater_metadata::{Epoch, NodeId, Position, Session, StreamEpoch, StreamId, WalSeq};
use std::collections::BTreeMap;

/// Fixed part of a record: checksum, stream, epoch, start, lengths, flags.
const RECORD: usize = 40;
/// An extent: stream, epoch, end, flags.
const EXTENT: usize = 28;
const EOF: u32 = 1;
/// Bytes from this length on are passed through, not copied.
const COPY: usize = 16 << 10;

/// An object that reads well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// Records of the log.
    Records {
        nonce: u128,
        /// Of the object before this one; `None` in the first of a log.
        before: Option<Vec<Extent>>,
        records: Vec<Record>,
    },
    /// The end of the log, made by this session.
    Seal { by: Session },
}

/// An object that does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    pub reason: String,
    /// Records whose own checksums hold.
    pub salvaged: Vec<Record>,
    /// The extents of the object before this one, if they can be read.
    pub before: Option<Vec<Extent>>,
}

/// How far the records reach in each stream.
pub(crate) fn extents(records: &[Record]) -> Vec<Extent> {
    let mut last = BTreeMap::new();
    for record in records {
        let extent =
            Extent { stream: record.stream, epoch: record.epoch, end: record.end(), eof: record.eof };
        last.insert((record.stream, record.epoch), extent);
    }
    last.into_values().collect()
}

/// Encodes an object, in pieces that make it up.
pub(crate) fn encode(
    session: Session,
    nonce: u128,
    seq: WalSeq,
    before: Option<&[Extent]>,
    records: &[Record],
) -> Vec<Bytes> {
    let mut parts = vec![Bytes::new()];
    let mut buffer = BytesMut::new();
    put_extents(&mut buffer, before);
    for (index, record) in records.iter().enumerate() {
        let at = buffer.len();
        buffer.put_u32_le(0);
        buffer.put_u64_le(record.stream.0);
        buffer.put_u64_le(record.epoch.0);
        buffer.put_u64_le(record.start.0);
        // Lengths are bounded by the options of the log, far below 4 GiB.
        buffer.put_u32_le(record.bytes.len() as u32);
        buffer.put_u32_le(record.meta.len() as u32);
        buffer.put_u32_le(if record.eof { EOF } else { 0 });
        buffer.put_slice(&record.meta);
        let crc = crc32c::crc32c_append(place(session, seq, index), &buffer[at + 4..]);
        let crc = crc32c::crc32c_append(crc, &record.bytes);
        buffer[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        if record.bytes.len() < COPY {
            buffer.put_slice(&record.bytes);
        } else {
            parts.push(buffer.split().freeze());
            parts.push(record.bytes.clone());
        }
    }
    parts.push(buffer.freeze());
    let body = parts.iter().map(|part| part.len() as u64).sum();
    let count = records.len() as u32;
    let digest = header::digest(&parts);
    let header = Header { kind: Kind::Records, session, nonce, seq: seq.0, count, body, digest };
    parts[0] = Bytes::copy_from_slice(&header.encode());
    parts
}

/// Encodes a seal at this number.
pub(crate) fn encode_seal(session: Session, nonce: u128, seq: WalSeq, by: Session) -> Vec<Bytes> {
    let mut body = BytesMut::new();
    body.put_u64_le(by.node.0);
    body.put_u64_le(by.epoch.0);
    let body = body.freeze();
    let digest = header::digest(std::slice::from_ref(&body));
    let len = body.len() as u64;
    let header = Header { kind: Kind::Seal, session, nonce, seq: seq.0, count: 0, body: len, digest };
    vec![Bytes::copy_from_slice(&header.encode()), body]
}

/// Decodes the object `seq` of a session.
pub(crate) fn decode(session: Session, seq: WalSeq, object: &Bytes) -> Result<Decoded, Damage> {
    let damaged = |reason: String| Damage { reason, ..Damage::default() };
    let header = Header::decode(object).map_err(damaged)?;
    if header.session != session || header.seq != seq.0 {
        let (whose, number) = (header.session, header.seq);
        return Err(damaged(format!("it says that it is number {number} of session {whose}")));
    }
    let body = object.slice(header::LEN..);
    let whole =
        body.len() as u64 == header.body && header::digest(std::slice::from_ref(&body)) == header.digest;
    match header.kind {
        Kind::Seal if whole && body.len() == 16 => {
            let by = Session { node: NodeId(u64_at(&body, 0)), epoch: Epoch(u64_at(&body, 8)) };
            Ok(Decoded::Seal { by })
        }
        Kind::Records => {
            let (before, rest) = match take_extents(&body) {
                Some((before, at)) => (before, body.slice(at..)),
                None => return Err(damaged("it is cut off or altered at its beginning".into())),
            };
            let (records, lost) = take_records(session, seq, &rest, header.count);
            if whole && lost == 0 {
                return Ok(Decoded::Records { nonce: header.nonce, before, records });
            }
            let reason = format!("{lost} of {} records are cut off or altered", header.count);
            Err(Damage { reason, salvaged: records, before })
        }
        Kind::Seal => Err(damaged("a seal that is cut off or altered".into())),
        Kind::Data => Err(damaged("it is a data object".into())),
    }
}

/// Seeds a record's checksum with where it belongs.
fn place(session: Session, seq: WalSeq, index: usize) -> u32 {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&session.node.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&session.epoch.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&seq.0.to_le_bytes());
    bytes[24..].copy_from_slice(&(index as u64).to_le_bytes());
    crc32c::crc32c(&bytes)
}

fn put_extents(buffer: &mut BytesMut, extents: Option<&[Extent]>) {
    let at = buffer.len();
    buffer.put_u32_le(0);
    // All ones: there is no object before this one.
    buffer.put_u32_le(extents.map_or(u32::MAX, |extents| extents.len() as u32));
    for extent in extents.unwrap_or_default() {
        buffer.put_u64_le(extent.stream.0);
        buffer.put_u64_le(extent.epoch.0);
        buffer.put_u64_le(extent.end.0);
        buffer.put_u32_le(if extent.eof { EOF } else { 0 });
    }
    let crc = crc32c::crc32c(&buffer[at + 4..]);
    buffer[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// The extents at the beginning, and where they end.
fn take_extents(body: &Bytes) -> Option<(Option<Vec<Extent>>, usize)> {
    if body.len() < 8 {
        return None;
    }
    let count = u32_at(body, 4);
    let len = if count == u32::MAX { 0 } else { (count as usize).checked_mul(EXTENT)? };
    let end = len.checked_add(8)?;
    if body.len() < end || crc32c::crc32c(&body[4..end]) != u32_at(body, 0) {
        return None;
    }
    if count == u32::MAX {
        return Some((None, end));
    }
    let extents = body[8..end].chunks_exact(EXTENT).map(|bytes| Extent {
        stream: StreamId(u64_at(bytes, 0)),
        epoch: StreamEpoch(u64_at(bytes, 8)),
        end: Position(u64_at(bytes, 16)),
        eof: u32_at(bytes, 24) & EOF != 0,
    });
    Some((Some(extents.collect()), end))
}

/// The records whose checksums hold, and how many do not.
fn take_records(session: Session, seq: WalSeq, body: &Bytes, count: u32) -> (Vec<Record>, u32) {
    let mut records = Vec::new();
    let mut at = 0usize;
    for index in 0..count {
        let Some(fixed) = body.get(at..).and_then(|rest| rest.first_chunk::<RECORD>()) else { break };
        let (bytes, meta) = (u32_at(fixed, 28) as usize, u32_at(fixed, 32) as usize);
        let middle = at + RECORD + meta;
        let end = middle + bytes;
        if end > body.len() {
            break;
        }
        let crc = crc32c::crc32c_append(place(session, seq, index as usize), &body[at + 4..end]);
        // One that does not match is left out; if its lengths are right, the next one is found.
        if crc == u32_at(fixed, 0) {
            records.push(Record {
                stream: StreamId(u64_at(fixed, 4)),
                epoch: StreamEpoch(u64_at(fixed, 12)),
                start: Position(u64_at(fixed, 20)),
                bytes: body.slice(middle..end),
                eof: u32_at(fixed, 36) & EOF != 0,
                meta: body.slice(at + RECORD..middle),
            });
        }
        at = end;
    }
    let lost = count - records.len() as u32;
    (records, lost)
}

#[cfg(test)]
#[path = "format_test.rs"]
mod tests;
