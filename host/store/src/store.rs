//! Opens a store, proves that it can fence, and holds what the whole cluster shares in it: the
//! cluster's id and the addresses of its peers. `request.rs` is how single objects are asked for.

use crate::counters::{Counters, add};
use crate::layout;
use crate::local::LocalFiles;
use crate::request::{Created, Failure};
use crate::s3::{self, Hold};
use bytes::Bytes;
use futures_util::stream::TryStreamExt;
use headwater_env::{Env, Folder};
use headwater_metadata::{NodeId, Session, WalForm};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, PutMode, PutOptions, PutPayload};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// What kind of store it is: how a write becomes durable depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder on this machine.
    File,
    /// An S3-compatible object store.
    S3,
    /// The memory of this process.
    Memory,
}

/// A shared store. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    objects: Arc<dyn ObjectStore>,
    /// Set when the store is a folder: for flushing once more.
    files: Option<Arc<LocalFiles>>,
    kind: Kind,
    env: Env,
    hold: Hold,
    counters: Arc<Counters>,
    prepared: Arc<Mutex<Prepared>>,
}

/// Folders that were made for sessions; `None` once a log was started in one.
type Prepared = BTreeMap<Session, Option<(Box<dyn Folder>, PathBuf)>>;

/// Why the store cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL is not one of a store.
    #[error("{url} is not a store: {reason}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// A request failed for good.
    #[error("the store failed to {what}: {reason}")]
    Failed {
        /// What was asked.
        what: String,
        /// What it said.
        reason: String,
    },
    /// The store does what it must not.
    #[error("the store cannot fence: {0}")]
    CannotFence(String),
    /// The start-up proof failed at this right.
    #[error("the store refuses to {right}: {reason}")]
    Right {
        /// create, read, list or delete.
        right: &'static str,
        /// What it said.
        reason: String,
    },
    /// The folder of a log exists: another process has this very session.
    #[error("{folder} exists: it belongs to another process with the same epoch")]
    Taken {
        /// The folder.
        folder: String,
    },
    /// Another cluster lives in the store.
    #[error("the store belongs to cluster {found:032x}, not {wanted:032x}")]
    ForeignCluster {
        /// In the store.
        found: u128,
        /// Asked for.
        wanted: u128,
    },
    /// An object does not read as what its name says.
    #[error("object {object} is damaged: {reason}")]
    Damaged {
        /// Its key.
        object: String,
        /// What is wrong.
        reason: String,
    },
}

impl Store {
    /// Opens `file:///path`, `s3://bucket/prefix` (credentials and endpoint from `AWS_*`) or `memory://`
    /// (of this process alone). A folder is made when it is absent.
    pub fn open(url: &str, env: Env) -> Result<Store, StoreError> {
        let text =
            |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        Store::open_with(url, env, std::env::vars_os().filter_map(text))
    }

