//! Launching a task: its order on disk, and a supervisor for it, one that waits for a task or a new
//! process.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use muster_model::launch::{GangOrder, TaskOrder};
use muster_model::output::{self, OutputPlace};
use muster_model::{OutputFiles, Rank, Span};

use super::state::Shared;
use crate::cgroup::Limits;
use crate::env::{self, CHECKPOINT_VARIABLE, Rendezvous};
use crate::process;
use crate::record::{IdleOrder, OrderRecord, RecordError, TaskDir, VERSION};
use crate::socket;
use crate::supervise::LISTEN_AGAIN;
use crate::wire::{self, Hello};

/// Where the ranks of a gang on one machine meet.
const MASTER_ADDR: &str = "127.0.0.1";
/// How long to try to reach a supervisor that is alive: it notices that its socket was removed, and
/// makes it anew, within [`LISTEN_AGAIN`].
const CONNECT_PATIENCE: Duration = LISTEN_AGAIN.saturating_add(Duration::from_secs(15));

/// How long a prepared task waits for a daemon that is gone. A daemon that comes back later starts
/// it again, as after any failed start: long enough for a restart or an upgrade, short enough that
/// nothing is left behind for ever.
const GATE_PATIENCE: Span = Span::from_secs(600);

/// What came of a launch.
pub(super) enum Launched {
    /// A supervisor was started; this is its first connection.
    New(UnixStream),
    /// A supervisor that had waited for a task was handed this one; this is its connection.
    Handed(UnixStream),
    /// The task has been claimed before: nothing was started.
    Claimed,
}

/// Writes the order and gives the task a supervisor, a new process unless `may_hand`. Blocking;
/// within the runtime's context.
pub(super) fn launch(
    shared: &Shared,
    order: &GangOrder,
    task: &TaskOrder,
    ports: &[u16],
    may_hand: bool,
) -> Result<Launched, String> {
    let text = |error: RecordError| format!("cannot record the order: {error}");
    let dir = shared.dir(order.id, task.rank);
    dir.create().map_err(text)?;
    if dir.claimed().map_err(text)?.is_some() {
        return Ok(Launched::Claimed);
    }
    if !matches!(dir.order(), Ok(Some(_))) {
        dir.write_order(&record(shared, order, task, ports)).map_err(text)?;
    }
    shared.live.add(order.id, task.rank, &dir).map_err(text)?;
    super::runtime_dirs(&shared.config).map_err(|error| error.to_string())?;
    if may_hand && let Some(stream) = shared.state().idle.hand(dir.path()) {
        return Ok(Launched::Handed(stream));
    }
    spawn(shared, &dir)
        .map(Launched::New)
        .map_err(|error| format!("cannot start a supervisor: {error}"))
}

/// Ports that an earlier, interrupted Prepare of the same attempt has given to some of its tasks.
pub(super) fn earlier_ports(shared: &Shared, order: &GangOrder) -> Option<Vec<u16>> {
    let ranks = crate::record::ranks(&shared.jobs_of(order.id.element.job), order.id);
    ranks
        .into_iter()
        .find_map(|rank: Rank| shared.dir(order.id, rank).order().ok().flatten())
        .map(|order| order.ports)
}

/// Connects to a supervisor that owns its task, waiting for it to listen while `is_alive`.
pub(super) fn connect(
    shared: &Shared,
    dir: &TaskDir,
    socket: &std::path::Path,
) -> Option<UnixStream> {
    let mut connected = None;
    let _ = process::until_empty(CONNECT_PATIENCE, || {
        if let Ok(stream) = socket::connect(socket)
            && std::io::Write::write_all(&mut &stream, &wire::line(&Hello::Control)).is_ok()
        {
            connected = Some(stream);
            return true;
        }
        // Over, or its supervisor is dead: the record tells.
        let is_alive = matches!(dir.claimed(), Ok(Some(claim)) if claim.supervisor.is_alive());
        !is_alive || matches!(dir.ended(), Ok(Some(_))) || shared.reports.is_closed()
    });
    connected
}

fn record(shared: &Shared, order: &GangOrder, task: &TaskOrder, ports: &[u16]) -> OrderRecord {
    let (group, within) = env::place_in_group(order, task);
    let tag = shared.tag(order.id, task.rank);
    let meet = Rendezvous { address: MASTER_ADDR.to_owned(), ports: ports.to_vec() };
    let name = shared.group_name(order.id, task.rank);
    let checkpoint_file = shared.checkpoint_file(order.id, task.rank);
    let mut env = env::task_env(order, task, &meet, &tag);
    env.insert(CHECKPOINT_VARIABLE.to_owned(), checkpoint_file.to_string_lossy().into_owned());
    let limits = Limits { cpus: task.cpus, memory: task.memory, processes: shared.processes };
    OrderRecord {
        version: VERSION,
        id: order.id,
        rank: task.rank,
        epoch: shared.epoch(order.id.element.job).cloned(),
        env,
        tag,
        command: task.command.clone(),
        workdir: order.workdir.clone(),
        files: files(order, task),
        umask: order.umask,
        identity: order.identity.clone(),
        switch_user: shared.config.system,
        terminal: order.interactive && task.rank == Rank(0),
        time_limit: order.time_limit,
        grace: order.grace,
        checkpoint: order.checkpoint,
        ports: ports.to_vec(),
        hold_port: (within == 0).then(|| ports.get(group).copied()).flatten(),
        cgroup: shared.hierarchies.plan(&name, limits),
        oom_score_adj: shared.oom_score_adj,
        open_files: shared.open_files,
        log_limit: shared.config.limits.log,
        socket: shared.socket(order.id, task.rank),
        checkpoint_file: Some(checkpoint_file),
        service_port: order
            .replica
            .filter(|_| task.rank == Rank(0))
            .and_then(|replica| replica.port),
        gate_patience: Some(GATE_PATIENCE),
        idle: order.idle.map(|after| IdleOrder { after, gpus: env::nvidia_uuids(task) }),
    }
}

/// The files that its user names for the output of a task.
fn files(order: &GangOrder, task: &TaskOrder) -> OutputFiles {
    let place = OutputPlace {
        job: order.id.element.job,
        index: order.array_index.or(order.replica.map(|replica| replica.index)),
        rank: task.rank,
        name: &order.job_name,
        user: order.identity.user.as_str(),
    };
    order.files.map(|pattern| output::expand(pattern, &place))
}

/// Starts the supervisor with one end of a socket pair as its standard input.
fn spawn(shared: &Shared, dir: &TaskDir) -> std::io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut words = shared.config.supervisor.iter();
    let program = words.next().ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut child = tokio::process::Command::new(program)
        .args(words)
        .arg(dir.path())
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(false)
        .spawn()?;
    // Only reaps it; its end is seen on the connection.
    shared.runtime.spawn(async move { child.wait().await });
    Ok(ours)
}
