//! Connects this terminal to a terminal in a job: raw mode during the session, restored in any
//! case; changes of the window size are forwarded. Frames are those of
//! `muster_backends::local::session`; the daemon passes them through. `~.` at the start of a line
//! detaches, as in ssh.

use std::io::{self, IsTerminal, Read, Write};

use anyhow::{Context, Result};
use muster_api::client::AttachStream;
use muster_api::query::AttachQuery;
use muster_api::{Client, ClientError};
use muster_backends::local::session::{self, Decoder, Frame};
use muster_backends::wire::Hello;
pub use muster_backends::wire::TerminalTarget as SessionTarget;
use muster_model::view::JobState;
use muster_report::reason;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::app::App;
use crate::exit::Failure;
use crate::jobref::JobTarget;
use crate::track::{PATIENCE, Tracker};

/// Bytes per read from the terminal or the stream.
const CHUNK: usize = 8192;

/// Returns an error unless stdin and stdout are a terminal.
pub fn require() -> Result<()> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        Ok(())
    } else {
        Err(Failure::usage("this needs a terminal on stdin and stdout")
            .hint("without a terminal, use `muster run --follow` or `muster logs -f`")
            .into())
    }
}

/// Outcome of an interactive job for this terminal.
pub enum InteractiveEnd {
    /// The terminal was connected until the job ended.
    Shown,
    /// The job ended before the terminal was connected.
    Missed,
    /// The user detached; the job keeps running.
    Left,
}

/// Connects to the terminal of an interactive job as soon as it runs, until it ends. Prints why the
/// job is pending until then.
pub async fn run_own(app: &App, client: &Client, target: JobTarget) -> Result<InteractiveEnd> {
    let mut tracker = Tracker::of(client, &[target.job]);
    let mut keys = keys();
    let mut said = String::new();
    loop {
        let list = tracker.next(PATIENCE).await?;
        let Some(job) = list.jobs.first() else {
            return Err(
                Failure::not_found(format!("job {} does not exist any more", target.job)).into()
            );
        };
        match job.state {
            JobState::Starting | JobState::Running => {
                match AttachSession::open(client, target, 0, SessionTarget::Main, Vec::new()).await
                {
                    Ok(session) => match session.run(&mut keys).await? {
                        SessionEnd::Exit(_) => return Ok(InteractiveEnd::Shown),
                        SessionEnd::Left => return Ok(InteractiveEnd::Left),
                        // The task is not running yet, or has ended: wait for the next change.
                        SessionEnd::Refused(_) => {}
                    },
                    Err(ClientError::Api(body)) if body.code == "conflict" => {}
                    // The supervisor has just exited; if the daemon is gone, the next request for
                    // changes fails.
                    Err(ClientError::Io(_)) => {}
                    Err(error) => return Err(Failure::from(error).into()),
                }
            }
            state if state.is_final() => return Ok(InteractiveEnd::Missed),
            _ => {}
        }
        let why =
            job.waiting_for.as_ref().map(|why| reason::short(why, app.ui.context().at(list.now)));
        if let Some(why) = why.filter(|why| *why != said) {
            app.ui.status(&format!("job {} is pending: {why}", job.label()));
            said = why;
        }
    }
}

/// Outcome of a session.
pub enum SessionEnd {
    /// The program in the session exited with this code.
    Exit(i32),
    /// The user detached; the program keeps running.
    Left,
    /// The supervisor refused the session, with the reason.
    Refused(String),
}

/// Connection to a terminal in a job.
pub struct AttachSession {
    stream: AttachStream,
}

impl AttachSession {
    /// Connects to a task, without showing output yet.
    pub async fn open(
        client: &Client,
        target: JobTarget,
        rank: u32,
        which: SessionTarget,
        command: Vec<String>,
    ) -> Result<Self, ClientError> {
        let query = AttachQuery { index: target.index, rank: Some(rank) };
        let mut stream = client.attach(target.job, query).await?;
        let (rows, cols) = window();
        let hello = Hello::Terminal {
            target: which,
            term: std::env::var("TERM").ok(),
            rows,
            cols,
            command,
        };
        stream.write_all(&session::open(&hello)).await.map_err(ClientError::Io)?;
        Ok(Self { stream })
    }

    /// Connects this terminal until the program in the session ends.
    pub async fn run(self, keys: &mut KeyReceiver) -> Result<SessionEnd> {
        let (mut from_task, mut to_task) = tokio::io::split(self.stream);
        let raw = RawMode::enter()?;
        let end = pump(keys, &mut from_task, &mut to_task).await;
        drop(raw);
        end
    }
}

impl AttachSession {
    /// Shows the output of the session until its program ends, without sending input. Carriage
    /// returns that the job's terminal adds are removed.
    pub async fn watch(self) -> Result<SessionEnd> {
        let (mut from_task, mut to_task) = tokio::io::split(self.stream);
        // The sender is kept until the end: dropping it would mean that the user detached.
        let (_open, mut keys) = unbounded_channel();
        pump(&mut keys, &mut from_task, &mut to_task).await
    }
}

