//! One request to the store, told apart by what its failure means, and the waiting between repeats.
//!
//! A create that is answered "already exists" is never believed nor feared: the object is read and
//! compared, because the answer to an earlier copy of the same create may have been lost.

use crate::counters::add;
use crate::local::Unflushed;
use crate::store::Store;
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};
use std::ops::Range;
use std::time::Duration;

/// How a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It is not there.
    Absent,
    /// In passing: ask again.
    Passing(String),
    /// For good.
    Final(String),
}

/// How a create ended.
#[derive(Debug)]
pub(crate) enum Created {
    /// Stored, by this request or an earlier copy of it.
    Stored,
    /// Something else is there, with these contents.
    Taken(Bytes),
}

fn passing(error: Error) -> Failure {
    match error {
        Error::NotFound { .. } => Failure::Absent,
        Error::Generic { ref source, .. } if source.is::<Unflushed>() => Failure::Final(error.to_string()),
        Error::NotImplemented { .. }
        | Error::NotSupported { .. }
        | Error::InvalidPath { .. }
        | Error::UnknownConfigurationKey { .. } => Failure::Final(error.to_string()),
        other => Failure::Passing(other.to_string()),
    }
}

/// Time for one attempt: a request that hangs longer is repeated beside it.
fn patience(bytes: usize) -> Duration {
    Duration::from_secs(15) + Duration::from_millis(bytes as u64 / 1024)
}

