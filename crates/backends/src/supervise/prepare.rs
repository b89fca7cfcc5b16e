//! Prepare: claim the task and make everything that it needs, up to a second stage that is on its
//! way.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::clock::{self, Alarm};
use super::control::Links;
use super::exec::{ExecPlan, OOM_FILE};
use super::finish;
use super::life::Deadlines;
use super::log::Log;
use super::output::Output;
use super::progress::Progress;
use super::ready::Readiness;
use super::sessions::Sessions;
use super::stage::Child;
use super::stay;
use super::supervisor::{Stage, Supervisor};
use super::terminal::Terminal;
use super::usage::Used;
use crate::process::ProcessKey;
use crate::record::{End, Ended, OrderRecord, RecordError, Sync, TaskDir};
use crate::wire::FromSupervisor;
use crate::{port, socket};

/// The kernel's out-of-memory killer should take anything before what records the end of a task;
/// below the -1000 that exempts a process altogether.
const OOM_SCORE_ADJ: &str = "-900";

/// Supervises the task in `first` until it is over and recorded, then those that the daemon hands
/// it one after the other.
pub(super) fn run(first: TaskDir) {
    close_inherited();
    let mut links = Links::default();
    if let Ok(born_with) = io::stdin().as_fd().try_clone_to_owned() {
        links.add(UnixStream::from(born_with), true);
    }
    if let Err(error) = detach() {
        return links.tell(&FromSupervisor::Refused {
            reason: format!("cannot detach a supervisor: {error}"),
        });
    }
    let mut next = Some(first);
    while let Some(dir) = next {
        next = match supervise(&dir, &mut links) {
            After::Stay => stay::next(&dir, &mut links),
            After::Leave => None,
        };
    }
}

/// Says what a supervisor does once its task is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It waits for another task, having said so.
    Stay,
    /// It ends.
    Leave,
}

/// Supervises one task until it is over and recorded.
fn supervise(dir: &TaskDir, links: &mut Links) -> After {
    let refusal = match begin(dir) {
        Ok(order) => match make(dir, &order, links) {
            Ok(supervisor) => {
                let (after, kept) = supervisor.serve();
                *links = kept;
                return after;
            }
            Err(reason) => {
                let _ = order.cgroup.kill_all(finish::KILL_PATIENCE);
                let _ = order.cgroup.remove();
                let _ = std::fs::remove_file(&order.socket);
                let _ = order.checkpoint_file.as_ref().map(std::fs::remove_file);
                let _ = dir.write_ended(&Ended::now(End::Refused(reason.clone())), Sync::Yes);
                FromSupervisor::Refused { reason }
            }
        },
        Err(RecordError::Claimed) => FromSupervisor::Claimed,
        Err(error) => FromSupervisor::Refused { reason: error.to_string() },
    };
    links.tell(&refusal);
    After::Leave
}

/// Closes what the daemon inherited from whoever started it (a shell's open files, a build tool's
/// pipes): the task must not have them. Called before this process opens anything of its own.
fn close_inherited() {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in open.into_iter().filter(|number| *number > 2) {
        // The directory that was just read is among them and closed already.
        let _ = nix::unistd::close(number);
    }
}

/// Leaves the daemon's session and directory, and adopts everything that a task orphans, so that it
/// can be found.
fn detach() -> io::Result<()> {
    // Only fails for a process group leader, which is detached enough.
    let _ = rustix::process::setsid();
    rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?;
    std::env::set_current_dir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Reads the order and claims the task.
fn begin(dir: &TaskDir) -> Result<OrderRecord, RecordError> {
    let failed = |source: io::Error| RecordError::Io { path: dir.path().to_owned(), source };
    let order = dir.order()?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    dir.claim(ProcessKey::of(std::process::id() as i32).map_err(failed)?)?;
    Ok(order)
}

/// Everything that Prepare means. The connections go to the supervisor if it comes to be.
fn make(dir: &TaskDir, order: &OrderRecord, links: &mut Links) -> Result<Supervisor, String> {
    let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
    if order.oom_score_adj.is_some() {
        // A sandboxed root may not; the task then is as likely to be taken as its supervisor.
        let _ = std::fs::write(OOM_FILE, OOM_SCORE_ADJ);
    }
    let rendezvous = order.hold_port.map(port::hold).transpose();
    let rendezvous = rendezvous.map_err(|error| failed("hold the rendezvous port", error))?;
    let own = order.service_port.map(|port| port::hold_again(port).map_err(|error| (port, error)));
    let own =
        own.transpose().map_err(|(port, error)| failed(&format!("hold port {port}"), error))?;
    let mut log = Log::create(dir, order.log_limit)
        .map_err(|error| format!("cannot make the log: {error}"))?;
    if let Some(file) = &order.files.output {
        let file = order.workdir.join(file);
        log.append(
            format!("muster: the output goes into {}, as the job asks\n", file.display())
                .as_bytes(),
        );
    }
    order.cgroup.create().map_err(|error| format!("cannot make the control group: {error}"))?;
    let listener = listen(&order.socket).map_err(|error| failed("listen", error))?;
    let owner = order.switch_user.then_some(&order.identity);
    let (terminal, output, far_end) = if order.terminal {
        let (terminal, far_end) =
            Terminal::open(owner, 24, 80).map_err(|error| failed("open a terminal", error))?;
        (Some(terminal), None, far_end)
    } else {
        let (output, far_end) =
            Output::open(owner).map_err(|error| failed("open a pipe", error))?;
        (None, Some(output), far_end)
    };
    let progress =
        Progress::open(order).map_err(|error| failed("make the pipe for checkpoints", error))?;
    let alarm = Alarm::new().map_err(|error| failed("make a timer", error))?;
    let child = Child::spawn(&exec_plan(order), far_end)
        .map_err(|error| failed("start stage two", error))?;
    Ok(Supervisor {
        dir: dir.clone(),
        order: order.clone(),
        links: std::mem::take(links),
        listener,
        log,
        output,
        child,
        terminal,
        sessions: Sessions::default(),
        progress,
        stage: Stage::Preparing,
        ending: None,
        end: None,
        held_ports: [rendezvous, own].into_iter().flatten().collect(),
        activity: None,
        readiness: order.service_port.map(Readiness::new),
        alarm,
        deadlines: Deadlines::new(),
        used: Used::default(),
        begun: clock::now(),
        started: None,
        go_asked: false,
    })
}

/// Listens at the socket's path.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    let listener = socket::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// What stage two is told of the order.
pub(super) fn exec_plan(order: &OrderRecord) -> ExecPlan {
    ExecPlan {
        command: order.command.clone(),
        env: order.env.clone(),
        workdir: order.workdir.clone(),
        files: order.files.clone(),
        umask: order.umask,
        identity: order.switch_user.then(|| order.identity.clone()),
        cgroup: order.cgroup.clone(),
        oom_score_adj: order.oom_score_adj,
        open_files: order.open_files,
        terminal: order.terminal,
    }
}
