//! `headwater policy`: push, list, activate, roll back on a running cluster. What needs no cluster is in
//! files of its own: `new.rs`, `check.rs`, `test.rs`, `simulate.rs`.

mod bars;
mod check;
mod new;
mod report;
mod simulate;
mod test;

use super::Exit;
use super::client::{AdminArgs, AdminClient};
use super::out::out;
use super::table::{field, json, table};
use anyhow::Context;
use bytes::Bytes;
use clap::{Args, Subcommand};
use headwater_env::Env;
use headwater_policy::Trial;
use http::Method;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The flags of `headwater policy`.
#[derive(Args, Clone, Debug)]
pub struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Subcommand, Clone, Debug)]
enum PolicyCommand {
    #[command(flatten)]
    Offline(OfflineCommand),
    #[command(flatten)]
    Cluster(ClusterCommand),
}

/// What needs no cluster.
#[derive(Subcommand, Clone, Debug)]
enum OfflineCommand {
    /// Write a crate for a policy of your own. Needs no cluster.
    New(new::NewArgs),
    /// Say whether a cluster would take a component, and what it is. Needs no cluster.
    Check {
        /// The component; `builtin` is the one in this program.
        file: PathBuf,
        /// Nodes of the cluster that it is meant for; it is tried with ten times as many.
        #[arg(long, default_value_t = 3)]
        nodes: usize,
    },
    /// Ask a component what scenario files ask, and show where it decides otherwise. Needs no cluster.
    Test(test::TestArgs),
    /// Place many streams on described nodes; show how they spread and what moves when nodes come and
    /// go. Needs no cluster.
    Simulate(simulate::SimulateArgs),
}

#[derive(Subcommand, Clone, Debug)]
enum ClusterCommand {
    /// The policies of the cluster, and on which nodes they are ready.
    List,
    /// Give the cluster a component. It decides nothing until it is activated.
    Push {
        /// The component.
        file: PathBuf,
        /// A name for people.
        #[arg(long)]
        name: String,
    },
    /// Let a policy decide from now on.
    Activate {
        /// Its digest, the beginning of it, or its name (the newest one of the name).
        policy: String,
    },
    /// Go back to the policy that was active before.
    Rollback,
    /// Remove a policy that neither decides nor is what a rollback goes back to.
    Remove {
        /// Its digest, the beginning of it, or its name.
        policy: String,
    },
}

/// Runs one of them.
pub async fn run(args: PolicyArgs, env: Env) -> anyhow::Result<Exit> {
    let as_json = args.admin.json;
    match args.command {
        PolicyCommand::Offline(command) => without_cluster(command, &env, as_json),
        PolicyCommand::Cluster(command) => on_cluster(command, &args.admin, env).await,
    }
}

fn without_cluster(command: OfflineCommand, env: &Env, as_json: bool) -> anyhow::Result<Exit> {
    match command {
        OfflineCommand::New(new) => new::run(&new, env, as_json),
        OfflineCommand::Check { file, nodes } => check::run(&read(env, &file)?, nodes, as_json),
        OfflineCommand::Test(test) => test::run(&test, env, as_json),
        OfflineCommand::Simulate(simulate) => simulate::run(&simulate, env, as_json),
    }
}

async fn on_cluster(command: ClusterCommand, admin: &AdminArgs, env: Env) -> anyhow::Result<Exit> {
    let as_json = admin.json;
    let client = AdminClient::new(env.clone(), admin)?;
    match command {
        ClusterCommand::List => list(&client, as_json).await?,
        ClusterCommand::Push { file, name } => {
            let component = read(&env, &file)?;
            let path = format!("/admin/policies/{name}");
            let pushed = client.call(Method::PUT, &path, Bytes::from(component)).await?;
            show(&pushed, as_json);
        }
        ClusterCommand::Activate { policy } => {
            let active = client.post("/admin/policies/activate", &json!({ "digest": policy })).await?;
            show(&active, as_json);
        }
        ClusterCommand::Rollback => {
            let active = client.call(Method::POST, "/admin/policies/rollback", Bytes::new()).await?;
            show(&active, as_json);
        }
        ClusterCommand::Remove { policy } => {
            let path = format!("/admin/policies/{policy}");
            show(&client.call(Method::DELETE, &path, Bytes::new()).await?, as_json);
        }
    }
    Ok(Exit::Done)
}

/// A component: a file, or the one in this program.
fn read(env: &Env, file: &Path) -> anyhow::Result<Vec<u8>> {
    if file == Path::new("builtin") {
        return Ok(headwater_policy::builtin().1.to_vec());
    }
    env.disk.read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// A component to try out.
fn trial(env: &Env, file: &Path) -> anyhow::Result<Trial> {
    Trial::load(&read(env, file)?).with_context(|| format!("{} is no policy", file.display()))
}

/// A number with its noun.
fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn show(value: &Value, as_json: bool) {
    if as_json {
        return json(value);
    }
    out!("{}", field(value, "digest"));
}

async fn list(client: &AdminClient, as_json: bool) -> anyhow::Result<()> {
    let policies = client.get("/admin/policies").await?;
    if as_json {
        json(&policies);
        return Ok(());
    }
    let rows: Vec<Vec<String>> = policies["policies"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|policy| {
            let digest = field(policy, "digest");
            let state = match &digest {
                d if policies["active"] == **d => "active",
                d if policies["previous"] == **d => "previous",
                _ => "",
            };
            let short = digest.get(..12).unwrap_or(&digest).to_owned();
            let columns = ["name", "version", "size", "ready_on"].map(|c| field(policy, c));
            [&[short, state.to_owned()][..], &columns].concat()
        })
        .collect();
    table(&["DIGEST", "STATE", "NAME", "VERSION", "SIZE", "READY ON"], &rows);
    Ok(())
}
