//! Runs Slurm's programs. Every call has a deadline: a controller that does not answer must not
//! block the user.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use muster_slurm::job::TIME_FORMAT;

/// Reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The program cannot be run.
    #[error("cannot run {program}: {source}")]
    Start {
        /// Name of the program.
        program: String,
        /// Error of starting the program.
        source: std::io::Error,
    },
    /// The deadline has passed.
    #[error("{program} did not answer within {secs}s")]
    Timeout {
        /// Name of the program.
        program: String,
        /// Deadline of the call in seconds.
        secs: u64,
    },
    /// The program exited with an error.
    #[error("{program}: {message}")]
    Failed {
        /// Name of the program.
        program: String,
        /// Its message, or its exit status.
        message: String,
        /// Exit code; `None` when a signal ended it.
        code: Option<i32>,
    },
}

/// Parts of the messages of Slurm's programs when a request or its answer was lost on the way: all
/// communication failures of slurm_errno.c (22.05 to 26.05), what 22.05 printed with slurmctld,
/// slurmdbd and munged down, and errors of sockets in libc's words.
const SILENCE: [&str; 26] = [
    // slurm_errno.c: to or from slurmctld.
    "Unable to contact",
    "Rate limit exceeded",
    "Slurm backup controller",
    // slurm_errno.c: any message.
    "Unexpected message received",
    "Communication connection failure",
    "Communication shutdown failure",
    "Message send failure",
    "Message receive failure",
    "Unexpected missing socket",
    "Connection rejected by handler",
    "Connection forced closed",
    "delayed socket error",
    "shutting down and closing all communications",
    "Protocol authentication",
    "Munge encode failed",
    "Problem talking to the database",
    "Zero Bytes",
    "not responding",
    // libc.
    "timed out",
    "Connection re",
    "connection abort",
    "Broken pipe",
    "Transport endpoint",
    "is unreachable",
    "No route to host",
    "Resource temporarily unavailable",
];

impl ToolError {
    /// Returns whether there was no answer: the request may or may not have arrived, and a retry
    /// may succeed.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        match self {
            ToolError::Start { .. } => false,
            ToolError::Timeout { .. } => true,
            ToolError::Failed { message, code, .. } => {
                code.is_none() || SILENCE.iter().any(|words| message.contains(words))
            }
        }
    }
}

/// Runner of Slurm's programs.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Directory of the programs; `None` where they are in the PATH.
    folder: Option<PathBuf>,
    /// Set to hide `SLURM_JWT` from the programs.
    without_token: bool,
    deadline: Duration,
}

/// Variable with a token, with which Slurm's programs act as its user instead of the caller.
const TOKEN: &str = "SLURM_JWT";

/// Program that submits jobs.
const SBATCH: &str = "sbatch";

/// Timeout of a call; Slurm's own `MessageTimeout` is 10 s, and its programs retry.
const DEADLINE: Duration = Duration::from_secs(60);

impl Default for Tools {
    fn default() -> Self {
        Self::new()
    }
}

impl Tools {
    /// Uses the programs in the PATH.
    #[must_use]
    pub fn new() -> Self {
        Self { folder: None, without_token: false, deadline: DEADLINE }
    }

    /// Uses the programs in this directory, such as `/opt/slurm/bin`.
    #[must_use]
    pub fn in_folder(self, folder: PathBuf) -> Self {
        Self { folder: Some(folder), ..self }
    }

    /// Hides a token for slurmrestd from the programs, so that they act as the caller: an expired
    /// token then does no harm.
    #[must_use]
    pub fn without_token(self) -> Self {
        Self { without_token: true, ..self }
    }

    /// Returns the path of one of Slurm's programs; other programs by name.
    fn path(&self, program: &str) -> String {
        let is_slurm = program.starts_with('s') && program != "sh";
        match &self.folder {
            Some(folder) if is_slurm => folder.join(program).to_string_lossy().into_owned(),
            _ => program.to_owned(),
        }
    }

    /// Returns the directory of Slurm's programs; `None` where they are in the PATH.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the command line of a program.
    #[must_use]
    pub fn command(&self, program: &str, args: &[&str]) -> Vec<String> {
        let hidden: &[&str] = if self.without_token { &["env", "-u", TOKEN] } else { &[] };
        let hidden = hidden.iter().map(|word| (*word).to_owned());
        hidden.chain([self.path(program)]).chain(args.iter().map(|arg| (*arg).to_owned())).collect()
    }

    /// Runs a program and returns its output.
    ///
    /// # Errors
    /// When it cannot be run, does not answer, or exits with a code other than 0.
    pub async fn output(&self, program: &str, args: &[&str]) -> Result<String, ToolError> {
        self.without(&[], program, args).await
    }

    /// Runs a program without these variables.
    ///
    /// # Errors
    /// As [`Tools::output`].
    pub async fn without(
        &self,
        names: &[String],
        program: &str,
        args: &[&str],
    ) -> Result<String, ToolError> {
        self.run(names, program, args, false).await
    }

