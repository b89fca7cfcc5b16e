//! Stage two of a task: becomes the user's program.
//!
//! It is started during Prepare and does everything but the exec, then waits at the gate for Go.
//! What it is told comes through the gate (its standard input) and never through its own
//! environment: as root it must not run with variables that a user chose. Identity changes before
//! any path that a user named is touched.

use std::ffi::CString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, ExitCode};

use muster_model::OutputFiles;
use muster_model::payload::{Command, Identity};
use nix::unistd::{Gid, Uid, User, initgroups, setgid, setuid};
use rustix::fs::{Access, MemfdFlags, Mode, OFlags};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use crate::cgroup::CgroupPlan;

/// Everything stage two is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExecPlan {
    /// What to become.
    pub command: Command,
    /// Its environment.
    pub env: std::collections::BTreeMap<String, String>,
    /// Where.
    pub workdir: PathBuf,
    /// Files for its output; a relative one starts at the working directory.
    #[serde(default)]
    pub files: OutputFiles,
    /// File mode creation mask.
    pub umask: u32,
    /// As whom; `None` to stay.
    pub identity: Option<Identity>,
    /// Groups to join.
    pub cgroup: CgroupPlan,
    /// The task's own inclination to be taken when memory runs out, where the supervisor's was
    /// lowered.
    pub oom_score_adj: Option<i32>,
    /// Soft limit of open files.
    pub open_files: Option<u64>,
    /// Standard output is a terminal that becomes the controlling one.
    pub terminal: bool,
}

/// Where a process's inclination to be taken when memory runs out is set.
pub(super) const OOM_FILE: &str = "/proc/self/oom_score_adj";

/// Said by stage two when all that is left is to execute; anything else it says is why it cannot.
pub const READY: &str = "ready";
/// What a reason begins with that will be the same at every try: the program does not exist, or may
/// not be executed.
pub const IMPOSSIBLE: &str = "impossible: ";
/// Said to stage two.
pub const GO: &str = "go";

/// Runs stage two. Returns only on failure; the reason has gone through the gate.
pub fn run() -> ExitCode {
    let Ok(gate) = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::from(2);
    };
    let mut said = BufReader::new(&gate);
    let mut line = String::new();
    let plan: ExecPlan = match said.read_line(&mut line).map(|_| serde_json::from_str(&line)) {
        Ok(Ok(plan)) => plan,
        _ => return ExitCode::from(2),
    };
    let tell = |text: &str| (&gate).write_all(format!("{text}\n").as_bytes());
    let mut program = match prepare(&plan) {
        Ok(program) => program,
        Err(unready) => {
            let _ = tell(&unready.line());
            return ExitCode::from(126);
        }
    };
    if tell(READY).is_err() {
        return ExitCode::from(2);
    }
    line.clear();
    match said.read_line(&mut line) {
        Ok(_) if line.trim_end() == GO => {}
        // The supervisor is gone or dropped the task: nothing was run, and nobody is there to hear
        // it.
        _ => return ExitCode::from(2),
    }
    let error = end_by_signals().err().unwrap_or_else(|| program.exec());
    let name = program.get_program().to_string_lossy().into_owned();
    let reason = format!("cannot execute {name}: {error}");
    let unready = match is_lasting(&error) {
        true => Unready::Impossible(reason),
        false => Unready::Now(reason),
    };
    let _ = tell(&unready.line());
    ExitCode::from(126)
}

/// Signals that were ignored where the daemon was started, as `nohup` and the `&` of a script have
/// it, end the program again: what is handled here is as usual once it is executed.
fn end_by_signals() -> std::io::Result<()> {
    if !is_any_ignored(&[Signal::HUP, Signal::INT, Signal::QUIT]) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    for kind in [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()] {
        drop(signal(kind)?);
    }
    Ok(())
}

/// Why the user's program cannot be executed.
#[derive(Debug, PartialEq, Eq)]
enum Unready {
    /// Another try may go well.
    Now(String),
    /// Every try would come to the same.
    Impossible(String),
}

impl From<String> for Unready {
    fn from(reason: String) -> Self {
        Self::Now(reason)
    }
}

impl Unready {
    /// As it goes through the gate.
    fn line(&self) -> String {
        let (kind, reason) = match self {
            Self::Now(reason) => ("", reason),
            Self::Impossible(reason) => (IMPOSSIBLE, reason),
        };
        format!("{kind}{}", reason.replace('\n', " "))
    }
}

/// True for errors that do not pass: there is no such program, it may not be executed, or it is
/// none.
fn is_lasting(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | PermissionDenied | NotADirectory | IsADirectory)
        || error.raw_os_error() == Some(nix::errno::Errno::ENOEXEC as i32)
}

/// Why a path cannot be executed.
fn unready(what: &str, error: &std::io::Error) -> Unready {
    let reason = format!("{what}: {error}");
    if is_lasting(error) { Unready::Impossible(reason) } else { Unready::Now(reason) }
}

