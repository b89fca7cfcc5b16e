//! Programs that a notice is passed to: a command of the user, or that which takes mail.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use muster_model::NoticeOrder;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::SendError;
use crate::message;

/// Most bytes that are read of a program's errors.
const ERROR_BYTES: u64 = 16 * 1024;

/// Runs a command of the user with the notice as JSON on standard input.
pub(crate) fn run(order: &NoticeOrder, text: &str) -> Result<(), SendError> {
    let notice = &order.notice;
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(text);
    command.env("MUSTER_NOTICE_EVENT", notice.event.word());
    command.env("MUSTER_NOTICE_JOB", notice.job.to_string());
    command.env("MUSTER_NOTICE_NAME", &notice.name);
    command.env("MUSTER_NOTICE_TEXT", message::sentence(order));
    feed("the command", command, message::as_json(order).to_string().as_bytes())
}

/// Runs a program with this input, and waits for its end.
pub(crate) fn feed(name: &str, mut command: Command, input: &[u8]) -> Result<(), SendError> {
    let not_run = |source| SendError::NotRun { program: name.to_owned(), source };
    // A file in memory: processes that outlive the program keep a pipe open, and would be waited for.
    let memory =
        memfd_create("errors", MemfdFlags::CLOEXEC).map_err(|error| not_run(error.into()))?;
    let mut errors = File::from(memory);
    let for_child = errors.try_clone().map_err(not_run)?;
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(for_child);
    let mut child = command.spawn().map_err(not_run)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input closes the pipe.
        let _closed = stdin.write_all(input);
    }
    let status = child.wait().map_err(not_run)?;
    if status.success() {
        return Ok(());
    }
    let end = errors.seek(SeekFrom::End(0)).map_err(not_run)?;
    errors.seek(SeekFrom::Start(end.saturating_sub(ERROR_BYTES))).map_err(not_run)?;
    let mut text = Vec::new();
    errors.take(ERROR_BYTES).read_to_end(&mut text).map_err(not_run)?;
    let text = String::from_utf8_lossy(&text);
    let words = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    Err(SendError::Ended {
        program: name.to_owned(),
        ending: ending(status),
        words: words.to_owned(),
    })
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::notice::NoticeAddress;

    use super::*;
    use crate::message::tests::order;

    #[test]
    fn a_command_gets_the_notice_and_its_last_error_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seen");
        let text = format!(
            "{{ echo \"$MUSTER_NOTICE_EVENT $MUSTER_NOTICE_JOB\"; cat; }} > {}",
            file.display()
        );
        let order = order(NoticeAddress::Command(text.clone()));
        run(&order, &text).unwrap();
        let seen = std::fs::read_to_string(&file).unwrap();
        let (first, rest) = seen.split_once('\n').unwrap();
        assert_eq!(first, "failure 12");
        let notice: serde_json::Value = serde_json::from_str(rest).unwrap();
        assert_eq!(notice["queue"], "lab/vision");

        let error = run(&order, "echo first >&2; echo no such channel >&2; exit 3").unwrap_err();
        assert_eq!(error.to_string(), "the command exited with 3: no such channel");
        // A process that goes on does not hold it up.
        run(&order, "sleep 60 & exit 0").unwrap();
        let error = run(&order, "kill -9 $$").unwrap_err();
        assert_eq!(error.to_string(), "the command was ended by signal 9");
    }
}
