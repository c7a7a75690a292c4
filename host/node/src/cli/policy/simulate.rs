//! `headwater policy simulate`: how a component spreads many streams over described nodes, and what moves
//! when nodes join, leave, drain or change their slots. Needs no cluster. `report.rs` writes it for people.

use super::super::Exit;
use super::super::out::out;
use super::super::table::json;
use super::{report, trial};
use anyhow::Context;
use clap::Args;
use headwater_env::Env;
use headwater_policy::scenario::Scenario;
use headwater_policy::simulate::{
    Event, Named, Setup, Simulated, agreement, parse_event, parse_nodes, simulate,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The flags of `headwater policy simulate`.
#[derive(Args, Clone, Debug)]
pub struct SimulateArgs {
    /// The component; `builtin` is the one in this program.
    file: PathBuf,
    /// The nodes, with commas between: NAME, NAME:SLOTS or NAME:SLOTS:LABEL=VALUE. A name of digits is the
    /// node's id.
    #[arg(long, value_name = "NODES", default_value = "1,2,3")]
    nodes: String,
    /// Take the nodes of this scenario file instead.
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    nodes_from: Option<PathBuf>,
    /// How many streams are placed.
    #[arg(long, default_value_t = 1000)]
    streams: u64,
    /// The streams belong to so many tenants, mixed: /tenant-3/stream-1, /tenant-1/stream-2 ...
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    tenants: u64,
    /// All requests arrive at this node; by default at all of them, mixed.
    #[arg(long, value_name = "NAME")]
    proposer: Option<String>,
    /// What happens then, in order: join:NODE, leave:NAME, drain:NAME, slots:NAME:SLOTS.
    #[arg(long = "event", value_name = "EVENT")]
    events: Vec<String>,
    /// After each event, place every stream again.
    #[arg(long)]
    rebalance: bool,
    /// Compare with another component; `builtin` is the one in this program.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

/// Runs the simulation, or two of them side by side.
pub fn run(args: &SimulateArgs, env: &Env, as_json: bool) -> anyhow::Result<Exit> {
    let setup = setup(args, env)?;
    let simulated = simulate(&trial(env, &args.file)?, &setup)?;
    let other = match &args.against {
        Some(file) => Some(simulate(&trial(env, file)?, &setup)?),
        None => None,
    };
    match as_json {
        true => json(&as_value(&simulated, other.as_ref())),
        false => out!("{}", report::report(&setup, &simulated, other.as_ref()).trim_end()),
    }
    Ok(Exit::Done)
}

fn setup(args: &SimulateArgs, env: &Env) -> anyhow::Result<Setup> {
    let nodes = match &args.nodes_from {
        Some(file) => nodes_of(env, file)?,
        None => parse_nodes(&args.nodes)?,
    };
    let mut events: Vec<Event> = Vec::new();
    for text in &args.events {
        let event = parse_event(text, &nodes, &events)?;
        events.push(event);
    }
    Ok(Setup {
        nodes,
        streams: args.streams,
        tenants: args.tenants,
        proposer: args.proposer.clone(),
        events,
        rebalance: args.rebalance,
    })
}

/// The nodes of a scenario, without what is on them.
fn nodes_of(env: &Env, file: &Path) -> anyhow::Result<Vec<Named>> {
    let text = env.disk.read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let text = String::from_utf8(text).with_context(|| format!("{} is no text", file.display()))?;
    let scenario = Scenario::parse(&text).with_context(|| format!("in {}", file.display()))?;
    let named = scenario.nodes.into_iter().map(|mut node| {
        node.assigned = 0;
        Named { name: node.id.to_string(), node }
    });
    Ok(named.collect())
}

fn as_value(simulated: &Simulated, other: Option<&Simulated>) -> Value {
    let one =
        |s: &Simulated| json!({ "policy": s.policy.name, "version": s.policy.version, "steps": s.steps });
    match other {
        None => one(simulated),
        Some(other) => {
            let pairs = simulated.steps.iter().zip(&other.steps);
            let agree: Vec<u64> = pairs.map(|(a, b)| agreement(a, b)).collect();
            json!({ "policy": one(simulated), "against": one(other), "on_the_same_node": agree })
        }
    }
}
