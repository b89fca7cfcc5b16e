//! The stages of a task: released, running, ending, recorded; its deadlines; and the children it
//! leaves.
//!
//! Nothing here may leave a process of the task behind, or tell an end before it is recorded.

use std::time::Duration;

use muster_model::TaskExit;
use rustix::process::Signal;

use super::clock;
use super::control::Links;
use super::finish::{self, Died};
use super::idle::{self, Activity};
use super::prepare::{self, After};
use super::progress::Ask;
use super::stage::Said;
use super::stay::SHORT_TASK;
use super::supervisor::{Stage, Supervisor, Why};
use super::usage::Reaped;
use crate::record::{self, End, Ended, Instant, Sync};
use crate::wire::FromSupervisor;

/// Orphans of the task become the supervisor's children and are reaped at least this often.
pub(crate) const REAP_PAUSE_MAX: Duration = Duration::from_secs(30);
/// And at most this often while the task runs.
const REAP_PAUSE_MIN: Duration = Duration::from_secs(1);
/// How often to look whether everything is gone while the task is being ended.
const ENDING_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause between two rounds of killing.
const KILL_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time for what a task leaves behind after its main process ended by itself, between SIGTERM and
/// SIGKILL; the job's own grace when that is shorter.
const LEFTOVER_GRACE: Duration = Duration::from_secs(5);
/// A disk that is full may have room later: the exit is recorded before anybody is told.
const RECORD_RETRY: Duration = Duration::from_secs(1);

/// What is due when, in time since boot.
#[derive(Debug)]
pub(super) struct Deadlines {
    checkpoint_at: Option<Duration>,
    limit_at: Option<Duration>,
    /// While it waits at the gate and no daemon is connected.
    gate_at: Option<Duration>,
    kill_at: Option<Duration>,
    kill_pause: Duration,
    reap_at: Duration,
    reap_pause: Duration,
}

impl Deadlines {
    /// Of a task that does not run yet.
    pub(super) fn new() -> Self {
        Self {
            checkpoint_at: None,
            limit_at: None,
            gate_at: None,
            kill_at: None,
            kill_pause: ENDING_PAUSE,
            reap_at: clock::now() + REAP_PAUSE_MIN,
            reap_pause: REAP_PAUSE_MIN,
        }
    }

    /// The earliest.
    pub(super) fn next(&self) -> Duration {
        let others = [self.checkpoint_at, self.limit_at, self.gate_at, self.kill_at];
        others.into_iter().flatten().fold(self.reap_at, Duration::min)
    }

    /// True when it is time to look for ended children.
    fn is_reaping_due(&self, now: Duration) -> bool {
        now >= self.reap_at
    }

    /// After a look for ended children: when to look again, ever more rarely while there are none.
    fn looked(&mut self, now: Duration, reaped: bool, is_ending: bool) {
        self.reap_pause = match (is_ending, reaped, self.is_reaping_due(now)) {
            (true, ..) => ENDING_PAUSE,
            (false, true, _) => REAP_PAUSE_MIN,
            (false, false, true) => (self.reap_pause * 2).min(REAP_PAUSE_MAX),
            (false, false, false) => return,
        };
        self.reap_at = now + self.reap_pause;
    }
}

