//! A policy in a process of its own: writes the state to its stdin and reads the decisions from its
//! stdout, a line of JSON each. `muster-sim` checks and carries out the decisions.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use muster_model::Span;
use muster_model::simulation::PolicyState;
use muster_sim::peers::external::{Policy, PolicyReply, quoted};

/// Most bytes of an answer: some hundred thousand starts.
const MOST_BYTES: u64 = 16 << 20;
/// Time between two looks whether a process that closed its output has ended.
const EXIT_POLL: Duration = Duration::from_millis(5);

/// A process that decides, with a thread for each direction. It is killed when it is dropped.
#[derive(Debug)]
pub struct ChildPolicy {
    command: String,
    child: Child,
    states: Sender<String>,
    answers: Receiver<String>,
    timeout: Duration,
}

impl ChildPolicy {
    /// Starts a command by the shell. It has the stderr of this process, and a process group of its
    /// own, so that Ctrl-C stops the simulation and not the policy.
    pub fn start(command: &str, timeout: Span) -> Result<Self> {
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(format!("exec {command}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start `{command}`"))?;
        let mut stdin = child.stdin.take().context("the policy has no stdin")?;
        let stdout = child.stdout.take().context("the policy has no stdout")?;
        // A thread for each direction: a policy that neither reads nor writes must not stop the run
        // beyond the timeout.
        let (states, to_write) = channel::<String>();
        std::thread::spawn(move || {
            for line in to_write {
                if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
                    return;
                }
            }
        });
        let (to_send, answers) = channel();
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            loop {
                let mut bytes = Vec::new();
                let read = stdout.by_ref().take(MOST_BYTES).read_until(b'\n', &mut bytes);
                if !matches!(read, Ok(1..)) {
                    return;
                }
                let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                if to_send.send(line).is_err() {
                    return;
                }
            }
        });
        let timeout = Duration::from_millis(timeout.0);
        Ok(Self { command: command.to_owned(), child, states, answers, timeout })
    }

    /// Says how the process ended, or that it only closed its output.
    fn ended(&mut self) -> String {
        let command = &self.command;
        let deadline = Instant::now() + self.timeout;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    return format!("`{command}` ended ({status}) without an answer");
                }
                Ok(None) if Instant::now() < deadline => std::thread::sleep(EXIT_POLL),
                Ok(None) => return format!("`{command}` closed its output without an answer"),
                Err(error) => return format!("`{command}` ended without an answer: {error}"),
            }
        }
    }
}

impl Policy for ChildPolicy {
    fn decide(&mut self, state: &PolicyState) -> Result<PolicyReply, String> {
        let mut text = serde_json::to_string(state).map_err(|error| error.to_string())?;
        text.push('\n');
        // If the writer is gone, the process has ended, and so does its output.
        let _ = self.states.send(text);
        let line = match self.answers.recv_timeout(self.timeout) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                let timeout = Span(self.timeout.as_millis() as u64);
                let at = Span(state.now_ms);
                return Err(format!(
                    "`{}` did not answer within {timeout} (at {at} of the trace); `--exec-timeout` sets this time",
                    self.command
                ));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
        };
        match serde_json::from_str(&line) {
            Ok(answer) => Ok(PolicyReply { answer, line }),
            Err(error) => Err(format!(
                "`{}` wrote {}, which is not an answer: {error}",
                self.command,
                quoted(&line)
            )),
        }
    }
}

impl Drop for ChildPolicy {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
