//! What the machine itself costs: a bare HTTP server that reads a body and answers 204, asked with the
//! same load, and flushed writes of 4 KiB by one thread.

use super::report::Row;
use super::{BenchArgs, Connection};
use anyhow::Context;
use bytes::Bytes;
use headwater_env::Env;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

const PUT: [u8; 4096] = [b'p'; 4096];

/// The rate of a bare hyper server under the load that the cluster will get.
pub async fn http(args: &Arc<BenchArgs>, env: &Env) -> anyhow::Result<Row> {
    let listener = env.net.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let url = Arc::new(vec![format!("http://{}/", listener.local())]);
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let server = hyper::server::conn::http1::Builder::new();
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service_fn(bare)));
        }
    });
    let (duration, size) = (args.duration, args.size);
    let row = super::each_connection(args, env, move |_, env| {
        let (url, body) = (url.clone(), Bytes::from(vec![b'x'; size]));
        async move {
            let (mut connection, mut row) = (Connection::new(&env), Row::default());
            let end = env.clock.monotonic() + duration;
            loop {
                let start = env.clock.monotonic();
                if start >= end {
                    break row;
                }
                let answer = connection.call(Method::POST, &url[0], body.clone()).await;
                let time = env.clock.monotonic() - start;
                row.count(answer.and_then(|a| a.expect(&[204])), time, size);
            }
        }
    })
    .await;
    server.abort();
    row
}

async fn bare(request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let mut body = request.into_body();
    while let Some(Ok(_)) = body.frame().await {}
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// Flushed writes of 4 KiB: as a new file, and over a file that has its length already.
pub fn disk(args: &BenchArgs, env: &Env) -> anyhow::Result<[(&'static str, Row); 2]> {
    let name = format!("headwater-bench-{:016x}", env.entropy.u64());
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let path = dir.join(name);
    let measured = puts(args, env, &path).and_then(|puts| Ok((puts, overwrites(args, env, &path)?)));
    env.disk.remove(&path)?;
    let (puts, overwrites) = measured.with_context(|| format!("writing in {}", dir.display()))?;
    Ok([("flushed put of 4 KiB", puts), ("flushed overwrite of 4 KiB", overwrites)])
}

fn puts(args: &BenchArgs, env: &Env, path: &std::path::Path) -> anyhow::Result<Row> {
    timed(args, env, |_| Ok(env.disk.write_atomic(path, &PUT)?))
}

fn overwrites(args: &BenchArgs, env: &Env, path: &std::path::Path) -> anyhow::Result<Row> {
    const BLOCKS: u64 = 256;
    let file = env.disk.open(path, true)?;
    for block in 0..BLOCKS {
        file.write_at(block * 4096, &PUT)?;
    }
    file.sync()?;
    timed(args, env, |turn| {
        file.write_at(turn % BLOCKS * 4096, &PUT)?;
        Ok(file.sync()?)
    })
}

fn timed(
    args: &BenchArgs,
    env: &Env,
    mut write: impl FnMut(u64) -> anyhow::Result<()>,
) -> anyhow::Result<Row> {
    let (begin, mut row) = (env.clock.monotonic(), Row::default());
    for turn in 0.. {
        let start = env.clock.monotonic();
        if start - begin >= args.duration / 2 {
            break;
        }
        write(turn)?;
        row.count(Ok(()), env.clock.monotonic() - start, PUT.len());
    }
    row.elapsed = env.clock.monotonic() - begin;
    Ok(row)
}
