//! Terminal sessions: people attached to the task's own terminal, or in a shell beside it.
//!
//! A shell runs through the same second stage as the task: same groups, identity, environment and
//! directory. Leaving a session leaves the task alone; a shell is hung up with its session.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use muster_model::payload::Command;
use rustix::event::PollFlags;

use super::exec::ExecPlan;
use super::stage::{Child, Said};
use super::terminal::{Pty, Terminal};
use crate::local::session::{Decoder, Frame};
use crate::process;
use crate::wire::{Hello, Target};

/// Most sessions at once on one task.
const MAX_SESSIONS: usize = 32;
/// What a client may leave unread before a shell's output waits for it, and before it is dropped
/// from the task's own terminal, which waits for nobody.
const MAX_UNREAD_BYTES: usize = 1 << 20;
/// How long a client may take to read the last of a session.
const FLUSH_PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct Session {
    stream: UnixStream,
    decoder: Decoder,
    unread: Vec<u8>,
    /// `None` on the task's own terminal.
    shell: Option<Shell>,
    /// Nothing more is read; it goes once `unread` is sent.
    is_ending: bool,
    is_open: bool,
}

#[derive(Debug)]
struct Shell {
    child: Child,
    pty: Pty,
    exit: Option<i32>,
}

/// All sessions of a task.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    list: Vec<Session>,
}

impl Sessions {
    /// Begins a session.
    pub(super) fn open(
        &mut self,
        stream: UnixStream,
        hello: &Hello,
        rest: &[u8],
        plan: ExecPlan,
        terminal: Option<&mut Terminal>,
        is_over: bool,
    ) {
        let Hello::Terminal { target, term, rows, cols, command } = hello else { return };
        let mut session = Session {
            stream,
            decoder: Decoder::default(),
            unread: Vec::new(),
            shell: None,
            is_ending: false,
            is_open: true,
        };
        let outcome = match (target, terminal) {
            _ if self.list.len() >= MAX_SESSIONS => {
                Err("too many terminal sessions on this task".to_owned())
            }
            _ if is_over => Err("the task is not running".to_owned()),
            (Target::Main, None) => Err("the task has no terminal of its own".to_owned()),
            (Target::Main | Target::Auto, Some(terminal)) => {
                terminal.resize(*rows, *cols);
                session.unread = Frame::Data(terminal.backlog()).encode();
                Ok(())
            }
            (Target::Shell | Target::Auto, _) => {
                Shell::start(plan, command, term.as_deref(), *rows, *cols)
                    .map(|shell| session.shell = Some(shell))
                    .map_err(|error| format!("cannot start a shell: {error}"))
            }
        };
        if let Err(reason) = outcome {
            session.end(&Frame::Error(reason));
        }
        session.decoder.push(rest);
        session.flush();
        self.list.push(session);
    }

    /// What to poll for, each with the number of its session.
    pub(super) fn wants(&self) -> Vec<(usize, BorrowedFd<'_>, PollFlags)> {
        let mut wanted = Vec::new();
        for (index, session) in self.list.iter().enumerate() {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !session.is_ending);
            flags.set(PollFlags::OUT, !session.unread.is_empty());
            if session.is_open {
                wanted.push((index, session.stream.as_fd(), flags));
            }
            if let Some(shell) = &session.shell {
                let readable = session.unread.len() < MAX_UNREAD_BYTES;
                wanted.extend(shell.pty.wants(readable).map(|(fd, flags)| (index, fd, flags)));
                wanted.extend(shell.child.gate().map(|gate| (index, gate.as_fd(), PollFlags::IN)));
            }
        }
        wanted
    }

    /// Moves what can be moved in session number `index`. Answers whether somebody typed.
    pub(super) fn pump(&mut self, index: usize, terminal: Option<&mut Terminal>) -> bool {
        let Some(session) = self.list.get_mut(index) else { return false };
        let typed = session.read(terminal);
        session.pump_shell();
        session.flush();
        typed
    }

    /// Shows what the task wrote to everybody on its own terminal.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        for session in
            self.list.iter_mut().filter(|session| session.shell.is_none() && !session.is_ending)
        {
            if session.unread.len() > MAX_UNREAD_BYTES {
                session.end(&Frame::Error("the terminal reads too slowly".to_owned()));
            } else {
                session.unread.extend(Frame::Data(bytes.to_vec()).encode());
            }
            session.flush();
        }
    }

    /// A child ended: if it is a session's shell, the session ends once its output is read.
    pub(super) fn ended(&mut self, pid: i32, code: i32) {
        for session in &mut self.list {
            if let Some(shell) = session.shell.as_mut().filter(|shell| shell.child.pid == pid) {
                shell.exit = Some(code);
                session.pump_shell();
                session.flush();
            }
        }
    }

    /// Drops sessions that are over. Indices change.
    pub(super) fn sweep(&mut self) {
        self.list.retain(Session::is_needed);
    }

    /// The task is over: shells beside it are hung up.
    pub(super) fn hang_up_shells(&mut self) {
        for shell in self.list.iter().filter_map(|session| session.shell.as_ref()) {
            if shell.exit.is_none() {
                process::signal(shell.child.pid, rustix::process::Signal::HUP);
            }
        }
    }

    /// Ends every session with `code`, giving clients a moment to read what is left.
    pub(super) fn close(mut self, code: i32) {
        for session in &mut self.list {
            session.end(&Frame::Exit { code });
        }
        let _ = process::until_empty(FLUSH_PATIENCE, || {
            for session in &mut self.list {
                session.flush();
            }
            self.list.iter().all(|session| !session.is_open || session.unread.is_empty())
        });
    }
}

