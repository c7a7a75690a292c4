//! Where log lines go: stderr, filtered by `HEADWATER_LOG`, as text or as JSON. Never stdout, which
//! is for data.

use crate::config::LogFormat;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Installs the log of a node. `HEADWATER_LOG` has the syntax of `tracing_subscriber::EnvFilter`.
pub fn init(format: LogFormat) {
    let filter = EnvFilter::builder()
        .with_env_var("HEADWATER_LOG")
        .try_from_env()
        .unwrap_or_else(|_| EnvFilter::new("info,openraft=error,object_store=warn"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // A second installation (tests in one process) is not worth an error.
    let _ = match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
