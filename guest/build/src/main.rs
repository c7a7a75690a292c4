//! `cargo build-policies`: builds every policy of `guest/` into `guest/prebuilt/` and writes the manifest.
//! With `--check` it builds nothing and says whether the prebuilt components belong to these sources; with
//! `--crate DIR` it builds a policy that is not of this repository.

#![allow(clippy::disallowed_methods)]

use anyhow::{Context, Result, bail};
use headwater_guest_build::{
    Built, Manifest, Toolchain, Workspace, build, build_outside, differences, sha256,
};
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let workspace = Workspace::default();
    match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => build_all(&workspace),
        [flag] if flag == "--check" => check(&workspace),
        [flag, folder] if flag == "--crate" => outside(folder.as_ref(), None),
        [flag, folder, to, file] if flag == "--crate" && to == "--out" => {
            outside(folder.as_ref(), Some(file.into()))
        }
        _ => bail!("usage: headwater-guest-build [--check | --crate DIR [--out FILE]]"),
    }
}

fn build_all(workspace: &Workspace) -> Result<()> {
    let toolchain = Toolchain::detect()?;
    let mut manifest = Manifest::new(&toolchain);
    std::fs::create_dir_all(workspace.prebuilt())?;
    for policy in workspace.policies()? {
        let component = build(workspace, &toolchain, &policy)?;
        let path = workspace.component(&policy);
        std::fs::write(&path, &component).with_context(|| format!("writing {}", path.display()))?;
        let built = Built::describe(workspace, &policy, &component)?;
        println!("{policy}: {} bytes, {}", built.size, built.component);
        manifest.policies.insert(policy, built);
    }
    manifest.write(workspace)
}

fn outside(folder: &Path, out: Option<PathBuf>) -> Result<()> {
    let built = build_outside(folder, &Toolchain::detect()?)?;
    let path = out.unwrap_or_else(|| folder.join(format!("{}.wasm", built.name)));
    std::fs::write(&path, &built.component).with_context(|| format!("writing {}", path.display()))?;
    println!("{}: {} bytes, {}", path.display(), built.component.len(), sha256(&built.component));
    Ok(())
}

fn check(workspace: &Workspace) -> Result<()> {
    let found = differences(workspace)?;
    if found.is_empty() {
        println!("the prebuilt components belong to these sources");
        return Ok(());
    }
    for difference in &found {
        eprintln!("{difference}");
    }
    bail!("guest/prebuilt does not belong to these sources: run cargo build-policies")
}
