//! Data objects: the committed bytes of many streams, one contiguous piece per stream and object.
//!
//! Readers get plain ranges: nothing is parsed. `format.rs` is the stored form, `writer.rs` builds
//! and stores one, `reader.rs` reads.

mod reader;
mod writer;

pub use reader::{ReadError, read_checkpoint, read_range};
pub use writer::{Keys, Object, PutError, Writer, put};
