//! What several files need: the cluster of this build, one that read-only tests share, and reading a
//! stream through every node.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use headwater_harness::{Builder, Cluster, Node};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A cluster of the binary that was just built.
pub fn cluster() -> Builder {
    Cluster::builder(env!("CARGO_BIN_EXE_headwater"))
}

/// Three nodes that no test stops or changes.
pub fn shared() -> &'static Cluster {
    static SHARED: LazyLock<Cluster> = LazyLock::new(|| cluster().start_shared());
    &SHARED
}

/// A built policy of the repository.
pub fn prebuilt(name: &str) -> Result<Bytes> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest/prebuilt").join(format!("{name}.wasm"));
    Ok(fs::read(&path).with_context(|| format!("read {}", path.display()))?.into())
}

/// Reads the stream through every running node; each must give these bytes.
pub async fn reads_everywhere(cluster: &Cluster, stream: &str, expected: &[u8]) -> Result<()> {
    for node in cluster.running() {
        let read = cluster.client().read_all(&node.url(stream)).await?;
        ensure!(
            read == expected,
            "{stream} through node {}: {} bytes, expected {}: {:?} ...",
            node.id(),
            read.len(),
            expected.len(),
            String::from_utf8_lossy(&read[..read.len().min(200)])
        );
    }
    Ok(())
}

/// Creates a stream through a node and appends one record, so that it is placed and open.
pub async fn placed_stream(cluster: &Cluster, through: &Node, stream: &str) -> Result<u64> {
    cluster.client().create(through.url(stream)).await?;
    cluster.client().append(through.url(stream), format!("first of {stream}\n")).await?;
    cluster.agreed_owner(stream).await
}

/// Every file below a directory.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => dirs.push(path),
                path => files.push(path),
            }
        }
    }
    files.sort();
    files
}
