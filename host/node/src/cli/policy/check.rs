//! `headwater policy check`: would a cluster take this component, and what is it? Needs no cluster.

use super::super::Exit;
use super::super::out::out;
use super::super::table::json;
use serde_json::json;

/// Checks a component for a cluster of this many nodes.
pub fn run(component: &[u8], nodes: usize, as_json: bool) -> anyhow::Result<Exit> {
    let report = headwater_policy::check(component, nodes)?;
    let digest = headwater_policy::digest_of(component).to_string();
    let limits = headwater_policy::Limits::STANDARD;
    let place_limit = limits.place_fuel(nodes.max(1) * 10);
    let about = report.description;
    if as_json {
        json(&json!({
            "name": about.name,
            "version": about.version,
            "summary": about.summary,
            "needs": { "labels": about.needs_labels },
            "digest": digest,
            "size": report.size,
            "place_fuel": { "used": report.place_fuel, "limit": place_limit },
            "route_fuel": { "used": report.route_fuel, "limit": limits.route_fuel },
        }));
        return Ok(Exit::Done);
    }
    out!("{} {}: {}", about.name, about.version, about.summary);
    out!("digest       {digest}");
    out!("size         {} bytes of {}", report.size, headwater_policy::MAX_COMPONENT_BYTES);
    out!("needs        {}", if about.needs_labels { "labels" } else { "nothing" });
    out!("place        {} fuel of {place_limit}", report.place_fuel);
    out!("route        {} fuel of {}", report.route_fuel, limits.route_fuel);
    out!("imports nothing; answers alike on fresh instances and two engines");
    Ok(Exit::Done)
}
