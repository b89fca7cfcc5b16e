//! Launches a task: writes its order to disk and gives it a supervisor, either an idle one or a new
//! process.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use crate::order::{GangOrder, TaskOrder};
use muster_model::output::{self, OutputPlace};
use muster_model::{OutputFiles, Rank, Span};

use super::state::Shared;
use crate::cgroup::CgroupLimits;
use crate::env::{self, CHECKPOINT_VARIABLE, REPORT_VARIABLE, Rendezvous};
use crate::process;
use crate::record::{IdleOrder, OrderRecord, RecordError, TaskDir, VERSION};
use crate::socket;
use crate::supervise::RELISTEN_TIME;
use crate::wire::{self, Hello};

/// Rendezvous address of a gang on one machine.
const MASTER_ADDR: &str = "127.0.0.1";
/// Timeout for connecting to a live supervisor: it recreates a deleted socket within
/// [`RELISTEN_TIME`].
const CONNECT_TIMEOUT: Duration = RELISTEN_TIME.saturating_add(Duration::from_secs(15));

/// Time that a prepared task waits for Go while no daemon is connected: long enough for a restart
/// or an upgrade, short enough that no task waits for ever. A daemon that comes back later starts
/// the task again, as after any failed start.
const GO_TIMEOUT: Span = Span::from_secs(600);

/// Result of a launch.
pub(super) enum Launched {
    /// A supervisor was started; this is its first connection.
    New(UnixStream),
    /// The task was assigned to an idle supervisor; this is its connection.
    Reused(UnixStream),
    /// The task has been claimed before: nothing was started.
    Claimed,
}

/// Writes the order and gives the task a supervisor: an idle one if `may_reuse` and there is one,
/// else a new process. Blocks; must be called within the runtime's context.
pub(super) fn launch(
    shared: &Shared,
    order: &GangOrder,
    task: &TaskOrder,
    ports: &[u16],
    may_reuse: bool,
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
    if may_reuse && let Some(stream) = shared.state().idle.assign(dir.path()) {
        return Ok(Launched::Reused(stream));
    }
    spawn(shared, &dir)
        .map(Launched::New)
        .map_err(|error| format!("cannot start a supervisor: {error}"))
}

/// Returns the ports that an earlier, interrupted Prepare of the same attempt has recorded.
pub(super) fn earlier_ports(shared: &Shared, order: &GangOrder) -> Option<Vec<u16>> {
    let ranks = crate::record::ranks(&shared.jobs_of(order.id.element.job), order.id);
    ranks
        .into_iter()
        .find_map(|rank: Rank| shared.dir(order.id, rank).order().ok().flatten())
        .map(|order| order.ports)
}

/// Connects to the supervisor that claimed the task; retries while it is alive and the task not
/// over.
pub(super) fn connect(
    shared: &Shared,
    dir: &TaskDir,
    socket: &std::path::Path,
) -> Option<UnixStream> {
    let mut connected = None;
    let _ = process::poll_until(CONNECT_TIMEOUT, || {
        if let Ok(stream) = socket::connect(socket)
            && std::io::Write::write_all(&mut &stream, &wire::line(&Hello::Control)).is_ok()
        {
            connected = Some(stream);
            return true;
        }
        // Stop when the task is over or its supervisor is dead; the record then has the result.
        let is_alive = matches!(dir.claimed(), Ok(Some(claim)) if claim.supervisor.is_alive());
        !is_alive || matches!(dir.exit(), Ok(Some(_))) || shared.reports.is_closed()
    });
    connected
}

fn record(shared: &Shared, order: &GangOrder, task: &TaskOrder, ports: &[u16]) -> OrderRecord {
    let (group, within) = env::place_in_group(order, task);
    let tag = shared.tag(order.id, task.rank);
    let rendezvous = Rendezvous { address: MASTER_ADDR.to_owned(), ports: ports.to_vec() };
    let name = shared.group_name(order.id, task.rank);
    let checkpoint_file = shared.checkpoint_file(order.id, task.rank);
    let mut env = env::task_env(order, task, &rendezvous, &tag);
    env.insert(CHECKPOINT_VARIABLE.to_owned(), checkpoint_file.to_string_lossy().into_owned());
    let metric = order.metric.clone().filter(|_| task.rank == Rank(0));
    let writes = metric.as_ref().is_some_and(|metric| metric.pattern.is_none());
    let report_file = writes.then(|| shared.report_file(order.id, task.rank));
    let path = report_file.as_ref().map(|path| path.to_string_lossy().into_owned());
    env.extend(path.map(|path| (REPORT_VARIABLE.to_owned(), path)));
    let limits = CgroupLimits { cpus: task.cpus, memory: task.memory, processes: shared.processes };
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
        environment: order.environment.clone(),
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
        closed_device_files: shared.device_files.closed_to(task.devices),
        log_limit: shared.config.limits.log,
        socket: shared.socket(order.id, task.rank),
        checkpoint_file: Some(checkpoint_file),
        metric,
        report_file,
        service_port: order
            .replica
            .filter(|_| task.rank == Rank(0))
            .and_then(|replica| replica.port),
        starts_at_once: order.starts_at_once,
        go_timeout: Some(GO_TIMEOUT),
        idle: order.idle.map(|after| IdleOrder { after, gpus: env::nvidia_uuids(task) }),
    }
}

/// Returns the output files of a task, as its user named them, with placeholders replaced.
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
    let mut arguments = shared.config.supervisor.iter();
    let program = arguments.next().ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .arg(dir.path())
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(false)
        .spawn()?;
    // Only reaps the supervisor; the task's actor notices its end on the connection.
    shared.runtime.spawn(async move { child.wait().await });
    Ok(ours)
}
