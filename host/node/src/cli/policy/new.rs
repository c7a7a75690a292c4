//! `headwater policy new`: writes a crate that is ready to test, build and push. Needs no cluster.
//!
//! The crate is a workspace of its own and may be anywhere. It takes the SDK from a checkout of this
//! repository, or from a git repository.

use super::super::Exit;
use super::super::out::out;
use super::super::table::json;
use anyhow::{Context, bail, ensure};
use clap::Args;
use headwater_env::Env;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The files of the crate: where they go, and what is in them.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("template/Cargo.toml.in")),
    (".gitignore", include_str!("template/gitignore.in")),
    ("README.md", include_str!("template/README.md.in")),
    ("src/lib.rs", include_str!("template/src/lib.rs.in")),
    ("src/decide.rs", include_str!("template/src/decide.rs.in")),
    ("scenarios/basic.toml", include_str!("template/scenarios/basic.toml.in")),
];
/// Only beside a checkout, which can build it.
const ALIAS: (&str, &str) = (".cargo/config.toml", include_str!("template/config.toml.in"));

/// The flags of `headwater policy new`.
#[derive(Args, Clone, Debug)]
pub struct NewArgs {
    /// Name of the policy and of its crate: lower-case letters, digits and `-`.
    name: String,
    /// The folder to write it into; by default one of its name, here.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where the SDK is: a checkout of Headwater, or the URL of its git repository. By default the
    /// checkout that this program or the present folder is in.
    #[arg(long, env = "HEADWATER_SDK", value_name = "DIR|URL")]
    sdk: Option<String>,
}

/// Where the SDK comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sdk {
    Checkout(PathBuf),
    Git(String),
}

/// Writes the crate.
pub fn run(args: &NewArgs, env: &Env, as_json: bool) -> anyhow::Result<Exit> {
    ensure!(
        is_name(&args.name),
        "{:?} is no name for a policy: take lower-case letters, digits and -, a letter first",
        args.name
    );
    let sdk = match &args.sdk {
        Some(text) if text.contains("://") || text.starts_with("git@") => Sdk::Git(text.clone()),
        Some(folder) => {
            let folder = std::path::absolute(folder)?;
            ensure!(is_checkout(env, &folder), "{} is no checkout of Headwater", folder.display());
            Sdk::Checkout(folder)
        }
        None => Sdk::Checkout(checkout(env).context(
            "this program is in no checkout of Headwater: say where the SDK is, --sdk DIR or --sdk URL",
        )?),
    };
    let folder = args.dir.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    if env.disk.list(&folder).is_ok_and(|entries| !entries.is_empty()) {
        bail!("{} is there already, and not empty", folder.display());
    }
    let files = contents(&args.name, &sdk);
    for (path, text) in &files {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(&folder);
        env.disk.create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        env.disk
            .write_atomic(&path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if as_json {
        let names: Vec<_> = files.iter().map(|(path, _)| path).collect();
        json(&json!({ "name": args.name, "folder": folder, "files": names }));
        return Ok(Exit::Done);
    }
    out!("{}", folder.display());
    eprintln!("Next: cd {}, cargo test, {}; README.md says the rest.", folder.display(), build(&sdk));
    Ok(Exit::Done)
}

fn build(sdk: &Sdk) -> &'static str {
    match sdk {
        Sdk::Checkout(_) => "cargo build-policy",
        Sdk::Git(_) => "headwater-guest-build --crate .",
    }
}

/// The files with everything filled in.
fn contents(name: &str, sdk: &Sdk) -> Vec<(&'static str, String)> {
    let (dependency, build, checkout) = match sdk {
        Sdk::Checkout(folder) => (
            format!("path = {:?}", folder.join("guest/sdk").display().to_string()),
            format!("{:<64}# writes {name}.wasm", build(sdk)),
            folder.display().to_string(),
        ),
        Sdk::Git(url) => (
            format!("git = {url:?}"),
            format!(
                "cargo install --git {url} headwater-guest-build   # once\n{:<64}# writes {name}.wasm",
                build(sdk)
            ),
            String::new(),
        ),
    };
    let fill = |text: &str| {
        text.replace("{name}", name)
            .replace("{sdk}", &dependency)
            .replace("{build}", &build)
            .replace("{checkout}", &checkout)
    };
    let alias = matches!(sdk, Sdk::Checkout(_)).then_some(ALIAS);
    FILES.into_iter().chain(alias).map(|(path, text)| (path, fill(text))).collect()
}

fn is_name(name: &str) -> bool {
    let words = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    words && name.starts_with(|c: char| c.is_ascii_lowercase()) && !name.ends_with('-') && name.len() <= 64
}

fn is_checkout(env: &Env, folder: &Path) -> bool {
    env.disk.read(&folder.join("guest/sdk/Cargo.toml")).is_ok()
}

/// The checkout that the present folder, cargo's package or this program is in.
fn checkout(env: &Env) -> Option<PathBuf> {
    let starts = [
        std::env::current_dir().ok(),
        std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from),
        std::env::current_exe().ok(),
    ];
    let mut folders = starts.iter().flatten().flat_map(|start| start.ancestors());
    folders.find(|folder| is_checkout(env, folder)).map(Path::to_owned)
}

#[cfg(test)]
#[path = "new_test.rs"]
mod tests;
