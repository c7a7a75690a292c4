//! How the process ends: the exit codes, each said once.

use std::process::ExitCode;

/// The outcome of a command, as a script sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// An error, told on stderr.
    Error,
    /// The command line was wrong.
    Usage,
    /// A later process of the same node id registered.
    Replaced,
    /// The session was evicted or sealed, and may not register again.
    Fenced,
    /// The node's state is not the cluster's.
    Differs,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::Replaced => 3,
            Exit::Fenced => 4,
            Exit::Differs => 5,
        })
    }
}
