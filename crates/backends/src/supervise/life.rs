//! The stages of a task (released, running, ending, recorded), its deadlines, and the reaping of
//! its children.
//!
//! Invariants: no process of the task outlives it, and no end is reported before it is recorded.

use std::time::Duration;

use muster_model::TaskExit;
use muster_model::payload::TaskCommand;
use rustix::process::Signal;

use super::activity::{self, Activity};
use super::checkpoints::CheckpointTrigger;
use super::clock;
use super::control::ControlConnections;
use super::finish::{self, EndReason};
use super::metric::Reports;
use super::reuse::SHORT_TASK_TIME;
use super::stage::StageTwoMessage;
use super::supervisor::{LaunchStage, NextAction, Supervisor, listen};
use super::usage::{ProcessExit, ReapResult};
use crate::record::{self, ExitRecord, Instant, Sync, TaskEnd};
use crate::wire::FromSupervisor;

/// Longest pause between two rounds of killing.
const KILL_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time between SIGTERM and SIGKILL for processes that remain after the main process exited by
/// itself; the job's own grace when that is shorter.
const LEFTOVER_GRACE: Duration = Duration::from_secs(5);
/// Time after the start of the user's program at which it is reported, unless something else is
/// reported before: a program that ends sooner costs the daemon one step and one commit, not two.
const START_REPORT_DELAY: Duration = Duration::from_millis(10);
/// Pause before writing the exit record again: a full disk may have space later, and the exit must
/// be recorded before it is reported.
const RECORD_RETRY: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Handles all pending messages of stage two.
    pub(super) fn handle_stage_two(&mut self) {
        for message in self.child.read_messages() {
            match (message, self.stage) {
                (StageTwoMessage::Ready, LaunchStage::Preparing) => {
                    self.stage = LaunchStage::Prepared;
                    if self.go_received {
                        // Started implies Prepared.
                        self.release();
                    } else {
                        self.report(&FromSupervisor::Prepared);
                    }
                }
                (
                    StageTwoMessage::Failed(reason),
                    LaunchStage::Preparing | LaunchStage::Prepared,
                ) => {
                    self.end.get_or_insert(TaskEnd::Refused(reason));
                }
                (StageTwoMessage::Impossible(reason), stage) => {
                    if stage > LaunchStage::Prepared {
                        self.log.append(format!("muster: {reason}\n").as_bytes());
                    }
                    self.end.get_or_insert(TaskEnd::Impossible(reason));
                }
                (StageTwoMessage::Failed(reason), _) => {
                    // As a shell would: write it to the output, and exit with 126.
                    self.log.append(format!("muster: {reason}\n").as_bytes());
                    self.end.get_or_insert(TaskEnd::Exited(TaskExit::Code { code: 126 }));
                }
                (StageTwoMessage::Closed, LaunchStage::Released) if self.end.is_none() => {
                    self.started()
                }
                _ => {}
            }
        }
    }

    /// Lets stage two execute the user's program, once.
    pub(super) fn release(&mut self) {
        self.go_received = true;
        if self.stage != LaunchStage::Prepared || self.ending.is_some() || self.end.is_some() {
            return;
        }
        self.started = Some(Instant::now());
        self.held_ports.clear();
        self.stage = LaunchStage::Released;
        self.child.send_go();
    }

    /// Sets the deadline of a task that waits for Go; it applies only while no daemon is connected.
    /// The daemon that comes back finds its record and starts it again.
    pub(super) fn set_go_timeout(&mut self, now: Duration) {
        let waits_for_go =
            self.stage <= LaunchStage::Prepared && self.ending.is_none() && self.end.is_none();
        self.deadlines.go_timeout_at = match self.order.go_timeout {
            Some(timeout) if waits_for_go && !self.connections.has_daemon() => {
                self.deadlines.go_timeout_at.or(Some(now + Duration::from_millis(timeout.0)))
            }
            _ => None,
        };
    }

    /// Refuses a prepared task for which no daemon has sent Go in time.
    fn refuse_without_daemon(&mut self) {
        let timeout = self.order.go_timeout.unwrap_or_default();
        let reason =
            format!("the task was prepared, but no daemon connected within {timeout} to start it");
        self.end.get_or_insert(TaskEnd::Refused(reason));
        self.child.signal(Signal::KILL);
    }

    /// Handles the exec of the user's program: its time limit starts.
    fn started(&mut self) {
        self.stage = LaunchStage::Running;
        let start = clock::now();
        self.deadlines.limit_at =
            self.order.time_limit.map(|limit| start + Duration::from_millis(limit.0));
        if let (Some(limit), Some(checkpoint)) = (self.deadlines.limit_at, self.order.checkpoint) {
            self.deadlines.checkpoint_at =
                Some(limit.saturating_sub(Duration::from_millis(checkpoint.lead.0)).max(start));
        }
        self.activity = self.order.idle.as_ref().map(|idle| Activity::new(idle, start));
        if let Some(readiness) = self.readiness.as_mut() {
            readiness.begin(start);
        }
        // A task that can save must be known to run before it can be asked to: an eviction would
        // end it without a checkpoint.
        self.deadlines.report_start_at = Some(start + START_REPORT_DELAY);
        if self.order.checkpoint.is_some() {
            self.report_start();
        }
    }

    /// Sends a message to the daemon; before it the start of the user's program, if that has not
    /// been reported.
    pub(super) fn report(&mut self, message: &FromSupervisor) {
        let is_unreported = self.deadlines.report_start_at.take().is_some();
        let start = is_unreported.then_some(&FromSupervisor::Started);
        self.connections.broadcast(start.into_iter().chain([message]));
    }

    /// Reports the start of the user's program, if that has not been reported.
    fn report_start(&mut self) {
        if self.deadlines.report_start_at.take().is_some() {
            self.connections.broadcast([&FromSupervisor::Started]);
        }
    }

    /// Begins to end the task. Later calls with another reason change nothing.
    pub(super) fn stop(&mut self, why: EndReason) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(why);
        self.deadlines.limit_at = None;
        self.deadlines.checkpoint_at = None;
        self.activity = None;
        self.readiness = None;
        self.checkpoints.cancel_delivery();
        let grace = Duration::from_millis(self.order.grace.0);
        let grace = match why {
            // No user process runs yet, so there is none to give time to.
            _ if self.stage < LaunchStage::Released => Duration::ZERO,
            EndReason::Stop | EndReason::Limit | EndReason::Idle(_) => grace,
            EndReason::Leftovers => grace.min(LEFTOVER_GRACE),
        };
        if grace > Duration::ZERO {
            // A Ray node passes it to its program: without Ray's processes that could not save.
            let is_ray = matches!(self.order.command, TaskCommand::Ray(_));
            if is_ray && why != EndReason::Leftovers {
                finish::terminate(&[self.child.pid]);
            } else {
                finish::terminate(&finish::task_processes(&self.order.cgroup));
            }
        }
        self.deadlines.kill_at = Some(clock::now() + grace);
    }

    /// Handles every deadline that has passed.
    pub(super) fn on_deadlines(&mut self, now: Duration) {
        let passed = |at: Option<Duration>| at.is_some_and(|at| at <= now);
        if passed(self.deadlines.go_timeout_at) {
            self.refuse_without_daemon();
        }
        if passed(self.deadlines.report_start_at) {
            self.report_start();
        }
        if passed(self.deadlines.checkpoint_at) {
            self.deadlines.checkpoint_at = None;
            self.request_checkpoint(CheckpointTrigger::Limit);
        }
        if passed(self.checkpoints.next_delivery()) {
            self.deliver_checkpoint_signal(now);
        }
        if passed(self.deadlines.limit_at) {
            self.stop(EndReason::Limit);
        }
        if let Some(activity) =
            self.activity.as_mut().filter(|activity| activity.next_check() <= now)
        {
            let used = activity::cpu_ms(self.used.total().cpu_ms);
            if let Some(after) = activity.check(now, used) {
                self.stop(EndReason::Idle(after));
            }
        }
        if let Some(readiness) =
            self.readiness.as_mut().filter(|one| one.due.is_some_and(|due| due <= now))
            && readiness.probe(now)
        {
            self.report(&FromSupervisor::Ready);
        }
        if self.deadlines.is_reaping_due(now) && self.ending.is_none() {
            self.keep_listening();
        }
        if passed(self.deadlines.kill_at) {
            finish::kill_round(&self.order.cgroup);
            // A process that is stuck in the kernel cannot die now: kill again with growing pauses.
            self.deadlines.kill_at = Some(now + self.deadlines.kill_pause);
            self.deadlines.kill_pause = (self.deadlines.kill_pause * 2).min(KILL_PAUSE_MAX);
        }
    }

    /// Recreates the socket and the checkpoint pipe if they were deleted, as happens to runtime
    /// directories at logout or by cleaners of old files: a later daemon must find this supervisor.
    fn keep_listening(&mut self) {
        let path = &self.order.socket;
        if !path.exists() && path.parent().is_some_and(|dir| record::private_dirs(dir).is_ok()) {
            // A failure is retried in the next round.
            if let Ok(listener) = listen(path) {
                self.listener = listener;
            }
        }
        self.checkpoints.keep(&self.order);
    }

    /// Reaps ended children: the main process, shells of sessions, and orphans of the task. Returns
    /// true while any child is left; without one, no process of the task is, because its orphans
    /// become children of this process.
    pub(super) fn reap(&mut self) -> bool {
        let mut reaped = false;
        let children = loop {
            match self.used.reap() {
                ReapResult::One(pid, died) => {
                    reaped = true;
                    if pid == self.child.pid {
                        self.main_ended(died);
                    } else {
                        self.sessions.ended(pid, died.code());
                    }
                }
                ReapResult::NoneEnded => break true,
                ReapResult::NoChildren => break false,
            }
        };
        self.deadlines.schedule_reaping(clock::now(), reaped, self.ending.is_some());
        children
    }

    /// Handles the end of the main process, which determines the task's exit.
    fn main_ended(&mut self, died: ProcessExit) {
        self.handle_stage_two();
        if self.end.is_none() {
            self.end = Some(match (self.stage, self.ending) {
                (LaunchStage::Preparing | LaunchStage::Prepared, None) => TaskEnd::Refused(
                    format!("stage two exited with {} before the program started", died.code()),
                ),
                (_, ending) => {
                    TaskEnd::Exited(finish::exit_of(died, ending, self.order.cgroup.oom_kills()))
                }
            });
        }
        self.sessions.hang_up_shells();
    }

    /// Records and reports the end of a task of which no process is left. Returns the supervisor's
    /// next action and the connections to the daemon.
    pub(super) fn record_end(mut self) -> (NextAction, ControlConnections) {
        if let Some(terminal) = self.terminal.as_mut() {
            self.sessions.show(&terminal.pump(&mut self.log));
        }
        self.read_acknowledgements();
        while self.pump_output() {}
        if let Some(report) = self.reports.as_mut().and_then(Reports::read_rest) {
            self.report(&FromSupervisor::Reported { report });
        }
        if let Some(limit) = self.order.cgroup.reached_processes() {
            let note = format!(
                "muster: the limit of {limit} processes was reached: no more could be started\n"
            );
            self.log.append(note.as_bytes());
        }
        finish::remove_groups(&self.order.cgroup);
        let end = self.end.clone().unwrap_or(TaskEnd::Exited(TaskExit::Stopped));
        let after = self.next_action(&end);
        // An idle supervisor learns from the daemon that its journal has the end, or syncs the
        // record itself.
        let sync = if after == NextAction::AwaitTask { Sync::No } else { Sync::Yes };
        let ended = ExitRecord {
            usage: self.started.map(|_| self.used.total()),
            signalled: self.checkpoints.signalled(),
            report: self.reports.as_ref().and_then(Reports::newest),
            started: self.started,
            ..ExitRecord::now(end.clone())
        };
        // Without its directory (a deleted state directory) the record is of no use.
        while (self.log.finish().is_err() || self.dir.write_exit(&ended, sync).is_err())
            && self.dir.path().exists()
        {
            std::thread::sleep(RECORD_RETRY);
        }
        let _ = std::fs::remove_file(&self.order.socket);
        let _ = self.order.checkpoint_file.as_ref().map(std::fs::remove_file);
        let _ = self.order.report_file.as_ref().map(std::fs::remove_file);
        let (message, code) = match end {
            TaskEnd::Refused(reason) => (FromSupervisor::Refused { reason }, 125),
            TaskEnd::Impossible(reason) => (FromSupervisor::Impossible { reason }, 125),
            TaskEnd::Exited(exit) => {
                let code = finish::session_code(&exit);
                (FromSupervisor::Exited { exit, reusable: after == NextAction::AwaitTask }, code)
            }
        };
        self.report(&message);
        self.connections.drop_clients();
        self.sessions.close(code);
        (after, self.connections)
    }

    /// Returns whether to wait for another task: after a short task that exited by itself, while a
    /// daemon is connected.
    fn next_action(&self, end: &TaskEnd) -> NextAction {
        let is_short = clock::now().saturating_sub(self.begun) < SHORT_TASK_TIME;
        let by_itself =
            matches!(end, TaskEnd::Exited(TaskExit::Code { .. })) && self.ending.is_none();
        if is_short && by_itself && self.terminal.is_none() && self.connections.has_daemon() {
            NextAction::AwaitTask
        } else {
            NextAction::Exit
        }
    }
}
