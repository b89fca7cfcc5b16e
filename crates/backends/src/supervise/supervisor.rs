//! The supervisor's loop: one thread that waits for the task, the daemon, terminals and deadlines.
//!
//! Here is only what is waited for and who handles it: how a task comes to be is in
//! [`super::prepare`], its stages are in [`super::life`], how it is ended is in [`super::finish`].

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use muster_model::Span;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::clock::{self, Alarm};
use super::control::{Incoming, Links};
use super::finish;
use super::idle::Activity;
use super::life::Deadlines;
use super::log::Log;
use super::output::Output;
use super::prepare::{After, exec_plan};
use super::progress::{Ask, Progress};
use super::ready::Readiness;
use super::sessions::Sessions;
use super::stage::Child;
use super::terminal::Terminal;
use super::usage::Used;
use crate::record::{End, Instant, OrderRecord, TaskDir};
use crate::wire::{self, FromSupervisor, ToSupervisor};

/// How soon to try again when the kernel cannot set the timer.
const TIMER_RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

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
    /// It has done nothing for so long.
    Idle(Span),
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
    pub(super) progress: Progress,
    pub(super) stage: Stage,
    pub(super) ending: Option<Why>,
    /// Decided when the main process ends; what happens later does not change it.
    pub(super) end: Option<End>,
    /// Rendezvous port and own port, until the user's process runs.
    pub(super) held_ports: Vec<OwnedFd>,
    /// Set while it runs, if it is to be stopped for doing nothing.
    pub(super) activity: Option<Activity>,
    /// Of a task with a port of its own.
    pub(super) readiness: Option<Readiness>,
    pub(super) alarm: Alarm,
    pub(super) deadlines: Deadlines,
    /// Resource usage of the children of the task that have ended.
    pub(super) used: Used,
    /// Time since boot at which the task was taken.
    pub(super) begun: Duration,
    /// When the user's process was released; `None` before.
    pub(super) started: Option<Instant>,
    /// Go came before stage two was ready.
    pub(super) go_asked: bool,
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
    Progress,
    Session(usize),
}

impl Supervisor {
    /// Runs until the task is over, nothing of it is left, and that is recorded. Returns what to do
    /// next, with the connections to the daemon.
    pub(super) fn serve(mut self) -> (After, Links) {
        loop {
            for ready in self.wait() {
                self.handle(ready);
            }
            self.links.sweep();
            self.sessions.sweep();
            self.await_daemon(clock::now());
            self.on_deadlines(clock::now());
            let children = self.reap();
            if self.end.is_some() {
                if !children && self.order.cgroup.processes().is_empty() {
                    break;
                }
                self.stop(Why::Leftovers);
            }
        }
        self.record_end()
    }

    /// Waits until something is ready. Empty after an interruption.
    fn wait(&mut self) -> Vec<Ready> {
        let now = clock::now();
        let looks = [
            self.activity.as_ref().map(Activity::next_look),
            self.readiness.as_ref().and_then(|readiness| readiness.due),
            self.progress.look_due(),
        ];
        let next = looks.into_iter().flatten().fold(self.deadlines.next(), Duration::min);
        let next = self.progress.due(now).map_or(next, |due| due.min(next));
        // The timer is the only source of deadlines; without it the loop would never end a task, so
        // a failure to set it (kernel memory) is retried by not waiting.
        let wait = if self.alarm.set(Some(next)).is_ok() { None } else { Some(&TIMER_RETRY) };
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
        if let Some(pipe) = self.progress.wants(now) {
            want(Ready::Progress, pipe, PollFlags::IN);
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
            Ready::Progress => self.note_progress(),
            Ready::Session(index) => {
                let typed = self.sessions.pump(index, self.terminal.as_mut());
                if let Some(activity) = self.activity.as_mut().filter(|_| typed) {
                    activity.typed(clock::now());
                }
            }
            Ready::Link(index) => {
                for incoming in self.links.read(index) {
                    match incoming {
                        Incoming::Command(ToSupervisor::Go) => self.go(),
                        Incoming::Command(ToSupervisor::Checkpoint { request }) => {
                            if self.stage == Stage::Running && self.progress.is_new(request) {
                                self.ask_progress(Ask::Request(request));
                            }
                        }
                        Incoming::Command(ToSupervisor::Stop { .. }) => self.stop(Why::Stop),
                        Incoming::Command(ToSupervisor::Status) | Incoming::Greeted => {
                            self.tell_stage()
                        }
                        // For a supervisor whose task is over.
                        Incoming::Command(ToSupervisor::Noted | ToSupervisor::Next { .. }) => {}
                        Incoming::Saved(stream, label) => self.take_word(stream, &label),
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

    /// Hears what the task says of its progress.
    pub(super) fn note_progress(&mut self) {
        if let Some(noted) = self.progress.read(&self.dir, clock::now()) {
            self.links.tell(&FromSupervisor::Checkpointed { noted });
        }
    }

    /// Notes what somebody says for the task, and answers when that is on disk. Else there is no
    /// answer.
    fn take_word(&mut self, mut stream: UnixStream, label: &str) {
        if self.end.is_some() || self.stage != Stage::Running {
            return;
        }
        let (noted, is_recorded) = self.progress.note(&self.dir, label.as_bytes());
        let said = FromSupervisor::Checkpointed { noted };
        self.links.tell(&said);
        if is_recorded {
            // Whoever asked may have gone; it is noted all the same.
            let _ = stream.write_all(&wire::line(&said));
        }
    }

    /// Asks the task to save its progress. What it wrote until now answers nothing.
    pub(super) fn ask_progress(&mut self, why: Ask) {
        self.note_progress();
        let now = clock::now();
        self.progress.ask(why, self.order.checkpoint, now);
        self.signal_handlers(now);
    }

    /// Passes an open request on to processes that handle its signal, and tells how far it got when
    /// that is news.
    pub(super) fn signal_handlers(&mut self, now: Duration) {
        let signalled = self.progress.look(&finish::targets(self), now);
        if let Some(signalled) = signalled {
            self.links.tell(&FromSupervisor::Signalled { signalled });
        }
    }

    fn tell_stage(&mut self) {
        match self.stage {
            Stage::Preparing => {}
            Stage::Prepared | Stage::Released => self.links.tell(&FromSupervisor::Prepared),
            Stage::Running => self.links.tell(&FromSupervisor::Started),
        }
        if self.readiness.as_ref().is_some_and(|readiness| readiness.is_ready) {
            self.links.tell(&FromSupervisor::Ready);
        }
        if let Some(signalled) = self.progress.signalled() {
            self.links.tell(&FromSupervisor::Signalled { signalled });
        }
        if let Some(noted) = self.progress.noted().cloned() {
            self.links.tell(&FromSupervisor::Checkpointed { noted });
        }
    }
}
