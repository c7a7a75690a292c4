//! `headwater dev`: a cluster on this machine, each node a process of its own.
//!
//! The children run `serve` and hold the other end of a pipe as their stdin: when this process goes,
//! however it goes, the pipe ends and so do they.

use super::Exit;
use super::client::{AdminArgs, AdminClient};
use super::out::out;
use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use headwater_env::Env;
use http::Method;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, Command};

/// The flags of `headwater dev`.
#[derive(Args, Clone, Debug)]
pub struct DevArgs {
    /// How many nodes.
    #[arg(long, env = "HEADWATER_NODES", value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=50))]
    nodes: u16,
    /// Where the nodes keep everything. It stays when the cluster ends, and is taken up again.
    #[arg(long, env = "HEADWATER_DIR", value_name = "DIR", default_value = "headwater-dev")]
    dir: PathBuf,
    /// Client port of the first node; the admin API is at +100, the peer listener at +200, the next
    /// node one higher.
    #[arg(long, env = "HEADWATER_PORT", value_name = "PORT", default_value_t = 4437)]
    port: u16,
    /// Slots of the nodes in order; the last one counts for the rest.
    #[arg(long, env = "HEADWATER_DEV_SLOTS", value_name = "N,N", value_delimiter = ',', default_value = "1")]
    slots: Vec<u32>,
    /// More flags for every node, after `--`: for example `-- --evict-after 1s`.
    #[arg(last = true, value_name = "FLAGS")]
    serve: Vec<String>,
}

/// One node of the cluster.
struct DevNode {
    id: u16,
    client: SocketAddr,
    admin: SocketAddr,
    peer: SocketAddr,
}

/// Runs the cluster until Ctrl-C, or until no node is left.
pub async fn run(args: DevArgs, env: Env) -> anyhow::Result<Exit> {
    let nodes = plan(args.nodes, args.port)?;
    free(&env, &nodes).await?;
    let dir = prepare(&env, &args.dir)?;
    let (mut children, mut pipes) = (Vec::new(), Vec::new());
    for node in &nodes {
        let mut child = start(&args, &dir, &nodes, node)?;
        // Held here and not in the child, since waiting for a child closes its pipe.
        pipes.extend(child.stdin.take());
        children.push(child);
    }
    let stop = stopped();
    tokio::pin!(stop);
    let ready = tokio::select! {
        ready = all_ready(&env, &nodes, &mut children) => ready,
        () = &mut stop => Ok(()),
    };
    if let Err(e) = ready {
        end(&env, children, pipes).await;
        return Err(e);
    }
    greet(&nodes, &dir);
    tokio::select! {
        () = all_gone(&nodes, &mut children) => {
            eprintln!("every node has ended");
            return Ok(Exit::Error);
        }
        () = stop => {}
    }
    eprintln!("\nstopping {} nodes …", nodes.len());
    end(&env, children, pipes).await;
    eprintln!(
        "stopped. {dir} keeps the streams (store/), the nodes' logs (node-N/) and the cluster's secret; \
         `headwater dev --dir {dir}` goes on from there, deleting it starts afresh",
        dir = dir.display()
    );
    Ok(Exit::Done)
}

/// Which node listens where.
fn plan(count: u16, port: u16) -> anyhow::Result<Vec<DevNode>> {
    if count > 100 || port == 0 || port.checked_add(200 + count).is_none() {
        bail!(
            "{count} nodes from port {port} on do not fit: choose a --port up to {}",
            u16::MAX - 200 - count
        );
    }
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let node =
        |i| DevNode { id: i + 1, client: at(port + i), admin: at(port + 100 + i), peer: at(port + 200 + i) };
    Ok((0..count).map(node).collect())
}

/// Names a port that is taken before anything starts.
async fn free(env: &Env, nodes: &[DevNode]) -> anyhow::Result<()> {
    for node in nodes {
        for (what, address) in [("clients", node.client), ("admin", node.admin), ("peers", node.peer)] {
            if let Err(e) = env.net.bind(address).await {
                let (port, id) = (address.port(), node.id);
                bail!(
                    "port {port} (node {id}, {what}) cannot be used: {e}. \
                     End what listens there, or choose other ports with --port"
                );
            }
        }
    }
    Ok(())
}

/// Makes the directory and the secret that the nodes share, and gives the absolute path.
fn prepare(env: &Env, dir: &Path) -> anyhow::Result<PathBuf> {
    let dir = std::path::absolute(dir).with_context(|| format!("cannot use {}", dir.display()))?;
    if dir.to_str().is_none() {
        bail!("{} is not UTF-8: the store's URL could not name it", dir.display());
    }
    let make = |path: &Path| {
        env.disk.create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
    };
    make(&dir.join("store"))?;
    let secret = dir.join("secret");
    if env.disk.read(&secret).is_err() {
        let random = format!("{:032x}{:032x}\n", env.entropy.u128(), env.entropy.u128());
        env.disk
            .write_atomic(&secret, random.as_bytes())
            .with_context(|| format!("cannot write {}", secret.display()))?;
    }
    Ok(dir)
}

