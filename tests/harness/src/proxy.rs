//! A TCP proxy before one node's peer listener. It can cut the node off from all others or from some of
//! them, silently (bytes vanish into a wait, as when a cable is pulled) or with a reset, and slow it.
//!
//! Who connects is found out from the kernel's socket tables, since all nodes share one address.

use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Which process is which node.
#[derive(Clone, Default)]
pub struct Sources(Arc<Mutex<BTreeMap<u32, u64>>>);

impl Sources {
    pub(crate) fn add(&self, pid: u32, node: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pid, node);
    }

    pub(crate) fn remove(&self, pid: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    /// The node whose process has the socket with this local port.
    fn of_port(&self, port: u16) -> Option<u64> {
        let inode = inode_of_port(port)?;
        let link = format!("socket:[{inode}]");
        let pids = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        pids.into_iter().find(|(pid, _)| has_descriptor(*pid, &link)).map(|(_, node)| node)
    }
}

fn inode_of_port(port: u16) -> Option<u64> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let local = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // An established or opening socket of the loopback interface with this local port.
        let matches = fields.get(1)?.ends_with(&local) && *fields.get(3)? != "0A";
        matches.then(|| fields.get(9)?.parse().ok()).flatten().filter(|inode| *inode != 0)
    })
}

fn has_descriptor(pid: u32, link: &str) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|l| l.as_os_str() == link))
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rules {
    cut_all: bool,
    cut_from: BTreeSet<u64>,
    reset: bool,
    delay: Duration,
}

impl Rules {
    fn cuts(&self, source: Option<u64>) -> bool {
        self.cut_all || source.is_some_and(|node| self.cut_from.contains(&node))
    }
}

/// The proxy before one node's peer listener.
pub struct PeerProxy {
    address: SocketAddr,
    rules: watch::Sender<Rules>,
    task: JoinHandle<()>,
}

impl PeerProxy {
    /// Listens on a port of its own and relays to this one.
    pub async fn start(target: u16, sources: Sources) -> Result<PeerProxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (rules, _) = watch::channel(Rules::default());
        let sender = rules.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                let (rules, sources) = (sender.subscribe(), sources.clone());
                tokio::spawn(async move {
                    let source = sources.of_port(peer.port());
                    // How a relayed connection ends is the business of its two ends.
                    let _ = relay(stream, target, source, rules).await;
                });
            }
        });
        Ok(PeerProxy { address, rules, task })
    }

    /// What the node advertises.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Nobody gets through.
    pub fn cut_all(&self) {
        self.rules.send_modify(|rules| rules.cut_all = true);
    }

    /// This node does not get through.
    pub fn cut_from(&self, node: u64) {
        self.rules.send_modify(|rules| {
            rules.cut_from.insert(node);
        });
    }

    /// From now on a cut resets connections instead of swallowing what is sent.
    pub fn reset_when_cut(&self) {
        self.rules.send_modify(|rules| rules.reset = true);
    }

    /// Holds every piece of data back for this long.
    pub fn delay(&self, delay: Duration) {
        self.rules.send_modify(|rules| rules.delay = delay);
    }

    /// No cut and no delay any more.
    pub fn mend(&self) {
        self.rules.send_replace(Rules::default());
    }
}

impl Drop for PeerProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(
    near: TcpStream,
    target: u16,
    source: Option<u64>,
    mut rules: watch::Receiver<Rules>,
) -> Result<()> {
    if !passable(source, &mut rules).await {
        return Ok(());
    }
    let far = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    tokio::select! {
        _ = pump(near_read, far_write, source, rules.clone()) => {}
        _ = pump(far_read, near_write, source, rules) => {}
    }
    Ok(())
}

async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    source: Option<u64>,
    mut rules: watch::Receiver<Rules>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            changed = rules.changed() => match changed {
                Ok(()) if passable(source, &mut rules).await => continue,
                _ => return,
            },
        };
        let Ok(length @ 1..) = read else { return };
        if !passable(source, &mut rules).await {
            return;
        }
        let delay = rules.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// Waits while the connection is cut; false when it shall end instead.
async fn passable(source: Option<u64>, rules: &mut watch::Receiver<Rules>) -> bool {
    loop {
        {
            let now = rules.borrow_and_update();
            if !now.cuts(source) {
                return true;
            }
            if now.reset {
                return false;
            }
        }
        if rules.changed().await.is_err() {
            return false;
        }
    }
}

#[cfg(test)]
#[path = "proxy_test.rs"]
mod tests;
