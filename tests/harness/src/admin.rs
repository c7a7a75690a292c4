//! The admin API of one node, as JSON values: the harness must not share types with what it tests.

use crate::http::{Answer, Client};
use anyhow::{Context, Result};
use bytes::Bytes;
use serde_json::{Value, json};

/// The admin listener of one node.
#[derive(Clone)]
pub struct Admin {
    client: Client,
    base: String,
}

impl Admin {
    /// The admin listener at this base URL.
    pub fn new(client: Client, base: String) -> Admin {
        Admin { client, base }
    }

    /// Any GET.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.client.get(format!("{}{path}", self.base)).send().await
    }

    /// Any POST of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        let request = self.client.post(format!("{}{path}", self.base)).content_type("application/json");
        request.body(body.to_string()).send().await
    }

    /// Whether the node says that it serves.
    pub async fn ready(&self) -> Result<()> {
        self.get("/ready").await?.expect(200).map(|_| ())
    }

    /// `GET /admin/cluster`.
    pub async fn cluster(&self) -> Result<Value> {
        self.get("/admin/cluster").await?.expect(200)?.json()
    }

    /// `GET /admin/nodes`.
    pub async fn nodes(&self) -> Result<Vec<Value>> {
        let list = self.get("/admin/nodes").await?.expect(200)?.json()?;
        list.as_array().cloned().context("the nodes are not a list")
    }

    /// One node out of `GET /admin/nodes`.
    pub async fn node(&self, id: u64) -> Result<Value> {
        let nodes = self.nodes().await?;
        nodes.into_iter().find(|n| n["id"] == id).with_context(|| format!("node {id} is not listed"))
    }

    /// `GET /admin/streams/{name}`; the name is the URL path with its slash.
    pub async fn stream(&self, name: &str) -> Result<Value> {
        self.get(&format!("/admin/streams{name}")).await?.expect(200)?.json()
    }

    /// All streams whose name begins with the prefix, page by page.
    pub async fn streams(&self, prefix: &str) -> Result<Vec<Value>> {
        let mut all: Vec<Value> = Vec::new();
        loop {
            let after = all.last().and_then(|s| s["name"].as_str()).unwrap_or("").to_owned();
            let (prefix, after) = (encoded(prefix), encoded(&after));
            let path = format!("/admin/streams?prefix={prefix}&after={after}&limit=500");
            let page = self.get(&path).await?.expect(200)?.json()?;
            let list =
                page.as_array().or_else(|| page["streams"].as_array()).context("no list of streams")?;
            if list.is_empty() {
                return Ok(all);
            }
            all.extend(list.iter().cloned());
        }
    }

    /// Changes slots, labels or draining of a node.
    pub async fn set_node(&self, id: u64, change: &Value) -> Result<Value> {
        self.post(&format!("/admin/nodes/{id}"), change).await?.expect(200)?.json()
    }

    /// `PUT /admin/policies/{name}`.
    pub async fn put_policy(&self, name: &str, component: Bytes) -> Result<Answer> {
        let url = format!("{}/admin/policies/{name}", self.base);
        self.client.put(url).content_type("application/wasm").body(component).send().await
    }

    /// `GET /admin/policies`.
    pub async fn policies(&self) -> Result<Value> {
        self.get("/admin/policies").await?.expect(200)?.json()
    }

    /// Makes a policy the active one.
    pub async fn activate(&self, digest: &str) -> Result<Value> {
        let body = json!({ "digest": digest });
        self.post("/admin/policies/activate", &body).await?.expect(200)?.json()
    }

    /// Makes the previous policy the active one.
    pub async fn rollback(&self) -> Result<Value> {
        self.post("/admin/policies/rollback", &json!({})).await?.expect(200)?.json()
    }

    /// The Prometheus text.
    pub async fn metrics(&self) -> Result<String> {
        Ok(self.get("/metrics").await?.expect(200)?.text())
    }

    /// The sum of a metric over all its labels; 0 when it is absent.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let text = self.metrics().await?;
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            rest.starts_with([' ', '{']).then(|| rest.rsplit(' ').next())?.and_then(|v| v.parse::<f64>().ok())
        });
        Ok(values.sum())
    }

    /// Gives a fail point an action (`pause`, `exit`, `error`, `sleep:MS`, each with `*N`; `off`).
    pub async fn arm(&self, point: &str, action: &str) -> Result<()> {
        let body = json!({ "name": point, "action": action });
        let answer = self.post("/admin/faults", &body).await?;
        anyhow::ensure!(answer.status.is_success(), "arming {point}: {}", answer.describe());
        Ok(())
    }

    /// How often a fail point was passed.
    pub async fn hits(&self, point: &str) -> Result<u64> {
        let points = self.get("/admin/faults").await?.expect(200)?.json()?;
        Ok(points[point].as_u64().or_else(|| points["hits"][point].as_u64()).unwrap_or(0))
    }
}

/// A value for a query: a name's own escapes must survive the decoding of the query.
fn encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    value.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
