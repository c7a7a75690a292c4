//! One node: a `headwater serve` process with its ports, its data directory and its log. It can be
//! killed, paused, stopped, wiped and started again; it dies with the test process.

use crate::admin::Admin;
use crate::http::Client;
use crate::proxy::Sources;
use crate::wait::{self, wait_until};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a node is started with. Changed between starts with [`Node::configure`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its id.
    pub id: u64,
    /// Port of the clients' listener.
    pub port: u16,
    /// Port of the admin listener.
    pub admin_port: u16,
    /// Port of the peer listener.
    pub peer_port: u16,
    /// What it tells others of its peer listener, when that is not the listener itself.
    pub advertise_peer: Option<String>,
    /// The data directory.
    pub data: PathBuf,
    /// The store's URL.
    pub store: String,
    /// Through whom it joins.
    pub join: Vec<String>,
    /// `--slots`, when given.
    pub slots: Option<u32>,
    /// Further flags.
    pub args: Vec<String>,
    /// Further environment variables.
    pub env: BTreeMap<String, String>,
}

struct Running {
    child: Child,
    // Holds a pipe whose end kills the node when this process dies, however it dies.
    watchdog: Child,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A node of a cluster under test.
pub struct Node {
    binary: PathBuf,
    log: PathBuf,
    secret: PathBuf,
    settings: Mutex<Settings>,
    running: Mutex<Option<Running>>,
    client: Client,
    sources: Sources,
    id: u64,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    pub(crate) fn new(
        binary: PathBuf,
        folder: &Path,
        secret: PathBuf,
        settings: Settings,
        client: Client,
        sources: Sources,
    ) -> Node {
        let id = settings.id;
        let name = settings.data.file_name().map_or_else(|| id.to_string(), |n| n.to_string_lossy().into());
        let log = folder.join(format!("{name}.log"));
        Node {
            binary,
            log,
            secret,
            settings: Mutex::new(settings),
            running: Mutex::new(None),
            client,
            sources,
            id,
        }
    }

    /// Its id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What it will be started with.
    pub fn settings(&self) -> Settings {
        held(&self.settings).clone()
    }

    /// Changes what the next start takes.
    pub fn configure(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut held(&self.settings));
    }

    /// The base URL for clients.
    pub fn base(&self) -> String {
        format!("http://127.0.0.1:{}", held(&self.settings).port)
    }

