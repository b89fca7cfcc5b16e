//! The supervisor's event loop: one thread that waits for the task, the daemon, terminals and
//! deadlines.
//!
//! Only the waiting and the dispatch are here: [`super::prepare`] sets a task up, [`super::life`]
//! handles its stages, [`super::finish`] ends it.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::activity::Activity;
use super::checkpoints::{CheckpointTrigger, Checkpoints};
use super::clock::{self, Alarm};
use super::control::{ControlConnections, Incoming};
use super::deadlines::Deadlines;
use super::exec::ExecPlan;
use super::finish::{self, EndReason};
use super::log::Log;
use super::metric::Reports;
use super::output::OutputPipe;
use super::ready::Readiness;
use super::sessions::Sessions;
use super::stage::Child;
use super::terminal::Terminal;
use super::usage::ReapedUsage;
use crate::record::{Instant, OrderRecord, TaskDir, TaskEnd};
use crate::socket;
use crate::wire::{self, FromSupervisor, ToSupervisor};

/// Pause before trying again when the kernel cannot set the timer.
const TIMER_RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Progress of a task's launch, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LaunchStage {
    /// Stage two has started and is not ready yet.
    Preparing,
    /// Stage two is ready and waits for Go.
    Prepared,
    /// Go was sent to stage two; it has not yet executed the user's program.
    Released,
    /// The user's program runs.
    Running,
}

/// Action of a supervisor once its task is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAction {
    /// Wait for another task, after telling the daemon so.
    AwaitTask,
    Exit,
}

/// One task with its processes, connections and deadlines.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) dir: TaskDir,
    pub(super) order: OrderRecord,
    pub(super) connections: ControlConnections,
    pub(super) listener: UnixListener,
    pub(super) log: Log,
    pub(super) output: Option<OutputPipe>,
    pub(super) child: Child,
    pub(super) terminal: Option<Terminal>,
    pub(super) sessions: Sessions,
    pub(super) checkpoints: Checkpoints,
    /// Reports of the task's metric; `None` when it has none.
    pub(super) reports: Option<Reports>,
    pub(super) stage: LaunchStage,
    pub(super) ending: Option<EndReason>,
    /// Set when the main process ends; later events do not change it.
    pub(super) end: Option<TaskEnd>,
    /// Rendezvous port and service port, kept bound until the user's process runs.
    pub(super) held_ports: Vec<OwnedFd>,
    /// Idle detection; set while the task runs, if its job has an idle limit.
    pub(super) activity: Option<Activity>,
    /// Readiness probe of a task with a service port.
    pub(super) readiness: Option<Readiness>,
    pub(super) alarm: Alarm,
    pub(super) deadlines: Deadlines,
    /// Resource usage of the children of the task that have ended.
    pub(super) used: ReapedUsage,
    /// Time since boot at which this supervisor claimed the task.
    pub(super) begun: Duration,
    /// Instant at which the user's process was released; `None` before.
    pub(super) started: Option<Instant>,
    /// Go has been received, possibly before stage two was ready, or is not waited for.
    pub(super) go_received: bool,
}

/// A source of events that is ready to be handled.
#[derive(Clone, Copy, Debug)]
enum EventSource {
    Listener,
    Connection(usize),
    StageTwo,
    Main,
    Alarm,
    Terminal,
    Output,
    Checkpoint,
    Report,
    Session(usize),
}

impl Supervisor {
    /// Runs until the task is over, none of its processes is left, and its end is recorded. Returns
    /// the supervisor's next action and the connections to the daemon.
    pub(super) fn serve(mut self) -> (NextAction, ControlConnections) {
        loop {
            for ready in self.wait() {
                self.handle(ready);
            }
            self.connections.sweep();
            self.sessions.sweep();
            self.set_go_timeout(clock::now());
            self.on_deadlines(clock::now());
            self.report_metric(clock::now());
            let children = self.reap();
            if self.end.is_some() {
                if !children && self.order.cgroup.processes().is_empty() {
                    break;
                }
                self.stop(EndReason::Leftovers);
            }
        }
        self.record_end()
    }