impl Supervisor {
    /// Hears stage two out.
    pub(super) fn hear(&mut self) {
        for said in self.child.hear() {
            match (said, self.stage) {
                (Said::Ready, Stage::Preparing) => {
                    self.stage = Stage::Prepared;
                    match self.go_asked {
                        // That it runs says that it was prepared.
                        true => self.go(),
                        false => self.links.tell(&FromSupervisor::Prepared),
                    }
                }
                (Said::Failed(reason), Stage::Preparing | Stage::Prepared) => {
                    self.end.get_or_insert(End::Refused(reason));
                }
                (Said::Impossible(reason), stage) => {
                    if stage > Stage::Prepared {
                        self.log.append(format!("muster: {reason}\n").as_bytes());
                    }
                    self.end.get_or_insert(End::Impossible(reason));
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

    /// Lets the user's process run, once.
    pub(super) fn go(&mut self) {
        self.go_asked = true;
        if self.stage != Stage::Prepared || self.ending.is_some() || self.end.is_some() {
            return;
        }
        self.started = Some(Instant::now());
        self.held_ports.clear();
        self.stage = Stage::Released;
        self.child.go();
    }

    /// Sets the time at which a task at the gate gives up, which counts only while no daemon is
    /// connected. The daemon that comes back finds its record and starts it again.
    pub(super) fn await_daemon(&mut self, now: Duration) {
        let is_at_the_gate =
            self.stage <= Stage::Prepared && self.ending.is_none() && self.end.is_none();
        self.deadlines.gate_at = match self.order.gate_patience {
            Some(patience) if is_at_the_gate && !self.links.has_daemon() => {
                self.deadlines.gate_at.or(Some(now + Duration::from_millis(patience.0)))
            }
            _ => None,
        };
    }

    /// Ends a task that was prepared and that no daemon has let run.
    fn give_up_at_the_gate(&mut self) {
        let patience = self.order.gate_patience.unwrap_or_default();
        let reason =
            format!("it was ready, and no daemon came back within {patience} to let it run");
        self.end.get_or_insert(End::Refused(reason));
        self.child.signal(Signal::KILL);
    }

    /// The user's program runs: its time starts.
    fn started(&mut self) {
        self.stage = Stage::Running;
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
        self.links.tell(&FromSupervisor::Started);
    }

    /// Begins to end the task. The first reason counts.
    pub(super) fn stop(&mut self, why: Why) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(why);
        (self.deadlines.limit_at, self.deadlines.checkpoint_at) = (None, None);
        (self.activity, self.readiness) = (None, None);
        self.progress.ask_no_more();
        let grace = Duration::from_millis(self.order.grace.0);
        let grace = match why {
            // No user process runs yet: nothing to be gentle with.
            _ if self.stage < Stage::Released => Duration::ZERO,
            Why::Stop | Why::Limit | Why::Idle(_) => grace,
            Why::Leftovers => grace.min(LEFTOVER_GRACE),
        };
        if grace > Duration::ZERO {
            finish::terminate(self);
        }
        self.deadlines.kill_at = Some(clock::now() + grace);
    }

    /// Does what is due.
    pub(super) fn on_deadlines(&mut self, now: Duration) {
        let passed = |at: Option<Duration>| at.is_some_and(|at| at <= now);
        if passed(self.deadlines.gate_at) {
            self.give_up_at_the_gate();
        }
        if passed(self.deadlines.checkpoint_at) {
            self.deadlines.checkpoint_at = None;
            self.ask_progress(Ask::Limit);
        }
        if passed(self.progress.look_due()) {
            self.signal_handlers(now);
        }
        if passed(self.deadlines.limit_at) {
            self.stop(Why::Limit);
        }
        if let Some(activity) =
            self.activity.as_mut().filter(|activity| activity.next_look() <= now)
        {
            let used = idle::cpu_ms(self.used.total().cpu_ms);
            if let Some(after) = activity.look(now, used) {
                self.stop(Why::Idle(after));
            }
        }
        if let Some(readiness) =
            self.readiness.as_mut().filter(|one| one.due.is_some_and(|due| due <= now))
            && readiness.probe(now)
        {
            self.links.tell(&FromSupervisor::Ready);
        }
        if self.deadlines.is_reaping_due(now) && self.ending.is_none() {
            self.keep_listening();
        }
        if passed(self.deadlines.kill_at) {
            finish::kill_round(self);
            // A process that is stuck in the kernel cannot die now: ask again, ever more rarely.
            self.deadlines.kill_at = Some(now + self.deadlines.kill_pause);
            self.deadlines.kill_pause = (self.deadlines.kill_pause * 2).min(KILL_PAUSE_MAX);
        }
    }

    /// Runtime directories are emptied (a log-out, a cleaner of old files): a daemon that comes
    /// later must still find this supervisor.
    fn keep_listening(&mut self) {
        let path = &self.order.socket;
        if !path.exists() && path.parent().is_some_and(|dir| record::private_dirs(dir).is_ok()) {
            // Failing, it is tried again with the next look.
            if let Ok(listener) = prepare::listen(path) {
                self.listener = listener;
            }
        }
        self.progress.keep(&self.order);
    }

    /// Collects ended children: the main process, shells of sessions, and orphans of the task. True
    /// while any child is left; without one, nothing that the task started is, since orphans become
    /// children.
    pub(super) fn reap(&mut self) -> bool {
        let mut reaped = false;
        let children = loop {
            match self.used.reap() {
                Reaped::One(pid, died) => {
                    reaped = true;
                    if pid == self.child.pid {
                        self.main_ended(died);
                    } else {
                        self.sessions.ended(pid, died.code());
                    }
                }
                Reaped::NoneEnded => break true,
                Reaped::NoChildren => break false,
            }
        };
        self.deadlines.looked(clock::now(), reaped, self.ending.is_some());
        children
    }

    /// The main process ended: that decides how the task did.
    fn main_ended(&mut self, died: Died) {
        self.hear();
        if self.end.is_none() {
            self.end = Some(match (self.stage, self.ending) {
                (Stage::Preparing | Stage::Prepared, None) => {
                    End::Refused(format!("it ended before it ran ({})", died.code()))
                }
                (_, ending) => {
                    End::Exited(finish::exit_of(died, ending, self.order.cgroup.oom_kills()))
                }
            });
        }
        self.sessions.hang_up_shells();
    }

    /// Records the end of a task of which nothing is left, then tells it. Returns what to do next,
    /// with the connections to the daemon.
    pub(super) fn record_end(mut self) -> (After, Links) {
        if let Some(terminal) = self.terminal.as_mut() {
            terminal.pump(&mut self.log, &mut self.sessions);
        }
        self.note_progress();
        while self.output.as_mut().is_some_and(|output| output.pump(&mut self.log)) {}
        if let Some(limit) = self.order.cgroup.reached_processes() {
            let note = format!(
                "muster: the limit of {limit} processes was reached: no more could be started\n"
            );
            self.log.append(note.as_bytes());
        }
        finish::remove_groups(&self.order.cgroup);
        let end = self.end.clone().unwrap_or(End::Exited(TaskExit::Stopped));
        let after = self.after(&end);
        // A supervisor that stays is told when the daemon's journal has the end, or syncs the
        // record then.
        let sync = if after == After::Stay { Sync::No } else { Sync::Yes };
        let ended = Ended {
            usage: self.started.map(|_| self.used.total()),
            signalled: self.progress.signalled(),
            started: self.started,
            ..Ended::now(end.clone())
        };
        // Without its directory (a removed state directory) there is nobody left to tell.
        while (self.log.finish().is_err() || self.dir.write_ended(&ended, sync).is_err())
            && self.dir.path().exists()
        {
            std::thread::sleep(RECORD_RETRY);
        }
        let _ = std::fs::remove_file(&self.order.socket);
        let _ = self.order.checkpoint_file.as_ref().map(std::fs::remove_file);
        let (message, code) = match end {
            End::Refused(reason) => (FromSupervisor::Refused { reason }, 125),
            End::Impossible(reason) => (FromSupervisor::Impossible { reason }, 125),
            End::Exited(exit) => {
                let code = finish::session_code(&exit);
                (FromSupervisor::Exited { exit, stays: after == After::Stay }, code)
            }
        };
        self.links.tell(&message);
        self.links.keep_daemons();
        self.sessions.close(code);
        (after, self.links)
    }

    /// Decides whether to stay for another task: after a short one that ended by itself, while a
    /// daemon is connected.
    fn after(&self, end: &End) -> After {
        let is_short = clock::now().saturating_sub(self.begun) < SHORT_TASK;
        let by_itself = matches!(end, End::Exited(TaskExit::Code { .. })) && self.ending.is_none();
        match is_short && by_itself && self.terminal.is_none() && self.links.has_daemon() {
            true => After::Stay,
            false => After::Leave,
        }
    }
}
