//! Runs Slurm's programs with a deadline. Their output is not parsed here.

use std::io::ErrorKind;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;

use crate::exit::Failure;

/// Deadline of a program: longer than a busy slurmctld of a large cluster takes, shorter than the
/// program's own timeout if slurmctld is down.
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the output of a program.
pub async fn ask(words: &[&str]) -> Result<String> {
    run_with_deadline(words, DEADLINE).await.map_err(|failure| failure.hint(OFFLINE).into())
}

/// Returns the output of a program, with another deadline.
pub async fn run_with_deadline(words: &[&str], patience: Duration) -> Result<String, Failure> {
    let shown = words.join(" ");
    let mut command = tokio::process::Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).kill_on_drop(true);
    // The output is parsed, so it must not depend on the locale or on the user's time format.
    command.env("LC_ALL", "C").env_remove("SLURM_TIME_FORMAT");
    let output = match tokio::time::timeout(patience, command.output()).await {
        Err(_) => {
            return Err(Failure::new(format!(
                "`{shown}` did not finish within {} s",
                patience.as_secs()
            )));
        }
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => {
            return Err(Failure::new(format!("{} is not installed here", words[0])));
        }
        Ok(Err(error)) => return Err(Failure::new(format!("`{shown}` did not start: {error}"))),
        Ok(Ok(output)) => output,
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let why =
        stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or("no error message").trim();
    Err(Failure::new(format!("`{shown}` failed: {why}")))
}

const OFFLINE: &str = "without Slurm here, --conf reads configuration files or saved output of `scontrol show config`";