    /// [`Store::open`] with other settings than the process's environment.
    pub fn open_with(
        url: &str,
        env: Env,
        settings: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Store, StoreError> {
        let refuse = |reason: String| StoreError::Url { url: url.to_owned(), reason };
        let parsed = Url::parse(url).map_err(|error| refuse(error.to_string()))?;
        let hold = Hold::new(env.clone());
        let (objects, files, kind): (Arc<dyn ObjectStore>, _, _) = match parsed.scheme() {
            "memory" => (Arc::new(InMemory::new()), None, Kind::Memory),
            "s3" if parsed.host_str().is_none_or(str::is_empty) => {
                return Err(refuse("it names no bucket".into()));
            }
            "s3" => (
                s3::open(&parsed, settings, hold.clone()).map_err(|e| refuse(e.to_string()))?,
                None,
                Kind::S3,
            ),
            "file" => {
                let path = parsed.to_file_path().map_err(|()| refuse("not a path of this machine".into()))?;
                env.disk.create_dir_all(&path).map_err(|e| refuse(e.to_string()))?;
                let files = LocalFiles::new(&path, env.disk.clone()).map_err(|e| refuse(e.to_string()))?;
                let files = Arc::new(files);
                (files.clone(), Some(files), Kind::File)
            }
            other => return Err(refuse(format!("{other}: none of file, s3, memory"))),
        };
        Ok(Store {
            inner: Arc::new(Inner {
                objects,
                files,
                kind,
                env,
                hold,
                counters: Arc::default(),
                prepared: Arc::default(),
            }),
        })
    }

    /// A store over any object store, for tests and simulations.
    pub fn from_object_store(objects: Arc<dyn ObjectStore>, kind: Kind, env: Env) -> Store {
        let hold = Hold::new(env.clone());
        Store {
            inner: Arc::new(Inner {
                objects,
                files: None,
                kind,
                env,
                hold,
                counters: Arc::default(),
                prepared: Arc::default(),
            }),
        }
    }

    /// The same store behind a wrapper (faults, limits).
    pub fn wrapped(&self, wrap: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>) -> Store {
        let inner = &self.inner;
        Store {
            inner: Arc::new(Inner {
                objects: wrap(inner.objects.clone()),
                files: inner.files.clone(),
                kind: inner.kind,
                env: inner.env.clone(),
                hold: inner.hold.clone(),
                counters: Arc::default(),
                prepared: inner.prepared.clone(),
            }),
        }
    }

    /// Proves the store: creates an object, reads it, creates it again (which must be refused and change
    /// nothing), finds it in a listing, deletes it. Names the right that is missing.
    pub async fn probe(&self) -> Result<(), StoreError> {
        let nonce = self.env().entropy.u128();
        let path = layout::probe(nonce);
        let body = [Bytes::copy_from_slice(&nonce.to_le_bytes())];
        let refused = |right: &'static str| move |reason: String| StoreError::Right { right, reason };
        let created = self.patiently(|| self.create_once(&path, &body)).await.map_err(refused("create"))?;
        if !matches!(created, Some(Created::Stored)) {
            return Err(StoreError::CannotFence("a new name is taken by something else".into()));
        }
        let found = self.patiently(|| self.get_once(&path, None)).await.map_err(refused("read"))?;
        if found.as_ref() != Some(&body[0]) {
            return Err(refused("read")("what was written is not what is read".into()));
        }
        let other = [Bytes::from_static(b"overwritten")];
        let again = self.patiently(|| self.create_once(&path, &other)).await.map_err(refused("create"))?;
        if !matches!(again, Some(Created::Taken(found)) if found == body[0]) {
            let why = "creating an object that exists succeeded: it has no conditional puts (If-None-Match)";
            return Err(StoreError::CannotFence(why.into()));
        }
        let listed = self.patiently(|| self.list_once(layout::probes())).await.map_err(refused("list"))?;
        if !listed.unwrap_or_default().contains(&path) {
            // Listings may lag behind; nothing rests on them. But the right is there.
            tracing::warn!("the store's listing does not show the newest object");
        }
        self.patiently(|| self.delete_once(&path)).await.map_err(refused("delete"))?;
        Ok(())
    }

    /// Repeats a request a few times.
    async fn patiently<T, F>(&self, request: impl Fn() -> F) -> Result<Option<T>, String>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut backoff = self.backoff();
        loop {
            match request().await {
                Ok(answer) => return Ok(Some(answer)),
                Err(Failure::Absent) => return Ok(None),
                Err(Failure::Final(reason)) => return Err(reason),
                Err(Failure::Passing(reason)) if backoff.attempts() >= 4 => return Err(reason),
                Err(Failure::Passing(reason)) => backoff.wait(&reason).await,
            }
        }
    }

    /// The id of the cluster that lives here.
    pub async fn cluster_id(&self) -> Result<Option<u128>, StoreError> {
        let path = layout::cluster();
        let found = self.patiently(|| self.get_once(&path, None)).await;
        let found =
            found.map_err(|reason| StoreError::Failed { what: "read the cluster's id".into(), reason })?;
        found.map(|text| parse_cluster(&text)).transpose()
    }

    /// Claims the store for a cluster; finding the same id there is success.
    pub async fn claim_cluster(&self, id: u128) -> Result<(), StoreError> {
        let path = layout::cluster();
        let body = [Bytes::from(format!("{id:032x}\n"))];
        let created = self.patiently(|| self.create_once(&path, &body)).await;
        match created
            .map_err(|reason| StoreError::Failed { what: "claim it for the cluster".into(), reason })?
        {
            Some(Created::Taken(text)) => {
                Err(StoreError::ForeignCluster { found: parse_cluster(&text)?, wanted: id })
            }
            _ => Ok(()),
        }
    }

    /// Publishes the peer address of a node, for nodes that join through the store. A hint: the last
    /// one written stands.
    pub async fn put_peer(&self, node: NodeId, address: &str) -> Result<(), StoreError> {
        let path = layout::peer(node);
        let put = || async {
            let payload = PutPayload::from(address.to_owned());
            let options = PutOptions { mode: PutMode::Overwrite, ..PutOptions::default() };
            add(&self.counters().puts, 1);
            match self
                .env()
                .timeout(Duration::from_secs(10), self.objects().put_opts(&path, payload, options))
                .await
            {
                Some(Ok(_)) => Ok(()),
                Some(Err(error)) => Err(Failure::Passing(error.to_string())),
                None => Err(Failure::Passing("no answer".into())),
            }
        };
        let done = self.patiently(put).await;
        done.map(|_| ())
            .map_err(|reason| StoreError::Failed { what: "publish a peer address".into(), reason })
    }

