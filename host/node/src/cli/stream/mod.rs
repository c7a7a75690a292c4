//! Streams from the command line: `create`, `append`, `read`, `tail`, `head`, `ls`, `delete`.
//!
//! Any node will do: redirects are followed. Data goes to stdout, everything else to stderr. JSON streams
//! come one message a line. `client.rs` speaks HTTP.

mod client;

use super::Exit;
use super::client::{AdminArgs, AdminClient};
use crate::http::headers::{is_json, names};
use anyhow::{Context, bail};
use bytes::Bytes;
use clap::{Args, Subcommand};
use client::{Answer, StreamClient};
use headwater_env::Env;
use http::{HeaderName, Method, StatusCode, header};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// Which node to ask.
#[derive(Args, Clone, Debug)]
pub struct UrlArgs {
    /// Any node of the cluster.
    #[arg(long, env = "HEADWATER_URL", value_name = "URL", default_value = "http://127.0.0.1:4437")]
    url: String,
}

/// Commands on streams.
#[derive(Subcommand, Clone, Debug)]
pub enum StreamCommand {
    /// Create a stream. Creating it again with the same settings changes nothing.
    Create {
        /// Its name: the path of its URL.
        name: String,
        /// Its content type. `application/json` streams hold JSON messages.
        #[arg(long, value_name = "TYPE", default_value = "application/octet-stream")]
        content_type: String,
        /// It ends when nobody has used it for so many seconds.
        #[arg(long, value_name = "SECONDS", conflicts_with = "expires_at")]
        ttl: Option<u64>,
        /// It ends at this moment, as in 2030-01-31T12:00:00Z.
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
        #[command(flatten)]
        node: UrlArgs,
    },
    /// Append to a stream: the argument, a file, or stdin, as one record.
    Append {
        /// The name.
        name: String,
        /// What to append. Without it, stdin is read to its end.
        data: Option<String>,
        /// Append the contents of a file.
        #[arg(long, value_name = "FILE", conflicts_with = "data")]
        file: Option<PathBuf>,
        /// Content type of the record. Without it, the stream's own is asked for first.
        #[arg(long, value_name = "TYPE")]
        content_type: Option<String>,
        /// Stream-Seq: must be after that of the last append.
        #[arg(long, value_name = "TEXT")]
        seq: Option<String>,
        /// Close the stream with this record; with nothing to append, close it as it is.
        #[arg(long)]
        close: bool,
        #[command(flatten)]
        node: UrlArgs,
    },
    /// Write what a stream holds to stdout, and the offset after it to stderr.
    Read {
        /// The name.
        name: String,
        /// Where to begin: -1 for the beginning, or an offset of an earlier answer.
        #[arg(long, default_value = "-1", allow_hyphen_values = true)]
        offset: String,
        #[command(flatten)]
        node: UrlArgs,
    },
    /// Write what is appended from now on to stdout, until the stream is closed.
    Tail {
        /// The name.
        name: String,
        /// Where to begin: now, -1 for the beginning, or an offset of an earlier answer.
        #[arg(long, default_value = "now", allow_hyphen_values = true)]
        offset: String,
        #[command(flatten)]
        node: UrlArgs,
    },
    /// What a stream is: content type, next offset, end of life.
    Head {
        /// The name.
        name: String,
        /// Write JSON, for scripts.
        #[arg(long, env = "HEADWATER_JSON", value_parser = clap::builder::FalseyValueParser::new())]
        json: bool,
        #[command(flatten)]
        node: UrlArgs,
    },
    /// List streams by name, through the admin API.
    Ls {
        /// Only names that begin so.
        #[arg(default_value = "")]
        prefix: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Delete a stream and all that it holds.
    Delete {
        /// The name.
        name: String,
        #[command(flatten)]
        node: UrlArgs,
    },
}

/// How long a read goes on asking when nobody serves the stream.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs one command.
pub async fn run(command: StreamCommand, env: Env) -> anyhow::Result<Exit> {
    match command {
        StreamCommand::Create { name, content_type, ttl, expires_at, node } => {
            let client = StreamClient::new(env, &node.url)?;
            let mut headers = vec![(header::CONTENT_TYPE, content_type)];
            headers.extend(ttl.map(|seconds| (names::TTL, seconds.to_string())));
            headers.extend(expires_at.map(|at| (names::EXPIRES_AT, at)));
            let answer = client.send(Method::PUT, &StreamClient::path(&name), &headers, Bytes::new()).await?;
            let answer = answer.success().await?;
            let what = if answer.status == StatusCode::CREATED { "created" } else { "is there already:" };
            eprintln!("{what} {}", answer.url);
            Ok(Exit::Done)
        }
        StreamCommand::Append { name, data, file, content_type, seq, close, node } => {
            let body = input(&env, data, file, close).await?;
            let client = StreamClient::new(env, &node.url)?;
            append(&client, &name, body, content_type, seq, close).await
        }
        StreamCommand::Read { name, offset, node } => {
            read(&StreamClient::new(env, &node.url)?, &name, offset).await
        }
        StreamCommand::Tail { name, offset, node } => {
            tail(&StreamClient::new(env, &node.url)?, &name, offset).await
        }
        StreamCommand::Head { name, json, node } => {
            let client = StreamClient::new(env, &node.url)?;
            let answer = client.get(Method::HEAD, &StreamClient::path(&name), PATIENCE).await?;
            if answer.status == StatusCode::NOT_FOUND {
                bail!("the stream does not exist ({})", answer.url);
            }
            show(&answer.success().await?, json)
        }
        StreamCommand::Ls { prefix, admin } => list(env, &prefix, &admin).await,
        StreamCommand::Delete { name, node } => {
            let client = StreamClient::new(env, &node.url)?;
            let answer = client.send(Method::DELETE, &StreamClient::path(&name), &[], Bytes::new()).await?;
            eprintln!("deleted {}", answer.success().await?.url);
            Ok(Exit::Done)
        }
    }
}

/// What to append.
async fn input(env: &Env, data: Option<String>, file: Option<PathBuf>, close: bool) -> anyhow::Result<Bytes> {
    if let Some(data) = data {
        return Ok(data.into());
    }
    if let Some(file) = file {
        let bytes = env.disk.read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        return Ok(bytes.into());
    }
    if std::io::stdin().is_terminal() {
        if close {
            return Ok(Bytes::new());
        }
        eprintln!("(appends what you write; Ctrl-D ends it)");
    }
    let mut bytes = Vec::new();
    tokio::io::stdin().read_to_end(&mut bytes).await.context("stdin")?;
    Ok(bytes.into())
}

async fn append(
    client: &StreamClient,
    name: &str,
    body: Bytes,
    content_type: Option<String>,
    seq: Option<String>,
    close: bool,
) -> anyhow::Result<Exit> {
    let path = StreamClient::path(name);
    if body.is_empty() && !close {
        bail!("there is nothing to append");
    }
    let mut headers: Vec<(HeaderName, String)> = Vec::new();
    if !body.is_empty() {
        let kind = match content_type {
            Some(kind) => kind,
            None => own_content_type(client, &path).await?,
        };
        headers.push((header::CONTENT_TYPE, kind));
    }
    headers.extend(seq.map(|seq| (names::SEQ, seq)));
    if close {
        headers.push((names::CLOSED, "true".to_owned()));
    }
    let answer = client.send(Method::POST, &path, &headers, body).await?.success().await?;
    eprintln!("next offset {}", answer.header(&names::NEXT_OFFSET).unwrap_or("unknown"));
    Ok(Exit::Done)
}

async fn own_content_type(client: &StreamClient, path: &str) -> anyhow::Result<String> {
    let answer = client.get(Method::HEAD, path, PATIENCE).await?;
    if answer.status == StatusCode::NOT_FOUND {
        bail!("the stream does not exist: create it first ({})", answer.url);
    }
    let answer = answer.success().await?;
    let kind = answer.header(&header::CONTENT_TYPE).context("an answer without Content-Type")?;
    Ok(kind.to_owned())
}

async fn read(client: &StreamClient, name: &str, mut offset: String) -> anyhow::Result<Exit> {
    let path = StreamClient::path(name);
    loop {
        let target = format!("{path}?offset={offset}");
        let mut answer = client.get(Method::GET, &target, PATIENCE).await?.success().await?;
        if !write_out(&mut answer).await? {
            return Ok(Exit::Done);
        }
        offset = answer.header(&names::NEXT_OFFSET).context("an answer without an offset")?.to_owned();
        if answer.header(&names::UP_TO_DATE).is_some() {
            let closed = if answer.header(&names::CLOSED).is_some() { "; the stream is closed" } else { "" };
            eprintln!("next offset {offset}{closed}");
            return Ok(Exit::Done);
        }
    }
}

async fn tail(client: &StreamClient, name: &str, mut offset: String) -> anyhow::Result<Exit> {
    let path = StreamClient::path(name);
    let mut cursor = String::new();
    loop {
        let target = format!("{path}?{cursor}live=long-poll&offset={offset}");
        let mut answer = client.get(Method::GET, &target, Duration::from_secs(600)).await?.success().await?;
        if !write_out(&mut answer).await? {
            return Ok(Exit::Done);
        }
        offset = answer.header(&names::NEXT_OFFSET).context("an answer without an offset")?.to_owned();
        if answer.header(&names::CLOSED).is_some() {
            eprintln!("next offset {offset}; the stream is closed");
            return Ok(Exit::Done);
        }
        cursor = answer.header(&names::CURSOR).map(|c| format!("cursor={c}&")).unwrap_or_default();
    }
}

/// Writes a body to stdout; false when nobody reads it any more.
async fn write_out(answer: &mut Answer) -> anyhow::Result<bool> {
    let json = answer.header(&header::CONTENT_TYPE).is_some_and(is_json);
    let mut out = std::io::stdout();
    let written = if json && answer.status == StatusCode::OK {
        let body = answer.bytes().await?;
        let messages: Vec<&RawValue> = serde_json::from_slice(&body).context("the answer is not JSON")?;
        messages.iter().try_for_each(|message| writeln!(out, "{}", one_line(message.get())))
    } else {
        let mut written = Ok(());
        while let (Ok(()), Some(piece)) = (&written, answer.piece().await?) {
            written = out.write_all(&piece);
        }
        written
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("stdout"),
    }
}

/// A message without the line breaks that may stand between its tokens: inside strings JSON has none.
fn one_line(message: &str) -> String {
    message.replace(['\r', '\n'], " ")
}

fn show(answer: &Answer, as_json: bool) -> anyhow::Result<Exit> {
    let mut fields = serde_json::Map::new();
    for (name, header) in [
        ("content_type", header::CONTENT_TYPE),
        ("next_offset", names::NEXT_OFFSET),
        ("closed", names::CLOSED),
        ("ttl", names::TTL),
        ("expires_at", names::EXPIRES_AT),
    ] {
        if let Some(value) = answer.header(&header) {
            let value = if name == "closed" { Value::Bool(true) } else { json!(value) };
            fields.insert(name.to_owned(), value);
        }
    }
    fields.insert("url".to_owned(), json!(answer.url));
    if as_json {
        println!("{}", Value::Object(fields));
        return Ok(Exit::Done);
    }
    for (name, value) in fields {
        println!("{:<14}{}", name.replace('_', " "), value.as_str().unwrap_or("yes"));
    }
    Ok(Exit::Done)
}

async fn list(env: Env, prefix: &str, admin: &AdminArgs) -> anyhow::Result<Exit> {
    let client = AdminClient::new(env, admin)?;
    let mut after: Option<String> = None;
    loop {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("prefix", prefix).append_pair("limit", "1000");
        if let Some(after) = &after {
            query.append_pair("after", after);
        }
        let page = client.get(&format!("/admin/streams?{}", query.finish())).await?;
        let streams = page.get("streams").and_then(Value::as_array);
        for stream in streams.context("the node's answer is no list of streams")? {
            match stream.get("name").and_then(Value::as_str) {
                _ if admin.json => println!("{stream}"),
                Some(name) => println!("{name}"),
                None => bail!("a stream without a name: {stream}"),
            }
        }
        match page.get("next").and_then(Value::as_str) {
            Some(next) => after = Some(next.to_owned()),
            None => return Ok(Exit::Done),
        }
    }
}
