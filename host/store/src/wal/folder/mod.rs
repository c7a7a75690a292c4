//! The append-file form of a log: files of fixed length in a folder of this machine, one flush for
//! each group, sealed by a rename of the folder.
//!
//! Invariant: the owner acknowledges a group only if, after it was flushed, the folder's name still led
//! to the folder that the owner holds. A successor renames first and reads afterwards. So a rename
//! before that check means no acknowledgement, and after it the successor reads what was flushed. The
//! folder is made once, before its session is registered, and nothing ever makes its name again: files
//! in it are made through the handle, and no object's key begins as its name does.
//!
//! `writer.rs` writes, `segment.rs` is one file as bytes, `seal.rs` renames and finds the end,
//! `read.rs` reads a sealed folder.

mod read;
mod seal;
mod segment;
mod writer;

pub(crate) use read::read;
pub(crate) use seal::{delete, seal};
pub(super) use writer::FolderLog;

/// Length of a file, unless a group is larger.
const SEGMENT: u64 = if cfg!(test) { 1 << 20 } else { 8 << 20 };
/// Groups begin at multiples of this, so that no flush rewrites what an earlier one made durable.
const ALIGN: u64 = 4 << 10;
/// Name of the file that says where a sealed log ends.
const END: &str = "end";
/// Name of a file made in advance.
const SPARE: &str = "spare";

/// Name of the file whose first group has this number.
fn name(first: u64) -> String {
    format!("{first:020}.log")
}

/// The number in the name of a file of the log.
fn parse_name(text: &str) -> Option<u64> {
    let first = text.strip_suffix(".log")?.parse().ok()?;
    (name(first) == text).then_some(first)
}

#[cfg(test)]
mod folder_test;
