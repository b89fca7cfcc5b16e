//! Variables that shell text sets: a shell runs it and prints its environment. Nothing of the shell but the
//! variables is left, so that it stands neither between signals and the program nor in its process tree.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Variables;
use crate::env::is_owned;

/// Shells in order of preference: shell text of conda packages and of module systems is written for bash.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// Text after that of the caller: prints the variables. By its path, since the text may have changed `PATH`.
const PRINT: &str = "\nexec /usr/bin/env -0";

/// Failure of shell text.
pub(super) struct ShellError {
    /// Exit code; `None` when it was killed or never ran.
    pub code: Option<i32>,
    /// Lines of its messages that are not empty.
    pub lines: Vec<String>,
}

/// Returns true when scripts run by bash.
pub(super) fn is_bash() -> bool {
    Path::new(SHELLS[0]).exists()
}

/// Runs shell text with `arguments` as `$1`, `$2`, … and returns the variables that it leaves. Those that Muster
/// sets for every task stay as they were.
pub(super) fn variables_after(
    text: &str,
    arguments: &[&str],
    env: Variables,
) -> Result<Variables, ShellError> {
    let shell = if is_bash() { SHELLS[0] } else { SHELLS[1] };
    let output = Command::new(shell)
        .arg("-c")
        .arg(format!("{text}{PRINT}"))
        .arg("muster")
        .args(arguments)
        .env_clear()
        .envs(&env)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| ShellError { code: None, lines: vec![format!("{shell}: {error}")] })?;
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr);
        let lines = messages.lines().map(|line| line.trim().to_owned());
        let lines = lines.filter(|line| !line.is_empty()).collect();
        return Err(ShellError { code: output.status.code(), lines });
    }
    let mut after: Variables = output
        .stdout
        .split(|byte| *byte == 0)
        .filter_map(|variable| std::str::from_utf8(variable).ok()?.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    // The shell's own.
    for name in ["_", "SHLVL", "OLDPWD", "PWD"] {
        after.remove(name);
    }
    after.retain(|name, _| !is_owned(name));
    let kept = |name: &str| is_owned(name) || ["_", "SHLVL", "OLDPWD", "PWD"].contains(&name);
    after.extend(env.into_iter().filter(|(name, _)| kept(name)));
    Ok(after)
}
