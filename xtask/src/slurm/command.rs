//! Runs a program with a deadline and keeps what it said. It must not be used for what runs on, see
//! `daemon`.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::site::Site;

/// A configuration that is wrong makes Slurm's commands hang rather than fail.
const SECS: &str = "30";

/// Prefixes a command line with its deadline.
fn limited(site: Option<&Site>) -> Command {
    let mut command = site.map_or_else(
        || Command::new("timeout"),
        |site| {
            let mut inside = site.inside();
            inside.arg("timeout");
            inside
        },
    );
    command.args(["--kill-after=2", SECS]);
    command
}

/// Runs a program on the machine; its output, or an error that holds what it said.
pub fn outside<S: AsRef<OsStr>>(words: &[S]) -> Result<String> {
    finish(limited(None).args(words), "")
}

/// Runs a program inside the cluster's namespace.
pub fn inside<S: AsRef<OsStr>>(site: &Site, words: &[S]) -> Result<String> {
    finish(limited(Some(site)).args(words), "")
}

/// As [`inside`], with a text on its standard input.
pub fn told<S: AsRef<OsStr>>(site: &Site, words: &[S], input: &str) -> Result<String> {
    finish(limited(Some(site)).args(words), input)
}

fn finish(command: &mut Command, input: &str) -> Result<String> {
    use std::io::Write;
    let line = format!("{command:?}");
    let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
    let mut child =
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn().context(line.clone())?;
    let mut pipe = child.stdin.take().expect("the input is piped");
    // Who does not read it ends early, and its exit status says so.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{line}: {}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(said)
}