/// Returns true when this process ignores any of the signals, or cannot tell.
fn is_any_ignored(signals: &[Signal]) -> bool {
    let ignored = || {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    };
    ignored().is_none_or(|mask| signals.iter().any(|signal| mask >> (signal.as_raw() - 1) & 1 == 1))
}

/// Everything but waiting and executing, in the order that keeps root away from what users name.
fn prepare(plan: &ExecPlan) -> Result<Program, Unready> {
    // 1. As whoever the supervisor is: groups, session, terminal.
    plan.cgroup.join().map_err(|error| format!("cannot join the control group: {error}"))?;
    rustix::process::setsid().map_err(|error| format!("cannot start a session: {error}"))?;
    let stdin = if plan.terminal {
        let terminal =
            std::io::stdout().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
        rustix::process::ioctl_tiocsctty(&terminal)
            .map_err(|error| format!("cannot take the terminal: {error}"))?;
        terminal
    } else {
        File::open("/dev/null").map_err(|error| format!("/dev/null: {error}"))?.into()
    };
    rustix::stdio::dup2_stdin(&stdin)
        .map_err(|error| format!("cannot set standard input: {error}"))?;

    if let Some(adjustment) = plan.oom_score_adj {
        std::fs::write(OOM_FILE, adjustment.to_string())
            .map_err(|error| format!("{OOM_FILE}: {error}"))?;
    }
    if let Some(soft) = plan.open_files {
        let limit = Rlimit { current: Some(soft), ..getrlimit(Resource::Nofile) };
        setrlimit(Resource::Nofile, limit)
            .map_err(|error| format!("cannot limit open files: {error}"))?;
    }

    // 2. Become the user, for good.
    if let Some(identity) = &plan.identity {
        check_account(identity)?;
        become_user(identity)?;
    }
    // Cleared by a change of identity, so it is set after it: if the supervisor is killed, so is
    // the task.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));

    // 3. As the user: everything that a user names.
    rustix::process::umask(Mode::from_raw_mode(plan.umask & 0o777));
    std::env::set_current_dir(&plan.workdir).map_err(|error| {
        format!("cannot enter the working directory {}: {error}", plan.workdir.display())
    })?;
    let mut program = resolve(&plan.command, plan.env.get("PATH").map(String::as_str))?;
    write_to(&plan.files)?;
    program.env_clear().envs(&plan.env);
    Ok(program)
}

/// Directs standard output and error to the files that the user named. Called as the user, in its
/// working directory.
fn write_to(files: &OutputFiles) -> Result<(), Unready> {
    let output = files.output.as_deref().map(open_output).transpose()?;
    let error = files.error.as_deref().map(open_output).transpose()?;
    if let Some(output) = &output {
        rustix::stdio::dup2_stdout(output)
            .map_err(|error| format!("cannot direct standard output: {error}"))?;
    }
    if let Some(error) = error.as_ref().or(output.as_ref()) {
        rustix::stdio::dup2_stderr(error)
            .map_err(|error| format!("cannot direct standard error: {error}"))?;
    }
    Ok(())
}

/// Opens a file that output is appended to, and makes it with its folders where it is not there.
fn open_output(path: &str) -> Result<OwnedFd, Unready> {
    let failed =
        |error: &std::io::Error| unready(&format!("cannot write the output into {path}"), error);
    if let Some(folder) = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    // Without O_NONBLOCK a pipe that nobody reads would hold the task here.
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666))
        .map_err(|error| failed(&error.into()))?;
    let status = rustix::fs::fstat(&file).map_err(|error| failed(&error.into()))?;
    let kind = rustix::fs::FileType::from_raw_mode(status.st_mode);
    if kind != rustix::fs::FileType::RegularFile && path != "/dev/null" {
        return Err(Unready::Impossible(format!(
            "cannot write the output into {path}: it is not a regular file"
        )));
    }
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND).map_err(|error| failed(&error.into()))?;
    Ok(file)
}

/// Checks that name and number of the submitter still belong together. Each is given away again
/// once an account was deleted, and then nothing of the former owner's may run as the new one.
fn check_account(identity: &Identity) -> Result<(), Unready> {
    let Identity { user, uid, .. } = identity;
    let found = User::from_uid(Uid::from_raw(*uid))
        .map_err(|error| format!("cannot look up the account with uid {uid}: {error}"))?;
    match found {
        Some(found) if found.name == user.as_str() => Ok(()),
        Some(found) => Err(Unready::Impossible(format!(
            "{user} submitted it with uid {uid}, which is the account {} now",
            found.name
        ))),
        // Submitted under a number that has no account.
        None if user.as_str() == format!("#{uid}") => Ok(()),
        // The database may be away for a moment.
        None => Err(Unready::Now(format!("there is no account {user} with uid {uid} any more"))),
    }
}

/// Supplementary groups, group, user; then proof that there is no way back.
fn become_user(identity: &Identity) -> Result<(), String> {
    let failed =
        |what: &str, error: nix::Error| format!("cannot {what} as {}: {error}", identity.user);
    let name =
        CString::new(identity.user.as_str()).map_err(|_| "user name with a NUL byte".to_owned())?;
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    initgroups(&name, gid).map_err(|error| failed("set groups", error))?;
    setgid(gid).map_err(|error| failed("set the group", error))?;
    setuid(uid).map_err(|error| failed("set the user", error))?;
    if !uid.is_root() && setuid(Uid::from_raw(0)).is_ok() {
        return Err("root privileges could not be given up".to_owned());
    }
    Ok(())
}

