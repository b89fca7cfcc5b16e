//! The daemon of this machine: its paths, one user or all, and the local backend. [`serve`] blocks
//! until it is stopped by a signal or over the API; tasks keep running, and the next daemon adopts
//! them.

mod declare;
mod error;
mod lineage;
mod ready;
mod socket;

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_backends::driver::Backend;
use muster_backends::local::{LocalBackend, LocalConfig, VirtualGpus};
use muster_model::QueueTree;
use muster_model::unit::Span;
use muster_runtime::Runtime;
use muster_spec::QueueFile;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

pub use declare::{DaemonSettings, SettingsSource};
pub use error::{OlderState, ServeError};
pub use lineage::accept_older_state;

use self::socket::Socket;
use crate::auth::{DaemonMode, KernelPeers};
use crate::clock::{Clock, SystemClock};
use crate::embed::{Core, POLL_EVERY, Parts};
use crate::paths::{Paths, host_name};
use crate::store::{DirLock, SqliteStore};

/// Distance to the wall clock from which a time line that is ahead causes a warning.
const CLOCK_WARNING: Span = Span::from_secs(60);

/// Options of `muster serve`.
#[derive(Debug)]
pub struct ServeOptions {
    /// Paths of the daemon.
    pub paths: Paths,
    /// Users that it serves.
    pub mode: DaemonMode,
    /// GPUs to declare; `None` keeps the last declaration, and a count of 0 removes it.
    pub virtual_gpus: Option<VirtualGpus>,
    /// Queue file to set at start; `None` leaves the queues unchanged.
    pub queues_file: Option<PathBuf>,
    /// Settings that stay in force until the next `muster serve`.
    pub settings: SettingsSource,
    /// True to run beside the shared daemon of this machine, which allocates the same devices.
    pub beside_shared: bool,
    /// File descriptor that gets a byte once the socket accepts connections, and is then closed.
    pub ready: Option<OwnedFd>,
}

impl ServeOptions {
    /// Returns the defaults for a user's own daemon.
    #[must_use]
    pub fn personal(paths: Paths) -> Self {
        Self {
            paths,
            mode: DaemonMode::Personal,
            virtual_gpus: None,
            queues_file: None,
            settings: SettingsSource::Exactly(DaemonSettings::default()),
            beside_shared: false,
            ready: None,
        }
    }
}

/// Runs the daemon until it is stopped.
///
/// # Errors
/// When it cannot start; [`ServeError::hint`] has the next step.
pub fn serve(options: ServeOptions) -> Result<(), ServeError> {
    // 1. Paths, exclusively: the store locks the state, and the runtime directory is locked here.
    options.paths.prepare()?;
    let store = SqliteStore::open(&options.paths.state_dir)?;
    let _socket_lock = DirLock::acquire(&options.paths.runtime_dir)?;
    let queues = options.queues_file.as_deref().map(read_queues).transpose()?;

    // 2. State.
    let reader = store.reader()?;
    let revision = store.revision()?;
    let runtime = Runtime::open(store, QueueTree::single())?;
    let (runtime, epochs, lineage_warnings) = lineage::check_lineage(runtime, &options.paths)?;
    let declared = declare::settings(runtime.store(), &options.settings)?;
    let idle = runtime.engine().is_none_or(|engine| engine.counts().active == 0);
    let virtual_gpus = declare::virtual_gpus(runtime.store(), options.virtual_gpus.as_ref(), idle)?;
    let (node_name, mut warnings) = declare::node_name(runtime.store(), &host_name(), idle)?;
    warnings.extend(lineage_warnings);

    // 3. Machine.
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(ServeError::Runtime)?;
    let _context = threads.enter();
    let (reports_in, reports) = mpsc::unbounded_channel();
    let clock = SystemClock::anchored(runtime.last());
    let config = LocalConfig {
        state_dir: options.paths.state_dir.clone(),
        runtime_dir: options.paths.runtime_dir.clone(),
        epochs,
        supervisor: vec!["/proc/self/exe".into(), "__supervise".into()],
        virtual_gpus: virtual_gpus.clone(),
        node_name,
        system: options.mode == DaemonMode::System,
        limits: declared.limits(),
        booted: clock.booted(),
    };
    let backend: Arc<dyn Backend> = Arc::new(LocalBackend::new(config, reports_in)?);
    reject_second_owner(&options, virtual_gpus.is_some(), &*backend)?;
    warnings.extend(machine_warnings(&*backend, &clock));

    // 4. Inputs.
    let parts = Parts {
        runtime,
        reader,
        revision,
        backend,
        reports,
        clock: Arc::new(clock) as Arc<dyn Clock>,
        mode: options.mode,
        host: host_name(),
        state_dir: options.paths.state_dir.clone(),
        virtual_gpus: virtual_gpus.map_or(0, |declared| declared.count()),
        queues,
        queues_file: options.queues_file,
        socket: Some(options.paths.socket.clone()),
        default_time: declared.default_time,
        retention: declared.retention(),
        notice_program: vec!["/proc/self/exe".into(), "__notify".into()],
        poll_every: POLL_EVERY,
        warnings,
    };
    let core = Core::start(parts)?;
    let served = threads.block_on(listen(&core, &options.paths, options.mode, options.ready));
    let sound = core.shut_down();
    // The socket file may have been removed already.
    let _gone = fs::remove_file(&options.paths.socket);
    served?;
    if sound { Ok(()) } else { Err(ServeError::Defect) }
}

