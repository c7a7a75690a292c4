//! What the README promises a newcomer: `headwater dev`, the binary's own client, and a clean end.

use anyhow::{Context, Result, bail, ensure};
use headwater_harness::{Client, eventually, run};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");

/// `headwater dev` with its output in a file; it is interrupted when the test ends.
struct Dev {
    child: Child,
    output: PathBuf,
    port: u16,
}

impl Dev {
    fn start(folder: &Path, port: u16) -> Result<Dev> {
        fs::create_dir_all(folder)?;
        let output = folder.join("dev.log");
        let log = fs::File::create(&output)?;
        let child = Command::new(BINARY)
            .args(["dev", "--port", &port.to_string(), "--dir"])
            .arg(folder.join("dev"))
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone()?))
            .stderr(Stdio::from(log))
            .spawn()?;
        Ok(Dev { child, output, port })
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    fn url(&self, node: u16, stream: &str) -> String {
        format!("http://127.0.0.1:{}{stream}", self.port + node - 1)
    }

    fn interrupt(&self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        Ok(kill_process(pid, Signal::INT)?)
    }

    async fn ended(&mut self) -> Result<Option<i32>> {
        let child = std::sync::Mutex::new(&mut self.child);
        eventually("dev to end", || {
            let status = child.lock().map(|mut child| child.try_wait());
            async move {
                match status {
                    Ok(Ok(Some(status))) => Ok(status.code()),
                    other => bail!("{other:?}"),
                }
            }
        })
        .await
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.interrupt();
        let _ = self.child.wait();
    }
}

/// A run of the binary's client; what it printed.
fn headwater(dev: &Dev, arguments: &[&str], input: Option<&str>) -> Result<String> {
    let mut child = Command::new(BINARY)
        .args(arguments)
        .env("HEADWATER_URL", dev.url(1, ""))
        .env("HEADWATER_ADMIN_URL", format!("http://127.0.0.1:{}", dev.port + 100))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.unwrap_or_default().as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "headwater {arguments:?}: {}\n{text}\n{errors}", output.status);
    Ok(text)
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("headwater-{name}-{}", std::process::id()))
}

/// A base so that `port`, `port+100` and `port+200` and the two after each are free; each test gets
/// another one, above the ports of the harness.
fn free_base() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(30_300);
    loop {
        let base = NEXT.fetch_add(10, Ordering::Relaxed);
        ensure!(base < 32_500, "no free ports for dev");
        let taken = [0, 1, 2, 100, 101, 102, 200, 201, 202]
            .iter()
            .any(|step| std::net::TcpListener::bind(("127.0.0.1", base + step)).is_err());
        if !taken && (base / 100).is_multiple_of(3) {
            return Ok(base);
        }
    }
}

async fn all_ready(dev: &Dev) -> Result<()> {
    let client = Client::new();
    eventually("three nodes", || async {
        for node in 0..3 {
            let url = format!("http://127.0.0.1:{}/ready", dev.port + 100 + node);
            client.get(url).send().await.and_then(|a| a.expect(200)).with_context(|| dev.said())?;
        }
        Ok(())
    })
    .await
}

#[test]
fn dev_serves_a_newcomer_and_ends_cleanly() {
    run(async {
        let folder = folder("dev");
        let mut dev = Dev::start(&folder, free_base()?)?;
        all_ready(&dev).await?;
        eventually("the three URLs", || async {
            let said = dev.said();
            for node in 1..=3 {
                ensure!(said.contains(&dev.url(node, "")), "node {node}'s URL is not in: {said}");
            }
            Ok(())
        })
        .await?;

        headwater(&dev, &["create", "/greetings"], None)?;
        headwater(&dev, &["append", "/greetings"], Some("hello\n"))?;
        let read = headwater(&dev, &["read", "/greetings"], None)?;
        ensure!(read.contains("hello"), "the client reads {read:?}");
        let client = Client::new();
        for node in 1..=3 {
            let read = client.read_all(&dev.url(node, "/greetings")).await?;
            ensure!(read.starts_with(b"hello"), "node {node} gives {read:?}");
        }
        ensure!(headwater(&dev, &["ls"], None)?.contains("/greetings"));
        ensure!(headwater(&dev, &["stream", "/greetings"], None)?.contains("/greetings"));
        headwater(&dev, &["head", "/greetings"], None)?;
        ensure!(headwater(&dev, &["nodes"], None)?.lines().count() >= 3);
        headwater(&dev, &["cluster"], None)?;

        dev.interrupt()?;
        let code = dev.ended().await?;
        ensure!(code == Some(0), "dev ended with {code:?}");
        let said = dev.said();
        let dir = folder.join("dev");
        ensure!(said.contains(&dir.display().to_string()), "it does not say what it leaves: {said}");
        for node in 0..3 {
            let address = format!("127.0.0.1:{}", dev.port + node);
            ensure!(std::net::TcpStream::connect(&address).is_err(), "{address} is still served");
        }

        // What it left is used again.
        let port = dev.port;
        drop(dev);
        let dev = Dev::start(&folder, port)?;
        all_ready(&dev).await?;
        let read = headwater(&dev, &["read", "/greetings"], None)?;
        ensure!(read.contains("hello"), "after a restart the client reads {read:?}");
        drop(dev);
        fs::remove_dir_all(&folder)?;
        Ok(())
    });
}

#[test]
fn dev_names_a_port_that_is_taken() {
    run(async {
        let folder = folder("taken");
        let base = free_base()?;
        let _taken = std::net::TcpListener::bind(("127.0.0.1", base + 1))?;
        let mut dev = Dev::start(&folder, base)?;
        let code = dev.ended().await?;
        ensure!(code == Some(1), "dev ended with {code:?}: {}", dev.said());
        ensure!(dev.said().contains(&(base + 1).to_string()), "the port is not named: {}", dev.said());
        drop(dev);
        fs::remove_dir_all(&folder)?;
        Ok(())
    });
}

#[test]
fn a_dead_parent_takes_the_nodes_with_it() {
    run(async {
        let folder = folder("orphans");
        let mut dev = Dev::start(&folder, free_base()?)?;
        all_ready(&dev).await?;
        dev.child.kill()?;
        dev.ended().await?;
        eventually("the nodes to end", || async {
            for node in 0..3 {
                let address = format!("127.0.0.1:{}", dev.port + node);
                ensure!(std::net::TcpStream::connect(&address).is_err(), "{address} is still served");
            }
            Ok(())
        })
        .await?;
        drop(dev);
        fs::remove_dir_all(&folder)?;
        Ok(())
    });
}
