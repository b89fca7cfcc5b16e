//! Runs a program with a deadline and returns its output. For short-lived programs only; see
//! `detached` for others.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Deadline in seconds: with a wrong configuration, some programs hang rather than fail.
const SECS: &str = "30";
/// Deadline of programs that read and write hundreds of megabytes.
const SLOW_SECS: &str = "300";

/// Runs a program on the machine; returns its output, or an error that contains it.
pub fn outside<S: AsRef<OsStr>>(words: &[S]) -> Result<String> {
    let mut command = Command::new("timeout");
    finish(limited(&mut command).args(words), "")
}

/// Runs a program under a prefix, such as one that enters a namespace.
pub fn under<S: AsRef<OsStr>>(prefix: Command, words: &[S]) -> Result<String> {
    with_input(prefix, words, "")
}

/// Runs a program as [`under`] does that reads and writes hundreds of megabytes.
pub fn slow_under<S: AsRef<OsStr>>(mut prefix: Command, words: &[S]) -> Result<String> {
    finish(prefix.args(["timeout", "--kill-after=2", SLOW_SECS]).args(words), "")
}

/// Runs a program as [`under`] does, with a text on its standard input.
pub fn with_input<S: AsRef<OsStr>>(
    mut prefix: Command,
    words: &[S],
    input: &str,
) -> Result<String> {
    finish(limited(prefix.arg("timeout")).args(words), input)
}

fn limited(timeout: &mut Command) -> &mut Command {
    timeout.args(["--kill-after=2", SECS])
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
