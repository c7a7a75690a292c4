//! `headwater serve`: a node, from its settings to its exit code.

use super::{Exit, logging};
use crate::config::ServeArgs;

/// Runs a node until it is told to stop or loses its session.
pub async fn run(args: ServeArgs) -> anyhow::Result<Exit> {
    let dump = args.dump_config;
    let config = args.config()?;
    if dump {
        println!("{}", serde_json::to_string_pretty(&config)?);
        return Ok(Exit::Done);
    }
    logging::init(config.log_format);
    anyhow::bail!("this build has no node yet")
}
