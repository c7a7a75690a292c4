//! A network in memory. Bytes between two machines pass a pump that waits while the link is cut and
//! takes its time when the link is slow; a crash breaks what the machine had open.

use crate::{BoxFuture, Connection, Listener, Net};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Link {
    cut: bool,
    delay: Duration,
}

type Arrival = (Box<dyn Connection>, SocketAddr);

#[derive(Default)]
struct State {
    /// Machines in the order they were seen: number i has the address 10.0.0.i.
    hosts: Vec<String>,
    links: BTreeMap<(String, String), watch::Sender<Link>>,
    listeners: BTreeMap<(String, u16), mpsc::UnboundedSender<Arrival>>,
    pumps: Vec<(String, String, AbortHandle)>,
    ports: u16,
    /// The process of each machine that may use the network: a crash ends the ones before.
    processes: BTreeMap<String, u64>,
}

#[derive(Clone)]
pub(super) struct SimNet {
    state: Arc<Mutex<State>>,
}

impl SimNet {
    pub(super) fn new() -> SimNet {
        SimNet { state: Arc::default() }
    }

    pub(super) fn host(&self, name: &str) -> SimHost {
        let mut state = self.state.lock();
        state.ip(name);
        let process = state.processes.get(name).copied().unwrap_or_default();
        SimHost { net: self.clone(), name: name.to_owned(), process }
    }

    pub(super) fn set_cut(&self, from: &str, to: &str, cut: bool) {
        self.state.lock().link(from, to).send_modify(|link| link.cut = cut);
    }

    pub(super) fn set_delay(&self, from: &str, to: &str, delay: Duration) {
        self.state.lock().link(from, to).send_modify(|link| link.delay = delay);
    }

    pub(super) fn crash(&self, name: &str) {
        let mut state = self.state.lock();
        *state.processes.entry(name.to_owned()).or_default() += 1;
        state.listeners.retain(|(host, _), _| host != name);
        state.abort(|a, b| a == name || b == name);
    }

    pub(super) fn reset(&self, x: &str, y: &str) {
        self.state.lock().abort(|a, b| (a == x && b == y) || (a == y && b == x));
    }
}

impl State {
    fn ip(&mut self, name: &str) -> IpAddr {
        let at = self.hosts.iter().position(|host| host == name).unwrap_or_else(|| {
            self.hosts.push(name.to_owned());
            self.hosts.len() - 1
        });
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, u8::try_from(at + 1).unwrap_or(u8::MAX)))
    }

    fn resolve(&self, host: &str) -> Option<String> {
        if self.hosts.iter().any(|name| name == host) {
            return Some(host.to_owned());
        }
        let last: usize = host.strip_prefix("10.0.0.")?.parse().ok()?;
        self.hosts.get(last.checked_sub(1)?).cloned()
    }

    fn link(&mut self, from: &str, to: &str) -> &watch::Sender<Link> {
        self.links
            .entry((from.to_owned(), to.to_owned()))
            .or_insert_with(|| watch::channel(Link::default()).0)
    }

    fn abort(&mut self, which: impl Fn(&str, &str) -> bool) {
        self.pumps.retain(|(a, b, pump)| {
            let ends = which(a, b);
            if ends {
                pump.abort();
            }
            !ends && !pump.is_finished()
        });
    }
}

/// The network as one machine sees it.
pub(super) struct SimHost {
    net: SimNet,
    name: String,
    process: u64,
}

impl SimHost {
    fn check_alive(&self, state: &State) -> io::Result<()> {
        match state.processes.get(&self.name).copied().unwrap_or_default() == self.process {
            true => Ok(()),
            false => Err(io::Error::other("this process has ended")),
        }
    }
}

async fn pump(
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    mut link: watch::Receiver<Link>,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let n = match from.read(&mut buffer).await {
            Ok(n) => n,
            Err(_) => return,
        };
        let Ok(state) = link.wait_for(|link| !link.cut).await.map(|link| *link) else { return };
        if !state.delay.is_zero() {
            tokio::time::sleep(state.delay).await;
        }
        if n == 0 {
            let _ = to.shutdown().await;
            return;
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

impl Net for SimHost {
    fn bind(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let mut state = self.net.state.lock();
            self.check_alive(&state)?;
            let port = match address.port() {
                0 => {
                    state.ports += 1;
                    40_000 + state.ports
                }
                port => port,
            };
            let key = (self.name.clone(), port);
            if state.listeners.get(&key).is_some_and(|listener| !listener.is_closed()) {
                let text = format!("cannot listen on {address}: in use");
                return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
            }
            let (sender, receiver) = mpsc::unbounded_channel();
            state.listeners.insert(key, sender);
            let local = SocketAddr::new(state.ip(&self.name), port);
            Ok(Box::new(SimListener { local, arrivals: tokio::sync::Mutex::new(receiver) })
                as Box<dyn Listener>)
        })
    }

    fn connect<'a>(&'a self, authority: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Connection>>> {
        Box::pin(async move {
            let refused =
                |why: &str| io::Error::new(io::ErrorKind::ConnectionRefused, format!("{authority}: {why}"));
            let (host, port) = authority.rsplit_once(':').ok_or_else(|| refused("no port"))?;
            let port: u16 = port.parse().map_err(|_| refused("not a port"))?;
            let (there, mut out, mut back) = {
                let mut state = self.net.state.lock();
                let there = state.resolve(host).ok_or_else(|| refused("unknown host"))?;
                let out = state.link(&self.name, &there).subscribe();
                let back = state.link(&there, &self.name).subscribe();
                (there, out, back)
            };
            // A cut link swallows the handshake: the caller waits, as with a real partition.
            for link in [&mut out, &mut back] {
                let state = link.wait_for(|link| !link.cut).await.map(|link| *link);
                let delay = state.map_err(|_| refused("gone"))?.delay;
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
            }
            let mut state = self.net.state.lock();
            self.check_alive(&state)?;
            let (mine, my_end) = duplex(64 << 10);
            let (theirs, their_end) = duplex(64 << 10);
            let from = SocketAddr::new(state.ip(&self.name), 1);
            let listener =
                state.listeners.get(&(there.clone(), port)).ok_or_else(|| refused("nobody listens"))?;
            listener.send((Box::new(theirs), from)).map_err(|_| refused("nobody listens"))?;
            let ((my_read, my_write), (their_read, their_write)) = (split(my_end), split(their_end));
            for pump in [pump(my_read, their_write, out), pump(their_read, my_write, back)] {
                let task = tokio::spawn(pump);
                state.pumps.push((self.name.clone(), there.clone(), task.abort_handle()));
            }
            Ok(Box::new(mine) as Box<dyn Connection>)
        })
    }
}

struct SimListener {
    local: SocketAddr,
    arrivals: tokio::sync::Mutex<mpsc::UnboundedReceiver<Arrival>>,
}

impl Listener for SimListener {
    fn local(&self) -> SocketAddr {
        self.local
    }

    fn accept(&self) -> BoxFuture<'_, io::Result<Arrival>> {
        Box::pin(async move {
            match self.arrivals.lock().await.recv().await {
                Some(arrival) => Ok(arrival),
                None => std::future::pending().await,
            }
        })
    }
}
