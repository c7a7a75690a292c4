//! Runs the body of one test on a runtime that all tests share, and prints the nodes' logs when it fails.

use std::cell::RefCell;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime for the tests")
});

thread_local! {
    static FOLDERS: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

const LINES: usize = 60;

/// Runs one test. Its clusters' folders are deleted when it passes; when it fails the ends of their
/// logs are printed and the folders stay.
pub fn run(test: impl Future<Output = anyhow::Result<()>>) {
    let mut verdict = Verdict { passed: false };
    match RUNTIME.block_on(test) {
        Ok(()) => verdict.passed = true,
        Err(error) => {
            drop(verdict);
            panic!("{error:#}");
        }
    }
}

/// The runtime that all tests share; what a cluster that several tests use must live on.
pub(crate) fn runtime() -> &'static Runtime {
    &RUNTIME
}

/// Told by a cluster that ends: its folder waits for the verdict.
pub(crate) fn ended(folder: PathBuf) {
    FOLDERS.with_borrow_mut(|folders| folders.push(folder));
}

struct Verdict {
    passed: bool,
}

impl Drop for Verdict {
    fn drop(&mut self) {
        for folder in FOLDERS.take() {
            if self.passed {
                let _ = fs::remove_dir_all(&folder);
            } else {
                print_logs(&folder);
            }
        }
    }
}

/// Prints the end of every log in a cluster's folder.
pub(crate) fn print_logs(folder: &Path) {
    println!("--- what the cluster left is in {}", folder.display());
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut logs: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "log")).collect();
    logs.sort();
    for log in logs {
        let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        println!("--- {} ({} lines, the last {LINES})", log.display(), lines.len());
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            println!("{line}");
        }
    }
}