impl Session {
    /// Takes keys and window sizes from the client. Answers whether there were keys.
    fn read(&mut self, mut terminal: Option<&mut Terminal>) -> bool {
        let mut typed = false;
        let mut buffer = [0; 16 * 1024];
        if !self.is_ending {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.is_open = false,
                Ok(count) => self.decoder.push(&buffer[..count]),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(_) => self.is_open = false,
            }
        }
        while !self.is_ending {
            let frame = self.decoder.next_frame();
            typed |= matches!(frame, Ok(Some(Frame::Data(_))));
            match (frame, self.shell.as_mut(), terminal.as_mut()) {
                (Ok(None), ..) => break,
                (Ok(Some(Frame::Data(keys))), Some(shell), _) => shell.pty.type_in(&keys),
                (Ok(Some(Frame::Data(keys))), None, Some(terminal)) => terminal.type_in(&keys),
                (Ok(Some(Frame::Window { rows, cols })), Some(shell), _) => {
                    shell.pty.resize(rows, cols)
                }
                (Ok(Some(Frame::Window { rows, cols })), None, Some(terminal)) => {
                    terminal.resize(rows, cols)
                }
                (Ok(Some(_)), ..) => {}
                (Err(error), ..) => self.end(&Frame::Error(error.to_string())),
            }
        }
        if !self.is_open {
            self.hang_up();
        }
        typed
    }

    /// Takes what the shell wrote, and lets it start once it is ready.
    fn pump_shell(&mut self) {
        let Some(shell) = self.shell.as_mut() else { return };
        for said in shell.child.hear() {
            match said {
                Said::Ready => shell.child.go(),
                Said::Failed(reason) | Said::Impossible(reason) => {
                    let frame = Frame::Error(reason);
                    self.unread.extend(frame.encode());
                    self.is_ending = true;
                }
                Said::Closed => {}
            }
        }
        let is_over = shell.exit.is_some();
        if is_over || self.unread.len() < MAX_UNREAD_BYTES {
            let shown = shell.pty.pump(!is_over);
            if !shown.is_empty() && !self.is_ending {
                self.unread.extend(Frame::Data(shown).encode());
            }
        }
        if let Some(code) = shell.exit {
            self.end(&Frame::Exit { code });
        }
    }

    /// Sends as much as the client takes.
    fn flush(&mut self) {
        while self.is_open && !self.unread.is_empty() {
            match self.stream.write(&self.unread) {
                Ok(count) => drop(self.unread.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.is_open = false;
                    self.hang_up();
                }
            }
        }
    }

    /// The last frame; only the first end counts.
    fn end(&mut self, frame: &Frame) {
        if !self.is_ending {
            self.unread.extend(frame.encode());
            self.is_ending = true;
        }
    }

    /// The client is gone: its shell gets SIGHUP, as from a closed window.
    fn hang_up(&mut self) {
        self.is_ending = true;
        self.unread.clear();
        if let Some(shell) = self.shell.as_ref().filter(|shell| shell.exit.is_none()) {
            process::signal(shell.child.pid, rustix::process::Signal::HUP);
        }
    }

    /// False when it can be dropped. A shell is kept until it was reaped.
    fn is_needed(&self) -> bool {
        let shell_runs = self.shell.as_ref().is_some_and(|shell| shell.exit.is_none());
        shell_runs || (self.is_open && !(self.is_ending && self.unread.is_empty()))
    }
}

impl Shell {
    /// Starts a command, or without one the user's shell (`$SHELL`, else `/bin/sh`), through stage
    /// two.
    fn start(
        mut plan: ExecPlan,
        command: &[String],
        term: Option<&str>,
        rows: u16,
        cols: u16,
    ) -> io::Result<Self> {
        let shell = plan.env.get("SHELL").filter(|shell| shell.starts_with('/'));
        let shell = shell.cloned().unwrap_or_else(|| "/bin/sh".to_owned());
        plan.command =
            Command::Argv(if command.is_empty() { vec![shell] } else { command.to_vec() });
        plan.terminal = true;
        // What a session writes is for its terminal.
        plan.files = muster_model::OutputFiles::default();
        if let Some(term) = term {
            plan.env.insert("TERM".to_owned(), term.to_owned());
        }
        let (pty, far) = Pty::open(plan.identity.as_ref(), rows, cols)?;
        Ok(Self { child: Child::spawn(&plan, far)?, pty, exit: None })
    }
}
