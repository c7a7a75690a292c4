//! The ids of the requests that proposals come from: they go to the leader with the entry, so that one
//! id is found in the logs of every node that a request had to do with. For people only: an id is no
//! part of an entry and decides nothing.

use http::HeaderValue;
use std::fmt;
use std::future::Future;

tokio::task_local! {
    static REQUEST: HeaderValue;
}

/// Runs a future as part of the request with this id.
pub async fn as_request<F: Future>(id: HeaderValue, future: F) -> F::Output {
    REQUEST.scope(id, future).await
}

/// Takes the present request's id along into a task of its own.
pub fn in_request<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let id = current();
    async move {
        match id {
            Some(id) => as_request(id, future).await,
            None => future.await,
        }
    }
}

/// The id of the request that is being served.
pub(super) fn current() -> Option<HeaderValue> {
    REQUEST.try_with(HeaderValue::clone).ok()
}

/// Ids as they stand in a log line.
pub(super) struct Ids<'a>(pub &'a [String]);

impl fmt::Display for Ids<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// An id as text.
pub(super) fn text(id: &HeaderValue) -> Option<String> {
    id.to_str().ok().map(str::to_owned)
}
