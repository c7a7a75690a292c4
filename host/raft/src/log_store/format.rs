//! Rows of the log's database. Every value carries a CRC-32C over its key and its bytes, because redb
//! gives back damaged bytes without a word.

use crate::wire;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Entries by index.
pub(super) const LOG: redb::TableDefinition<u64, &[u8]> = redb::TableDefinition::new("log");
/// Vote, purge point, commit point, owner: by name.
pub(super) const META: redb::TableDefinition<&str, &[u8]> = redb::TableDefinition::new("meta");

pub(super) const OWNER: &str = "owner";
pub(super) const VOTE: &str = "vote";
pub(super) const PURGED: &str = "purged";
pub(super) const COMMITTED: &str = "committed";

/// Encodes a row.
pub(super) fn seal<T: Serialize>(key: &[u8], value: &T) -> Vec<u8> {
    let body = wire::encode(value);
    let mut bytes = Vec::with_capacity(body.len() + 4);
    bytes.extend_from_slice(&checksum(key, &body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// Decodes a row, or says what is wrong with it.
pub(super) fn open<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T, String> {
    let (crc, body) = bytes.split_first_chunk::<4>().ok_or("a row is cut short")?;
    if checksum(key, body) != u32::from_le_bytes(*crc) {
        return Err("the checksum of a row does not match".to_owned());
    }
    wire::decode(body)
}

fn checksum(key: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), body)
}

/// The key of an entry, as bytes.
pub(super) fn index_key(index: u64) -> [u8; 8] {
    index.to_le_bytes()
}
