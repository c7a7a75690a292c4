//! `headwater policy test`: scenario files against a component. Needs no cluster. Exit code 1 when a
//! decision is not the expected one.

use super::super::Exit;
use super::super::out::out;
use super::super::table::json;
use super::{plural, trial};
use anyhow::Context;
use clap::Args;
use headwater_env::Env;
use headwater_policy::scenario::{Line, Outcome, Scenario, run as ask};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// The flags of `headwater policy test`.
#[derive(Args, Clone, Debug)]
pub struct TestArgs {
    /// The component; `builtin` is the one in this program.
    file: PathBuf,
    /// Scenario files, TOML or JSON.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
}

/// Asks the policy what the files ask.
pub fn run(args: &TestArgs, env: &Env, as_json: bool) -> anyhow::Result<Exit> {
    let policy = trial(env, &args.file)?;
    let mut files = Vec::new();
    for path in &args.scenarios {
        let text = env.disk.read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = String::from_utf8(text).with_context(|| format!("{} is no text", path.display()))?;
        let scenario = Scenario::parse(&text).with_context(|| format!("in {}", path.display()))?;
        files.push((path.display().to_string(), ask(&policy, &scenario)?));
    }
    let passed = files.iter().flat_map(|(_, outcomes)| outcomes).all(Outcome::passed);
    match as_json {
        true => json(&as_value(&policy.description().name, passed, &files)),
        false => files.iter().for_each(|(file, outcomes)| out!("{}", shown(file, outcomes).trim_end())),
    }
    Ok(if passed { Exit::Done } else { Exit::Error })
}

fn as_value(policy: &str, passed: bool, files: &[(String, Vec<Outcome>)]) -> Value {
    let case =
        |o: &Outcome| json!({ "name": o.name, "asked": o.asked, "passed": o.passed(), "lines": o.lines });
    let file = |(file, outcomes): &(String, Vec<Outcome>)| json!({ "file": file, "cases": outcomes.iter().map(case).collect::<Vec<_>>() });
    json!({ "policy": policy, "passed": passed, "files": files.iter().map(file).collect::<Vec<_>>() })
}

fn shown(file: &str, outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let passed = outcomes.iter().filter(|outcome| outcome.passed()).count();
    let _ = writeln!(text, "{file}: {passed} of {}", plural(outcomes.len() as u64, "case"));
    for outcome in outcomes.iter().filter(|outcome| !outcome.passed()) {
        let _ = writeln!(text, "\n  {}", outcome.name);
        let _ = writeln!(text, "    asked     {}", outcome.asked);
        for line in &outcome.lines {
            let _ = match line {
                Line::Same { same } => writeln!(text, "              {same}"),
                Line::Differs { expected, found } => {
                    writeln!(text, "  - expected  {expected}\n  + found     {found}")
                }
            };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_told_at_length() {
        let line =
            |expected: &str, found: &str| Line::Differs { expected: expected.into(), found: found.into() };
        let outcome =
            |name: &str, lines| Outcome { name: name.into(), asked: "nodes 1, 2 for /a".into(), lines };
        let right = outcome("right", vec![Line::Same { same: "node 1".into() }]);
        let wrong =
            outcome("wrong", vec![Line::Same { same: "node 1: 3".into() }, line("node 2: 4", "node 2: 5")]);
        assert_eq!(
            shown("basic.toml", &[right, wrong]),
            "basic.toml: 1 of 2 cases\n\n  wrong\n    asked     nodes 1, 2 for /a\n              node 1: 3\n  \
             - expected  node 2: 4\n  + found     node 2: 5\n"
        );
    }
}
