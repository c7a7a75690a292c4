//! Writes to stdout. When nobody reads any more (`| head`), the command ends quietly.

use std::fmt;
use std::io::Write;

/// Writes a line to stdout, as `println!` does.
macro_rules! out {
    ($($text:tt)*) => { $crate::cli::out::line(format_args!($($text)*)) };
}
pub(crate) use out;

/// Writes a line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    if writeln!(std::io::stdout(), "{text}").is_err() {
        std::process::exit(0);
    }
}
