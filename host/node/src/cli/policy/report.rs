//! A simulation for people: a table with bars for each step, and what it means in a few lines.

use super::super::table::render;
use super::bars::bar;
use super::plural;
use headwater_policy::simulate::{Setup, Share, Simulated, Step, agreement};
use std::fmt::Write;

/// Width of a bar.
const WIDTH: usize = 32;

/// All steps; with another policy's beside them.
pub fn report(setup: &Setup, simulated: &Simulated, other: Option<&Simulated>) -> String {
    let mut text = String::new();
    for policy in std::iter::once(simulated).chain(other).map(|s| &s.policy) {
        let _ = writeln!(text, "{} {}: {}", policy.name, policy.version, policy.summary);
    }
    for (at, step) in simulated.steps.iter().enumerate() {
        let beside = other.and_then(|other| Some((other, other.steps.get(at)?)));
        let _ = writeln!(
            text,
            "\n{}{}",
            step.what,
            if at > 0 && setup.rebalance { ", and all are placed again" } else { "" }
        );
        let columns = std::iter::once((simulated, step)).chain(beside);
        let (names, steps): (Vec<&str>, Vec<&Step>) =
            columns.map(|(of, step)| (of.policy.name.as_str(), step)).unzip();
        text.push_str(&indented(&nodes(&steps, &names)));
        for (step, name) in steps.iter().zip(&names) {
            let label = if steps.len() > 1 { format!("{name}: ") } else { String::new() };
            for line in sentences(step, setup, at) {
                let _ = writeln!(text, "  {label}{line}");
            }
        }
        if let [one, two] = steps[..] {
            let _ = writeln!(text, "  {} on the same node", part(agreement(one, two), setup.streams));
        }
    }
    text
}

/// A row for each node; for each policy how many streams it has and a bar of that against its share.
fn nodes(steps: &[&Step], names: &[&str]) -> String {
    let most = steps.iter().map(|step| 1.0 + step.spread.skew).fold(1.0, f64::max);
    let mut heading = vec!["NODE".to_owned(), "SLOTS".to_owned()];
    for name in names {
        heading.extend([
            "STREAMS".to_owned(),
            "SHARE".to_owned(),
            if names.len() > 1 { (*name).to_owned() } else { String::new() },
        ]);
    }
    let width = WIDTH / steps.len();
    let rows: Vec<Vec<String>> = (0..steps[0].spread.nodes.len())
        .map(|row| {
            let first = &steps[0].spread.nodes[row];
            let drains = if first.draining { " (drains)" } else { "" };
            let mut cells = vec![first.name.clone(), format!("{}{drains}", first.slots)];
            for step in steps {
                let Share { streams, of_its_share, .. } = &step.spread.nodes[row];
                cells.push(streams.to_string());
                cells.push(of_its_share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0)));
                cells.push(bar(of_its_share.unwrap_or(0.0), most, width));
            }
            cells
        })
        .collect();
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    render(&heading, &rows)
}

fn sentences(step: &Step, setup: &Setup, at: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let lacks = |share: &Share| share.of_its_share.is_some_and(|share| share < 0.9995);
    let skew = match step.spread.skew {
        // What draining nodes keep is lacking elsewhere.
        skew if skew < 0.0005 && step.spread.nodes.iter().any(lacks) => {
            "no node is above its share".to_owned()
        }
        skew if skew < 0.0005 => "every node has its share".to_owned(),
        skew => format!("the fullest node is {:.1} % above its share", skew * 100.0),
    };
    let (least, mean, most) = step.spread.nodes_of_a_tenant;
    lines.push(format!("{skew}; a tenant is on {mean:.1} nodes ({least} to {most})"));
    let would = match step.would_move {
        0 => "placing all again would move nothing".to_owned(),
        more => format!("placing all again would move {}", part(more, setup.streams)),
    };
    lines.push(if at == 0 { would } else { format!("moved {}; {would}", part(step.moved, setup.streams)) });
    if step.spread.unplaced > 0 {
        lines.push(format!("{} without an owner: no node takes any", plural(step.spread.unplaced, "stream")));
    }
    for (cause, times) in &step.fallbacks {
        lines.push(format!("the native rule decided {}: {cause}", plural(*times, "time")));
    }
    lines
}

fn part(count: u64, all: u64) -> String {
    format!("{count} of {all} ({:.1} %)", count as f64 * 100.0 / all.max(1) as f64)
}

fn indented(table: &str) -> String {
    table.lines().fold(String::new(), |text, line| text + "  " + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_policy::simulate::{parse_event, parse_nodes, simulate};
    use headwater_policy::{Trial, builtin};

    #[test]
    fn a_report_reads_well() {
        let nodes = parse_nodes("a:4,b:1").expect("nodes");
        let events = vec![parse_event("join:c:5", &nodes, &[]).expect("an event")];
        let setup = Setup { nodes, streams: 100, tenants: 10, proposer: None, events, rebalance: false };
        let simulated = simulate(&Trial::load(builtin().1).expect("loads"), &setup).expect("runs");
        let text = report(&setup, &simulated, None);
        let expected = "
100 streams placed
  NODE  SLOTS  STREAMS  SHARE
  a     4      80       100.0 %  ████████████████████████████████
  b     1      20       100.0 %  ████████████████████████████████
  every node has its share; a tenant is on 1.9 nodes (1 to 2)
  placing all again would move nothing

c joins with slots 5
  NODE  SLOTS  STREAMS  SHARE
  a     4      80       200.0 %  ████████████████████████████████
  b     1      20       200.0 %  ████████████████████████████████
  c     5      0        0.0 %
  the fullest node is 100.0 % above its share; a tenant is on 1.9 nodes (1 to 2)
  moved 0 of 100 (0.0 %); placing all again would move 50 of 100 (50.0 %)
";
        let (_, steps) = text.split_once('\n').expect("a heading");
        assert_eq!(steps, expected);
        let drained =
            ["drain:a", "drain:b"].map(|event| parse_event(event, &setup.nodes, &[]).expect("an event"));
        let drained = Setup {
            events: drained.to_vec(),
            nodes: parse_nodes("a,b,c:0,d").expect("nodes"),
            ..setup.clone()
        };
        let drained = simulate(&Trial::load(builtin().1).expect("loads"), &drained).expect("runs");
        assert!(report(&setup, &drained, None).contains("no node is above"), "{drained:?}");
        let both = report(&setup, &simulated, Some(&simulated));
        assert!(both.contains("least-ratio: every node has its share"), "{both}");
        assert!(both.contains("  100 of 100 (100.0 %) on the same node"), "{both}");
    }
}