fn start(args: &DevArgs, dir: &Path, nodes: &[DevNode], node: &DevNode) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let store = url::Url::from_directory_path(dir.join("store")).map_err(|()| anyhow::anyhow!("bad path"))?;
    let slots = args.slots.get(usize::from(node.id - 1)).or(args.slots.last()).copied().unwrap_or(1);
    let mut command = Command::new(program);
    command
        .arg("serve")
        .args(["--node-id", &node.id.to_string(), "--slots", &slots.to_string()])
        .arg("--data")
        .arg(dir.join(format!("node-{}", node.id)))
        .args(["--store", store.as_str()])
        .args(["--listen", &node.client.to_string()])
        .args(["--admin", &node.admin.to_string()])
        .args(["--peer", &node.peer.to_string()])
        .arg("--cluster-secret-file")
        .arg(dir.join("secret"))
        .arg("--exit-with-stdin");
    if node.id > 1 {
        command.args(["--join", &nodes[0].peer.to_string()]);
    }
    command.args(&args.serve);
    // What the shell sets for one node would be wrong for three.
    for name in [
        "NODE_ID",
        "DATA",
        "STORE",
        "LISTEN",
        "ADVERTISE",
        "ADMIN",
        "PEER",
        "ADVERTISE_PEER",
        "JOIN",
        "SLOTS",
    ] {
        command.env_remove(format!("HEADWATER_{name}"));
    }
    if std::env::var_os("HEADWATER_LOG").is_none() {
        command.env("HEADWATER_LOG", "warn,openraft=off");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| format!("cannot start node {}", node.id))?;
    if let Some(stderr) = child.stderr.take() {
        tokio::spawn(relay(node.id, stderr));
    }
    Ok(child)
}

/// Shows what a node logs, with its id in front.
async fn relay(id: u16, stderr: impl AsyncRead + Unpin) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        eprintln!("node {id} | {line}");
    }
}

async fn all_ready(env: &Env, nodes: &[DevNode], children: &mut [Child]) -> anyhow::Result<()> {
    for (node, child) in nodes.iter().zip(children) {
        let args = AdminArgs { url: format!("http://{}", node.admin), token_file: None, json: false };
        let client = AdminClient::new(env.clone(), &args)?.patience(Duration::from_secs(2));
        let started = env.clock.monotonic();
        loop {
            if let Some(status) = child.try_wait()? {
                bail!("node {} did not start ({status})", node.id);
            }
            let answer = client.request(Method::GET, "/ready", Bytes::new()).await;
            if answer.is_ok_and(|a| a.status.is_success()) {
                break;
            }
            if env.clock.monotonic().saturating_sub(started) > Duration::from_secs(60) {
                bail!("node {} is not ready after a minute; HEADWATER_LOG=info shows what it does", node.id);
            }
            env.clock.sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

fn greet(nodes: &[DevNode], dir: &Path) {
    for node in nodes {
        out!("node {}    http://{}    admin http://{}", node.id, node.client, node.admin);
    }
    let (first, last) = (nodes[0].client, nodes[nodes.len() - 1].client);
    out!("data      {}", dir.display());
    out!("\ntry:");
    out!("  curl -L -X PUT http://{first}/hello -H 'Content-Type: text/plain'");
    out!("  curl -L -X POST http://{last}/hello -H 'Content-Type: text/plain' -d 'a record'");
    out!("  curl -L http://{first}/hello");
    out!("\nCtrl-C ends all of them.");
}

/// Resolves when a person or a supervisor wants the end.
async fn stopped() {
    super::serve::stop_signal().await;
}

/// Tells of each node that ends; resolves when none is left.
async fn all_gone(nodes: &[DevNode], children: &mut [Child]) {
    let ends = nodes.iter().zip(children).map(|(node, child)| async move {
        if let Ok(status) = child.wait().await {
            eprintln!("node {} has ended ({}); the others go on", node.id, describe(status));
        }
    });
    futures_util::future::join_all(ends).await;
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(3) => "replaced by a later process of the same id".to_owned(),
        Some(4) => "fenced".to_owned(),
        Some(5) => "its state differs from the cluster's".to_owned(),
        _ => status.to_string(),
    }
}

/// Ends all nodes: the pipe first, then force.
async fn end(env: &Env, mut children: Vec<Child>, pipes: Vec<ChildStdin>) {
    drop(pipes);
    let all = futures_util::future::join_all(children.iter_mut().map(|child| child.wait()));
    if env.timeout(Duration::from_secs(20), all).await.is_none() {
        eprintln!("some nodes do not end by themselves: killing them");
        for child in &mut children {
            let _ = child.kill().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_the_number_of_the_node() {
        let nodes = plan(3, 4437).unwrap();
        let ports: Vec<_> =
            nodes.iter().map(|n| (n.id, n.client.port(), n.admin.port(), n.peer.port())).collect();
        assert_eq!(ports, [(1, 4437, 4537, 4637), (2, 4438, 4538, 4638), (3, 4439, 4539, 4639)]);
        assert!(plan(3, 65_500).is_err());
        assert!(plan(1, 0).is_err());
    }
}
