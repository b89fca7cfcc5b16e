//! Terminal sessions: clients attached to the task's own terminal, or to a shell beside the task.
//!
//! A shell is started through stage two, with the task's cgroups, identity, environment and
//! directory. Leaving a session does not affect the task; its shell gets SIGHUP.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use muster_model::payload::TaskCommand;
use rustix::event::PollFlags;

use super::exec::ExecPlan;
use super::stage::{Child, StageTwoMessage};
use super::terminal::{Pty, Terminal};
use crate::local::session::{Decoder, Frame};
use crate::process;
use crate::wire::{Hello, TerminalTarget};

/// Maximum number of open sessions per task.
const MAX_SESSIONS: usize = 32;
/// Bytes that a client may leave unread before its shell's output is paused, or before it is
/// dropped from the task's own terminal, which never waits for a client.
const MAX_UNREAD_BYTES: usize = 1 << 20;
/// Time that a client has to read the last frames of a session.
const FLUSH_PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct TerminalSession {
    stream: UnixStream,
    decoder: Decoder,
    unread: Vec<u8>,
    /// `None` on the task's own terminal.
    shell: Option<Shell>,
    /// No more input is read; the session closes once `unread` is sent.
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
    list: Vec<TerminalSession>,
}

impl Sessions {
    /// Opens a session; on failure the client gets an error frame.
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
        let mut session = TerminalSession {
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
            (TerminalTarget::Main, None) => Err("the task has no terminal of its own".to_owned()),
            (TerminalTarget::Main | TerminalTarget::Auto, Some(terminal)) => {
                terminal.resize(*rows, *cols);
                session.unread = Frame::Data(terminal.backlog()).encode();
                Ok(())
            }
            (TerminalTarget::Shell | TerminalTarget::Auto, _) => {
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

    /// Returns the descriptors and events to poll, each with the index of its session.
    pub(super) fn poll_fds(&self) -> Vec<(usize, BorrowedFd<'_>, PollFlags)> {
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
                wanted.extend(
                    shell
                        .child
                        .control_socket()
                        .map(|socket| (index, socket.as_fd(), PollFlags::IN)),
                );
            }
        }
        wanted
    }

    /// Moves pending input and output of session number `index`. Returns true if keys were typed.
    pub(super) fn pump(&mut self, index: usize, terminal: Option<&mut Terminal>) -> bool {
        let Some(session) = self.list.get_mut(index) else { return false };
        let typed = session.read(terminal);
        session.pump_shell();
        session.flush();
        typed
    }

    /// Sends output of the task to every session on its own terminal.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
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

    /// Handles the end of a child: if it is a session's shell, the session ends once its output is
    /// read.
    pub(super) fn ended(&mut self, pid: i32, code: i32) {
        for session in &mut self.list {
            if let Some(shell) = session.shell.as_mut().filter(|shell| shell.child.pid == pid) {
                shell.exit = Some(code);
                session.pump_shell();
                session.flush();
            }
        }
    }

    /// Drops closed sessions. Indices change.
    pub(super) fn sweep(&mut self) {
        self.list.retain(TerminalSession::is_needed);
    }

    /// Sends SIGHUP to all shells, at the end of the task.
    pub(super) fn hang_up_shells(&mut self) {
        for shell in self.list.iter().filter_map(|session| session.shell.as_ref()) {
            if shell.exit.is_none() {
                process::signal(shell.child.pid, rustix::process::Signal::HUP);
            }
        }
    }

    /// Ends every session with `code`, and waits briefly for clients to read pending output.
    pub(super) fn close(mut self, code: i32) {
        for session in &mut self.list {
            session.end(&Frame::Exit { code });
        }
        let _ = process::poll_until(FLUSH_PATIENCE, || {
            for session in &mut self.list {
                session.flush();
            }
            self.list.iter().all(|session| !session.is_open || session.unread.is_empty())
        });
    }
}

impl TerminalSession {
    /// Reads keys and window sizes from the client. Returns true if there were keys.
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

    /// Reads the shell's output, and sends Go once it is ready.
    fn pump_shell(&mut self) {
        let Some(shell) = self.shell.as_mut() else { return };
        for message in shell.child.read_messages() {
            match message {
                StageTwoMessage::Ready => shell.child.send_go(),
                StageTwoMessage::Failed(reason) | StageTwoMessage::Impossible(reason) => {
                    let frame = Frame::Error(reason);
                    self.unread.extend(frame.encode());
                    self.is_ending = true;
                }
                StageTwoMessage::Closed => {}
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

    /// Writes as much pending output as the client accepts.
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

    /// Queues the last frame of the session; later calls change nothing.
    fn end(&mut self, frame: &Frame) {
        if !self.is_ending {
            self.unread.extend(frame.encode());
            self.is_ending = true;
        }
    }

    /// Sends SIGHUP to the shell of a client that disconnected, as a closed terminal window does.
    fn hang_up(&mut self) {
        self.is_ending = true;
        self.unread.clear();
        if let Some(shell) = self.shell.as_ref().filter(|shell| shell.exit.is_none()) {
            process::signal(shell.child.pid, rustix::process::Signal::HUP);
        }
    }

    /// Returns false when the session can be dropped. A shell is kept until it is reaped.
    fn is_needed(&self) -> bool {
        let shell_runs = self.shell.as_ref().is_some_and(|shell| shell.exit.is_none());
        shell_runs || (self.is_open && !(self.is_ending && self.unread.is_empty()))
    }
}

impl Shell {
    /// Starts a command through stage two; without one, the user's shell (`$SHELL`, else
    /// `/bin/sh`).
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
            TaskCommand::Argv(if command.is_empty() { vec![shell] } else { command.to_vec() });
        plan.terminal = true;
        // Output of a session goes to its terminal, never to the job's files.
        plan.files = muster_model::OutputFiles::default();
        if let Some(term) = term {
            plan.env.insert("TERM".to_owned(), term.to_owned());
        }
        let (pty, user_end) = Pty::open(plan.identity.as_ref(), rows, cols)?;
        Ok(Self { child: Child::spawn(&plan, user_end)?, pty, exit: None })
    }
}
