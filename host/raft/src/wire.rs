//! Forms of bytes: small files with a magic number and a checksum, and messages between members with
//! a version byte. postcard inside. Nothing is believed before its checksum and its version are.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Version of the messages between members. A peer with another one is refused.
pub const PROTOCOL: u8 = 1;

/// Encodes a value for the wire or the disk. Our types always encode.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("plain data always encodes")
}

/// Decodes the whole of `bytes`; left-over bytes are an error.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes too many", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}

/// A message: version byte, then postcard.
pub(crate) fn message<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![PROTOCOL]).expect("plain data always encodes")
}

/// Reads a message.
pub(crate) fn read_message<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match bytes.split_first() {
        Some((&PROTOCOL, rest)) => decode(rest),
        Some((other, _)) => Err(format!("peer protocol {other}, this node speaks {PROTOCOL}")),
        None => Err("empty message".to_owned()),
    }
}

/// A small file: magic, CRC-32C of the rest, postcard.
pub(crate) fn seal_file<T: Serialize>(magic: &[u8; 8], value: &T) -> Vec<u8> {
    let body = encode(value);
    let mut bytes = Vec::with_capacity(body.len() + 12);
    bytes.extend_from_slice(magic);
    bytes.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// Reads a small file, or says what is wrong with it.
pub(crate) fn open_file<T: DeserializeOwned>(magic: &[u8; 8], bytes: &[u8]) -> Result<T, String> {
    let body = bytes.strip_prefix(magic).ok_or("not a file of this kind or version")?;
    let (crc, body) = body.split_first_chunk::<4>().ok_or("the file is cut short")?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
        return Err("the checksum does not match".to_owned());
    }
    decode(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAGIC: &[u8; 8] = b"hwtests1";

    proptest! {
        #[test]
        fn a_file_reads_back_and_any_damage_is_noticed(
            value in any::<(u64, String, Vec<u8>)>(),
            at in any::<prop::sample::Index>(),
            bit in 0..8u32,
        ) {
            let bytes = seal_file(MAGIC, &value);
            prop_assert_eq!(open_file(MAGIC, &bytes), Ok(value));
            let mut damaged = bytes.clone();
            damaged[at.index(bytes.len())] ^= 1 << bit;
            prop_assert!(open_file::<(u64, String, Vec<u8>)>(MAGIC, &damaged).is_err());
            let cut = &bytes[..at.index(bytes.len())];
            prop_assert!(open_file::<(u64, String, Vec<u8>)>(MAGIC, cut).is_err());
        }

        #[test]
        fn a_message_reads_back_and_another_version_is_named(value in any::<(u64, Option<String>)>()) {
            let mut bytes = message(&value);
            prop_assert_eq!(read_message(&bytes), Ok(value));
            bytes[0] = PROTOCOL + 1;
            let refused = read_message::<(u64, Option<String>)>(&bytes).unwrap_err();
            prop_assert!(refused.contains("protocol"));
        }
    }
}
