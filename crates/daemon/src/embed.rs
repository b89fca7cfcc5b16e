//! A daemon without its surroundings: store, backend and clock are given, sockets are added one by
//! one. [`crate::serve`] is built on it; tests use it to put other parts in.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use axum::Router;
use muster_backends::driver::{Backend, Report};
use muster_model::QueueTree;
use muster_model::unit::{Span, Time};
use muster_runtime::{Runtime, StoreError};
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::auth::{Mode, Peers};
use crate::clock::Clock;
use crate::dispatch::{Dispatcher, Handle, Published, SiteFacts};
use crate::listen;
use crate::rest::{self, About, App};
use crate::store::{Reader, Retention, StateStore};

/// What a daemon is made of.
pub struct Parts<S> {
    /// State, loaded.
    pub runtime: Runtime<S>,
    /// Reads of history and accounting in the same file.
    pub reader: Reader,
    /// Number of the last record; the revision that clients see counts on from it.
    pub revision: u64,
    /// Carries out.
    pub backend: Arc<dyn Backend>,
    /// What the backend sees.
    pub reports: mpsc::UnboundedReceiver<Report>,
    /// The time line.
    pub clock: Arc<dyn Clock>,
    /// Whom it serves.
    pub mode: Mode,
    /// Shown to users.
    pub host: String,
    /// Shown to users.
    pub state_dir: PathBuf,
    /// Shown to users; 0 when GPUs were found rather than declared.
    pub virtual_gpus: u32,
    /// Queues to set at start; `None` leaves them as they are.
    pub queues: Option<QueueTree>,
    /// The file they are from.
    pub queues_file: Option<PathBuf>,
    /// Time limit of jobs that name none, where the queues name none either.
    pub default_time: Option<Span>,
    /// How long what has ended is kept.
    pub retention: Retention,
    /// What users should be told.
    pub warnings: Vec<String>,
}

/// A running daemon.
pub struct Core {
    handle: Handle,
    router: Router,
    mode: Mode,
    stop: watch::Sender<bool>,
    dispatcher: thread::JoinHandle<()>,
}

impl Core {
    /// Hands the durable state to the backend and begins to take inputs. Must be called within a
    /// multi-threaded tokio runtime that outlives it.
    ///
    /// # Errors
    /// When the store fails.
    pub fn start<S: StateStore>(parts: Parts<S>) -> Result<Self, StoreError> {
        let (inputs, queue) = mpsc::unbounded_channel();
        let handle = Handle::new(inputs);
        let (stop, _) = watch::channel(false);
        let (site, site_seen) =
            watch::channel(Arc::new(SiteFacts { nodes: Vec::new(), queues: QueueTree::single() }));
        let (revision, revision_seen) = watch::channel(parts.revision);
        let about = About {
            mode: parts.mode,
            host: parts.host,
            state_dir: parts.state_dir,
            virtual_gpus: parts.virtual_gpus,
            queues_file: parts.queues_file,
            started: parts.clock.now(),
        };
        let app = App {
            handle: handle.clone(),
            reader: parts.reader.clone(),
            site: site_seen,
            revision: revision_seen,
            clock: parts.clock.clone(),
            backend: parts.backend.clone(),
            about: Arc::new(about),
            stop: stop.clone(),
            snapshots: Arc::new(Semaphore::new(1)),
        };
        let mut dispatcher = Dispatcher {
            runtime: parts.runtime,
            backend: parts.backend,
            clock: parts.clock,
            reader: parts.reader,
            inputs: queue,
            reports: parts.reports,
            published: Published { site, revision },
            payloads: Default::default(),
            default_time: parts.default_time,
            retention: parts.retention,
            pending: Vec::new(),
            foreign: Default::default(),
            trouble: None,
            defects: Vec::new(),
            warnings: parts.warnings,
            pruned: Time(0),
            latest: Time(0),
        };
        dispatcher.boot(parts.queues)?;

        // A thread of its own: a durable write blocks it, and nobody else.
        let runtime = tokio::runtime::Handle::current();
        let ended = stop.clone();
        let run = move || {
            // Whatever ends it, a defect included, ends the daemon: the state on disk is sound.
            let _ends = EndsDaemon(ended);
            runtime.block_on(dispatcher.run());
        };
        let dispatcher = thread::Builder::new()
            .name("dispatch".to_owned())
            .spawn(run)
            .map_err(|error| StoreError::Io(error.to_string()))?;
        Ok(Self { handle, router: rest::router(app), mode: parts.mode, stop, dispatcher })
    }

    /// Serves a socket until the daemon is told to stop. `peers` says who is at the other end.
    pub async fn listen(&self, listener: UnixListener, peers: Arc<dyn Peers>) {
        listen::serve(listener, self.router.clone(), self.mode, peers, self.stop.subscribe()).await;
    }

    /// Serves a socket in a task of its own.
    pub fn spawn_listener(
        &self,
        listener: UnixListener,
        peers: Arc<dyn Peers>,
    ) -> tokio::task::JoinHandle<()> {
        tokio::spawn(listen::serve(
            listener,
            self.router.clone(),
            self.mode,
            peers,
            self.stop.subscribe(),
        ))
    }

    /// Makes the dispatcher look at its clock: a clock that jumps wakes nobody by itself.
    pub fn wake(&self) {
        self.handle.wake();
    }

    /// Tells everything to stop; what is queued is still carried out.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Turns true when the daemon is told to stop.
    #[must_use]
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Ends the dispatcher and waits for it. False when a defect ended it before.
    #[must_use]
    pub fn shut_down(self) -> bool {
        self.stop();
        self.handle.stop();
        self.dispatcher.join().is_ok()
    }
}

/// Tells the daemon to stop when it is dropped.
struct EndsDaemon(watch::Sender<bool>);

impl Drop for EndsDaemon {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}
