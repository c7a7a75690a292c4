//! Every dependency comes from crates.io and under a licence that `.deny.toml` allows.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The strings of `key = [ … ]` in `.deny.toml`.
fn list(key: &str) -> BTreeSet<String> {
    #[allow(clippy::disallowed_methods, reason = "a file of the repository")]
    let text = std::fs::read_to_string(root().join(".deny.toml")).expect("read .deny.toml");
    let (_, after) = text.split_once(&format!("\n{key} = [")).expect("the key in .deny.toml");
    let (inside, _) = after.split_once(']').expect("the end of the list");
    inside.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .expect("run cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON of cargo metadata");
    metadata["packages"].as_array().expect("packages").clone()
}

/// Whether an SPDX expression can be satisfied with the allowed licences.
fn allowed(expression: &str, licences: &BTreeSet<String>) -> bool {
    let expression = expression.trim();
    let either = parts(expression, &[" OR ", "/"]);
    if either.len() > 1 {
        return either.iter().any(|part| allowed(part, licences));
    }
    let all = parts(expression, &[" AND "]);
    if all.len() > 1 {
        return all.iter().all(|part| allowed(part, licences));
    }
    match expression.strip_prefix('(').and_then(|e| e.strip_suffix(')')) {
        Some(inside) => allowed(inside, licences),
        None => licences.contains(expression),
    }
}

/// Splits at the separators that are not inside of parentheses.
fn parts<'e>(expression: &'e str, separators: &[&str]) -> Vec<&'e str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, character) in expression.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        let separator =
            separators.iter().find(|s| depth == 0 && at >= start && expression[at..].starts_with(**s));
        if let Some(separator) = separator {
            parts.push(&expression[start..at]);
            start = at + separator.len();
        }
    }
    parts.push(&expression[start..]);
    parts
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    let licences = ["MIT", "ISC"].map(str::to_owned).into();
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("ISC AND (GPL-3.0 OR BSD-3-Clause)", false),
    ] {
        assert_eq!(allowed(expression, &licences), expected, "{expression}");
    }
}

#[test]
fn licences_and_sources_are_allowed() {
    let (licences, registries) = (list("allow"), list("allow-registry"));
    let mut wrong = Vec::new();
    for package in packages() {
        let name = format!("{} {}", package["name"], package["version"]);
        let licence = package["license"].as_str().unwrap_or_default();
        if !allowed(licence, &licences) {
            wrong.push(format!("{name}: the licence {licence:?}"));
        }
        // A package without a source is one of this repository.
        if let Some(source) = package["source"].as_str() {
            let registry = source.strip_prefix("registry+").unwrap_or(source);
            if !registries.contains(registry) {
                wrong.push(format!("{name}: the source {source:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "not allowed by .deny.toml:\n{}", wrong.join("\n"));
}
