//! What was measured, as a table for people or as JSON for scripts.

use super::Histogram;
use crate::cli::table::{json, table};
use serde_json::{Value, json};
use std::time::Duration;

/// One measurement.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Times of what went well.
    pub times: Histogram,
    /// Bytes of payload that went with it.
    pub bytes: u64,
    /// How much went wrong.
    pub errors: u64,
    /// The first thing that went wrong.
    pub error: Option<String>,
    /// From the first request to the last answer.
    pub elapsed: Duration,
}

impl Row {
    /// Counts one request.
    pub fn count<T>(&mut self, outcome: anyhow::Result<T>, time: Duration, bytes: usize) {
        match outcome {
            Ok(_) => {
                self.times.add(time);
                self.bytes += bytes as u64;
            }
            Err(error) => {
                self.errors += 1;
                self.error.get_or_insert_with(|| format!("{error:#}"));
            }
        }
    }

    /// Adds what another lane measured at the same time.
    pub fn merge(&mut self, other: &Row) {
        self.times.merge(&other.times);
        self.bytes += other.bytes;
        self.errors += other.errors;
        if self.error.is_none() {
            self.error.clone_from(&other.error);
        }
    }

    fn rate(&self) -> f64 {
        self.times.count() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn megabytes(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// All measurements of a run, in their order.
#[derive(Default)]
pub struct Report {
    rows: Vec<(&'static str, Row)>,
}

const HEADING: [&str; 10] =
    ["what", "count", "per s", "MB/s", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms", "errors"];

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Report {
    /// Adds a measurement.
    pub fn add(&mut self, name: &'static str, row: Row) {
        eprintln!("{name}: {:.0} per second", row.rate());
        if let Some(error) = &row.error {
            eprintln!("{name}: {} errors, the first: {error}", row.errors);
        }
        self.rows.push((name, row));
    }

    /// Prints all of it.
    pub fn print(&self, as_json: bool) {
        if as_json {
            return json(&self.json());
        }
        let cells = |(name, row): &(&str, Row)| {
            let time = |per_mille| format!("{:.2}", milliseconds(row.times.at(per_mille)));
            vec![
                (*name).to_owned(),
                row.times.count().to_string(),
                format!("{:.0}", row.rate()),
                format!("{:.1}", row.megabytes()),
                time(500),
                time(900),
                time(990),
                time(999),
                format!("{:.2}", milliseconds(row.times.max())),
                row.errors.to_string(),
            ]
        };
        table(&HEADING, &self.rows.iter().map(cells).collect::<Vec<_>>());
        for (name, ratio) in self.ratios() {
            println!("{name}: {ratio:.3}");
        }
    }

    /// What can be compared between machines.
    fn ratios(&self) -> Vec<(String, f64)> {
        let row = |name: &str| self.rows.iter().find(|(n, _)| *n == name).map(|(_, row)| row);
        let mut ratios = Vec::new();
        if let (Some(append), Some(bare)) = (row("append"), row("bare HTTP answer")) {
            ratios.push(("append rate / bare HTTP rate".to_owned(), append.rate() / bare.rate()));
            for put in ["flushed put of 4 KiB", "flushed overwrite of 4 KiB"] {
                if let Some(put_row) = row(put) {
                    let (ours, floor) = (append.times.at(500), put_row.times.at(500));
                    let ratio = ours.as_secs_f64() / floor.as_secs_f64().max(1e-9);
                    ratios.push((format!("append p50 / {put} p50"), ratio));
                }
            }
        }
        ratios
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|(name, row)| {
            json!({
                "what": name,
                "count": row.times.count(),
                "per_second": row.rate(),
                "megabytes_per_second": row.megabytes(),
                "p50_ms": milliseconds(row.times.at(500)),
                "p90_ms": milliseconds(row.times.at(900)),
                "p99_ms": milliseconds(row.times.at(990)),
                "p999_ms": milliseconds(row.times.at(999)),
                "max_ms": milliseconds(row.times.max()),
                "errors": row.errors,
            })
        });
        let ratios: serde_json::Map<String, Value> =
            self.ratios().into_iter().map(|(name, ratio)| (name, json!(ratio))).collect();
        json!({ "rows": rows.collect::<Vec<_>>(), "ratios": ratios })
    }
}
