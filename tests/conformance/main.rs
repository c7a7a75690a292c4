//! The official conformance suite of the Durable Streams protocol, from npm, against a three-node cluster.
//!
//! Everything goes through a node that has no slots, so that no stream is ever on the node that is asked.
//! `expected-failures.txt` names the tests that fail; one that fails and is not named fails the run, and so
//! does one that is named and passes. `npm ci --prefix tests/conformance` installs the suite.

#![allow(clippy::disallowed_methods, reason = "the suite runs outside, on the real file system")]

use anyhow::{Context, Result, ensure};
use headwater_harness::{Cluster, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A node without slots: it serves nothing and sends everything on.
const ENTRY: u64 = 3;

#[test]
fn the_official_suite_through_a_node_without_slots() {
    run(async {
        let cluster = Cluster::builder(env!("CARGO_BIN_EXE_headwater"))
            .slots(&[1, 1, 0])
            .arg("--long-poll", "2s")
            .start()
            .await?;
        let report = suite(&cluster.node(ENTRY).base(), &cluster.folder().join("conformance.json")).await?;
        judge(&report)
    });
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// Runs the suite; the answer is vitest's report.
async fn suite(url: &str, report: &Path) -> Result<Value> {
    let vitest = folder().join("node_modules/vitest/vitest.mjs");
    ensure!(vitest.exists(), "the suite is not installed: run `npm ci --prefix tests/conformance`");
    let output = tokio::process::Command::new("node")
        .arg(vitest)
        .args(["run", "--reporter=json", "--outputFile"])
        .arg(report)
        .current_dir(folder())
        .env("HEADWATER_URL", url)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot run node: the suite needs Node.js")?;
    let text = std::fs::read_to_string(report).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        format!("the suite left no report: {said}")
    })?;
    Ok(serde_json::from_str(&text)?)
}

struct Test {
    name: String,
    status: String,
    why: String,
}

fn tests(report: &Value) -> Vec<Test> {
    let files = report["testResults"].as_array().into_iter().flatten();
    let all = files.flat_map(|file| file["assertionResults"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.map(|test| Test {
        name: text(&test["fullName"]),
        status: text(&test["status"]),
        why: text(&test["failureMessages"][0]).lines().next().unwrap_or_default().to_owned(),
    })
    .collect()
}

fn judge(report: &Value) -> Result<()> {
    let list = std::fs::read_to_string(folder().join("expected-failures.txt"))?;
    let expected: BTreeSet<&str> =
        list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let tests = tests(report);
    ensure!(tests.len() >= 300, "only {} tests ran: {report}", tests.len());
    let with = |status: &str| tests.iter().filter(|test| test.status == status).count();
    println!("{} passed, {} failed, {} tests", with("passed"), with("failed"), tests.len());

    let failed: Vec<&Test> = tests.iter().filter(|test| test.status == "failed").collect();
    let news: Vec<String> = failed
        .iter()
        .filter(|test| !expected.contains(test.name.as_str()))
        .map(|test| format!("{}\n    {}", test.name, test.why))
        .collect();
    let healed: Vec<&str> = tests
        .iter()
        .filter(|test| test.status == "passed" && expected.contains(test.name.as_str()))
        .map(|test| test.name.as_str())
        .collect();
    let known: BTreeSet<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    let stale: Vec<&&str> = expected.difference(&known).collect();
    ensure!(news.is_empty(), "these fail and are not expected to:\n{}", news.join("\n"));
    ensure!(healed.is_empty(), "these pass now: take them off the list\n{}", healed.join("\n"));
    ensure!(stale.is_empty(), "the list names tests that the suite does not have: {stale:?}");
    Ok(())
}
