//! A folder as an object store whose creates are durable: file and name are flushed before a put is
//! answered, and a flush that failed is told from other errors.
//!
//! Everything but creating goes to `object_store`'s own local store.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use headwater_env::{Disk, is_flush_failure};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A folder on this machine.
pub(crate) struct LocalFiles {
    root: PathBuf,
    files: LocalFileSystem,
    disk: Arc<dyn Disk>,
}

/// A flush failed: what is on the medium is unknown, and asking again would not tell.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Unflushed(io::Error);

impl LocalFiles {
    /// Over an existing folder.
    pub(crate) fn new(root: &std::path::Path, disk: Arc<dyn Disk>) -> Result<LocalFiles> {
        let files = LocalFileSystem::new_with_prefix(root)?.with_fsync(true);
        Ok(LocalFiles { root: root.to_owned(), files, disk })
    }

    /// Where a key is; the folder itself for the empty one.
    pub(crate) fn path(&self, location: &Path) -> PathBuf {
        location.parts().fold(self.root.clone(), |path, part| path.join(part.as_ref()))
    }

    /// Flushes an object and its name once more.
    pub(crate) async fn flush(&self, location: &Path) -> Result<()> {
        let disk = self.disk.clone();
        let path = self.files.path_to_filesystem(location)?;
        let flushed = tokio::task::spawn_blocking(move || disk.flush(&path)).await?;
        flushed.map_err(|error| translate(location, error))
    }

    /// Deletes files whose names end in `#` and digits: what a killed process was writing.
    pub(crate) async fn delete_unfinished(&self, folder: &Path) -> usize {
        let disk = self.disk.clone();
        let folder = self.path(folder);
        let delete = move || {
            let names = disk.list(&folder).unwrap_or_default();
            let unfinished = names.iter().filter(|path| is_unfinished(path));
            unfinished.filter(|path| disk.remove(path).is_ok()).count()
        };
        tokio::task::spawn_blocking(delete).await.unwrap_or_default()
    }

    async fn create(&self, location: &Path, payload: PutPayload) -> Result<PutResult> {
        let disk = self.disk.clone();
        let path: PathBuf = self.files.path_to_filesystem(location)?;
        let parts: Vec<Bytes> = payload.iter().cloned().collect();
        let created = tokio::task::spawn_blocking(move || disk.create_new(&path, &parts)).await?;
        created.map_err(|error| translate(location, error))?;
        Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
    }
}

fn is_unfinished(path: &std::path::Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.rsplit_once('#').map_or("", |(_, number)| number);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn translate(location: &Path, error: io::Error) -> Error {
    let path = location.to_string();
    match error.kind() {
        _ if is_flush_failure(&error) => Error::Generic { store: "file", source: Box::new(Unflushed(error)) },
        io::ErrorKind::AlreadyExists => Error::AlreadyExists { path, source: error.into() },
        io::ErrorKind::NotFound => Error::NotFound { path, source: error.into() },
        io::ErrorKind::PermissionDenied => Error::PermissionDenied { path, source: error.into() },
        _ => Error::Generic { store: "file", source: error.into() },
    }
}

impl fmt::Debug for LocalFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

impl fmt::Display for LocalFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.files, f)
    }
}

#[async_trait]
impl ObjectStore for LocalFiles {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        match options.mode {
            PutMode::Create => self.create(location, payload).await,
            _ => self.files.put_opts(location, payload, options).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.files.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await
    }
}
