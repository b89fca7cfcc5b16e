//! Starts a program that outlives this process, with a pid file and a log.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Starts `words` under a prefix, in a session of its own; a shell writes the pid file and then
/// executes the program. The caller waits for it. `dir` is its working directory.
pub fn start(
    mut prefix: Command,
    words: &[String],
    dir: &Path,
    pid_file: &Path,
    log: &Path,
) -> Result<()> {
    let log = File::create(log).with_context(|| log.display().to_string())?;
    prefix.args(["sh", "-c", "echo $$ >\"$0\"; exec \"$@\""]).arg(pid_file).args(words);
    let mut command = Command::new("setsid");
    command.arg("--fork").arg(prefix.get_program()).args(prefix.get_args()).current_dir(dir);
    for (name, value) in prefix.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    if !command.status().context("setsid did not start")?.success() {
        bail!("{} did not start", words.first().map_or("nothing", String::as_str));
    }
    Ok(())
}
