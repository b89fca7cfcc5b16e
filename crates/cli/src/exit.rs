//! Exit codes and the error that carries one. Every code is documented here, in `muster help` and
//! in docs/cli.md.

use std::fmt;
use std::path::Path;

use muster_api::ClientError;
use muster_spec::Diagnostics;

/// Something went wrong: refused by the daemon, a broken connection, a file that cannot be written.
pub const FAILURE: u8 = 1;
/// The command line or a spec is wrong; nothing was done.
pub const USAGE: u8 = 2;
/// No daemon is running, and the verb does not start one.
pub const NO_DAEMON: u8 = 3;
/// There is no such job, element, node or queue.
pub const NOT_FOUND: u8 = 4;
/// What runs the jobs does not answer: Slurm's controller, its accounting, or munge. It may answer
/// later.
pub const UNAVAILABLE: u8 = 5;
/// A job did not answer a request in time; as timeout(1).
pub const UNANSWERED: u8 = 124;
/// Interrupted by Ctrl-C; jobs go on.
pub const INTERRUPTED: u8 = 130;

/// What `muster help` and docs/cli.md say about exit codes.
pub const HELP: &str = "\
Exit codes:
  0    success; of verbs that wait for jobs: every job succeeded
  1    failure: refused, a broken connection, a file that cannot be written
  2    the command line or a spec is wrong; nothing was done
  3    no daemon is running
  4    no such job, element, node or queue
  5    Slurm does not answer: its controller, its accounting or munge
  124  of `checkpoint --wait`: the job did not answer in time
  130  interrupted; jobs go on, a submission to Slurm is withdrawn

`wait`, `run --wait`, `--watch`, `--follow` and `-it` wait for jobs and pass
on the code of the first job that did not succeed:
  its own exit code, as its first failing task left it
  1      an array of which an element did not succeed
  124    it reached its time limit (as timeout(1))
  125    it was lost, could not be started, or a dependency failed
  130    it was cancelled
  137    it ran out of memory
  128+n  signal n ended it";

/// An error as the user sees it, with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// Exit code.
    pub code: u8,
    /// Stable word of the API for it, where the API said one.
    pub word: Option<String>,
    /// Text that is printed as it is, instead of `error: message`: rendered diagnostics.
    pub rendered: Option<String>,
    /// One lowercase fragment.
    pub message: String,
    /// What to do about it.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure with [`FAILURE`] and no hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: FAILURE,
            word: None,
            rendered: None,
            message: message.into(),
            hints: Vec::new(),
        }
    }

    /// The command line is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, ..Self::new(message) }
    }

    /// Nothing of that name exists.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { code: NOT_FOUND, ..Self::new(message) }
    }

    /// Nobody listens.
    pub fn no_daemon() -> Self {
        Self { code: NO_DAEMON, ..Self::new("no daemon is running") }.hint(
            "`muster run` starts one for this user; `muster serve` runs one in the foreground",
        )
    }

    /// This user's own daemon runs, as this process, and nobody can reach it.
    pub fn unreachable(pid: u32, socket: &Path) -> Self {
        let message = format!(
            "your daemon runs as process {pid} and does not listen on {}",
            socket.display()
        );
        Self { code: NO_DAEMON, ..Self::new(message) }
            .hint("its log says why")
            .hint(format!("`kill {pid}` ends it; jobs go on, and the next daemon finds them"))
    }

    /// The daemon that all users share does not listen.
    pub fn shared_away() -> Self {
        Self { code: NO_DAEMON, ..Self::new("the shared daemon of this machine does not answer") }
            .hint("`systemctl status muster` says how it is; an administrator starts it")
            .hint("`muster serve --virtual-gpus N` is a daemon of your own that owns no device")
    }

    /// Adds what to do about it.
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

/// Returns the exit code of a refusal by its word in the API.
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
                .hint("another user's daemon listens there; MUSTER_SOCKET names another socket"),
            ClientError::Io(ref source) => Failure::new(format!("{error}: {source}"))
                .hint("jobs go on without the daemon; `muster ps` shows whether it is back"),
            ClientError::Protocol(_) => Failure::new(error.to_string())
                .hint("daemon and client may be of different versions; `muster stop-daemon`, then try again"),
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