async fn pump(
    keys: &mut KeyReceiver,
    from_task: &mut (impl AsyncReadExt + Unpin),
    to_task: &mut (impl AsyncWriteExt + Unpin),
) -> Result<SessionEnd> {
    let mut resized = signal(SignalKind::window_change()).context("cannot handle SIGWINCH")?;
    let mut terminated = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut hung_up = signal(SignalKind::hangup()).context("cannot handle SIGHUP")?;
    let mut decoder = Decoder::default();
    let mut escape = Escape::default();
    let mut shown = [0; CHUNK];
    let mut has_shown = false;
    loop {
        tokio::select! {
            read = from_task.read(&mut shown) => {
                // When the supervisor exits, the connection is reset or closed.
                let read = read.unwrap_or(0);
                if read == 0 && !has_shown {
                    return Ok(SessionEnd::Refused("the session was closed".to_owned()));
                } else if read == 0 {
                    return Err(Failure::new("the session broke off").into());
                }
                decoder.push(&shown[..read]);
                while let Some(frame) = decoder.next_frame().context("the session broke")? {
                    match frame {
                        Frame::Data(bytes) => {
                            has_shown |= !bytes.is_empty();
                            show(&bytes)?;
                        }
                        Frame::Exit { code } => return Ok(SessionEnd::Exit(code)),
                        Frame::Error(why) => return Ok(SessionEnd::Refused(why)),
                        Frame::Window { .. } => {}
                    }
                }
            }
            typed = keys.recv() => {
                let Some(bytes) = typed.and_then(|typed| escape.pass(&typed)) else {
                    return Ok(SessionEnd::Left);
                };
                if !bytes.is_empty() {
                    to_task.write_all(&Frame::Data(bytes).encode()).await.context("the session broke")?;
                }
            }
            _ = resized.recv() => {
                let (rows, cols) = window();
                to_task.write_all(&Frame::Window { rows, cols }.encode()).await.context("the session broke")?;
            }
            _ = terminated.recv() => return Ok(SessionEnd::Left),
            _ = hung_up.recv() => return Ok(SessionEnd::Left),
        }
    }
}

fn show(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    if stdout.is_terminal() {
        stdout.write_all(bytes)?
    } else {
        stdout
            .write_all(&bytes.iter().copied().filter(|byte| *byte != b'\r').collect::<Vec<_>>())?
    }
    Ok(stdout.flush()?)
}

fn window() -> (u16, u16) {
    tcgetwinsize(io::stdout()).map_or((24, 80), |size| (size.ws_row, size.ws_col))
}

/// Detects `~.` at the start of a line in the input; `~~` there sends one `~`.
#[derive(Debug, Default)]
struct Escape {
    state: EscapeState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EscapeState {
    #[default]
    LineStart,
    Tilde,
    Inside,
}

impl Escape {
    /// Returns the input to pass on; `None` to detach.
    fn pass(&mut self, typed: &[u8]) -> Option<Vec<u8>> {
        let mut passed = Vec::with_capacity(typed.len() + 1);
        for &key in typed {
            match (self.state, key) {
                (EscapeState::LineStart, b'~') => {
                    self.state = EscapeState::Tilde;
                    continue;
                }
                (EscapeState::Tilde, b'.') => return None,
                (EscapeState::Tilde, b'~') => {}
                (EscapeState::Tilde, _) => passed.push(b'~'),
                _ => {}
            }
            passed.push(key);
            self.state = if matches!(key, b'\r' | b'\n') {
                EscapeState::LineStart
            } else {
                EscapeState::Inside
            };
        }
        Some(passed)
    }
}

/// Receiver of the input of the terminal, in chunks of bytes.
pub type KeyReceiver = UnboundedReceiver<Vec<u8>>;

/// Starts a thread that reads the input of the terminal. A thread is needed because the
/// non-blocking mode of a terminal is shared with the shell that started this process. The thread
/// ends with the process, so this is called once.
pub fn keys() -> KeyReceiver {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        let mut typed = [0; CHUNK];
        while let Ok(read @ 1..) = io::stdin().lock().read(&mut typed) {
            if sender.send(typed[..read].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Raw mode of the terminal on stdin, undone when dropped.
pub struct RawMode {
    saved: Termios,
}

impl RawMode {
    /// Reads keys from now on as they are typed, and shows none of them.
    pub fn enter() -> Result<Self> {
        let saved = tcgetattr(io::stdin()).context("cannot read the terminal's mode")?;
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)
            .context("cannot set the terminal's mode")?;
        Ok(Self { saved })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // If this fails, the terminal is gone and nothing can be restored.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.saved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_escape_counts_only_at_the_start_of_a_line() {
        let check = |parts: &[&str], expected: Option<&str>| {
            let mut escape = Escape::default();
            let mut passed = Vec::new();
            for part in parts {
                match escape.pass(part.as_bytes()) {
                    Some(bytes) => passed.extend(bytes),
                    None => return assert_eq!(None, expected, "{parts:?}"),
                }
            }
            assert_eq!(Some(String::from_utf8(passed).unwrap().as_str()), expected, "{parts:?}");
        };
        check(&["ls ~.\r"], Some("ls ~.\r"));
        check(&["~."], None);
        check(&["ls\r~."], None);
        check(&["ls\r", "~", "."], None);
        check(&["~~.\r"], Some("~.\r"));
        check(&["~/bin\r"], Some("~/bin\r"));
    }
}