    /// Runs a program in its own process group: Ctrl-C at the terminal does not interrupt it.
    ///
    /// # Errors
    /// As [`Tools::output`].
    pub async fn detached(
        &self,
        names: &[String],
        program: &str,
        args: &[&str],
    ) -> Result<String, ToolError> {
        self.run(names, program, args, true).await
    }

    async fn run(
        &self,
        names: &[String],
        program: &str,
        args: &[&str],
        is_detached: bool,
    ) -> Result<String, ToolError> {
        // 1. Start it.
        let start = |source| ToolError::Start { program: program.to_owned(), source };
        let mut command = Command::new(self.path(program));
        command.args(args).kill_on_drop(true);
        // sbatch passes its environment on to the job, whose times and language are the user's.
        if program != SBATCH {
            command
                .env("SLURM_TIME_FORMAT", TIME_FORMAT)
                .env("SLURM_BITSTR_LEN", "0")
                .env("LC_ALL", "C");
        }
        for name in names.iter().map(String::as_str).chain(self.without_token.then_some(TOKEN)) {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if is_detached {
            command.process_group(0);
        }
        // 2. Wait for it.
        let secs = self.deadline.as_secs();
        let output = timeout(self.deadline, command.output())
            .await
            .map_err(|_| ToolError::Timeout { program: program.to_owned(), secs })?
            .map_err(start)?;
        // 3. Return its output or error.
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = message(program, &String::from_utf8_lossy(&output.stderr));
        let message = if message.is_empty() { output.status.to_string() } else { message };
        Err(ToolError::Failed { program: program.to_owned(), message, code: output.status.code() })
    }
}

/// Strips the prefix of each line of stderr: `sbatch: error: Batch job submission failed: Invalid
/// account`.
fn message(program: &str, stderr: &str) -> String {
    let prefix = format!("{program}: ");
    let lines = stderr.lines().map(|line| line.strip_prefix(&prefix).unwrap_or(line));
    let lines = lines.map(|line| line.strip_prefix("error: ").unwrap_or(line).trim());
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_is_heard_or_its_refusal_is() {
        let tools = Tools::new();
        assert_eq!(tools.output("printf", &["text"]).await.unwrap(), "text");
        let refused =
            tools.output("sh", &["-c", "echo 'sh: error: no such account' >&2; exit 3"]).await;
        assert!(
            matches!(&refused, Err(ToolError::Failed { message, code: Some(3), .. }) if message == "no such account")
        );
        let missing = tools.output("muster-no-such-program", &[]).await;
        assert!(matches!(missing, Err(ToolError::Start { .. })));
    }

    #[test]
    fn silence_is_told_apart_from_a_refusal() {
        let failed = |message: &str| ToolError::Failed {
            program: "sbatch".into(),
            message: message.into(),
            code: Some(1),
        };
        for message in [
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
            "slurm_send_node_msg: auth_g_create: REQUEST_JOB_INFO has authentication error; slurm_load_jobs error: Protocol authentication error",
            "Sending PersistInit msg: Connection refused; Problem talking to the database: Connection refused",
            "slurm_msg_sendto: address:port=10.0.0.1:6817 msg_type=4003: Unexpected missing socket error; Batch job submission failed: Unexpected missing socket error",
            "Batch job submission failed: Broken pipe",
        ] {
            assert!(failed(message).is_silence(), "{message}");
        }
        assert!(!failed("Batch job submission failed: Invalid account").is_silence());
        assert!(ToolError::Timeout { program: "squeue".into(), secs: 1 }.is_silence());
    }

    #[test]
    fn a_terminal_of_somebody_with_a_token_is_still_his_own() {
        let tools = Tools::new().in_folder("/opt/slurm/bin".into());
        assert_eq!(tools.command("srun", &["--pty"]), ["/opt/slurm/bin/srun", "--pty"]);
        let words = ["env", "-u", "SLURM_JWT", "/opt/slurm/bin/srun", "--pty"];
        assert_eq!(tools.without_token().command("srun", &["--pty"]), words);
    }

    #[tokio::test]
    async fn a_job_does_not_get_what_is_set_to_read_answers() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        for program in ["sbatch", "squeue"] {
            let path = folder.path().join(program);
            std::fs::write(
                &path,
                "#!/bin/sh\necho \"${SLURM_TIME_FORMAT-unset} ${SLURM_BITSTR_LEN-unset} ${LC_ALL-unset}\"\n",
            )
            .unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let tools = Tools::new().in_folder(folder.path().to_owned());
        let own = |name: &str| std::env::var(name).unwrap_or_else(|_| "unset".to_owned());
        let of_user = ["SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN", "LC_ALL"].map(own).join(" ");
        assert_eq!(tools.output("sbatch", &[]).await.unwrap().trim_end(), of_user);
        assert_eq!(tools.output("squeue", &[]).await.unwrap(), "%s 0 C\n");
    }

    #[tokio::test]
    async fn who_does_not_answer_is_left() {
        let tools = Tools { deadline: Duration::from_millis(50), ..Tools::new() };
        assert!(matches!(tools.output("sleep", &["60"]).await, Err(ToolError::Timeout { .. })));
    }
}
