//! The supervisor's loop: one thread that waits for the task, the daemon, terminals and deadlines.
//!
//! Life: claim → prepare → (Go) → released → running → ending → recorded. What must happen on the way out is in
//! [`super::finish`]; nothing here may leave a process of the task behind.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use super::clock::{self, Alarm};
use super::control::{Incoming, Links};
use super::exec::ExecPlan;
use super::finish::{self, Died};
use super::output::{Log, Output};
use super::sessions::Sessions;
use super::stage::{Child, Said};
use super::terminal::Terminal;
use crate::process::ProcessKey;
use crate::record::{End, OrderRecord, RecordError, TaskDir};
use crate::wire::{FromSupervisor, ToSupervisor};
use crate::{port, socket};
use muster_model::TaskExit;

/// Orphans of the task become the supervisor's children and are reaped at least this often.
const REAP_PAUSE_MAX: Duration = Duration::from_secs(30);
/// And at most this often while the task runs.
const REAP_PAUSE_MIN: Duration = Duration::from_secs(1);
/// How often to look whether everything is gone while the task is being ended.
const ENDING_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause between two rounds of killing.
const KILL_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time for what a task leaves behind after its main process ended by itself, between SIGTERM and SIGKILL;
/// the job's own grace when that is shorter.
const LEFTOVER_GRACE: Duration = Duration::from_secs(5);
/// A disk that is full may have room later: the exit is recorded before anybody is told.
const RECORD_RETRY: Duration = Duration::from_secs(1);

/// How far the task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Stage two is on its way.
    Preparing,
    /// Stage two waits at the gate.
    Prepared,
    /// It was let go and has not yet executed the user's program.
    Released,
    /// The user's program runs.
    Running,
}

/// Why the task is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The daemon asked.
    Stop,
    /// Its time is up.
    Limit,
    /// Its main process ended by itself and left others.
    Leftovers,
}

/// One task and everything around it.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) dir: TaskDir,
    pub(super) order: OrderRecord,
    pub(super) links: Links,
    pub(super) listener: UnixListener,
    pub(super) log: Log,
    pub(super) output: Option<Output>,
    pub(super) child: Child,
    pub(super) terminal: Option<Terminal>,
    pub(super) sessions: Sessions,
    pub(super) stage: Stage,
    pub(super) ending: Option<Why>,
    /// Decided when the main process ends; what happens later does not change it.
    pub(super) end: Option<End>,
    held_port: Option<OwnedFd>,
    alarm: Alarm,
    checkpoint_at: Option<Duration>,
    limit_at: Option<Duration>,
    kill_at: Option<Duration>,
    kill_pause: Duration,
    reap_at: Duration,
    reap_pause: Duration,
    go_asked: bool,
}

/// What is ready.
#[derive(Clone, Copy, Debug)]
enum Ready {
    Listener,
    Link(usize),
    Gate,
    Main,
    Alarm,
    Terminal,
    Output,
    Session(usize),
}

/// Supervises the task in `dir` until it is over and recorded.
pub(super) fn run(dir: TaskDir) {
    close_inherited();
    let mut links = Links::default();
    if let Ok(born_with) = io::stdin().as_fd().try_clone_to_owned() {
        links.add(UnixStream::from(born_with), true);
    }
    let refusal = match begin(&dir) {
        Ok(order) => match Supervisor::prepare(dir.clone(), order.clone(), links) {
            Ok(supervisor) => return supervisor.serve(),
            Err((reason, returned)) => {
                links = returned;
                let _ = order.cgroup.kill_all(finish::KILL_PATIENCE);
                let _ = order.cgroup.remove();
                let _ = std::fs::remove_file(&order.socket);
                let _ = dir.write_ended(End::Refused(reason.clone()));
                FromSupervisor::Refused { reason }
            }
        },
        Err(RecordError::Claimed) => FromSupervisor::Claimed,
        Err(error) => FromSupervisor::Refused { reason: error.to_string() },
    };
    links.tell(&refusal);
}

/// Closes what the daemon inherited from whoever started it (a shell's open files, a build tool's pipes): the
/// task must not have them. Called before this process opens anything of its own.
fn close_inherited() {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in open.into_iter().filter(|number| *number > 2) {
        // The directory that was just read is among them and closed already.
        let _ = nix::unistd::close(number);
    }
}