impl Store {
    /// One attempt to create an object with exactly these contents.
    pub(crate) async fn create_once(&self, path: &Path, parts: &[Bytes]) -> Result<Created, Failure> {
        let len: usize = parts.iter().map(Bytes::len).sum();
        add(&self.counters().puts, 1);
        add(&self.counters().put_bytes, len as u64);
        let payload: PutPayload = parts.iter().cloned().collect();
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let put = self.objects().put_opts(path, payload, options);
        match self.env().timeout(patience(len), put).await {
            None => Err(Failure::Passing(format!("no answer to a create of {len} bytes"))),
            Some(Ok(_)) => Ok(Created::Stored),
            Some(Err(
                Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. },
            )) => self.look(path, parts).await,
            Some(Err(error)) => Err(match passing(error) {
                // The bucket or the folder: it may come back.
                Failure::Absent => Failure::Passing(format!("{path}: nowhere to create it")),
                other => other,
            }),
        }
    }

    /// "Already exists": ours, or whose?
    async fn look(&self, path: &Path, parts: &[Bytes]) -> Result<Created, Failure> {
        let found = match self.get_once(path, None).await {
            Ok(found) => found,
            // A conflict with a copy that is still on its way, or a store that takes its word back.
            Err(Failure::Absent) => {
                return Err(Failure::Passing(format!("{path} was said to exist and is absent")));
            }
            Err(other) => return Err(other),
        };
        if !same(&found, parts) {
            return Ok(Created::Taken(found));
        }
        // The copy that made it may not have been flushed yet, and its flush may have failed.
        self.flush(path).await?;
        add(&self.counters().lost_answers, 1);
        Ok(Created::Stored)
    }

    /// Creates an object with exactly these contents, however long the store takes. Whoever calls it
    /// bounds it, and may repeat it with the same contents.
    pub(crate) async fn create(&self, path: &Path, parts: &[Bytes]) -> Result<Created, String> {
        let mut backoff = self.backoff();
        loop {
            match self.create_once(path, parts).await {
                Ok(created) => return Ok(created),
                Err(Failure::Final(reason)) => return Err(reason),
                Err(Failure::Absent) => backoff.wait("absent").await,
                Err(Failure::Passing(reason)) => backoff.wait(&reason).await,
            }
        }
    }

    /// One attempt to read an object, or a part of it; the part may end behind the object's end.
    pub(crate) async fn get_once(&self, path: &Path, range: Option<Range<u64>>) -> Result<Bytes, Failure> {
        self.get_with(path, range.map(GetRange::Bounded)).await
    }

    /// One attempt to read the last `len` bytes of an object.
    pub(crate) async fn get_suffix(&self, path: &Path, len: u64) -> Result<Bytes, Failure> {
        self.get_with(path, Some(GetRange::Suffix(len))).await
    }

    async fn get_with(&self, path: &Path, range: Option<GetRange>) -> Result<Bytes, Failure> {
        add(&self.counters().gets, 1);
        let options = GetOptions { range, ..GetOptions::default() };
        let get = async { self.objects().get_opts(path, options).await?.bytes().await };
        match self.env().timeout(patience(8 << 20), get).await {
            None => Err(Failure::Passing(format!("no answer to a read of {path}"))),
            Some(Ok(bytes)) => {
                add(&self.counters().get_bytes, bytes.len() as u64);
                Ok(bytes)
            }
            Some(Err(error)) => Err(passing(error)),
        }
    }

    /// Reads a whole object, however long the store takes; `None` when it is absent.
    pub(crate) async fn get(&self, path: &Path) -> Result<Option<Bytes>, String> {
        let mut backoff = self.backoff();
        loop {
            match self.get_once(path, None).await {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(Failure::Absent) => return Ok(None),
                Err(Failure::Final(reason)) => return Err(reason),
                Err(Failure::Passing(reason)) => backoff.wait(&reason).await,
            }
        }
    }

    /// Deletes an object, one attempt. Absent is fine.
    pub(crate) async fn delete_once(&self, path: &Path) -> Result<(), Failure> {
        match self.env().timeout(patience(0), self.objects().delete(path)).await {
            None => Err(Failure::Passing(format!("no answer to a delete of {path}"))),
            Some(Ok(())) => {
                add(&self.counters().deletes, 1);
                Ok(())
            }
            Some(Err(error)) => match passing(error) {
                Failure::Absent => Ok(()),
                other => Err(other),
            },
        }
    }

    /// Deletes objects, one attempt, in one request where the store knows how. Absent ones are fine.
    pub(crate) async fn delete_many(&self, paths: Vec<Path>) -> Result<(), Failure> {
        let count = paths.len() as u64;
        let paths = futures_util::stream::iter(paths.into_iter().map(Ok)).boxed();
        let mut answers = self.objects().delete_stream(paths);
        let drain = async {
            while let Some(answer) = answers.next().await {
                match answer.map_err(passing) {
                    Ok(_) | Err(Failure::Absent) => {}
                    Err(other) => return Err(other),
                }
            }
            Ok(())
        };
        let limit = patience(0) + Duration::from_millis(count * 20);
        let drained = self.env().timeout(limit, drain).await;
        drained.unwrap_or_else(|| Err(Failure::Passing("no end to a delete".into())))?;
        add(&self.counters().deletes, count);
        Ok(())
    }

    pub(crate) fn backoff(&self) -> Backoff<'_> {
        Backoff { store: self, attempt: 0 }
    }
}

fn same(found: &Bytes, parts: &[Bytes]) -> bool {
    let len: usize = parts.iter().map(Bytes::len).sum();
    let mut at = 0;
    found.len() == len
        && parts.iter().all(|part| {
            let piece = &found[at..at + part.len()];
            at += part.len();
            piece == part
        })
}

/// Waits longer and longer, never in step with others, and at least as long as the store asked.
pub(crate) struct Backoff<'a> {
    store: &'a Store,
    attempt: u32,
}

impl Backoff<'_> {
    pub(crate) async fn wait(&mut self, reason: &str) {
        self.attempt = self.attempt.saturating_add(1);
        if self.attempt == 3 || self.attempt.is_multiple_of(30) {
            tracing::warn!(attempt = self.attempt, reason, "the store fails; trying on");
        }
        let env = self.store.env();
        add(&self.store.counters().retries, 1);
        let top = (20u64 << self.attempt.min(7)).min(2_000);
        let jittered = Duration::from_millis(top / 2 + env.entropy.u64() % (top / 2));
        let held = self.store.held();
        if !held.is_zero() {
            add(&self.store.counters().held_ms, u64::try_from(held.as_millis()).unwrap_or(u64::MAX));
        }
        env.clock.sleep(held + jittered).await;
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.attempt
    }
}
