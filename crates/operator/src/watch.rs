//! Lists all objects of a kind, then follows their changes, for ever: survives lost connections,
//! versions that are too old (410), and an API server that is down. An object that was replaced by another of
//! the same name is first reported as gone, also if it was replaced while the watch was interrupted.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use kube::Client;
use kube::core::WatchEvent;
use muster_kubernetes::object::{Metadata, ObjectKey};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::address::get;
use crate::error::{code, message};

/// Objects per page of a list, as client-go asks for.
const PAGE: usize = 500;
/// Time after which the API server ends a watch.
const WATCH_SECS: u64 = 290;
/// Silence after which a connection counts as dead: the server sends a bookmark each minute.
const SILENCE: Duration = Duration::from_secs(150);
/// Shortest and longest pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Change of the objects of a kind.
#[derive(Debug)]
pub(crate) enum Change<T> {
    /// An object exists, as described.
    Present(Box<T>),
    /// An object is gone.
    Gone(ObjectKey),
    /// All objects that existed at the start have been reported. Sent once.
    Listed,
    /// The objects could not be listed, and that is not tried again.
    Failed(kube::Error),
}

/// Kind of object that can be followed.
pub(crate) trait Watched: Clone + DeserializeOwned + Send + 'static {
    /// Returns the metadata of the object.
    fn metadata(&self) -> &Metadata;
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    r#continue: Option<String>,
}

/// Reason for which a watch ended.
enum WatchEnd {
    /// The server ended it in good order; it goes on from the last version.
    TimedOut,
    /// No answer, or an error; it may go on after a pause.
    Failed,
    /// The version is too old: everything must be listed again.
    TooOld,
    /// Reports are no longer wanted.
    Stopped,
}

/// Follows the objects at a path until `report` returns false.
pub(crate) async fn follow<T: Watched>(
    client: Client,
    path: String,
    report: impl FnMut(Change<T>) -> bool,
) {
    let mut follower = Follower {
        client,
        path,
        report,
        known: BTreeMap::new(),
        is_listed: false,
        pause: FIRST_PAUSE,
    };
    loop {
        let Some(mut version) = follower.relist::<T>().await else { return };
        loop {
            match follower.watch::<T>(&mut version).await {
                WatchEnd::TimedOut => follower.pause = FIRST_PAUSE,
                WatchEnd::Failed => follower.rest().await,
                WatchEnd::TooOld => break,
                WatchEnd::Stopped => return,
            }
        }
    }
}

/// Reports the objects at a path as they are now, once.
pub(crate) async fn list_once<T: Watched>(
    client: Client,
    path: String,
    mut report: impl FnMut(Change<T>) -> bool,
) {
    // In one answer, which costs the server half as much as pages: a user waits for it.
    match list::<T>(&client, &path, None).await {
        Ok((objects, _)) => {
            let present = objects.into_iter().map(|object| Change::Present(Box::new(object)));
            present.chain([Change::Listed]).all(report);
        }
        Err(error) => drop(report(Change::Failed(error))),
    }
}

struct Follower<R> {
    client: Client,
    path: String,
    report: R,
    /// Objects that were reported, with their ids.
    known: BTreeMap<ObjectKey, Arc<str>>,
    is_listed: bool,
    pause: Duration,
}

impl<R> Follower<R> {
    async fn rest(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Lists everything, and reports it; objects that are not in the list are gone. Returns the
    /// version of the list, or `None` when reports are no longer wanted.
    async fn relist<T: Watched>(&mut self) -> Option<String>
    where
        R: FnMut(Change<T>) -> bool,
    {
        loop {
            let error = match list::<T>(&self.client, &self.path, Some(PAGE)).await {
                Ok((objects, version)) => {
                    let listed: BTreeMap<ObjectKey, Arc<str>> = objects
                        .iter()
                        .map(|object| (object.metadata().key(), Arc::clone(&object.metadata().uid)))
                        .collect();
                    let gone = self.known.iter().filter(|(key, uid)| listed.get(*key) != Some(uid));
                    let gone = gone.map(|(key, _)| Change::Gone(key.clone()));
                    let present =
                        objects.into_iter().map(|object| Change::Present(Box::new(object)));
                    let end = (!self.is_listed).then_some(Change::Listed);
                    if !gone.chain(present).chain(end).all(&mut self.report) {
                        return None;
                    }
                    self.is_listed = true;
                    self.known = listed;
                    self.pause = FIRST_PAUSE;
                    return Some(version);
                }
                Err(error) => error,
            };
            tracing::warn!("cannot list {}: {}", self.path, message(&error));
            // A kind that may not be read, or is not served, must not hold up the others.
            if !self.is_listed && matches!(code(&error), Some(403 | 404)) {
                self.is_listed = true;
                if !(self.report)(Change::Listed) {
                    return None;
                }
            }
            self.rest().await;
        }
    }

    /// Reports changes from a version on, which it moves.
    async fn watch<T: Watched>(&mut self, version: &mut String) -> WatchEnd
    where
        R: FnMut(Change<T>) -> bool,
    {
        let address = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECS}&resourceVersion={version}",
            self.path
        );
        let stream = match self.client.request_events::<T>(get(&address)).await {
            Ok(stream) => stream,
            Err(error) => return self.end_of(&error),
        };
        let mut stream = pin!(stream);
        loop {
            let event = match tokio::time::timeout(SILENCE, stream.try_next()).await {
                Ok(Ok(Some(event))) => event,
                Ok(Ok(None)) => return WatchEnd::TimedOut,
                Ok(Err(error)) => return self.end_of(&error),
                Err(_) => return WatchEnd::Failed,
            };
            let change = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    version.clone_from(&object.metadata().resource_version);
                    self.known.insert(object.metadata().key(), Arc::clone(&object.metadata().uid));
                    Change::Present(Box::new(object))
                }
                WatchEvent::Deleted(object) => {
                    version.clone_from(&object.metadata().resource_version);
                    let key = object.metadata().key();
                    self.known.remove(&key);
                    Change::Gone(key)
                }
                WatchEvent::Bookmark(bookmark) => {
                    *version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => return self.end_of(&kube::Error::Api(status)),
            };
            if !(self.report)(change) {
                return WatchEnd::Stopped;
            }
        }
    }

    fn end_of(&self, error: &kube::Error) -> WatchEnd {
        if code(error) == Some(410) {
            return WatchEnd::TooOld;
        }
        tracing::warn!("cannot watch {}: {}", self.path, message(error));
        // Where the kind is no longer served, the list says so, and what it had is gone.
        if code(error) == Some(404) { WatchEnd::TooOld } else { WatchEnd::Failed }
    }
}

/// Returns all objects at a path, and the version of the list; in pages of this size, or at once.
async fn list<T: Watched>(
    client: &Client,
    path: &str,
    page: Option<usize>,
) -> Result<(Vec<T>, String), kube::Error> {
    let limit = page.map_or(String::new(), |page| format!("?limit={page}"));
    let mut objects = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let rest = token.as_deref().map_or(String::new(), |token| format!("&continue={token}"));
        let page: Page<T> = client.request(get(&format!("{path}{limit}{rest}"))).await?;
        objects.extend(page.items.unwrap_or_default());
        token = page.metadata.r#continue.filter(|token| !token.is_empty());
        if token.is_none() {
            return Ok((objects, page.metadata.resource_version));
        }
    }
}

#[cfg(test)]
mod tests;