    /// The peer addresses that nodes have published.
    pub async fn peers(&self) -> Result<Vec<(NodeId, String)>, StoreError> {
        let failed = |reason| StoreError::Failed { what: "read the peer addresses".into(), reason };
        let listed = self.patiently(|| self.list_once(layout::peers())).await.map_err(failed)?;
        let mut peers = Vec::new();
        for path in listed.unwrap_or_default() {
            let Some(node) = layout::parse_peer(&path) else { continue };
            let found = self.patiently(|| self.get_once(&path, None)).await.map_err(failed)?;
            if let Some(Ok(address)) = found.map(|bytes| String::from_utf8(bytes.to_vec())) {
                peers.push((node, address));
            }
        }
        peers.sort();
        Ok(peers)
    }

    /// Gets the log of a session ready, before the session is registered, and says in which form it
    /// will be: that is what `Register` must carry. Append files need a folder of this machine alone,
    /// which is made here, once; elsewhere (and if `wanted` says so) the log is objects. The log must be
    /// started through this very store or a clone of it.
    pub async fn prepare_log(&self, session: Session, wanted: WalForm) -> Result<WalForm, StoreError> {
        let Some(path) = self.file_path(&layout::log_folder(session)) else { return Ok(WalForm::Objects) };
        if wanted == WalForm::Objects {
            return Ok(WalForm::Objects);
        }
        let (disk, root) = (self.env().disk.clone(), self.file_path(&Path::default()));
        let to = path.clone();
        let make = move || match root.map(|root| disk.is_local(&root)) {
            Some(Ok(true)) => disk.make_folder(&to).map(Some),
            Some(Err(error)) => Err(error),
            _ => Ok(None),
        };
        let made = tokio::task::spawn_blocking(make).await.map_err(io::Error::other).flatten();
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Taken { folder: path.display().to_string() },
            _ => {
                let what = format!("make {}", path.display());
                StoreError::Failed { what, reason: error.to_string() }
            }
        };
        let Some(folder) = made.map_err(failed)? else { return Ok(WalForm::Objects) };
        self.inner.prepared.lock().insert(session, Some((folder, path)));
        Ok(WalForm::Files)
    }

    /// The folder that was made for the session's log, if one was. It is given out once.
    pub(crate) fn take_folder(&self, session: Session) -> Option<(Box<dyn Folder>, PathBuf)> {
        let mut prepared = self.inner.prepared.lock();
        let folder = prepared.get_mut(&session)?.take();
        Some(folder.expect("the log of a session is started once"))
    }

    /// Where a key is in the file system, if this store is a folder.
    pub(crate) fn file_path(&self, path: &Path) -> Option<PathBuf> {
        self.inner.files.as_ref().map(|files| files.path(path))
    }

    /// Everything below a prefix, all pages of it, one attempt.
    pub(crate) async fn list_once(&self, prefix: Path) -> Result<Vec<Path>, Failure> {
        add(&self.counters().lists, 1);
        let pages = self.objects().list(Some(&prefix)).map_ok(|meta| meta.location).try_collect::<Vec<_>>();
        match self.env().timeout(Duration::from_secs(60), pages).await {
            Some(Ok(mut paths)) => {
                // A page may come twice; a gateway may match prefixes by letters.
                paths.retain(|path| path.prefix_matches(&prefix));
                paths.sort();
                paths.dedup();
                Ok(paths)
            }
            Some(Err(error)) => Err(Failure::Passing(error.to_string())),
            None => Err(Failure::Passing(format!("no end to the listing of {prefix}"))),
        }
    }

    /// Everything below a prefix. Never to be believed where something may be missing from it.
    pub(crate) async fn list(&self, prefix: Path) -> Result<Vec<Path>, StoreError> {
        let listed = self.patiently(|| self.list_once(prefix.clone())).await;
        let failed = |reason| StoreError::Failed { what: format!("list {prefix}"), reason };
        listed.map(Option::unwrap_or_default).map_err(failed)
    }

    /// Flushes an object that exists, where flushing is ours to do.
    pub(crate) async fn flush(&self, path: &Path) -> Result<(), Failure> {
        let Some(files) = &self.inner.files else { return Ok(()) };
        files.flush(path).await.map_err(|error| Failure::Final(error.to_string()))
    }

    /// Deletes unfinished files in a folder of the store.
    pub(crate) async fn delete_unfinished(&self, folder: &Path) -> usize {
        match &self.inner.files {
            Some(files) => files.delete_unfinished(folder).await,
            None => 0,
        }
    }

    /// How long the store asked to be left alone.
    pub(crate) fn held(&self) -> Duration {
        self.inner.hold.remaining()
    }

    /// What kind of store it is.
    pub fn kind(&self) -> Kind {
        self.inner.kind
    }

    /// The surroundings.
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// What it was asked so far.
    pub fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// The object store below.
    pub fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.inner.objects
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.inner.objects)
    }
}

fn parse_cluster(text: &Bytes) -> Result<u128, StoreError> {
    let parsed =
        std::str::from_utf8(text).ok().and_then(|text| u128::from_str_radix(text.trim_end(), 16).ok());
    parsed.ok_or_else(|| StoreError::Damaged {
        object: "cluster".into(),
        reason: "not the id of a cluster".into(),
    })
}
