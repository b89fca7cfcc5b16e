//! The daemon on this machine: its places, its own user or all of them, the local backend. Blocks
//! until it is told to stop, by a signal or over its API; tasks keep running and are found again.

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
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

pub use declare::{Declared, Settings};
pub use error::ServeError;
pub use lineage::{Older, accept_older_state};

use self::socket::Socket;
use crate::auth::{KernelPeers, Mode};
use crate::clock::{Clock, SystemClock};
use crate::embed::{Core, Parts};
use crate::paths::{Paths, host_name};
use crate::store::{DirLock, SqliteStore};

/// A time line this far ahead of the wall clock is worth a word.
const CLOCK_WARNING: Span = Span::from_secs(60);

/// How to serve.
#[derive(Debug)]
pub struct ServeOptions {
    /// Places.
    pub paths: Paths,
    /// Whom.
    pub mode: Mode,
    /// GPUs to declare; `None` keeps what was declared before, and a count of 0 takes the
    /// declaration back.
    pub virtual_gpus: Option<VirtualGpus>,
    /// Queue file to set at start; `None` leaves the queues as they are.
    pub queues_file: Option<PathBuf>,
    /// What holds until the daemon is served otherwise.
    pub settings: Settings,
    /// Serve beside the shared daemon of this machine, which gives the same devices away.
    pub beside_shared: bool,
    /// Gets a byte once the socket takes connections, and is closed.
    pub ready: Option<OwnedFd>,
}

impl ServeOptions {
    /// The defaults for a user's own daemon.
    #[must_use]
    pub fn personal(paths: Paths) -> Self {
        Self {
            paths,
            mode: Mode::Personal,
            virtual_gpus: None,
            queues_file: None,
            settings: Settings::Exactly(Declared::default()),
            beside_shared: false,
            ready: None,
        }
    }
}

/// Runs the daemon until it is told to stop.
///
/// # Errors
/// When it cannot start; [`ServeError::hint`] says what to do.
pub fn serve(options: ServeOptions) -> Result<(), ServeError> {
    // 1. Places, and nobody else in them: the state is locked by its store, the socket here.
    options.paths.prepare()?;
    let store = SqliteStore::open(&options.paths.state_dir)?;
    let _socket_lock = DirLock::acquire(&options.paths.runtime_dir)?;
    let queues = options.queues_file.as_deref().map(read_queues).transpose()?;

    // 2. State.
    let reader = store.reader()?;
    let revision = store.revision()?;
    let runtime = Runtime::open(store, QueueTree::single())?;
    let (runtime, epochs, lineage_warnings) = lineage::settle(runtime, &options.paths)?;
    let declared = declare::settings(runtime.store(), &options.settings)?;
    let idle = runtime.engine().is_none_or(|engine| engine.counts().active == 0);
    let virtual_gpus = declare::virtual_gpus(runtime.store(), options.virtual_gpus.as_ref(), idle)?;
    let (node_name, mut warnings) = declare::node_name(runtime.store(), &host_name(), idle)?;
    warnings.extend(lineage_warnings);

    // 3. The machine.
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
        system: options.mode == Mode::System,
        limits: declared.limits(),
        booted: clock.booted(),
    };
    let backend: Arc<dyn Backend> = Arc::new(LocalBackend::new(config, reports_in)?);
    refuse_second_owner(&options, virtual_gpus.is_some(), &*backend)?;
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
        default_time: declared.default_time,
        retention: declared.retention(),
        warnings,
    };
    let core = Core::start(parts)?;
    let served = threads.block_on(listen(&core, &options.paths, options.mode, options.ready));
    let sound = core.shut_down();
    // Gone already is as good as removed.
    let _gone = fs::remove_file(&options.paths.socket);
    served?;
    if sound { Ok(()) } else { Err(ServeError::Defect) }
}

/// Two daemons that own the same devices would each give them away. A user's own daemon beside the
/// shared one therefore has virtual GPUs, or has none and a place that its user named.
fn refuse_second_owner(
    options: &ServeOptions,
    has_virtual_gpus: bool,
    backend: &dyn Backend,
) -> Result<(), ServeError> {
    let is_second = options.mode == Mode::Personal && Paths::shared_is_installed();
    let owns_none =
        backend.nodes().iter().all(|node| node.devices.is_empty()) && Paths::home_is_named();
    match is_second && !options.beside_shared && !has_virtual_gpus && !owns_none {
        true => Err(ServeError::SharedInstalled),
        false => Ok(()),
    }
}

async fn listen(
    core: &Core,
    paths: &Paths,
    mode: Mode,
    ready: Option<OwnedFd>,
) -> Result<(), ServeError> {
    let failed = |source| ServeError::Socket { path: paths.socket.clone(), source };
    let (mut socket, listener) = Socket::bind(paths, mode).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Runtime)?;
    // A terminal that closes is not a wish to stop.
    let _hangup = signal(SignalKind::hangup()).map_err(ServeError::Runtime)?;
    tracing::info!(socket = %paths.socket.display(), mode = mode.word(), "listening");
    ready::tell(ready);
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
        // One that panicked has said so.
        let _panicked = listener.await;
    }
    tracing::info!("stopping; running tasks go on");
    Ok(())
}

fn read_queues(path: &Path) -> Result<QueueTree, ServeError> {
    let text = fs::read_to_string(path)
        .map_err(|source| ServeError::QueuesFile { path: path.to_owned(), source })?;
    muster_spec::parse_queues(&text, Some(&path.display().to_string()))
        .map_err(|diagnostics| ServeError::Queues(Box::new(diagnostics)))
}

fn machine_warnings(backend: &dyn Backend, clock: &SystemClock) -> Vec<String> {
    let mut warnings = Vec::new();
    if backend.nodes().iter().all(|node| node.devices.is_empty()) {
        warnings.push(
            "no GPU was found; jobs that ask for one are refused. declare virtual ones with --virtual-gpus N"
                .to_owned(),
        );
    }
    let ahead = clock.ahead_of_wall();
    if ahead > CLOCK_WARNING {
        warnings.push(format!(
            "the wall clock was set back: times shown here run {ahead} ahead of it, so that they never go back"
        ));
    }
    warnings
}
