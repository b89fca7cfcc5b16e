//! Exit codes and [`Failure`], the error that carries one. Every code is documented here, in
//! `muster help` and in docs/cli.md.

use std::fmt;
use std::path::Path;

use muster_api::ClientError;
use muster_spec::Diagnostics;

/// Request refused, connection lost, file not written, or any other failure.
pub const FAILURE: u8 = 1;
/// Command line or input file is wrong; nothing was done.
pub const USAGE: u8 = 2;
/// No daemon is running, and the subcommand does not start one.
pub const NO_DAEMON: u8 = 3;
/// No such job, array element, pod, node or queue.
pub const NOT_FOUND: u8 = 4;
/// Slurm (slurmctld, slurmdbd or munge) or the Kubernetes API server does not answer. A retry may
/// succeed.
pub const UNAVAILABLE: u8 = 5;
/// A job did not acknowledge a checkpoint request in time; the code of timeout(1).
pub const UNANSWERED: u8 = 124;
/// Interrupted by Ctrl-C; jobs keep running.
pub const INTERRUPTED: u8 = 130;

/// Section on exit codes of `muster help` and docs/cli.md.
pub const HELP: &str = "\
Exit codes:
  0    success; for commands that wait: every job succeeded
  1    failure: request refused, connection lost, file not written
  2    the command line or an input file is wrong; nothing was done
  3    no daemon is running
  4    no such job, array element, pod, node or queue
  5    Slurm (slurmctld, slurmdbd, munge) or the Kubernetes API server does
       not answer
  124  `checkpoint --wait`: the job did not acknowledge in time
  130  interrupted; jobs keep running, a submission to Slurm is withdrawn

`wait`, `run --wait`, `--watch`, `--follow` and `-it` wait for jobs and
return the code of the first job that did not succeed:
  n      exit code of its first failed task
  1      array job with an element that did not succeed
  124    time limit reached (as timeout(1))
  125    lost, could not be started, or a dependency failed
  130    cancelled
  137    out of memory
  128+n  terminated by signal n";

/// Error as the user sees it, with its exit code and hints.
#[derive(Debug)]
pub struct Failure {
    /// Exit code of the process.
    pub code: u8,
    /// Stable error code of the API; `None` for errors that did not come from the API.
    pub word: Option<String>,
    /// Text that is printed unchanged in place of `error: message`: rendered diagnostics.
    pub rendered: Option<String>,
    /// Message as one lowercase fragment.
    pub message: String,
    /// Next steps, in order.
    pub hints: Vec<String>,
}

impl Failure {
    /// Returns a failure with [`FAILURE`] and no hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: FAILURE,
            word: None,
            rendered: None,
            message: message.into(),
            hints: Vec::new(),
        }
    }

    /// Returns a failure with [`USAGE`]: the command line or a file is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, ..Self::new(message) }
    }

    /// Returns a failure with [`NOT_FOUND`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { code: NOT_FOUND, ..Self::new(message) }
    }

    /// Returns the failure of a request while no daemon is running.
    pub fn no_daemon() -> Self {
        Self { code: NO_DAEMON, ..Self::new("no daemon is running") }.hint(
            "`muster run` starts one for this user; `muster serve` runs one in the foreground",
        )
    }

    /// Returns the failure of a user's own daemon that runs as process `pid` but does not listen.
    pub fn unreachable(pid: u32, socket: &Path) -> Self {
        let message = format!(
            "your daemon runs as process {pid} but does not listen on {}",
            socket.display()
        );
        Self { code: NO_DAEMON, ..Self::new(message) }.hint("its log says why").hint(format!(
            "`kill {pid}` ends it; jobs keep running, and the next daemon finds them"
        ))
    }

    /// Returns the failure of a request while the daemon that all users share does not listen.
    pub fn shared_daemon_down() -> Self {
        Self { code: NO_DAEMON, ..Self::new("the shared daemon of this machine does not answer") }
            .hint("`systemctl status muster` shows its state; an administrator can start it")
            .hint(
                "`muster serve --virtual-gpus N` starts your own daemon, with simulated GPUs only",
            )
    }

    /// Adds a next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rendered.as_ref().unwrap_or(&self.message))
    }
}

impl std::error::Error for Failure {}

/// Returns the exit code of an error code of the API.
pub fn code_of(word: &str) -> u8 {
    match word {
        "invalid_spec" | "invalid_request" => USAGE,
        "not_found" => NOT_FOUND,
        "unavailable" => UNAVAILABLE,
        "interrupted" => INTERRUPTED,
        _ => FAILURE,
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::NoDaemon(_) => Failure::no_daemon(),
            ClientError::Api(body) => {
                let code = code_of(&body.code);
                let rendered: Vec<String> =
                    body.diagnostics.into_iter().map(|diagnostic| diagnostic.rendered).collect();
                let rendered = (!rendered.is_empty()).then(|| rendered.join("\n\n"));
                Failure { code, word: Some(body.code), rendered, message: body.message, hints: body.hints }
            }
            ClientError::NotAllowed(_) => Failure::new(error.to_string())
                .hint("the daemon there is another user's; set MUSTER_SOCKET to use another socket"),
            ClientError::Io(ref source) => Failure::new(format!("{error}: {source}"))
                .hint("jobs keep running without the daemon; `muster ps` shows whether it is back"),
            ClientError::Protocol(_) => Failure::new(error.to_string())
                .hint("daemon and client may be of different versions; run `muster stop-daemon`, then retry"),
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Self {
        let word = Some("invalid_spec".to_owned());
        let rendered = Some(diagnostics.to_string());
        Failure { code: USAGE, word, rendered, ..Failure::new("the spec is wrong") }
    }
}
