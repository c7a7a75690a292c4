//! Builds a policy whose crate is somewhere else, as `headwater policy new` writes it.
//!
//! Any library crate that exports a policy will do: what makes components small is passed on the command
//! line, so its manifest needs no profile. Its lock file, if it has one, is respected.

use crate::build::{TARGET, Toolchain, cargo, encode, output};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// The settings of the profile `guest`, for a crate that does not have it.
const PROFILE: [&str; 7] = [
    "opt-level='z'",
    "lto=true",
    "codegen-units=1",
    "panic='abort'",
    "strip=true",
    "incremental=false",
    "overflow-checks=true",
];

/// A policy built from another crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The name of its package.
    pub name: String,
    /// The component.
    pub component: Vec<u8>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    /// None for a package in a folder.
    source: Option<String>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Builds the crate in a folder and answers with its component.
pub fn build_outside(folder: &Path, toolchain: &Toolchain) -> Result<Outside> {
    toolchain.must_have_target()?;
    let manifest = folder.join("Cargo.toml");
    let manifest = manifest.canonicalize().with_context(|| format!("there is no {}", manifest.display()))?;
    let folder = manifest.parent().context("a manifest is in a folder")?;
    let described = output(
        cargo()
            .args(["metadata", "--format-version", "1", "--filter-platform", TARGET, "--manifest-path"])
            .arg(&manifest)
            .current_dir(folder),
    )?;
    let metadata: Metadata = serde_json::from_str(&described).context("reading what cargo metadata says")?;
    let package = metadata.packages.iter().find(|package| package.manifest_path == manifest);
    let package = package.with_context(|| format!("{} describes no package", manifest.display()))?;
    let library = package.targets.iter().find(|target| target.kind.iter().any(|kind| kind.ends_with("lib")));
    let library = library.with_context(|| format!("{} has no library", package.name))?;

    let profile =
        PROFILE.iter().flat_map(|setting| ["--config".to_owned(), format!("profile.release.{setting}")]);
    // The SDK may come from a folder: no such path is to be in the component either.
    let local = metadata.packages.iter().filter(|package| package.source.is_none());
    let mut flags: Vec<String> = local
        .filter_map(|package| Some((package.manifest_path.parent()?, &package.name)))
        .map(|(folder, name)| format!("--remap-path-prefix={}=/{name}", folder.display()))
        .collect();
    flags.push(toolchain.rustflags(folder));
    let status = cargo()
        .args(["rustc", "--quiet", "--lib", "--crate-type", "cdylib", "--target", TARGET, "--release"])
        .args(["--package", &package.name, "--manifest-path"])
        .arg(&manifest)
        .args(profile)
        .arg("--target-dir")
        .arg(&metadata.target_directory)
        .current_dir(folder)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .env_remove("RUSTFLAGS")
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "cargo could not build {}", package.name);
    let module = metadata.target_directory.join(TARGET).join("release");
    let module = module.join(format!("{}.wasm", library.name.replace('-', "_")));
    let module = fs::read(&module).with_context(|| format!("reading {}", module.display()))?;
    let component = encode(&module)?;
    ensure!(
        exports_something(&component)?,
        "{} exports nothing: does it say export_policy!(..)?",
        package.name
    );
    Ok(Outside { name: package.name.clone(), component })
}

fn exports_something(component: &[u8]) -> Result<bool> {
    let decoded = wit_component::decode(component)?;
    Ok(match decoded {
        wit_component::DecodedWasm::Component(resolve, world) => !resolve.worlds[world].exports.is_empty(),
        wit_component::DecodedWasm::WitPackage(..) => false,
    })
}
