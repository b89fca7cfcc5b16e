//! Prepare: claims the task and creates everything that it needs, up to a started stage two.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::checkpoints::Checkpoints;
use super::clock::{self, Alarm};
use super::control::ControlConnections;
use super::deadlines::Deadlines;
use super::exec::{ExecPlan, OOM_FILE};
use super::finish;
use super::log::Log;
use super::metric::Reports;
use super::output::OutputPipe;
use super::ready::Readiness;
use super::reuse;
use super::sessions::Sessions;
use super::stage::Child;
use super::supervisor::{LaunchStage, NextAction, Supervisor, listen};
use super::terminal::Terminal;
use super::usage::ReapedUsage;
use crate::port;
use crate::process::ProcessKey;
use crate::record::{ExitRecord, OrderRecord, RecordError, Sync, TaskDir, TaskEnd};
use crate::wire::FromSupervisor;

/// `oom_score_adj` of supervisors: the out-of-memory killer should pick anything else first,
/// because the supervisor records the end of the task. Not -1000, which would exempt it altogether.
const OOM_SCORE_ADJ: &str = "-900";

/// Supervises the task in `first` until it is over and recorded, then, one after the other, those
/// that the daemon assigns to it.
pub(super) fn run(first: TaskDir) {
    close_inherited();
    let mut connections = ControlConnections::default();
    if let Ok(from_daemon) = io::stdin().as_fd().try_clone_to_owned() {
        connections.add(UnixStream::from(from_daemon), true);
    }
    let own = detach().and_then(|()| ProcessKey::of(std::process::id() as i32));
    let own = match own {
        Ok(own) => own,
        Err(error) => {
            let reason = format!("cannot detach a supervisor: {error}");
            return connections.broadcast([&FromSupervisor::Refused { reason }]);
        }
    };
    let mut next = Some(first);
    while let Some(dir) = next {
        next = match supervise(&dir, &own, &mut connections) {
            NextAction::AwaitTask => reuse::await_task(&dir, &mut connections),
            NextAction::Exit => None,
        };
    }
}

/// Supervises one task until it is over and recorded.
fn supervise(dir: &TaskDir, own: &ProcessKey, connections: &mut ControlConnections) -> NextAction {
    let refusal = match claim_order(dir, own) {
        Ok(order) => match set_up(dir, &order, connections) {
            Ok(supervisor) => {
                let (after, kept) = supervisor.serve();
                *connections = kept;
                return after;
            }
            Err(reason) => {
                let _ = order.cgroup.kill_all(finish::KILL_PATIENCE);
                let _ = order.cgroup.remove();
                let _ = std::fs::remove_file(&order.socket);
                let _ = order.checkpoint_file.as_ref().map(std::fs::remove_file);
                let _ = order.report_file.as_ref().map(std::fs::remove_file);
                let _ =
                    dir.write_exit(&ExitRecord::now(TaskEnd::Refused(reason.clone())), Sync::Yes);
                FromSupervisor::Refused { reason }
            }
        },
        Err(RecordError::Claimed) => FromSupervisor::Claimed,
        Err(error) => FromSupervisor::Refused { reason: error.to_string() },
    };
    connections.broadcast([&refusal]);
    NextAction::Exit
}

/// Closes files that the daemon inherited from its parent (a shell's open files, a build tool's
/// pipes): the task must not have them. Called before this process opens any file.
fn close_inherited() {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in open.into_iter().filter(|number| *number > 2) {
        // The list includes the directory stream just read, which is closed already.
        let _ = nix::unistd::close(number);
    }
}

/// Leaves the daemon's session and directory, and becomes the subreaper, so that orphans of the
/// task become its children.
fn detach() -> io::Result<()> {
    // Fails only for a process group leader, which is already detached from the daemon's session.
    let _ = rustix::process::setsid();
    rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?;
    std::env::set_current_dir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Reads the order and claims the task.
fn claim_order(dir: &TaskDir, own: &ProcessKey) -> Result<OrderRecord, RecordError> {
    let failed = |source: io::Error| RecordError::Io { path: dir.path().to_owned(), source };
    // Also when the directory is deleted, a daemon then sees which task this process runs.
    std::env::set_current_dir(dir.path()).map_err(failed)?;
    let order = dir.order()?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    dir.claim(own.clone())?;
    Ok(order)
}

/// Creates the task's ports, log, cgroups, socket, pipes and stage two. On success the supervisor
/// takes over the connections.
fn set_up(
    dir: &TaskDir,
    order: &OrderRecord,
    connections: &mut ControlConnections,
) -> Result<Supervisor, String> {
    let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
    if order.oom_score_adj.is_some() {
        // A sandboxed root may not do this; then the out-of-memory killer treats supervisor and
        // task alike.
        let _ = std::fs::write(OOM_FILE, OOM_SCORE_ADJ);
    }
    let rendezvous = order.hold_port.map(port::hold).transpose();
    let rendezvous = rendezvous.map_err(|error| failed("hold the rendezvous port", error))?;
    let own = order.service_port.map(|port| port::hold_again(port).map_err(|error| (port, error)));
    let own =
        own.transpose().map_err(|(port, error)| failed(&format!("hold port {port}"), error))?;
    let mut log = Log::create(dir, order.log_limit)
        .map_err(|error| format!("cannot create the log: {error}"))?;
    if let Some(file) = &order.files.output {
        let file = order.workdir.join(file);
        log.append(
            format!("muster: output is written to {}, as the job specifies\n", file.display())
                .as_bytes(),
        );
    }
    order.cgroup.create().map_err(|error| format!("cannot create the control group: {error}"))?;
    let listener = listen(&order.socket).map_err(|error| failed("listen", error))?;
    let owner = order.switch_user.then_some(&order.identity);
    let (terminal, output, far_end) = if order.terminal {
        let (terminal, far_end) =
            Terminal::open(owner, 24, 80).map_err(|error| failed("open a terminal", error))?;
        (Some(terminal), None, far_end)
    } else {
        let (output, far_end) =
            OutputPipe::open(owner).map_err(|error| failed("open a pipe", error))?;
        (None, Some(output), far_end)
    };
    let checkpoints =
        Checkpoints::open(order).map_err(|error| failed("create the checkpoint pipe", error))?;
    let reports = Reports::open(order).map_err(|error| failed("create the report pipe", error))?;
    let alarm = Alarm::new().map_err(|error| failed("make a timer", error))?;
    let child = Child::spawn(&ExecPlan::of(order), far_end)
        .map_err(|error| failed("start stage two", error))?;
    Ok(Supervisor {
        dir: dir.clone(),
        order: order.clone(),
        connections: std::mem::take(connections),
        listener,
        log,
        output,
        child,
        terminal,
        sessions: Sessions::default(),
        checkpoints,
        reports,
        stage: LaunchStage::Preparing,
        ending: None,
        end: None,
        held_ports: [rendezvous, own].into_iter().flatten().collect(),
        activity: None,
        readiness: order.service_port.map(Readiness::new),
        alarm,
        deadlines: Deadlines::new(),
        used: ReapedUsage::default(),
        begun: clock::now(),
        started: None,
        go_received: order.starts_at_once,
    })
}
