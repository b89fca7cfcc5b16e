//! The process that sends one notice: gets its order on standard input, tells an error on standard error, and is ended
//! with its process group when it takes too long.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use muster_backends::notice::NoticeTask;
use muster_model::NoticeOrder;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::auth;

/// Longest time for sending one notice.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most bytes that are read of an error.
const ERROR_BYTES: u64 = 4096;
/// Variables of the daemon that the process gets: the rest may be another user's.
const VARIABLES: [&str; 10] = [
    "PATH",
    "LANG",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Sends one notice. The error is one line for the user.
pub(super) async fn send(program: &[OsString], task: &NoticeTask) -> Result<(), String> {
    let input = serde_json::to_vec(task).map_err(|error| error.to_string())?;
    let mut child = start(program, &task.order).map_err(|error| format!("cannot send: {error}"))?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let run = async {
        if let Some(mut stdin) = child.stdin.take() {
            // A process that ends early says why on standard error.
            let _closed = stdin.write_all(&input).await;
        }
        let mut error = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            let _partial = stderr.take(ERROR_BYTES).read_to_end(&mut error).await;
        }
        (child.wait().await, error)
    };
    let Ok((status, error)) = tokio::time::timeout(TIMEOUT, run).await else {
        if let Some(group) = group {
            // The child was not waited for, so its number is its own.
            let _gone = kill_process_group(group, Signal::KILL);
        }
        return Err(format!("it took more than {} s", TIMEOUT.as_secs()));
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let text = String::from_utf8_lossy(&error);
            let line = text.lines().rfind(|line| !line.trim().is_empty());
            Err(line.map_or_else(|| status.to_string(), str::to_owned))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn start(program: &[OsString], order: &NoticeOrder) -> std::io::Result<Child> {
    let (name, arguments) = program.split_first().ok_or(std::io::ErrorKind::NotFound)?;
    let mut command = Command::new(name);
    command.args(arguments).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    if let Some(sender) = &order.sender {
        let kept = VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.env_clear().envs(kept);
        command.env("USER", sender.user.as_str()).env("LOGNAME", sender.user.as_str());
        command.env("HOME", auth::home(sender.uid).unwrap_or_else(|| "/".into()));
    }
    command.spawn()
}
