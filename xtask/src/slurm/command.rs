//! Runs a program with a deadline and returns its output. For short-lived programs only; see
//! `daemon` for others.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::cluster::SlurmTestCluster;

/// Deadline in seconds: with a wrong configuration, Slurm's commands hang rather than fail.
const SECS: &str = "30";

/// Returns a command line with its deadline as prefix.
fn limited(cluster: Option<&SlurmTestCluster>) -> Command {
    let mut command = cluster.map_or_else(
        || Command::new("timeout"),
        |cluster| {
            let mut inside = cluster.inside();
            inside.arg("timeout");
            inside
        },
    );
    command.args(["--kill-after=2", SECS]);
    command
}

/// Runs a program on the machine; returns its output, or an error that contains it.
pub fn outside<S: AsRef<OsStr>>(words: &[S]) -> Result<String> {
    finish(limited(None).args(words), "")
}

/// Runs a program inside the cluster's namespace.
pub fn inside<S: AsRef<OsStr>>(cluster: &SlurmTestCluster, words: &[S]) -> Result<String> {
    finish(limited(Some(cluster)).args(words), "")
}

/// Runs a program as [`inside`] does, with a text on its standard input.
pub fn with_input<S: AsRef<OsStr>>(
    cluster: &SlurmTestCluster,
    words: &[S],
    input: &str,
) -> Result<String> {
    finish(limited(Some(cluster)).args(words), input)
}

fn finish(command: &mut Command, input: &str) -> Result<String> {
    use std::io::Write;
    let line = format!("{command:?}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context(line.clone())?;
    let mut pipe = child.stdin.take().expect("the input is piped");
    // A program that does not read its input exits early; its exit status is checked below.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{line}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}
