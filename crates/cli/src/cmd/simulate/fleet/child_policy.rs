//! A policy in a process of its own: writes the state to its stdin and reads the decisions from its
//! stdout, a line of JSON each. `muster-sim` checks and carries out the decisions.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use muster_model::Span;
use muster_model::simulation::PolicyState;
use muster_sim::peers::external::{Policy, PolicyError, PolicyReply, quoted};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Most bytes of an answer: some hundred thousand starts.
const MOST_BYTES: u64 = 16 << 20;
/// Poll interval for the end of a process that closed its output.
const EXIT_POLL: Duration = Duration::from_millis(5);
/// Poll interval of the stop flag while an answer is pending.
const STOP_POLL: Duration = Duration::from_millis(50);

/// A process that decides, with a thread for each direction. Its process group is killed when it is
/// dropped.
#[derive(Debug)]
pub struct ChildPolicy {
    command: String,
    child: Child,
    states: Sender<String>,
    answers: Receiver<AnswerLine>,
    timeout: Duration,
    stop: Arc<AtomicBool>,
    /// True once its exit status was read: from then on its number may be that of another process.
    is_reaped: bool,
}

/// Line that the process wrote.
#[derive(Debug)]
struct AnswerLine {
    text: String,
    /// False if it is longer than the limit, and cut there.
    is_whole: bool,
    /// True if more was written with it.
    has_more: bool,
}

impl ChildPolicy {
    /// Starts a command by the shell, with the seed in `MUSTER_SEED`. It has the stderr of this
    /// process, and a process group of its own, so that Ctrl-C stops the simulation and not the
    /// policy. `stop` says when an answer is no longer waited for.
    pub fn start(command: &str, seed: u64, timeout: Span, stop: Arc<AtomicBool>) -> Result<Self> {
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(command)
            .env("MUSTER_SEED", seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start `{command}`"))?;
        let stdin = child.stdin.take().context("the policy has no stdin")?;
        let stdout = child.stdout.take().context("the policy has no stdout")?;
        // A thread for each direction: a policy that neither reads nor writes must not stop the run
        // beyond the timeout.
        let (states, to_write) = channel();
        std::thread::spawn(move || write_states(stdin, to_write));
        // Bounded: a policy that never stops writing must not fill the memory.
        let (to_send, answers) = sync_channel(1);
        std::thread::spawn(move || read_answers(stdout, &to_send));
        let timeout = Duration::from_millis(timeout.0);
        let command = command.to_owned();
        Ok(Self { command, child, states, answers, timeout, stop, is_reaped: false })
    }

    /// Returns the next line, which must be the only one since the last state.
    fn answer(&mut self, now_ms: u64) -> Result<AnswerLine, PolicyError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left.min(STOP_POLL)) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) if self.is_stopped() => {
                    return Err(PolicyError::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
                Err(RecvTimeoutError::Timeout) => {
                    let timeout = Span(self.timeout.as_millis() as u64);
                    let at = Span(now_ms);
                    return Err(PolicyError::Failed(format!(
                        "`{}` did not answer within {timeout} (at {at} of the trace); did it end its line and flush its output? \
                         `--exec-timeout` sets this time",
                        self.command
                    )));
                }
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Says how the process ended, or that it only closed its output.
    fn ended(&mut self) -> PolicyError {
        let deadline = Instant::now() + self.timeout;
        while !self.has_exited() {
            if self.is_stopped() {
                return PolicyError::Interrupted;
            }
            if Instant::now() >= deadline {
                let command = &self.command;
                return PolicyError::Failed(format!(
                    "`{command}` closed its output without an answer"
                ));
            }
            std::thread::sleep(EXIT_POLL);
        }
        let status = self.end();
        let command = &self.command;
        PolicyError::Failed(match status {
            Ok(status) => format!("`{command}` ended ({status}) without an answer"),
            Err(error) => format!("`{command}` ended without an answer: {error}"),
        })
    }

    /// Returns whether the process has exited, without reading its status.
    fn has_exited(&self) -> bool {
        let id = WaitId::Pid(Pid::from_child(&self.child));
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error means that there is nothing to wait for.
        !matches!(waitid(id, options), Ok(None))
    }

    /// Kills what is left of the process group, and returns the exit status of its leader.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        // While the status of the leader is not read, no other group can have its number.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.is_reaped = true;
        self.child.wait()
    }

    /// Fails because of a second line.
    fn wrote_more(&self, now_ms: u64) -> PolicyError {
        PolicyError::Failed(format!(
            "`{}` wrote more than one line for a state (at {} of the trace)",
            self.command,
            Span(now_ms)
        ))
    }
}

/// Writes each state, until the process no longer reads them.
fn write_states(mut stdin: ChildStdin, states: Receiver<String>) {
    for line in states {
        if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// Reads lines, until the process closes its output or the policy is dropped.
fn read_answers(stdout: ChildStdout, answers: &SyncSender<AnswerLine>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut bytes = Vec::new();
        let read = stdout.by_ref().take(MOST_BYTES).read_until(b'\n', &mut bytes);
        if !matches!(read, Ok(1..)) {
            return;
        }
        let answer = AnswerLine {
            is_whole: bytes.ends_with(b"\n") || (bytes.len() as u64) < MOST_BYTES,
            has_more: !stdout.buffer().is_empty(),
            text: String::from_utf8_lossy(&bytes).trim_end().to_owned(),
        };
        if answers.send(answer).is_err() {
            return;
        }
    }
}

impl Policy for ChildPolicy {
    fn decide(&mut self, state: &PolicyState) -> Result<PolicyReply, PolicyError> {
        let failed = |error: serde_json::Error| PolicyError::Failed(error.to_string());
        let mut text = serde_json::to_string(state).map_err(failed)?;
        text.push('\n');
        if self.answers.try_recv().is_ok() {
            return Err(self.wrote_more(state.now_ms));
        }
        // If the writer is gone, the process has ended, and so does its output.
        let _ = self.states.send(text);
        let AnswerLine { text: line, is_whole, has_more } = self.answer(state.now_ms)?;
        let command = &self.command;
        if !is_whole {
            let most = MOST_BYTES >> 20;
            return Err(PolicyError::Failed(format!(
                "`{command}` wrote a line of more than {most} MiB: {}",
                quoted(&line)
            )));
        }
        if has_more {
            return Err(self.wrote_more(state.now_ms));
        }
        match serde_json::from_str(&line) {
            Ok(answer) => Ok(PolicyReply { answer, line }),
            Err(error) => Err(PolicyError::Failed(format!(
                "`{command}` wrote {}, which is not an answer: {error}",
                quoted(&line)
            ))),
        }
    }
}

impl Drop for ChildPolicy {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = self.end();
        }
    }
}
