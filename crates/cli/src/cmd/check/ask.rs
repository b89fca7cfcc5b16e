//! Programs of Slurm, asked with a deadline. It understands nothing of what they print.

use std::io::ErrorKind;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;

use crate::exit::Failure;

/// Longer than a busy controller of a large cluster takes; one that is down takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a program prints.
pub async fn ask(words: &[&str]) -> Result<String> {
    said(words, PATIENCE).await.map_err(|failure| failure.hint(OFFLINE).into())
}

/// The same with another deadline.
pub async fn said(words: &[&str], patience: Duration) -> Result<String, Failure> {
    let shown = words.join(" ");
    let mut command = tokio::process::Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).kill_on_drop(true);
    // Times and numbers are read by programs here.
    command.env("LC_ALL", "C").env_remove("SLURM_TIME_FORMAT");
    let output = match tokio::time::timeout(patience, command.output()).await {
        Err(_) => {
            return Err(Failure::new(format!(
                "`{shown}` did not end within {} s",
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
        stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim();
    Err(Failure::new(format!("`{shown}` failed: {why}")))
}

const OFFLINE: &str =
    "--conf reads configuration files, or what `scontrol show config` printed elsewhere";
