//! `headwater policy`: push, list, activate, roll back on a running cluster, and `check` without one.

use super::Exit;
use super::client::{AdminArgs, AdminClient};
use super::out::out;
use super::table::{field, json, table};
use anyhow::Context;
use bytes::Bytes;
use clap::{Args, Subcommand};
use headwater_env::Env;
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
    /// The policies of the cluster, and on which nodes they are ready.
    List,
    /// Say whether a cluster would take a component, and what it is. Needs no cluster.
    Check {
        /// The component.
        file: PathBuf,
        /// Nodes of the cluster that it is meant for; it is tried with ten times as many.
        #[arg(long, default_value_t = 3)]
        nodes: usize,
    },
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
    if let PolicyCommand::Check { file, nodes } = args.command {
        check(&read(&env, &file)?, nodes, as_json)?;
        return Ok(Exit::Done);
    }
    let client = AdminClient::new(env.clone(), &args.admin)?;
    match args.command {
        PolicyCommand::Check { .. } => {}
        PolicyCommand::List => list(&client, as_json).await?,
        PolicyCommand::Push { file, name } => {
            let component = read(&env, &file)?;
            let path = format!("/admin/policies/{name}");
            let pushed = client.call(Method::PUT, &path, Bytes::from(component)).await?;
            show(&pushed, as_json);
        }
        PolicyCommand::Activate { policy } => {
            let active = client.post("/admin/policies/activate", &json!({ "digest": policy })).await?;
            show(&active, as_json);
        }
        PolicyCommand::Rollback => {
            let active = client.call(Method::POST, "/admin/policies/rollback", Bytes::new()).await?;
            show(&active, as_json);
        }
        PolicyCommand::Remove { policy } => {
            let path = format!("/admin/policies/{policy}");
            show(&client.call(Method::DELETE, &path, Bytes::new()).await?, as_json);
        }
    }
    Ok(Exit::Done)
}

fn read(env: &Env, file: &Path) -> anyhow::Result<Vec<u8>> {
    env.disk.read(file).with_context(|| format!("cannot read {}", file.display()))
}

fn check(component: &[u8], nodes: usize, as_json: bool) -> anyhow::Result<()> {
    let report = headwater_policy::check(component, nodes)?;
    let digest = headwater_policy::digest_of(component).to_string();
    let limits = headwater_policy::Limits::STANDARD;
    let place_limit = limits.place_fuel(nodes.max(1) * 10);
    let about = report.description;
    if as_json {
        json(&json!({
            "name": about.name,
            "version": about.version,
            "summary": about.summary,
            "needs": { "labels": about.needs_labels },
            "digest": digest,
            "size": report.size,
            "place_fuel": { "used": report.place_fuel, "limit": place_limit },
            "route_fuel": { "used": report.route_fuel, "limit": limits.route_fuel },
        }));
        return Ok(());
    }
    out!("{} {}: {}", about.name, about.version, about.summary);
    out!("digest       {digest}");
    out!("size         {} bytes of {}", report.size, headwater_policy::MAX_COMPONENT_BYTES);
    out!("needs        {}", if about.needs_labels { "labels" } else { "nothing" });
    out!("place        {} fuel of {place_limit}", report.place_fuel);
    out!("route        {} fuel of {}", report.route_fuel, limits.route_fuel);
    out!("imports nothing; answers alike on fresh instances and two engines");
    Ok(())
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
