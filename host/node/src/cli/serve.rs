//! `headwater serve`: a node, from its settings to its exit code.

use super::out::out;
use super::{Exit, logging};
use crate::config::ServeArgs;
use crate::node::{Node, NodeError, SessionError};
use headwater_env::Env;
use std::pin::pin;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

/// Runs a node until it is told to stop or loses its session.
pub async fn run(args: ServeArgs, env: Env) -> anyhow::Result<Exit> {
    let (dump, with_stdin) = (args.dump_config, args.exit_with_stdin);
    let config = args.config()?;
    if dump {
        out!("{}", serde_json::to_string_pretty(&config)?);
        return Ok(Exit::Done);
    }
    logging::init(config.log_format);
    let mut stop = pin!(async {
        tokio::select! {
            () = stop_signal() => {}
            () = stdin_ends(), if with_stdin => tracing::info!("the parent process has ended"),
        }
    });
    let node = tokio::select! {
        node = Node::start(config, env, None) => node?,
        () = stop.as_mut() => return Ok(Exit::Done),
    };
    match node.run(stop).await {
        Err(NodeError::Session(SessionError::Replaced { .. })) => Ok(Exit::Replaced),
        ended => Ok(ended?),
    }
}

/// Resolves at SIGTERM or Ctrl-C. The second one ends the process at once.
pub async fn stop_signal() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        eprintln!("headwater: ending at once");
        std::process::exit(130);
    });
}

/// Resolves when nobody holds the other end of stdin any more.
async fn stdin_ends() {
    let mut stdin = tokio::io::stdin();
    let mut buffer = [0; 64];
    while matches!(stdin.read(&mut buffer).await, Ok(n) if n > 0) {}
}
