//! The hidden subcommand that sends one notice: its order comes on standard input, and its error is one line on
//! standard error. Run by root, it first becomes the user of the notice.

use std::io::Read;
use std::process::ExitCode;

use muster_backends::notice::NoticeTask;

/// First argument that makes the binary send a notice.
pub const NOTIFY: &str = "__notify";

/// Sends the notice of the order on standard input.
pub fn main() -> ExitCode {
    match send() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn send() -> Result<(), String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| error.to_string())?;
    let task: NoticeTask = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    task.become_sender()?;
    muster_notify::send(&task.order).map_err(|error| error.to_string())
}
