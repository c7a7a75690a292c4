//! The commands of the binary: parse, run, end with the right exit code.
//!
//! One file for each group of commands; `serve.rs` is the node itself, the others are clients.
//! Data goes to stdout, everything else to stderr.

mod bench;
pub mod client;
mod cluster;
mod dev;
mod exit;
pub mod logging;
mod out;
mod policy;
mod serve;
mod stream;
mod table;

pub use exit::Exit;

use clap::{Parser, Subcommand};
use headwater_env::Env;
use std::process::ExitCode;

/// Durable, append-only streams over HTTP. Placement and routing are a replaceable WebAssembly
/// component.
#[derive(Parser)]
#[command(name = "headwater", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a cluster on this machine, each node a process of its own.
    Dev(dev::DevArgs),
    /// Run a node.
    Serve(Box<crate::config::ServeArgs>),
    #[command(flatten)]
    Stream(stream::StreamCommand),
    #[command(flatten)]
    Cluster(cluster::ClusterCommand),
    /// Push, list, activate and roll back policies.
    Policy(policy::PolicyArgs),
    /// Load a running cluster and print rates and percentiles, beside what this machine's HTTP and
    /// flushed writes cost.
    Bench(bench::BenchArgs),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            let _ = e.print();
            // Help and version were asked for: that is success.
            return if e.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("headwater: cannot start: {e}");
            return Exit::Error.into();
        }
    };
    let exit = runtime.block_on(run(cli.command));
    // A blocking thread that hangs (a disk that does not answer) must not keep the process.
    runtime.shutdown_background();
    exit.into()
}

async fn run(command: Command) -> Exit {
    let env = Env::real();
    let done = match command {
        Command::Dev(args) => dev::run(args, env).await,
        Command::Serve(args) => serve::run(*args, env).await,
        Command::Stream(command) => stream::run(command, env).await,
        Command::Cluster(command) => cluster::run(command, env).await,
        Command::Policy(args) => policy::run(args, env).await,
        Command::Bench(args) => bench::run(args, env).await,
    };
    done.unwrap_or_else(|e| {
        eprintln!("headwater: {e:#}");
        match e.downcast_ref::<crate::config::ConfigError>() {
            Some(_) => Exit::Usage,
            None => Exit::Error,
        }
    })
}