    /// Waits until a source is ready. Returns nothing after an interruption.
    fn wait(&mut self) -> Vec<EventSource> {
        let now = clock::now();
        let looks = [
            self.activity.as_ref().map(Activity::next_check),
            self.readiness.as_ref().and_then(|readiness| readiness.due),
            self.checkpoints.next_delivery(),
            self.reports.as_ref().and_then(|reports| reports.due(now)),
        ];
        let next = looks.into_iter().flatten().fold(self.deadlines.next(), Duration::min);
        let next = self.checkpoints.read_due(now).map_or(next, |due| due.min(next));
        // The timer is the only source of deadlines; without it the loop would never end a task, so
        // a failure to set it (kernel memory) is retried by not waiting.
        let wait = if self.alarm.set(Some(next)).is_ok() { None } else { Some(&TIMER_RETRY) };
        let mut wanted: Vec<(EventSource, PollFd<'_>)> = Vec::with_capacity(8);
        let mut want = |ready, fd, flags| wanted.push((ready, PollFd::from_borrowed_fd(fd, flags)));
        // Order matters: messages of stage two are read before its end is handled.
        if let Some(socket) = self.child.control_socket() {
            want(EventSource::StageTwo, socket.as_fd(), PollFlags::IN);
        }
        if let Some((terminal, flags)) = self.terminal.as_ref().and_then(Terminal::wants) {
            want(EventSource::Terminal, terminal, flags);
        }
        if let Some(output) = self.output.as_ref().and_then(OutputPipe::poll_fd) {
            want(EventSource::Output, output, PollFlags::IN);
        }
        if let Some(pipe) = self.checkpoints.poll_fd(now) {
            want(EventSource::Checkpoint, pipe, PollFlags::IN);
        }
        if let Some(pipe) = self.reports.as_ref().and_then(|reports| reports.poll_fd(now)) {
            want(EventSource::Report, pipe, PollFlags::IN);
        }
        if self.end.is_none() {
            want(EventSource::Main, self.child.pidfd.as_fd(), PollFlags::IN);
        }
        for (index, stream) in self.connections.streams().enumerate() {
            want(EventSource::Connection(index), stream.as_fd(), PollFlags::IN);
        }
        for (index, fd, flags) in self.sessions.poll_fds() {
            want(EventSource::Session(index), fd, flags);
        }
        want(EventSource::Listener, self.listener.as_fd(), PollFlags::IN);
        want(EventSource::Alarm, self.alarm.fd().as_fd(), PollFlags::IN);
        let (tokens, mut fds): (Vec<EventSource>, Vec<PollFd<'_>>) = wanted.into_iter().unzip();
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

    fn handle(&mut self, ready: EventSource) {
        match ready {
            EventSource::StageTwo => self.handle_stage_two(),
            EventSource::Listener => self.connections.accept(&self.listener),
            EventSource::Alarm => self.alarm.fired(),
            // `reap` runs after every round.
            EventSource::Main => {}
            EventSource::Output => {
                self.pump_output();
            }
            EventSource::Terminal => {
                if let Some(terminal) = self.terminal.as_mut() {
                    self.sessions.show(&terminal.pump(&mut self.log));
                }
            }
            EventSource::Checkpoint => self.read_acknowledgements(),
            // `report_metric` runs after every round.
            EventSource::Report => {}
            EventSource::Session(index) => {
                let typed = self.sessions.pump(index, self.terminal.as_mut());
                if let Some(activity) = self.activity.as_mut().filter(|_| typed) {
                    activity.typed(clock::now());
                }
            }
            EventSource::Connection(index) => {
                for incoming in self.connections.read(index) {
                    match incoming {
                        Incoming::Command(ToSupervisor::Go) => self.release(),
                        Incoming::Command(ToSupervisor::Checkpoint { request }) => {
                            if self.stage == LaunchStage::Running
                                && self.checkpoints.is_new(request)
                            {
                                self.request_checkpoint(CheckpointTrigger::Request(request));
                            }
                        }
                        Incoming::Command(ToSupervisor::Stop { .. }) => self.stop(EndReason::Stop),
                        Incoming::Command(ToSupervisor::Status) | Incoming::DaemonConnected => {
                            self.report_stage()
                        }
                        // Only meant for an idle supervisor.
                        Incoming::Command(ToSupervisor::EndDurable | ToSupervisor::Next { .. }) => {
                        }
                        Incoming::CheckpointSaved(stream, label) => {
                            self.record_acknowledgement(stream, &label)
                        }
                        Incoming::Terminal(stream, hello, rest) => {
                            let plan = ExecPlan::of(&self.order);
                            let is_over = self.end.is_some() || self.stage < LaunchStage::Running;
                            let terminal = self.terminal.as_mut();
                            self.sessions.open(stream, &hello, &rest, plan, terminal, is_over);
                        }
                    }
                }
            }
        }
    }

    /// Moves pending output to the log. Returns true when there may be more.
    pub(super) fn pump_output(&mut self) -> bool {
        let Some(output) = self.output.as_mut() else { return false };
        output.pump(&mut self.log, self.reports.as_mut())
    }

    /// Reports the newest value of the metric when it is time to.
    fn report_metric(&mut self, now: Duration) {
        if let Some(report) = self.reports.as_mut().and_then(|reports| reports.read(now)) {
            self.report(&FromSupervisor::Reported { report });
        }
    }

    /// Reads checkpoint acknowledgements of the task from its pipe and reports the newest.
    pub(super) fn read_acknowledgements(&mut self) {
        if let Some(checkpoint) = self.checkpoints.read(&self.dir, clock::now()) {
            self.report(&FromSupervisor::Checkpointed { checkpoint });
        }
    }

    /// Records a checkpoint acknowledgement made on behalf of the task, and answers once it is on
    /// disk. Without a record the connection just closes.
    fn record_acknowledgement(&mut self, mut stream: UnixStream, label: &str) {
        if self.end.is_some() || self.stage != LaunchStage::Running {
            return;
        }
        let (checkpoint, is_recorded) = self.checkpoints.record(&self.dir, label.as_bytes());
        let message = FromSupervisor::Checkpointed { checkpoint };
        self.report(&message);
        if is_recorded {
            // The client may have disconnected; the record stays.
            let _ = stream.write_all(&wire::line(&message));
        }
    }

    /// Asks the task to save a checkpoint. Acknowledgements written before this are read first, so
    /// that they do not count as the answer.
    pub(super) fn request_checkpoint(&mut self, why: CheckpointTrigger) {
        self.read_acknowledgements();
        let now = clock::now();
        self.checkpoints.request(why, self.order.checkpoint, now);
        self.deliver_checkpoint_signal(now);
    }

    /// Signals the processes that handle the checkpoint signal of an open request, and reports how
    /// many got it when that has changed.
    pub(super) fn deliver_checkpoint_signal(&mut self, now: Duration) {
        let signalled = self.checkpoints.deliver(&finish::task_processes(&self.order.cgroup), now);
        if let Some(signalled) = signalled {
            self.report(&FromSupervisor::Signalled { signalled });
        }
    }

    fn report_stage(&mut self) {
        match self.stage {
            LaunchStage::Preparing => {}
            LaunchStage::Prepared | LaunchStage::Released => self.report(&FromSupervisor::Prepared),
            LaunchStage::Running => {
                self.deadlines.report_start_at = None;
                self.report(&FromSupervisor::Started);
            }
        }
        if self.readiness.as_ref().is_some_and(|readiness| readiness.is_ready) {
            self.report(&FromSupervisor::Ready);
        }
        if let Some(signalled) = self.checkpoints.signalled() {
            self.report(&FromSupervisor::Signalled { signalled });
        }
        if let Some(checkpoint) = self.checkpoints.newest().cloned() {
            self.report(&FromSupervisor::Checkpointed { checkpoint });
        }
        if let Some(report) = self.reports.as_ref().and_then(Reports::newest) {
            self.report(&FromSupervisor::Reported { report });
        }
    }
}

/// Listens at the socket's path.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    let listener = socket::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
