//! Which policies there are, and everything that goes into one: sources, the SDK, the world, manifests,
//! the profile, and the resolved dependencies. All of it is read from files of the repository, so that it
//! can be compared on a machine that has neither the Wasm target nor the guests' dependencies.

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Tables of the root manifest that a policy's code depends on.
const ROOT_TABLES: [&str; 3] = ["profile.release", "profile.guest", "workspace.package"];

/// The repository.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: PathBuf,
}

impl Default for Workspace {
    fn default() -> Self {
        // Where cargo runs us now; a path from compile time would be wrong in a copy of the repository.
        let start = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
        let start = start.canonicalize().unwrap_or(start);
        let root = start.ancestors().find(|folder| folder.join("wit/policy.wit").exists());
        Workspace { root: root.unwrap_or(&start).to_owned() }
    }
}

impl Workspace {
    /// Its root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the built components are.
    pub fn prebuilt(&self) -> PathBuf {
        self.root.join("guest/prebuilt")
    }

    /// The built component of a policy.
    pub fn component(&self, policy: &str) -> PathBuf {
        self.prebuilt().join(format!("{policy}.wasm"))
    }

    /// Names of the policies: every crate of `guest/` but the SDK and this tool.
    pub fn policies(&self) -> Result<Vec<String>> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(self.root.join("guest"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().join("Cargo.toml").exists() && !["sdk", "build"].contains(&name.as_str()) {
                names.insert(name);
            }
        }
        Ok(names.into_iter().collect())
    }

    /// SHA-256 of every file and table that goes into a policy, by path.
    pub fn inputs(&self, policy: &str) -> Result<BTreeMap<String, String>> {
        let mut inputs = BTreeMap::new();
        for folder in [format!("guest/{policy}"), "guest/sdk".to_owned(), "wit".to_owned()] {
            self.files(&self.root.join(&folder), &mut inputs)?;
        }
        let manifest = fs::read_to_string(self.root.join("Cargo.toml"))?;
        for table in ROOT_TABLES {
            let text =
                table_text(&manifest, table).with_context(|| format!("Cargo.toml has no [{table}]"))?;
            inputs.insert(format!("Cargo.toml [{table}]"), sha256(text.as_bytes()));
        }
        Ok(inputs)
    }

    fn files(&self, folder: &Path, into: &mut BTreeMap<String, String>) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                // What a policy is tried with is no part of it.
                if !path.ends_with("scenarios") {
                    self.files(&path, into)?;
                }
            } else if path.extension().is_some_and(|e| ["rs", "toml", "wit"].iter().any(|known| e == *known))
            {
                let name = path.strip_prefix(&self.root)?.to_string_lossy().replace('\\', "/");
                into.insert(name, sha256(&fs::read(&path)?));
            }
        }
        Ok(())
    }

    /// Resolved dependencies of a policy with their checksums, from `Cargo.lock`.
    pub fn dependencies(&self, policy: &str) -> Result<BTreeMap<String, String>> {
        let lock = lock_packages(&fs::read_to_string(self.root.join("Cargo.lock"))?);
        let mut found = BTreeMap::new();
        let mut next = Vec::new();
        // The lock file does not tell a member's development dependencies from the others; manifests do.
        for member in [policy, "sdk"] {
            let manifest = fs::read_to_string(self.root.join(format!("guest/{member}/Cargo.toml")))?;
            next.extend(dependency_names(&manifest));
        }
        while let Some(reference) = next.pop() {
            let candidates: Vec<_> = lock.iter().filter(|package| package.is(&reference)).collect();
            ensure!(!candidates.is_empty(), "Cargo.lock has no package {reference}");
            for package in candidates {
                let Some(checksum) = &package.checksum else { continue };
                if found.insert(format!("{} {}", package.name, package.version), checksum.clone()).is_none() {
                    next.extend(package.dependencies.iter().cloned());
                }
            }
        }
        Ok(found)
    }
}

/// SHA-256 as hex.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Package {
    name: String,
    version: String,
    checksum: Option<String>,
    dependencies: Vec<String>,
}

impl Package {
    /// The lock file refers to a package by its name, and by its version too when the name is ambiguous.
    fn is(&self, reference: &str) -> bool {
        let mut words = reference.split(' ');
        words.next() == Some(self.name.as_str()) && words.next().is_none_or(|version| version == self.version)
    }
}

fn lock_packages(lock: &str) -> Vec<Package> {
    let quoted = |line: &str| line.split('"').nth(1).map(str::to_owned);
    let field = |block: &str, key: &str| {
        block.lines().find(|line| line.starts_with(&format!("{key} = "))).and_then(quoted)
    };
    lock.split("[[package]]")
        .skip(1)
        .filter_map(|block| {
            Some(Package {
                name: field(block, "name")?,
                version: field(block, "version")?,
                checksum: field(block, "checksum"),
                dependencies: block
                    .lines()
                    .filter(|line| line.starts_with(" \""))
                    .filter_map(quoted)
                    .collect(),
            })
        })
        .collect()
}

/// The lines of a table, without comments and blank lines.
fn table_text(manifest: &str, table: &str) -> Option<String> {
    let mut lines = manifest.lines().skip_while(|line| line.trim() != format!("[{table}]"));
    lines.next()?;
    Some(
        lines
            .take_while(|line| !line.starts_with('['))
            .map(|line| line.split('#').next().unwrap_or_default().trim())
            .filter(|line| !line.is_empty())
            .fold(String::new(), |text, line| text + line + "\n"),
    )
}

/// Names in the tables of dependencies that a build (not a test) uses.
fn dependency_names(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.trim_end().ends_with("dependencies]") && !line.contains("dev-dependencies");
        } else if inside
            && let Some(name) = line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty())
        {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_dependencies_are_read() {
        let manifest = "[a]\nx = 1 # why\n\n[dependencies]\none.workspace = true\ntwo = \"2\"\n\
                        [target.'cfg(x)'.dependencies]\nthree = {}\n[dev-dependencies]\nfour = \"4\"\n";
        assert_eq!(table_text(manifest, "a").as_deref(), Some("x = 1\n"));
        assert_eq!(table_text(manifest, "b"), None);
        assert_eq!(dependency_names(manifest), ["one", "two", "three"]);
    }

    #[test]
    fn this_repository_has_policies_with_inputs_and_dependencies() {
        let workspace = Workspace::default();
        assert!(workspace.policies().expect("policies").contains(&"least-ratio".to_owned()));
        let inputs = workspace.inputs("least-ratio").expect("inputs");
        for path in ["wit/policy.wit", "guest/sdk/src/lib.rs", "guest/least-ratio/src/decide.rs"] {
            assert!(inputs.contains_key(path), "{path}");
        }
        let dependencies = workspace.dependencies("least-ratio").expect("dependencies");
        assert!(dependencies.keys().any(|name| name.starts_with("wit-bindgen ")));
        assert!(
            !dependencies.keys().any(|name| name.starts_with("proptest ")),
            "tests are not in the component"
        );
    }
}
