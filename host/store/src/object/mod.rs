//! Data objects: the committed bytes of many streams, one contiguous piece per stream and object.
//!
//! Readers get plain ranges: nothing is parsed. `format.rs` is the stored form, `writer.rs` builds
//! and stores one, `reader.rs` reads.

pub(crate) mod format;
pub(crate) mod reader;
mod writer;

pub use format::{Entry, Index};
pub use reader::{ReadError, read_checkpoint, read_index, read_range};
pub use writer::{Keys, Object, PutError, Writer, put};

#[cfg(test)]
mod object_test;
