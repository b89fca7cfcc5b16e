//! Embeddable daemon: store, backend and clock are given, and sockets are added one by one.
//! [`crate::serve`] is built on it; tests replace parts of it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
use muster_backends::driver::{Backend, Report};
use muster_model::QueueTree;
use muster_model::unit::{Span, Time};
use muster_model::view::DaemonCounters;
use muster_runtime::{Runtime, StoreError};
use muster_spec::QueueFile;
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::auth::{DaemonMode, Peers};
use crate::clock::Clock;
use crate::dispatch::{Dispatcher, Handle, Published, SiteFacts};
use crate::listen;
use crate::notices;
use crate::rest::{self, About, ApiState, GpuLoads};
use crate::store::{HistoryReader, Retention, StateStore};

/// Time between two polls of loads and times in service; see [`Parts::poll_every`].
pub const POLL_EVERY: Duration = Duration::from_secs(20);

/// Parts that a daemon is made of.
pub struct Parts<S> {
    /// Runtime with its state loaded.
    pub runtime: Runtime<S>,
    /// Reader of history and accounting in the same file.
    pub reader: HistoryReader,
    /// Number of the last journal record; the revision that clients see counts on from it.
    pub revision: u64,
    /// Backend that runs the tasks.
    pub backend: Arc<dyn Backend>,
    /// Reports of the backend.
    pub reports: mpsc::UnboundedReceiver<Report>,
    /// Clock of the daemon.
    pub clock: Arc<dyn Clock>,
    /// Users that it serves.
    pub mode: DaemonMode,
    /// Host name that is shown to users.
    pub host: String,
    /// State directory that is shown to users.
    pub state_dir: PathBuf,
    /// Number of declared GPUs that is shown to users; 0 when GPUs were detected.
    pub virtual_gpus: u32,
    /// Queues to set at start; `None` leaves them unchanged.
    pub queues: Option<QueueFile>,
    /// Socket that its clients use; `None` for one that is embedded elsewhere.
    pub socket: Option<PathBuf>,
    /// File that the queues come from.
    pub queues_file: Option<PathBuf>,
    /// Time limit of jobs that set none, where the queues set none either; `None` means no time
    /// limit.
    pub default_time: Option<Span>,
    /// Retention times of ended jobs.
    pub retention: Retention,
    /// Program with its arguments that sends one notice, which it gets on standard input; empty when none are sent.
    pub notice_program: Vec<OsString>,
    /// Time between two polls of loads and times; notices about them come at most this late.
    pub poll_every: Duration,
    /// Warnings that users should see.
    pub warnings: Vec<String>,
}

/// Daemon that runs in this process.
pub struct Core {
    handle: Handle,
    router: Router,
    mode: DaemonMode,
    stop: watch::Sender<bool>,
    dispatcher: thread::JoinHandle<()>,
}

impl Core {
    /// Passes the durable state to the backend and starts to process inputs. Must be called within
    /// a multi-threaded tokio runtime that outlives it.
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
            socket: parts.socket,
            started: parts.clock.now(),
        };
        let app = ApiState {
            handle: handle.clone(),
            reader: parts.reader.clone(),
            site: site_seen,
            revision: revision_seen,
            clock: parts.clock.clone(),
            backend: parts.backend.clone(),
            about: Arc::new(about),
            stop: stop.clone(),
            loads: Arc::new(GpuLoads::new(parts.backend.clone())),
            idle: Arc::default(),
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
            comparisons: Default::default(),
            default_time: parts.default_time,
            retention: parts.retention,
            pending: Vec::new(),
            foreign: Default::default(),
            store_failure: None,
            violations: Vec::new(),
            warnings: parts.warnings,
            counters: DaemonCounters::default(),
            pruned: Time(0),
            latest: Time(0),
        };
        dispatcher.boot(parts.queues)?;

        notices::spawn(&app, parts.notice_program, parts.poll_every);

        // A thread of its own, since durable writes block it.
        let runtime = tokio::runtime::Handle::current();
        let ended = stop.clone();
        let run = move || {
            // Its end, even by a panic, ends the daemon: the state on disk stays consistent.
            let _ends = EndsDaemon(ended);
            runtime.block_on(dispatcher.run());
        };
        let dispatcher = thread::Builder::new()
            .name("dispatch".to_owned())
            .spawn(run)
            .map_err(|error| StoreError::Io(error.to_string()))?;
        Ok(Self { handle, router: rest::router(app), mode: parts.mode, stop, dispatcher })
    }

    /// Serves a socket until the daemon is stopped. `peers` identifies the clients.
    pub async fn listen(&self, listener: UnixListener, peers: Arc<dyn Peers>) {
        listen::serve(listener, self.router.clone(), self.mode, peers, self.stop.subscribe()).await;
    }

    /// Serves a socket in its own task.
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

    /// Makes the dispatcher read its clock: a clock that jumps triggers nothing by itself.
    pub fn wake(&self) {
        self.handle.wake();
    }

    /// Stops all parts; queued inputs are still processed.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Returns a receiver that becomes true when the daemon is stopped.
    #[must_use]
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Stops the dispatcher and waits for it. Returns false when it had panicked.
    #[must_use]
    pub fn shut_down(self) -> bool {
        self.stop();
        self.handle.stop();
        self.dispatcher.join().is_ok()
    }
}

/// Stops the daemon when it is dropped.
struct EndsDaemon(watch::Sender<bool>);

impl Drop for EndsDaemon {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}
