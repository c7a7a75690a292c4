//! What is where, and what an operator changes: `cluster`, `nodes`, `stream`, `slots`, `drain`,
//! `undrain`, `evict`, `transfer`. Clients of the admin API, nothing more.

use super::Exit;
use super::client::{AdminArgs, AdminClient};
use super::out::out;
use super::table::{field, json, table};
use bytes::Bytes;
use clap::Subcommand;
use headwater_env::Env;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// Commands that look at a cluster or change it.
#[derive(Subcommand, Clone, Debug)]
pub enum ClusterCommand {
    /// The cluster in a few lines: leader, members, streams, policy.
    Cluster {
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// The nodes: address, slots, labels, streams.
    Nodes {
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// One stream: where it is, its epoch, its range.
    Stream {
        /// The name, as in its URL.
        name: String,
        /// Accept that records were lost in a damaged stream: it takes appends again.
        #[arg(long)]
        accept_loss: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Set a node's capacity weight. Nothing that is placed moves.
    Slots {
        /// The node.
        id: u64,
        /// The weight; 0 takes nothing.
        slots: u32,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// A node takes nothing new and lets go of what it has.
    Drain {
        /// The node.
        id: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// A draining node takes streams again.
    Undrain {
        /// The node.
        id: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// End the session of a node that is gone. Its streams are recovered by another one.
    Evict {
        /// The node.
        id: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Move a stream.
    Transfer {
        /// The name, as in its URL.
        name: String,
        /// The node that shall have it.
        #[arg(long, value_name = "ID")]
        to: u64,
        /// Wait until it is there.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// Runs one of them.
pub async fn run(command: ClusterCommand, env: Env) -> anyhow::Result<Exit> {
    match command {
        ClusterCommand::Cluster { admin } => cluster(&client(&env, &admin)?, admin.json).await?,
        ClusterCommand::Nodes { admin } => nodes(&client(&env, &admin)?, admin.json).await?,
        ClusterCommand::Stream { name, accept_loss, admin } => {
            let client = client(&env, &admin)?;
            if accept_loss {
                client.post(&format!("{}/accept-loss", stream_path(&name)), &json!({})).await?;
            }
            let stream = client.get(&stream_path(&name)).await?;
            show(&stream, admin.json);
        }
        ClusterCommand::Slots { id, slots, admin } => {
            set_node(&client(&env, &admin)?, id, json!({ "slots": slots }), admin.json).await?;
        }
        ClusterCommand::Drain { id, admin } => {
            set_node(&client(&env, &admin)?, id, json!({ "draining": true }), admin.json).await?;
        }
        ClusterCommand::Undrain { id, admin } => {
            set_node(&client(&env, &admin)?, id, json!({ "draining": false }), admin.json).await?;
        }
        ClusterCommand::Evict { id, admin } => {
            let path = format!("/admin/nodes/{id}");
            let done = client(&env, &admin)?.call(Method::DELETE, &path, Bytes::new()).await?;
            show(&done, admin.json);
        }
        ClusterCommand::Transfer { name, to, wait, admin } => {
            let client = client(&env, &admin)?;
            let asked =
                client.post("/admin/transfer", &json!({ "stream": slashed(&name), "to": to })).await?;
            let shown = if wait { arrived(&client, &env, &name, to).await? } else { asked };
            show(&shown, admin.json);
        }
    }
    Ok(Exit::Done)
}

fn client(env: &Env, admin: &AdminArgs) -> anyhow::Result<AdminClient> {
    AdminClient::new(env.clone(), admin)
}

/// A stream's name is a URL path; people leave the first slash out.
fn slashed(name: &str) -> String {
    if name.starts_with('/') { name.to_owned() } else { format!("/{name}") }
}

fn stream_path(name: &str) -> String {
    format!("/admin/streams{}", slashed(name))
}

async fn cluster(client: &AdminClient, as_json: bool) -> anyhow::Result<()> {
    let cluster = client.get("/admin/cluster").await?;
    if as_json {
        json(&cluster);
        return Ok(());
    }
    let streams = &cluster["streams"];
    let policy = &cluster["policy"];
    out!("leader    node {}", field(&cluster, "leader"));
    out!("voters    {}", field(&cluster, "voters"));
    out!("learners  {}", field(&cluster, "learners"));
    out!("nodes     {}", field(&cluster, "nodes"));
    out!(
        "streams   {} ({} unplaced, {} placed, {} opened, {} closed)",
        field(streams, "total"),
        field(streams, "unplaced"),
        field(streams, "placed"),
        field(streams, "opened"),
        field(streams, "closed"),
    );
    out!("transfers {}", field(&cluster, "transfers"));
    out!(
        "policy    {} {} (active from index {}, {} fallbacks on this node)",
        field(policy, "name"),
        short(&field(policy, "digest")),
        field(policy, "activated_index"),
        field(policy, "fallbacks"),
    );
    let digest = field(&cluster, "state_digest");
    out!("state     {} at index {}", short(&digest), field(&cluster, "applied_index"));
    Ok(())
}

/// The beginning of a digest: enough to compare by eye.
fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

async fn nodes(client: &AdminClient, as_json: bool) -> anyhow::Result<()> {
    let nodes = client.get("/admin/nodes").await?;
    if as_json {
        json(&nodes);
        return Ok(());
    }
    let columns = ["id", "state", "slots", "assigned", "placed", "opened", "draining", "address", "labels"];
    let heading = columns.map(str::to_uppercase);
    let rows: Vec<Vec<String>> =
        nodes.as_array().into_iter().flatten().map(|n| columns.map(|c| field(n, c)).to_vec()).collect();
    table(&heading.each_ref().map(String::as_str), &rows);
    Ok(())
}

async fn set_node(client: &AdminClient, id: u64, change: Value, as_json: bool) -> anyhow::Result<()> {
    show(&client.post(&format!("/admin/nodes/{id}"), &change).await?, as_json);
    Ok(())
}

async fn arrived(client: &AdminClient, env: &Env, name: &str, to: u64) -> anyhow::Result<Value> {
    loop {
        let stream = client.get(&stream_path(name)).await?;
        if stream["transfer"].is_null() {
            anyhow::ensure!(
                stream["owner"] == to,
                "the transfer did not end on node {to}: the stream is {} on node {}",
                field(&stream, "ownership"),
                field(&stream, "owner")
            );
            return Ok(stream);
        }
        env.clock.sleep(Duration::from_millis(200)).await;
    }
}

fn show(value: &Value, as_json: bool) {
    if as_json {
        return json(value);
    }
    for (key, _) in value.as_object().into_iter().flatten() {
        out!("{key:<13} {}", field(value, key));
    }
}
