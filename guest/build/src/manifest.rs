//! `guest/prebuilt/manifest.json`: what each built component was made from. Only `cargo build-policies`
//! writes it; [`differences`] says in plain words where the repository has moved away from it.

use crate::build::Toolchain;
use crate::workspace::{Workspace, sha256};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

/// What the prebuilt components were made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// `rustc -V`.
    pub rustc: String,
    /// The machine that rustc ran on.
    pub host: String,
    /// Arguments of cargo and rustc.
    pub flags: Vec<String>,
    /// The policies by name.
    pub policies: BTreeMap<String, Built>,
}

/// One built policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// SHA-256 of the component: its name in a cluster.
    pub component: String,
    /// Its size in bytes.
    pub size: usize,
    /// SHA-256 of each input, by path.
    pub inputs: BTreeMap<String, String>,
    /// Resolved dependencies with their checksums.
    pub dependencies: BTreeMap<String, String>,
}

impl Built {
    /// What this component is made from, as the repository is now.
    pub fn describe(workspace: &Workspace, policy: &str, component: &[u8]) -> Result<Built> {
        Ok(Built {
            component: sha256(component),
            size: component.len(),
            inputs: workspace.inputs(policy)?,
            dependencies: workspace.dependencies(policy)?,
        })
    }
}

impl Manifest {
    /// One without policies, for this compiler.
    pub fn new(toolchain: &Toolchain) -> Manifest {
        Manifest {
            rustc: toolchain.version.clone(),
            host: toolchain.host.clone(),
            flags: Toolchain::flags(),
            policies: BTreeMap::new(),
        }
    }

    /// The repository's.
    pub fn read(workspace: &Workspace) -> Result<Manifest> {
        let path = workspace.prebuilt().join("manifest.json");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))
    }

    /// Writes it into the repository.
    pub fn write(&self, workspace: &Workspace) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(workspace.prebuilt().join("manifest.json"), text).context("writing manifest.json")
    }

    /// The components were built by this very compiler, so that a rebuild must give the same bytes.
    pub fn is_by(&self, toolchain: &Toolchain) -> bool {
        (&self.rustc, &self.host) == (&toolchain.version, &toolchain.host)
    }
}

/// Where the repository differs from what its prebuilt components were made from; empty when nowhere.
pub fn differences(workspace: &Workspace) -> Result<Vec<String>> {
    let manifest = Manifest::read(workspace)?;
    let mut found = Vec::new();
    if manifest.flags != Toolchain::flags() {
        found.push("the flags have changed".to_owned());
    }
    let names = workspace.policies()?;
    found.extend(
        manifest
            .policies
            .keys()
            .filter(|name| !names.contains(name))
            .map(|name| format!("{name}: the manifest has it, guest/ does not")),
    );
    for name in &names {
        let Some(recorded) = manifest.policies.get(name) else {
            found.push(format!("{name}: the manifest does not have it"));
            continue;
        };
        let path = workspace.component(name);
        let component = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let now = Built::describe(workspace, name, &component)?;
        if (&now.component, now.size) != (&recorded.component, recorded.size) {
            found.push(format!("{name}: {} is not the component of the manifest", path.display()));
        }
        changed(name, &recorded.inputs, &now.inputs, &mut found);
        changed(name, &recorded.dependencies, &now.dependencies, &mut found);
    }
    Ok(found)
}

fn changed(
    policy: &str,
    before: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
    found: &mut Vec<String>,
) {
    for (what, hash) in before {
        match now.get(what) {
            None => found.push(format!("{policy}: {what} is gone")),
            Some(other) if other != hash => found.push(format!("{policy}: {what} has changed")),
            Some(_) => {}
        }
    }
    found.extend(
        now.keys().filter(|what| !before.contains_key(*what)).map(|what| format!("{policy}: {what} is new")),
    );
}