/// Detaches, reads the order and claims the task.
fn begin(dir: &TaskDir) -> Result<OrderRecord, RecordError> {
    let failed = |source: io::Error| RecordError::Io { path: dir.path().to_owned(), source };
    // Only fails for a process group leader, which is detached enough.
    let _ = rustix::process::setsid();
    let null = File::open("/dev/null").map_err(failed)?;
    rustix::stdio::dup2_stdin(&null).map_err(|error| failed(error.into()))?;
    std::env::set_current_dir("/").map_err(failed)?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // Everything that the task orphans becomes a child of this process and can be found.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| failed(error.into()))?;
    let order = dir.order()?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    dir.claim(ProcessKey::of(std::process::id() as i32).map_err(failed)?)?;
    Ok(order)
}

impl Supervisor {
    /// Everything that Prepare means, up to a stage two that is on its way. Failing gives the reason and the
    /// connections to tell it to.
    fn prepare(dir: TaskDir, order: OrderRecord, links: Links) -> Result<Self, (String, Links)> {
        match Parts::make(&dir, &order) {
            Ok(parts) => Ok(Self {
                sessions: Sessions::default(),
                stage: Stage::Preparing,
                ending: None,
                end: None,
                checkpoint_at: None,
                limit_at: None,
                kill_at: None,
                kill_pause: ENDING_PAUSE,
                reap_at: clock::now() + REAP_PAUSE_MIN,
                reap_pause: REAP_PAUSE_MIN,
                go_asked: false,
                listener: parts.listener,
                log: parts.log,
                output: parts.output,
                child: parts.child,
                terminal: parts.terminal,
                held_port: parts.held_port,
                alarm: parts.alarm,
                dir,
                order,
                links,
            }),
            Err(reason) => Err((reason, links)),
        }
    }

    fn serve(mut self) {
        loop {
            for ready in self.wait() {
                self.handle(ready);
            }
            self.links.sweep();
            self.sessions.sweep();
            self.on_deadlines(clock::now());
            let children = self.reap();
            if self.end.is_some() && !children && self.order.cgroup.processes().is_empty() {
                break;
            }
        }
        self.settle();
    }

