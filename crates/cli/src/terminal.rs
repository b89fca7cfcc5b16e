//! This terminal, connected to one in a job: raw mode while it lasts, window sizes forwarded,
//! always restored.
//!
//! Frames are `muster_backends::local::session`'s; the daemon passes them through. `~.` at the
//! start of a line leaves the session (as in ssh); what runs in it goes on.

use std::io::{self, IsTerminal, Read, Write};

use anyhow::{Context, Result};
use muster_api::client::AttachStream;
use muster_api::query::AttachQuery;
use muster_api::{Client, ClientError};
use muster_backends::local::session::{self, Decoder, Frame};
use muster_backends::wire::Hello;
pub use muster_backends::wire::Target as SessionTarget;
use muster_model::view::State;
use muster_report::reason;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::app::App;
use crate::exit::Failure;
use crate::jobref::Target;
use crate::track::{PATIENCE, Tracker};

/// Bytes read at once from keys or stream.
const CHUNK: usize = 8192;

/// Refuses where there is no terminal to connect.
pub fn require() -> Result<()> {
    match io::stdin().is_terminal() && io::stdout().is_terminal() {
        true => Ok(()),
        false => Err(Failure::usage("this needs a terminal on stdin and stdout")
            .hint("without a terminal: `muster run --follow`, and `muster logs -f`")
            .into()),
    }
}

/// How an interactive job ended for this terminal.
pub enum OwnEnd {
    /// It was shown to its end.
    Shown,
    /// It ended before this terminal was connected.
    Missed,
    /// The person left; it goes on.
    Left,
}

/// Connects to the job's own terminal as soon as it runs, saying why while it does not, until it
/// ends.
pub async fn run_own(app: &App, client: &Client, target: Target) -> Result<OwnEnd> {
    let mut tracker = Tracker::of(client, &[target.job]);
    let mut keys = keys();
    let mut said = String::new();
    loop {
        let list = tracker.next(PATIENCE).await?;
        let Some(job) = list.jobs.first() else {
            return Err(Failure::not_found(format!("job {} is gone", target.job)).into());
        };
        match job.state {
            State::Starting | State::Running => {
                match Session::open(client, target, 0, SessionTarget::Main, Vec::new()).await {
                    Ok(session) => match session.run(&mut keys).await? {
                        End::Exit(_) => return Ok(OwnEnd::Shown),
                        End::Left => return Ok(OwnEnd::Left),
                        // It does not run yet, or no more: the next change tells.
                        End::Refused(_) => {}
                    },
                    Err(ClientError::Api(body)) if body.code == "conflict" => {}
                    // Its supervisor was just going; if it is the daemon that is gone, asking for
                    // changes says so.
                    Err(ClientError::Io(_)) => {}
                    Err(error) => return Err(Failure::from(error).into()),
                }
            }
            state if state.is_final() => return Ok(OwnEnd::Missed),
            _ => {}
        }
        let why = job.waiting_for.as_ref().map(|why| reason::short(why, list.now, &app.ui.style()));
        if let Some(why) = why.filter(|why| *why != said) {
            app.ui.status(&format!("job {} waits: {why}", job.job));
            said = why;
        }
    }
}

/// How a session ended.
pub enum End {
    /// What ran on the other side ended with this code.
    Exit(i32),
    /// The person left; what runs there goes on.
    Left,
    /// The other side does not take the session, and why.
    Refused(String),
}

/// A connection to a terminal in a job.
pub struct Session {
    stream: AttachStream,
}

impl Session {
    /// Connects to a task; nothing is shown yet.
    pub async fn open(
        client: &Client,
        target: Target,
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

    /// Connects this terminal until what runs on the other side ends.
    pub async fn run(self, keys: &mut Keys) -> Result<End> {
        let (mut from_task, mut to_task) = tokio::io::split(self.stream);
        let raw = Raw::enter()?;
        let end = pump(keys, &mut from_task, &mut to_task).await;
        drop(raw);
        end
    }
}

impl Session {
    /// Shows what is printed on the other side until it ends; it gets no input. The terminal there
    /// ends lines as terminals do, which is undone here.
    pub async fn watch(self) -> Result<End> {
        let (mut from_task, mut to_task) = tokio::io::split(self.stream);
        // Held to the end: a sender that is gone would mean that the person has left.
        let (_open, mut keys) = unbounded_channel();
        pump(&mut keys, &mut from_task, &mut to_task).await
    }
}

async fn pump(
    keys: &mut Keys,
    from_task: &mut (impl AsyncReadExt + Unpin),
    to_task: &mut (impl AsyncWriteExt + Unpin),
) -> Result<End> {
    let mut resized =
        signal(SignalKind::window_change()).context("cannot hear of window changes")?;
    let mut terminated = signal(SignalKind::terminate()).context("cannot hear of termination")?;
    let mut hung_up = signal(SignalKind::hangup()).context("cannot hear of a hang-up")?;
    let mut decoder = Decoder::default();
    let mut escape = Escape::default();
    let mut shown = [0; CHUNK];
    let mut has_shown = false;
    loop {
        tokio::select! {
            read = from_task.read(&mut shown) => {
                // A supervisor that is gone resets the connection or closes it.
                let read = read.unwrap_or(0);
                if read == 0 && !has_shown {
                    return Ok(End::Refused("the session broke off".to_owned()));
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
                        Frame::Exit { code } => return Ok(End::Exit(code)),
                        Frame::Error(why) => return Ok(End::Refused(why)),
                        Frame::Window { .. } => {}
                    }
                }
            }
            typed = keys.recv() => {
                let Some(bytes) = typed.and_then(|typed| escape.pass(&typed)) else {
                    return Ok(End::Left);
                };
                if !bytes.is_empty() {
                    to_task.write_all(&Frame::Data(bytes).encode()).await.context("the session broke")?;
                }
            }
            _ = resized.recv() => {
                let (rows, cols) = window();
                to_task.write_all(&Frame::Window { rows, cols }.encode()).await.context("the session broke")?;
            }
            _ = terminated.recv() => return Ok(End::Left),
            _ = hung_up.recv() => return Ok(End::Left),
        }
    }
}

fn show(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.is_terminal() {
        true => stdout.write_all(bytes)?,
        false => stdout
            .write_all(&bytes.iter().copied().filter(|byte| *byte != b'\r').collect::<Vec<_>>())?,
    }
    Ok(stdout.flush()?)
}

fn window() -> (u16, u16) {
    tcgetwinsize(io::stdout()).map_or((24, 80), |size| (size.ws_row, size.ws_col))
}

/// Looks for `~.` at the start of a line among the keys; `~~` there is one `~`.
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
    /// What to pass on; `None` when the session is to be left.
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

/// What is typed.
pub type Keys = UnboundedReceiver<Vec<u8>>;

/// What is typed, read by a thread of its own: a terminal can only be read without blocking in a
/// mode that it shares with the shell that started us. The thread ends with the process, so this is
/// called once.
pub fn keys() -> Keys {
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
struct Raw {
    saved: Termios,
}

impl Raw {
    fn enter() -> Result<Self> {
        let saved = tcgetattr(io::stdin()).context("cannot read the terminal's mode")?;
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)
            .context("cannot set the terminal's mode")?;
        Ok(Self { saved })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Nothing can be done where even this fails: the terminal is gone.
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
