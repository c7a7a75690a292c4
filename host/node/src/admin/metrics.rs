//! `GET /metrics`: the counters of every crate and the figures of the view, as Prometheus text.

use super::Body;
use crate::node::{Parts, Phase};
use headwater_policy::Cause;
use http::{HeaderValue, Response, header};
use serde_json::Value;
use std::fmt::Write;

/// The answer.
pub fn answer(parts: &Parts) -> Response<Body> {
    let mut text = Text::default();
    node(&mut text, parts);
    raft(&mut text, parts);
    policies(&mut text, parts);
    for (name, value) in parts.frontend.counters().all() {
        match name {
            "connections" | "live_readers" => {
                text.gauge(&format!("headwater_http_{name}"), &help(name), &[("", value)]);
            }
            _ => text.counter(&format!("headwater_http_{name}_total"), &help(name), &[("", value)]),
        }
    }
    text.counters("headwater_store", &parts.store.counters().snapshot());
    if let Some(streams) = parts.streams.load_full() {
        text.gauge("headwater_open_streams", "Streams open here.", &[("", streams.open_count() as u64)]);
        text.counters("headwater_stream", &streams.counters());
        text.counters("headwater_wal", &streams.wal().counters());
        let (pieces, bytes) = streams.wal().backlog();
        text.gauge("headwater_wal_backlog_objects", "Log objects not committed yet.", &[("", pieces)]);
        text.gauge("headwater_wal_backlog_bytes", "Bytes of log not committed yet.", &[("", bytes)]);
    }
    let mut answer = Response::new(Body::from(text.0));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

fn node(text: &mut Text, parts: &Parts) {
    let view = parts.metadata.view();
    let serving = matches!(*parts.phase.borrow(), Phase::Serving(_));
    text.gauge("headwater_ready", "1 while registered and serving.", &[("", u64::from(serving))]);
    let totals = view.totals();
    text.gauge(
        "headwater_streams",
        "Streams of the cluster by ownership, as this node sees them.",
        &[
            ("ownership=\"unplaced\"", totals.unplaced),
            ("ownership=\"placed\"", totals.placed),
            ("ownership=\"opened\"", totals.opened),
            ("ownership=\"closed\"", totals.closed),
        ],
    );
    let assigned = view.assigned(parts.config.node);
    text.gauge(
        "headwater_assigned_streams",
        "Streams of this node.",
        &[("state=\"placed\"", assigned.placed), ("state=\"opened\"", assigned.opened)],
    );
    text.gauge("headwater_nodes", "Registered nodes.", &[("", view.sessions().count() as u64)]);
    text.gauge("headwater_transfers", "Pending transfers.", &[("", view.transfer_count() as u64)]);
    text.gauge(
        "headwater_sessions_to_recover",
        "Ended sessions whose log is still to be replayed.",
        &[("", view.unrecovered().count() as u64)],
    );
    text.gauge(
        "headwater_policy_activated_index",
        "Log index since which the active policy decides.",
        &[("", view.active_policy().index)],
    );
}

fn raft(text: &mut Text, parts: &Parts) {
    let status = parts.metadata.status();
    text.gauge("headwater_raft_term", "Current term.", &[("", status.term)]);
    text.gauge("headwater_raft_leader", "1 on the leader.", &[("", u64::from(status.is_leader))]);
    text.gauge("headwater_raft_last_log", "Last entry in the log.", &[("", status.last_log)]);
    text.gauge("headwater_raft_applied", "Last entry applied.", &[("", status.applied)]);
    text.gauge("headwater_raft_voters", "Members that vote.", &[("", status.voters.len() as u64)]);
    text.gauge("headwater_raft_learners", "Members that do not vote.", &[("", status.learners.len() as u64)]);
    text.counters("headwater_raft", &status.counters);
}

fn policies(text: &mut Text, parts: &Parts) {
    let counts = parts.policies.counters();
    for (name, help, value) in [
        ("headwater_policy_placements_total", "Placements asked of a policy.", counts.placements),
        ("headwater_policy_routes_total", "Routes asked of a policy.", counts.routes),
        ("headwater_policy_compiled_total", "Components compiled.", counts.compiled),
        ("headwater_policy_waits_total", "Times that placement waited for the host.", counts.waits),
        ("headwater_policy_routing_instances_total", "Instances made for routing.", counts.routing_instances),
        (
            "headwater_policy_routing_discarded_total",
            "Instances thrown away after a trap.",
            counts.routing_discarded,
        ),
    ] {
        text.counter(name, help, &[("", value)]);
    }
    let label = |what: &str, cause: Cause| format!("decision=\"{what}\",cause=\"{}\"", cause.as_str());
    let labels: Vec<_> = Cause::ALL
        .iter()
        .flat_map(|&cause| {
            [
                (label("placement", cause), counts.placement_fallback(cause)),
                (label("route", cause), counts.route_fallback(cause)),
            ]
        })
        .collect();
    let series: Vec<_> = labels.iter().map(|(label, value)| (label.as_str(), *value)).collect();
    text.counter(
        "headwater_policy_fallbacks_total",
        "Decisions that the native rule made instead of the policy, by cause.",
        &series,
    );
}

fn help(field: &str) -> String {
    format!("Number of {}.", field.replace('_', " "))
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn gauge(&mut self, name: &str, help: &str, series: &[(&str, u64)]) {
        self.family(name, help, "gauge", series);
    }

    fn counter(&mut self, name: &str, help: &str, series: &[(&str, u64)]) {
        self.family(name, help, "counter", series);
    }

    fn family(&mut self, name: &str, help: &str, kind: &str, series: &[(&str, u64)]) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in series {
            let _ = match labels.is_empty() {
                true => writeln!(self.0, "{name} {value}"),
                false => writeln!(self.0, "{name}{{{labels}}} {value}"),
            };
        }
    }

    /// Every number of a snapshot of counters, by the name of its field.
    fn counters(&mut self, prefix: &str, snapshot: &impl serde::Serialize) {
        let Ok(Value::Object(fields)) = serde_json::to_value(snapshot) else { return };
        for (field, value) in fields {
            if let Some(value) = value.as_u64() {
                let help = field.replace('_', " ");
                self.counter(
                    &format!("{prefix}_{field}_total"),
                    &format!("Counter: {help}."),
                    &[("", value)],
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_prometheus_text() {
        let mut text = Text::default();
        text.gauge("a", "What it is.", &[("", 1)]);
        text.counter("b_total", "How many.", &[("x=\"1\"", 2), ("x=\"2\"", 3)]);
        text.counters("c", &serde_json::json!({ "sent": 4, "name": "x" }));
        assert_eq!(
            text.0,
            "# HELP a What it is.\n# TYPE a gauge\na 1\n\
             # HELP b_total How many.\n# TYPE b_total counter\nb_total{x=\"1\"} 2\nb_total{x=\"2\"} 3\n\
             # HELP c_sent_total Counter: sent.\n# TYPE c_sent_total counter\nc_sent_total 4\n"
        );
    }
}
