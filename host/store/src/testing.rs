//! An object store that fails as a test says, over any other. For tests, of this crate and others.
//!
//! Faults say what the store did before it failed: the difference between a request that was lost and
//! an answer that was lost is the one that a writer must never guess.

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// Create or overwrite.
    Put,
    /// Read.
    Get,
    /// List.
    List,
    /// Delete.
    Delete,
}

/// How a request fails.
#[derive(Clone, Debug)]
pub enum Fault {
    /// 503, nothing was done.
    Unavailable,
    /// It was done, the answer is lost (a reset connection, a 500).
    AnswerLost,
    /// 409 although nothing was done: two conditional requests met.
    Conflict,
    /// It was done, and the answer is 409.
    DoneThenConflict,
    /// It was done, and the answer is 412.
    DoneThenPrecondition,
    /// 403, nothing was done.
    Denied,
    /// Nothing is done and no answer ever comes.
    Hang,
    /// It was done and no answer ever comes.
    DoneThenHang,
    /// It is done when the gate opens.
    Late(Gate),
    /// It is done at once, the answer comes when the gate opens.
    AnswerLate(Gate),
    /// The condition of a create is ignored: it overwrites.
    IgnoreCondition,
}

/// Holds requests until it is opened.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Semaphore>);

impl Default for Gate {
    fn default() -> Gate {
        Gate(Arc::new(Semaphore::new(0)))
    }
}

impl Gate {
    /// Lets everything through from now on.
    pub fn open(&self) {
        self.0.close();
    }

    async fn pass(&self) {
        // Closing the semaphore is what opens the gate.
        let _ = self.0.acquire().await;
    }
}

struct Rule {
    op: Op,
    prefix: String,
    fault: Fault,
    left: u64,
}

type Hidden = Box<dyn Fn(&Path) -> bool + Send>;

#[derive(Default)]
struct Plan {
    rules: Vec<Rule>,
    hidden: Option<Hidden>,
    asked: BTreeMap<Op, u64>,
    failed: u64,
}

/// The plan of a faulty store. Cheap to clone.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

impl Faults {
    /// The next `times` requests of this kind, for keys that begin so, fail so.
    pub fn add(&self, op: Op, prefix: impl ToString, fault: Fault, times: u64) {
        self.0.lock().rules.push(Rule { op, prefix: prefix.to_string(), fault, left: times });
    }

    /// No more faults.
    pub fn clear(&self) {
        let mut plan = self.0.lock();
        plan.rules.clear();
        plan.hidden = None;
    }

    /// Listings leave these out.
    pub fn hide(&self, hidden: impl Fn(&Path) -> bool + Send + 'static) {
        self.0.lock().hidden = Some(Box::new(hidden));
    }

    /// How many requests of a kind there were.
    pub fn asked(&self, op: Op) -> u64 {
        self.0.lock().asked.get(&op).copied().unwrap_or_default()
    }

    /// How many requests failed by plan.
    pub fn failed(&self) -> u64 {
        self.0.lock().failed
    }

    /// Wraps a store.
    pub fn wrap(&self, inner: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(Faulty { inner, faults: self.clone() })
    }

    fn next(&self, op: Op, path: &Path) -> Option<Fault> {
        let mut plan = self.0.lock();
        *plan.asked.entry(op).or_default() += 1;
        let hit =
            |rule: &&mut Rule| rule.op == op && rule.left > 0 && path.as_ref().starts_with(&rule.prefix);
        let rule = plan.rules.iter_mut().find(hit)?;
        rule.left -= 1;
        let fault = rule.fault.clone();
        plan.failed += 1;
        Some(fault)
    }
}

struct Faulty {
    inner: Arc<dyn ObjectStore>,
    faults: Faults,
}

fn generic(text: &'static str) -> Error {
    Error::Generic { store: "faulty", source: text.into() }
}

/// Does a request, or not, and answers, or not.
async fn fail<T>(fault: Option<Fault>, path: &Path, request: impl Future<Output = Result<T>>) -> Result<T> {
    let path = path.to_string();
    let Some(fault) = fault else { return request.await };
    match fault {
        Fault::Unavailable => Err(generic("503 Slow Down")),
        Fault::Denied => Err(Error::PermissionDenied { path, source: "403 Forbidden".into() }),
        Fault::Conflict => Err(Error::AlreadyExists { path, source: "409 Conflict".into() }),
        Fault::Hang => std::future::pending().await,
        Fault::Late(gate) => {
            gate.pass().await;
            request.await
        }
        Fault::AnswerLate(gate) => {
            let answer = request.await;
            gate.pass().await;
            answer
        }
        Fault::IgnoreCondition => request.await,
        Fault::AnswerLost | Fault::DoneThenHang | Fault::DoneThenConflict | Fault::DoneThenPrecondition => {
            request.await?;
            match fault {
                Fault::DoneThenHang => std::future::pending().await,
                Fault::DoneThenConflict => Err(Error::AlreadyExists { path, source: "409 Conflict".into() }),
                Fault::DoneThenPrecondition => {
                    Err(Error::Precondition { path, source: "412 Precondition Failed".into() })
                }
                _ => Err(generic("500 Internal Error")),
            }
        }
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({})", self.inner)
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, path: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        let fault = self.faults.next(Op::Put, path);
        if matches!(fault, Some(Fault::IgnoreCondition)) {
            options.mode = object_store::PutMode::Overwrite;
        }
        // A request that is on its way arrives, whether or not its sender still waits.
        let (inner, to) = (self.inner.clone(), path.clone());
        let request = async move { inner.put_opts(&to, payload, options).await };
        let path = path.clone();
        tokio::spawn(async move { fail(fault, &path, request).await }).await?
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let fault = self.faults.next(Op::Get, path);
        fail(fault, path, self.inner.get_opts(path, options)).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, faults) = (self.inner.clone(), self.faults.clone());
        let deleted = paths.then(move |path| {
            let (inner, faults) = (inner.clone(), faults.clone());
            async move {
                let path = path?;
                let fault = faults.next(Op::Delete, &path);
                let one = stream::iter([Ok(path.clone())]).boxed();
                let request = async { inner.delete_stream(one).next().await.unwrap_or(Ok(path.clone())) };
                fail(fault, &path, request).await
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let fault = self.faults.next(Op::List, prefix.unwrap_or(&Path::default()));
        if fault.is_some() {
            return stream::iter([Err(generic("503 Slow Down"))]).boxed();
        }
        let faults = self.faults.clone();
        let seen = move |meta: &Result<ObjectMeta>| {
            let plan = faults.0.lock();
            let hidden = plan.hidden.as_ref().zip(meta.as_ref().ok());
            let hidden = hidden.is_some_and(|(hidden, meta)| hidden(&meta.location));
            std::future::ready(!hidden)
        };
        self.inner.list(prefix).filter(seen).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
