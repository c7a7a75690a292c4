//! A raw connection, for what a well-behaved client would not send or would hide: bytes out, bytes in.

use anyhow::{Context, Result, bail};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The head of an answer as it came over the wire.
#[derive(Clone, Debug)]
pub struct Head {
    /// The status of the first line.
    pub status: u16,
    /// All header lines, in order, names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// Sends one request over a connection of its own; `head` and body of the answer.
pub async fn exchange(
    address: &str,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<(Head, Vec<u8>)> {
    let mut raw = Raw::connect(address).await?;
    raw.send(request(method, target, headers, body)).await?;
    let head = raw.head().await?;
    let body = if method == "HEAD" { Vec::new() } else { raw.body(&head).await? };
    Ok((head, body))
}

/// The bytes of a request with its body.
pub fn request(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {target} HTTP/1.1\r\nhost: test\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || method == "POST" {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}

/// A connection that shows every byte.
pub struct Raw {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Raw {
    /// Connects to `host:port` or to the authority of a URL.
    pub async fn connect(address: &str) -> Result<Raw> {
        let authority = address.strip_prefix("http://").unwrap_or(address);
        let authority = authority.split('/').next().unwrap_or(authority);
        let stream = TcpStream::connect(authority).await.with_context(|| format!("connect {authority}"))?;
        stream.set_nodelay(true)?;
        Ok(Raw { stream, buffer: Vec::new() })
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        tokio::time::timeout(crate::LIVE, self.stream.write_all(bytes.as_ref()))
            .await
            .context("the other side takes no bytes")??;
        Ok(())
    }

    /// Sends bytes while it waits for the head of the answer, which may come first; then stops sending.
    /// How many bytes were sent comes with the head.
    pub async fn send_until_head(&mut self, bytes: &[u8]) -> Result<(usize, Head)> {
        let mut sent = 0;
        loop {
            if find(&self.buffer, b"\r\n\r\n").is_some() {
                return Ok((sent, self.head().await?));
            }
            let (mut read, mut write) = self.stream.split();
            let rest = &bytes[sent..(sent + 64 * 1024).min(bytes.len())];
            let step = async {
                tokio::select! {
                    got = read.read_buf(&mut self.buffer) => got.map(|n| (n, 0)),
                    put = write.write(rest), if !rest.is_empty() => put.map(|n| (1, n)),
                }
            };
            let (got, put) = tokio::time::timeout(crate::LIVE, step).await.context("no answer")??;
            sent += put;
            if got == 0 {
                bail!("the connection ended after {sent} bytes, without a head");
            }
        }
    }

    /// No more bytes will be sent.
    pub async fn finish(&mut self) -> Result<()> {
        Ok(self.stream.shutdown().await?)
    }

    /// Reads one head, up to its empty line.
    pub async fn head(&mut self) -> Result<Head> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 4);
                return parse(&text);
            }
            if self.fill().await? == 0 {
                bail!("the connection ended before a head: {:?}", String::from_utf8_lossy(&self.buffer));
            }
        }
    }

    /// Reads the body that the head announces with `Content-Length` or `Transfer-Encoding: chunked`.
    pub async fn body(&mut self, head: &Head) -> Result<Vec<u8>> {
        if head.header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
            return self.chunks().await;
        }
        let length: usize = head.header("content-length").unwrap_or("0").parse()?;
        self.take(length).await
    }

    async fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let length = usize::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16)
                .with_context(|| format!("a chunk of length {line:?}"))?;
            body.extend(self.take(length).await?);
            self.line().await?;
            if length == 0 {
                return Ok(body);
            }
        }
    }

    async fn line(&mut self) -> Result<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 2);
                return Ok(line);
            }
            if self.fill().await? == 0 {
                bail!("the connection ended inside a body");
            }
        }
    }

    async fn take(&mut self, length: usize) -> Result<Vec<u8>> {
        while self.buffer.len() < length {
            if self.fill().await? == 0 {
                bail!("the connection ended after {} of {length} bytes", self.buffer.len());
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// Whether the other side sends nothing for that long. What it sent is kept for the next read.
    pub async fn silent_for(&mut self, time: Duration) -> Result<bool> {
        if !self.buffer.is_empty() {
            return Ok(false);
        }
        match tokio::time::timeout(time, self.fill()).await {
            Err(_) => Ok(true),
            Ok(read) => Ok(read? == 0),
        }
    }

    /// Reads until the other side closes; `true` when it did within the limit.
    pub async fn closes(&mut self) -> bool {
        tokio::time::timeout(crate::LIVE, async { while matches!(self.fill().await, Ok(n) if n > 0) {} })
            .await
            .is_ok()
    }

    /// What has come and was not read yet.
    pub fn unread(&self) -> &[u8] {
        &self.buffer
    }

    async fn fill(&mut self) -> Result<usize> {
        let read = tokio::time::timeout(crate::LIVE, self.stream.read_buf(&mut self.buffer)).await;
        Ok(read.context("no answer within the limit")??)
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

fn parse(text: &str) -> Result<Head> {
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.split(' ').nth(1).and_then(|s| s.parse().ok());
    let status = status.with_context(|| format!("not a status line: {first:?}"))?;
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Ok(Head { status, headers })
}