/// Rejects a daemon that would allocate the devices of the shared one a second time. A user's own
/// daemon beside the shared one needs virtual GPUs, or no GPUs and a directory that its user set.
fn reject_second_owner(
    options: &ServeOptions,
    has_virtual_gpus: bool,
    backend: &dyn Backend,
) -> Result<(), ServeError> {
    let is_second = options.mode == DaemonMode::Personal && Paths::shared_is_installed();
    let owns_none =
        backend.nodes().iter().all(|node| node.devices.is_empty()) && Paths::home_is_named();
    if is_second && !options.beside_shared && !has_virtual_gpus && !owns_none {
        return Err(ServeError::SharedInstalled);
    }
    Ok(())
}

async fn listen(
    core: &Core,
    paths: &Paths,
    mode: DaemonMode,
    ready: Option<OwnedFd>,
) -> Result<(), ServeError> {
    let failed = |source| ServeError::Socket { path: paths.socket.clone(), source };
    let (mut socket, listener) = Socket::bind(paths, mode).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Runtime)?;
    // A terminal that closes must not stop the daemon.
    let _hangup = signal(SignalKind::hangup()).map_err(ServeError::Runtime)?;
    tracing::info!(socket = %paths.socket.display(), mode = mode.word(), "listening");
    ready::notify(ready);
    let peers = Arc::new(KernelPeers);
    let mut listeners = vec![core.spawn_listener(listener, peers.clone())];
    let mut stopping = core.stopping();
    loop {
        tokio::select! {
            _ = stopping.wait_for(|is_stopping| *is_stopping) => break,
            _ = terminate.recv() => core.stop(),
            _ = interrupt.recv() => core.stop(),
            listener = socket.rebound() => listeners.push(core.spawn_listener(listener, peers.clone())),
        }
    }
    for listener in listeners {
        // A listener that panicked has logged it.
        let _panicked = listener.await;
    }
    tracing::info!("stopping; running tasks continue");
    Ok(())
}

fn read_queues(path: &Path) -> Result<QueueFile, ServeError> {
    let text = fs::read_to_string(path)
        .map_err(|source| ServeError::QueuesFile { path: path.to_owned(), source })?;
    muster_spec::parse_queue_file(&text, Some(&path.display().to_string()))
        .map_err(|diagnostics| ServeError::Queues(Box::new(diagnostics)))
}

fn machine_warnings(backend: &dyn Backend, clock: &SystemClock) -> Vec<String> {
    let mut warnings = Vec::new();
    if backend.nodes().iter().all(|node| node.devices.is_empty()) {
        warnings.push(
            "no GPU was found; jobs that request one are rejected. declare virtual ones with --virtual-gpus N"
                .to_owned(),
        );
    }
    let ahead = clock.ahead_of_wall();
    if ahead > CLOCK_WARNING {
        warnings.push(format!(
            "the wall clock was set back: times shown here are {ahead} ahead of it, so that they never go back"
        ));
    }
    warnings
}