    /// Waits until something is ready. Empty after an interruption.
    fn wait(&mut self) -> Vec<Ready> {
        let next = self.next_deadline();
        // The timer is the only source of deadlines; without it the loop would never end a task, so a
        // failure to set it (kernel memory) is retried by not waiting.
        let wait = if self.alarm.set(Some(next)).is_ok() { None } else { Some(&NO_WAIT) };
        let mut wanted: Vec<(Ready, PollFd<'_>)> = Vec::with_capacity(8);
        let mut want = |ready, fd, flags| wanted.push((ready, PollFd::from_borrowed_fd(fd, flags)));
        // Order matters: what stage two said is heard before its end is seen.
        if let Some(gate) = self.child.gate() {
            want(Ready::Gate, gate.as_fd(), PollFlags::IN);
        }
        if let Some((terminal, flags)) = self.terminal.as_ref().and_then(Terminal::wants) {
            want(Ready::Terminal, terminal, flags);
        }
        if let Some(output) = self.output.as_ref().and_then(Output::wants) {
            want(Ready::Output, output, PollFlags::IN);
        }
        if self.end.is_none() {
            want(Ready::Main, self.child.pidfd.as_fd(), PollFlags::IN);
        }
        for (index, stream) in self.links.streams().enumerate() {
            want(Ready::Link(index), stream.as_fd(), PollFlags::IN);
        }
        for (index, fd, flags) in self.sessions.wants() {
            want(Ready::Session(index), fd, flags);
        }
        want(Ready::Listener, self.listener.as_fd(), PollFlags::IN);
        want(Ready::Alarm, self.alarm.fd().as_fd(), PollFlags::IN);
        let (tokens, mut fds): (Vec<Ready>, Vec<PollFd<'_>>) = wanted.into_iter().unzip();
        if poll(&mut fds, wait).is_err() {
            return Vec::new();
        }
        tokens
            .into_iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(token, _)| token)
            .collect()
    }

    fn handle(&mut self, ready: Ready) {
        match ready {
            Ready::Gate => self.hear(),
            Ready::Listener => self.links.accept(&self.listener),
            Ready::Alarm => self.alarm.fired(),
            // Reaped after every round.
            Ready::Main => {}
            Ready::Output => {
                if let Some(output) = self.output.as_mut() {
                    output.pump(&mut self.log);
                }
            }
            Ready::Terminal => {
                if let Some(terminal) = self.terminal.as_mut() {
                    terminal.pump(&mut self.log, &mut self.sessions);
                }
            }
            Ready::Session(index) => self.sessions.pump(index, self.terminal.as_mut()),
            Ready::Link(index) => {
                for incoming in self.links.read(index) {
                    match incoming {
                        Incoming::Command(ToSupervisor::Go) => self.go(),
                        Incoming::Command(ToSupervisor::Stop { .. }) => self.stop(Why::Stop),
                        Incoming::Command(ToSupervisor::Status) | Incoming::Greeted => self.tell_stage(),
                        Incoming::Terminal(stream, hello, rest) => {
                            let plan = exec_plan(&self.order);
                            let is_over = self.end.is_some() || self.stage < Stage::Running;
                            let terminal = self.terminal.as_mut();
                            self.sessions.open(stream, &hello, &rest, plan, terminal, is_over);
                        }
                    }
                }
            }
        }
    }

    fn tell_stage(&mut self) {
        match self.stage {
            Stage::Preparing => {}
            Stage::Prepared | Stage::Released => self.links.tell(&FromSupervisor::Prepared),
            Stage::Running => self.links.tell(&FromSupervisor::Started),
        }
    }

    /// Hears stage two out.
    fn hear(&mut self) {
        for said in self.child.hear() {
            match (said, self.stage) {
                (Said::Ready, Stage::Preparing) => {
                    self.stage = Stage::Prepared;
                    self.links.tell(&FromSupervisor::Prepared);
                    if self.go_asked {
                        self.go();
                    }
                }
                (Said::Failed(reason), Stage::Preparing | Stage::Prepared) => {
                    self.end.get_or_insert(End::Refused(reason));
                }
                (Said::Failed(reason), _) => {
                    // As a shell would: say it where the output is, and exit with 126.
                    self.log.append(format!("muster: {reason}\n").as_bytes());
                    self.end.get_or_insert(End::Exited(TaskExit::Code { code: 126 }));
                }
                (Said::Closed, Stage::Released) if self.end.is_none() => self.started(),
                _ => {}
            }
        }
    }

    /// Lets the user's process run, once, after that was recorded.
    fn go(&mut self) {
        self.go_asked = true;
        if self.stage != Stage::Prepared || self.ending.is_some() || self.end.is_some() {
            return;
        }
        let recorded = ProcessKey::of(self.child.pid)
            .map_err(|error| error.to_string())
            .and_then(|main| self.dir.write_started(main).map_err(|error| error.to_string()));
        if let Err(error) = recorded {
            self.end = Some(End::Refused(format!("cannot record the start: {error}")));
            self.child.signal(Signal::KILL);
            return;
        }
        self.held_port = None;
        self.stage = Stage::Released;
        self.child.go();
    }

    /// The user's program runs: its time starts.
    fn started(&mut self) {
        self.stage = Stage::Running;
        let start = clock::now();
        self.limit_at = self.order.time_limit.map(|limit| start + Duration::from_millis(limit.0));
        if let (Some(limit), Some(checkpoint)) = (self.limit_at, self.order.checkpoint) {
            self.checkpoint_at =
                Some(limit.saturating_sub(Duration::from_millis(checkpoint.lead.0)).max(start));
        }
        self.links.tell(&FromSupervisor::Started);
    }

    /// Begins to end the task. The first reason counts.
    pub(super) fn stop(&mut self, why: Why) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(why);
        (self.limit_at, self.checkpoint_at) = (None, None);
        let grace = Duration::from_millis(self.order.grace.0);
        let grace = match why {
            // No user process runs yet: nothing to be gentle with.
            _ if self.stage < Stage::Released => Duration::ZERO,
            Why::Stop | Why::Limit => grace,
            Why::Leftovers => grace.min(LEFTOVER_GRACE),
        };
        if grace > Duration::ZERO {
            finish::terminate(self);
        }
        self.kill_at = Some(clock::now() + grace);
    }

    fn next_deadline(&self) -> Duration {
        [self.checkpoint_at, self.limit_at, self.kill_at]
            .into_iter()
            .flatten()
            .fold(self.reap_at, Duration::min)
    }

    fn on_deadlines(&mut self, now: Duration) {
        let passed = |at: Option<Duration>| at.is_some_and(|at| at <= now);
        if passed(self.checkpoint_at) {
            self.checkpoint_at = None;
            finish::checkpoint(self);
        }
        if passed(self.limit_at) {
            self.stop(Why::Limit);
        }
        if passed(self.kill_at) {
            finish::kill_round(self);
            // A process that is stuck in the kernel cannot die now: ask again, ever more rarely.
            self.kill_at = Some(now + self.kill_pause);
            self.kill_pause = (self.kill_pause * 2).min(KILL_PAUSE_MAX);
        }
    }