    /// The URL of a stream at this node.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base())
    }

    /// Its admin listener.
    pub fn admin(&self) -> Admin {
        Admin::new(self.client.clone(), format!("http://127.0.0.1:{}", held(&self.settings).admin_port))
    }

    /// The address of its peer listener as it advertises it.
    pub fn peer_url(&self) -> String {
        let settings = held(&self.settings);
        settings.advertise_peer.clone().unwrap_or_else(|| format!("http://127.0.0.1:{}", settings.peer_port))
    }

    /// Everything that it has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Whether a process was started and has not been seen to end.
    pub fn is_running(&self) -> bool {
        held(&self.running).is_some()
    }

    /// Starts the process and waits until it serves.
    pub async fn start(&self) -> Result<()> {
        self.spawn()?;
        self.wait_ready().await
    }

    /// Starts the process.
    pub fn spawn(&self) -> Result<()> {
        let mut running = held(&self.running);
        ensure!(running.is_none(), "node {} runs already", self.id);
        let settings = held(&self.settings).clone();
        let mut log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        writeln!(log, "--- start")?;
        let mut command = Command::new(&self.binary);
        command
            .arg("serve")
            .args(["--node-id", &settings.id.to_string()])
            .arg("--data")
            .arg(&settings.data)
            .args(["--store", &settings.store])
            .args(["--listen", &format!("127.0.0.1:{}", settings.port)])
            .args(["--admin", &format!("127.0.0.1:{}", settings.admin_port)])
            .args(["--peer", &format!("127.0.0.1:{}", settings.peer_port)])
            .arg("--cluster-secret-file")
            .arg(&self.secret)
            .args(settings.join.iter().flat_map(|url| ["--join", url]))
            .args(settings.advertise_peer.iter().flat_map(|url| ["--advertise-peer", url]))
            .args(settings.slots.iter().flat_map(|slots| ["--slots".to_owned(), slots.to_string()]))
            .args(&settings.args)
            .env("RUST_BACKTRACE", "1")
            .envs(&settings.env)
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone()?))
            .stderr(Stdio::from(log));
        let child = command.spawn().with_context(|| format!("start {}", self.binary.display()))?;
        let pid = child.id();
        let watchdog = Command::new("sh")
            .args(["-c", "read -r _; kill -KILL \"$0\"", &pid.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start a watchdog")?;
        self.sources.add(pid, self.id);
        *running = Some(Running { child, watchdog });
        Ok(())
    }

    /// Waits until the node serves; fails at once when the process ends instead.
    pub async fn wait_ready(&self) -> Result<()> {
        let what = format!("node {} to serve", self.id);
        let mut ended = None;
        let ready = wait_until(&what, wait::SOON, || {
            ended = ended.or_else(|| self.poll_exit());
            let admin = self.admin();
            async move {
                match ended {
                    Some(_) => Ok(()),
                    None => admin.ready().await,
                }
            }
        });
        ready.await?;
        match ended {
            Some(how) => bail!("node {} ended while starting: {how:?}\n{}", self.id, self.last_lines(20)),
            None => Ok(()),
        }
    }

    /// The last lines of its log.
    pub fn last_lines(&self, count: usize) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    /// The log since its last start.
    pub fn log_of_this_start(&self) -> String {
        let log = self.log();
        log.rsplit("--- start\n").next().unwrap_or_default().to_owned()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let running = held(&self.running);
        let running = running.as_ref().with_context(|| format!("node {} does not run", self.id))?;
        let pid = i32::try_from(running.child.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// `kill -9`, without waiting.
    pub fn send_kill(&self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// `kill -9`, and waits until the process is gone.
    pub async fn kill(&self) -> Result<()> {
        self.send_kill()?;
        self.wait_exit(wait::SOON).await.map(|_| ())
    }

    /// `SIGSTOP`.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// `SIGCONT`.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// `SIGTERM`, and waits for the exit code.
    pub async fn terminate(&self) -> Result<Ended> {
        self.signal(Signal::TERM)?;
        self.wait_exit(wait::SOON).await
    }

    /// Kills and starts it with the same data, without waiting for it to serve.
    pub async fn restart_hard(&self) -> Result<()> {
        self.kill().await?;
        self.spawn()
    }

    /// Whether the process has ended by now, and how.
    pub fn poll_exit(&self) -> Option<Ended> {
        let mut running = held(&self.running);
        let status = running.as_mut()?.child.try_wait().ok()??;
        if let Some(mut ended) = running.take() {
            self.sources.remove(ended.child.id());
            let _ = ended.watchdog.kill();
            let _ = ended.watchdog.wait();
        }
        Some(match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Code(code),
            (None, signal) => Ended::Signal(signal.unwrap_or(0)),
        })
    }

    /// Waits until the process ends.
    pub async fn wait_exit(&self, limit: Duration) -> Result<Ended> {
        let what = format!("node {} to end", self.id);
        wait_until(&what, limit, || {
            let ended = self.poll_exit();
            async move { ended.context("it runs") }
        })
        .await
    }

    /// Deletes the data directory of a node that does not run.
    pub fn wipe(&self) -> Result<()> {
        ensure!(!self.is_running(), "node {} runs", self.id);
        let data = self.settings().data;
        fs::remove_dir_all(&data).with_context(|| format!("wipe {}", data.display()))
    }

    /// Copies the data directory of a node that does not run.
    pub fn copy_data(&self, to: &Path) -> Result<()> {
        copy_dir(&self.settings().data, to)
    }

    pub(crate) fn kill_now(&self) {
        if let Some(mut running) = held(&self.running).take() {
            self.sources.remove(running.child.id());
            let _ = running.child.kill();
            let _ = running.child.wait();
            let _ = running.watchdog.kill();
            let _ = running.watchdog.wait();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill_now();
    }
}

/// Copies a directory with everything in it.
pub fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Writes a file with this content.
pub(crate) fn write(path: &Path, content: &str) -> Result<()> {
    let mut file = File::create(path)?;
    Ok(file.write_all(content.as_bytes())?)
}