/// The program to execute. Found now rather than at Go, so that a missing one refuses the gang.
fn resolve(command: &Command, path: Option<&str>) -> Result<Program, Unready> {
    match command {
        Command::Argv(argv) => {
            let Some((name, arguments)) = argv.split_first() else {
                return Err(Unready::Impossible("the command is empty".to_owned()));
            };
            let mut program = Program::new(find(name, path)?);
            program.arg0(name).args(arguments);
            Ok(program)
        }
        Command::Script(text) => match text.strip_prefix("#!") {
            Some(rest) => interpret(text, rest.lines().next().unwrap_or_default()),
            None => {
                let mut program = Program::new("/bin/sh");
                program.arg("-c").arg(text);
                Ok(program)
            }
        },
    }
}

/// Runs a script by the interpreter that its first line names, as the kernel would: one optional
/// argument, then the script, which lies in memory and in no directory.
fn interpret(text: &str, line: &str) -> Result<Program, Unready> {
    let line = line.trim();
    let (interpreter, argument) = match line.split_once([' ', '\t']) {
        Some((interpreter, argument)) => (interpreter, Some(argument.trim())),
        None => (line, None),
    };
    check_executable(Path::new(interpreter))
        .map_err(|error| unready(&format!("interpreter {interpreter}"), &error))?;
    // Not close-on-exec: the interpreter opens it by name after the exec.
    let memory: OwnedFd = rustix::fs::memfd_create("muster-script", MemfdFlags::empty())
        .map_err(|error| format!("cannot hold the script in memory: {error}"))?;
    let number = memory.as_raw_fd();
    let mut file = File::from(memory);
    file.write_all(text.as_bytes())
        .map_err(|error| format!("cannot hold the script in memory: {error}"))?;
    let mut program = Program::new(interpreter);
    program.args(argument).arg(format!("/proc/self/fd/{number}"));
    // Stays open until the exec; the process image is replaced with it.
    std::mem::forget(file);
    Ok(program)
}

/// Looks a program up as execvp(3) does.
fn find(name: &str, path: Option<&str>) -> Result<PathBuf, Unready> {
    if name.contains('/') {
        return check_executable(Path::new(name))
            .map(|()| name.into())
            .map_err(|error| unready(name, &error));
    }
    let mut denied = false;
    for dir in path.unwrap_or("/usr/local/bin:/usr/bin:/bin").split(':') {
        let candidate = Path::new(if dir.is_empty() { "." } else { dir }).join(name);
        match check_executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) => denied |= error.kind() == std::io::ErrorKind::PermissionDenied,
        }
    }
    Err(Unready::Impossible(match denied {
        true => format!("{name}: found in PATH but not executable"),
        false => format!("{name}: not found in PATH"),
    }))
}

fn check_executable(path: &Path) -> std::io::Result<()> {
    if path.as_os_str().as_bytes().is_empty() {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    if std::fs::metadata(path)?.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    rustix::fs::access(path, Access::EXEC_OK).map_err(Into::into)
}

/// Opens what a task may use as a terminal without making it the opener's own.
pub fn open_terminal(path: &Path) -> std::io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Command {
        Command::Argv(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn programs_are_found_as_by_execvp() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("tool"), "").unwrap();
        let path = temp.path().to_str().unwrap();
        let refused = |path| resolve(&argv(&["tool"]), Some(path)).unwrap_err().line();
        assert_eq!(refused(path), "impossible: tool: found in PATH but not executable");
        assert_eq!(refused("/nowhere"), "impossible: tool: not found in PATH");
        assert!(resolve(&argv(&["/bin"]), None).is_err());
        assert!(resolve(&argv(&[]), None).is_err());
        assert!(resolve(&argv(&[""]), Some(path)).is_err());
        let program = resolve(&argv(&["sh", "-c", "x"]), Some("/nowhere:/bin")).unwrap();
        assert_eq!(program.get_program(), "/bin/sh");
    }

    #[test]
    fn scripts_run_by_sh_or_by_their_first_line() {
        let plain = resolve(&Command::Script("echo hi".into()), None).unwrap();
        assert_eq!(plain.get_program(), "/bin/sh");
        let env =
            resolve(&Command::Script("#!/usr/bin/env -S sh -e\nexit 3\n".into()), None).unwrap();
        assert_eq!(env.get_program(), "/usr/bin/env");
        assert_eq!(env.get_args().next().unwrap(), "-S sh -e");
        assert!(resolve(&Command::Script("#!/nowhere/python\n".into()), None).is_err());
        let mut sh = resolve(&Command::Script("#! /bin/sh\nexit 7\n".into()), None).unwrap();
        assert_eq!(sh.status().unwrap().code(), Some(7));
    }
}