    /// Collects ended children: the main process, shells of sessions, and orphans of the task. True while any
    /// child is left; without one, nothing that the task started is, since orphans become children.
    fn reap(&mut self) -> bool {
        let mut reaped = false;
        let children = loop {
            match rustix::process::wait(rustix::process::WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    reaped = true;
                    let pid = pid.as_raw_nonzero().get();
                    if pid == self.child.pid {
                        self.main_ended(status.into());
                    } else {
                        self.sessions.ended(pid, Died::from(status).code());
                    }
                }
                Ok(None) => break true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break false,
            }
        };
        let now = clock::now();
        self.reap_pause = match (self.ending.is_some(), reaped) {
            (true, _) => ENDING_PAUSE,
            (false, true) => REAP_PAUSE_MIN,
            (false, false) if now < self.reap_at => self.reap_pause,
            (false, false) => (self.reap_pause * 2).min(REAP_PAUSE_MAX),
        };
        if reaped || now >= self.reap_at || self.ending.is_some() {
            self.reap_at = now + self.reap_pause;
        }
        children
    }

    fn main_ended(&mut self, died: Died) {
        self.hear();
        if self.end.is_none() {
            self.end = Some(match (self.stage, self.ending) {
                (Stage::Preparing | Stage::Prepared, None) => {
                    End::Refused(format!("it ended before it ran ({})", died.code()))
                }
                (_, ending) => End::Exited(finish::exit_of(died, ending, self.order.cgroup.oom_kills())),
            });
        }
        self.sessions.hang_up_shells();
        self.stop(Why::Leftovers);
    }

    /// Nothing of the task is left: record it, then say it.
    fn settle(mut self) {
        if let Some(terminal) = self.terminal.as_mut() {
            terminal.pump(&mut self.log, &mut self.sessions);
        }
        while self.output.as_mut().is_some_and(|output| output.pump(&mut self.log)) {}
        finish::remove_groups(&self.order.cgroup);
        let end = self.end.clone().unwrap_or(End::Exited(TaskExit::Stopped));
        // Without its directory (a removed state directory) there is nobody left to tell.
        while self.dir.write_ended(end.clone()).is_err() && self.dir.path().exists() {
            std::thread::sleep(RECORD_RETRY);
        }
        let _ = std::fs::remove_file(&self.order.socket);
        let (message, code) = match end {
            End::Refused(reason) => (FromSupervisor::Refused { reason }, 125),
            End::Exited(exit) => {
                let code = finish::session_code(&exit);
                (FromSupervisor::Exited { exit }, code)
            }
        };
        self.links.tell(&message);
        self.sessions.close(code);
    }
}

const NO_WAIT: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// What Prepare makes, beyond values.
struct Parts {
    listener: UnixListener,
    log: Log,
    output: Option<Output>,
    child: Child,
    terminal: Option<Terminal>,
    held_port: Option<OwnedFd>,
    alarm: Alarm,
}

impl Parts {
    fn make(dir: &TaskDir, order: &OrderRecord) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        let held_port = order
            .hold_port
            .map(port::hold)
            .transpose()
            .map_err(|error| failed("hold the rendezvous port", error))?;
        let log = dir.create_log().map_err(|error| format!("cannot make the log: {error}"))?;
        let log = Log::new(log);
        order.cgroup.create().map_err(|error| format!("cannot make the control group: {error}"))?;
        let listener = listen(&order.socket).map_err(|error| failed("listen", error))?;
        let owner = order.switch_user.then_some(&order.identity);
        let (terminal, output, far_end) = if order.terminal {
            let (terminal, far_end) =
                Terminal::open(owner, 24, 80).map_err(|error| failed("open a terminal", error))?;
            (Some(terminal), None, far_end)
        } else {
            let (output, far_end) = Output::open(owner).map_err(|error| failed("open a pipe", error))?;
            (None, Some(output), far_end)
        };
        let alarm = Alarm::new().map_err(|error| failed("make a timer", error))?;
        let child =
            Child::spawn(&exec_plan(order), far_end).map_err(|error| failed("start stage two", error))?;
        Ok(Self { listener, log, output, child, terminal, held_port, alarm })
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let listener = socket::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// What stage two is told of the order.
fn exec_plan(order: &OrderRecord) -> ExecPlan {
    ExecPlan {
        command: order.command.clone(),
        env: order.env.clone(),
        workdir: order.workdir.clone(),
        umask: order.umask,
        identity: order.switch_user.then(|| order.identity.clone()),
        cgroup: order.cgroup.clone(),
        terminal: order.terminal,
    }
}
