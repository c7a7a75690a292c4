//! Compiles a policy for `wasm32-unknown-unknown` and wraps the module as a component.
//!
//! The bytes depend on the sources and on rustc, not on where the repository or cargo's home is: their
//! paths are mapped to fixed ones.

use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const TARGET: &str = "wasm32-unknown-unknown";
const PROFILE: &str = "guest";

/// The compiler of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// `rustc -V`.
    pub version: String,
    /// The machine that it runs on.
    pub host: String,
    commit: String,
    sysroot: PathBuf,
}

impl Toolchain {
    /// Asks rustc.
    pub fn detect() -> Result<Toolchain> {
        let verbose = output(rustc().arg("-vV"))?;
        let field = |key: &str| {
            let line = verbose.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
            line.map(str::to_owned).with_context(|| format!("rustc -vV says no {key}"))
        };
        Ok(Toolchain {
            version: verbose.lines().next().unwrap_or_default().to_owned(),
            host: field("host")?,
            commit: field("commit-hash")?,
            sysroot: output(rustc().args(["--print", "sysroot"]))?.trim().into(),
        })
    }

    /// The standard library for the Wasm target is installed.
    pub fn has_target(&self) -> bool {
        self.sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir()
    }

    pub(crate) fn must_have_target(&self) -> Result<()> {
        ensure!(self.has_target(), "the target {TARGET} is not installed: rustup target add {TARGET}");
        Ok(())
    }

    /// What is passed to cargo and rustc, with names in place of this machine's folders.
    pub fn flags() -> Vec<String> {
        let mut flags: Vec<String> =
            cargo_arguments("POLICY").into_iter().filter(|argument| argument != "--quiet").collect();
        flags.extend(remaps().map(|(name, to)| format!("--remap-path-prefix=${name}={to}")));
        flags
    }

    pub(crate) fn rustflags(&self, root: &Path) -> String {
        let folders = [root.to_owned(), cargo_home(), self.sysroot.join("lib/rustlib/src/rust")];
        let rust = format!("/rustc/{}", self.commit);
        let flags = remaps().zip(folders).map(|((name, to), folder)| {
            let to = if name == "RUST_SRC" { rust.as_str() } else { to };
            format!("--remap-path-prefix={}={to}", folder.display())
        });
        flags.collect::<Vec<_>>().join("\u{1f}")
    }
}

fn remaps() -> impl Iterator<Item = (&'static str, &'static str)> {
    [("WORKSPACE", "/src"), ("CARGO_HOME", "/cargo"), ("RUST_SRC", "/rustc/$COMMIT")].into_iter()
}

fn cargo_arguments(policy: &str) -> Vec<String> {
    ["rustc", "--quiet", "--locked", "--package", policy, "--lib", "--crate-type", "cdylib"]
        .into_iter()
        .chain(["--target", TARGET, "--profile", PROFILE])
        .map(str::to_owned)
        .collect()
}

/// Builds a policy of the workspace and answers with its component.
pub fn build(workspace: &Workspace, toolchain: &Toolchain, policy: &str) -> Result<Vec<u8>> {
    toolchain.must_have_target()?;
    // A folder of its own: a test that builds a policy must not wait for the cargo that runs the test.
    let target = workspace.root().join("target/guest");
    let status = cargo()
        .current_dir(workspace.root())
        .args(cargo_arguments(policy))
        .arg("--target-dir")
        .arg(&target)
        .env("CARGO_ENCODED_RUSTFLAGS", toolchain.rustflags(workspace.root()))
        .env_remove("RUSTFLAGS")
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "cargo could not build {policy}");
    let module = target.join(TARGET).join(PROFILE).join(format!("{}.wasm", policy.replace('-', "_")));
    encode(&std::fs::read(&module).with_context(|| format!("reading {}", module.display()))?)
}

/// Wraps a core module, which describes its world in a custom section, as a component.
pub fn encode(module: &[u8]) -> Result<Vec<u8>> {
    wit_component::ComponentEncoder::default().validate(true).module(module)?.encode()
}

pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn cargo_home() -> PathBuf {
    std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(&std::env::var_os("HOME").unwrap_or_else(|| "/".into())).join(".cargo"))
}
