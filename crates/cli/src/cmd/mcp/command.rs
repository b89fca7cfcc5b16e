//! Runs a command of this binary for a tool, and returns what it prints.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::tools::ToolCall;
use crate::args::Global;

/// Longest time for one command.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Most bytes of an answer: more would fill the memory of an assistant.
const MAX_BYTES: usize = 60_000;

/// Program with the options that every command gets.
pub(super) struct ToolCommand {
    program: PathBuf,
    options: Vec<String>,
}

impl ToolCommand {
    /// Makes commands for the same place as the server's.
    pub(super) fn new(global: &Global) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let on = global.on.as_ref().map(|on| format!("--on={on}"));
        let socket = global.socket.as_ref().map(|path| format!("--socket={}", path.display()));
        Ok(Self { program, options: on.into_iter().chain(socket).collect() })
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// What it prints if it fails.
    pub(super) async fn run(&self, call: &ToolCall) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.args(&call.arguments).args(&self.options).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Set, they would contradict the options.
        command.env_remove("MUSTER_ON").env_remove("MUSTER_SOCKET");
        let mut child = command.spawn().map_err(|error| format!("cannot run muster: {error}"))?;
        let input = call.input.clone();
        let run = async move {
            if let Some(mut stdin) = child.stdin.take() {
                // A command that does not read it closes it.
                let _closed = stdin.write_all(input.as_bytes()).await;
            }
            child.wait_with_output().await
        };
        let output = match tokio::time::timeout(TIMEOUT, run).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Err(format!("muster cannot be run: {error}")),
            Err(_) => return Err(format!("no answer after {} s", TIMEOUT.as_secs())),
        };
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        let text = shortened(text);
        if output.status.success() { Ok(text) } else { Err(text) }
    }
}

/// Returns the first part of a long text, and says so.
fn shortened(mut text: String) -> String {
    if text.len() <= MAX_BYTES {
        return text;
    }
    let end = text.floor_char_boundary(MAX_BYTES);
    let left_out = text.len() - end;
    text.truncate(end);
    text.push_str(&format!("\n… {left_out} more bytes; ask for less\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_at_a_character_and_says_so() {
        assert_eq!(shortened("short".to_owned()), "short");
        let long = shortened("é".repeat(MAX_BYTES));
        assert!(long.ends_with("\n… 60000 more bytes; ask for less\n"), "{}", &long[MAX_BYTES..]);
    }
}
