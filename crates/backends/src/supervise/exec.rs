//! Stage two of a task: the process that becomes the user's program.
//!
//! It is started during Prepare, does everything but the exec, and waits for Go. Its plan comes
//! over the control socket (its standard input), never through its own environment: as root it must
//! not run with variables that a user chose. Its identity changes before it touches any path that a
//! user named.

use std::ffi::CString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, ExitCode};

use muster_model::payload::{Identity, TaskCommand};
use muster_model::{OutputFiles, TaskEnvironment};
use nix::unistd::{Gid, Uid, User, initgroups, setgid, setuid};
use rustix::fs::{Access, MemfdFlags, Mode, OFlags};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use crate::cgroup::CgroupPlan;
use crate::device_files::ClosedDeviceFiles;
use crate::environment::{self, EnvironmentError, image};
use crate::record::OrderRecord;

/// Everything stage two needs, sent to it over the control socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExecPlan {
    /// Program and arguments to execute.
    pub command: TaskCommand,
    /// Environment of the program.
    pub env: std::collections::BTreeMap<String, String>,
    /// Working directory of the program.
    pub workdir: PathBuf,
    /// Files for its output; relative paths start at the working directory.
    #[serde(default)]
    pub files: OutputFiles,
    /// Environment that is activated before the program.
    #[serde(default)]
    pub environment: TaskEnvironment,
    /// File mode creation mask.
    pub umask: u32,
    /// User to become; `None` keeps the supervisor's.
    pub identity: Option<Identity>,
    /// Control groups to join.
    pub cgroup: CgroupPlan,
    /// `oom_score_adj` of the task, where the supervisor's own was lowered.
    pub oom_score_adj: Option<i32>,
    /// Soft limit of open files; `None` keeps the supervisor's.
    pub open_files: Option<u64>,
    /// Device files that are closed to it.
    #[serde(default)]
    pub closed_device_files: ClosedDeviceFiles,
    /// True when standard output is a terminal, which becomes the controlling terminal.
    pub terminal: bool,
}

impl ExecPlan {
    /// Returns the part of the order that stage two needs.
    pub(super) fn of(order: &OrderRecord) -> Self {
        Self {
            command: order.command.clone(),
            env: order.env.clone(),
            workdir: order.workdir.clone(),
            files: order.files.clone(),
            environment: order.environment.clone(),
            umask: order.umask,
            identity: order.switch_user.then(|| order.identity.clone()),
            cgroup: order.cgroup.clone(),
            oom_score_adj: order.oom_score_adj,
            open_files: order.open_files,
            closed_device_files: order.closed_device_files.clone(),
            terminal: order.terminal,
        }
    }
}

/// File that sets a process's priority for the out-of-memory killer.
pub(super) const OOM_FILE: &str = "/proc/self/oom_score_adj";

/// Variable with the path of this program, by which a growing Ray cluster asks for further nodes.
const PROGRAM_VARIABLE: &str = "MUSTER_PROGRAM";

/// Message of stage two: everything but the exec is done. Any other message is a failure reason.
pub const READY: &str = "ready";
/// Prefix of failure reasons that every retry would meet again: the program does not exist, or may
/// not be executed.
pub const IMPOSSIBLE: &str = "impossible: ";
/// Message to stage two: execute the user's program.
pub const GO: &str = "go";

/// Runs stage two. Returns only on failure, after the reason was sent over the control socket.
pub fn run() -> ExitCode {
    let Ok(control) = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::from(2);
    };
    let mut reader = BufReader::new(&control);
    let mut line = String::new();
    let plan: ExecPlan = match reader.read_line(&mut line).map(|_| serde_json::from_str(&line)) {
        Ok(Ok(plan)) => plan,
        _ => return ExitCode::from(2),
    };
    let send = |text: &str| (&control).write_all(format!("{text}\n").as_bytes());
    let mut program = match prepare(&plan) {
        Ok(program) => program,
        Err(error) => {
            let _ = send(&error.line());
            return ExitCode::from(126);
        }
    };
    if send(READY).is_err() {
        return ExitCode::from(2);
    }
    line.clear();
    match reader.read_line(&mut line) {
        Ok(_) if line.trim_end() == GO => {}
        // The supervisor is gone or dropped the task: nothing was run, and there is no process to
        // report it to.
        _ => return ExitCode::from(2),
    }
    let error = restore_ignored_signals().err().unwrap_or_else(|| program.exec());
    let name = program.get_program().to_string_lossy().into_owned();
    let reason = format!("cannot execute {name}: {error}");
    let error = if is_permanent(&error) {
        ExecError::Permanent(reason)
    } else {
        ExecError::Transient(reason)
    };
    let _ = send(&error.line());
    ExitCode::from(126)
}

/// Restores the default action of SIGHUP, SIGINT and SIGQUIT, which are ignored where the daemon
/// was started by `nohup` or in a script with `&`: a signal that has a handler here gets its
/// default action at the exec.
fn restore_ignored_signals() -> std::io::Result<()> {
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

/// Reason for which the user's program cannot be executed.
#[derive(Debug, PartialEq, Eq)]
enum ExecError {
    /// A retry may succeed.
    Transient(String),
    /// Every retry would fail the same way.
    Permanent(String),
}

impl From<String> for ExecError {
    fn from(reason: String) -> Self {
        Self::Transient(reason)
    }
}

impl From<EnvironmentError> for ExecError {
    fn from(error: EnvironmentError) -> Self {
        Self::Permanent(match error.hint.as_str() {
            "" => error.what,
            hint => format!("{}; {hint}", error.what),
        })
    }
}

impl ExecError {
    /// Returns the message for the supervisor.
    fn line(&self) -> String {
        let (kind, reason) = match self {
            Self::Transient(reason) => ("", reason),
            Self::Permanent(reason) => (IMPOSSIBLE, reason),
        };
        format!("{kind}{}", reason.replace('\n', " "))
    }
}

/// Returns true for errors that a retry would meet again: there is no such program, it may not be
/// executed, or it is not a program.
fn is_permanent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | PermissionDenied | NotADirectory | IsADirectory)
        || error.raw_os_error() == Some(nix::errno::Errno::ENOEXEC as i32)
}

/// Builds the error for an operation that failed.
fn exec_error(what: &str, error: &std::io::Error) -> ExecError {
    let reason = format!("{what}: {error}");
    if is_permanent(error) { ExecError::Permanent(reason) } else { ExecError::Transient(reason) }
}

/// Returns true when this process ignores any of the signals, or when its mask cannot be read.
fn is_any_ignored(signals: &[Signal]) -> bool {
    let ignored = || {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    };
    ignored().is_none_or(|mask| signals.iter().any(|signal| mask >> (signal.as_raw() - 1) & 1 == 1))
}

/// Does everything but the exec, in the order that keeps root away from paths that users named.
fn prepare(plan: &ExecPlan) -> Result<Program, ExecError> {
    // 1. As the supervisor's user: control groups, session, terminal.
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

    plan.closed_device_files
        .close()
        .map_err(|error| format!("cannot close the GPUs of other jobs: {error}"))?;

    // 2. Become the user, for good.
    if let Some(identity) = &plan.identity {
        check_account(identity)?;
        become_user(identity)?;
    }
    // Kills the task when the supervisor is killed. A change of identity clears this setting, so it
    // comes after.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));

    // 3. As the user: every path that the user named.
    rustix::process::umask(Mode::from_raw_mode(plan.umask & 0o777));
    std::env::set_current_dir(&plan.workdir).map_err(|error| {
        format!("cannot enter the working directory {}: {error}", plan.workdir.display())
    })?;
    let env = environment::activate(&plan.environment, plan.env.clone(), &plan.workdir)?;
    let path = env.get("PATH").map(String::as_str);
    let mut program = match &plan.environment.image {
        Some(image) => {
            let ExecPlan { environment, command, workdir, terminal, .. } = plan;
            let words = image::wrap(environment, image, command, &env, workdir, *terminal)?;
            resolve(&TaskCommand::Argv(words), path)?
        }
        None => resolve(&plan.command, path)?,
    };
    redirect_output(&plan.files)?;
    program.env_clear().envs(&env);
    if let (true, Ok(own)) = (muster_ray::grows(&plan.command), std::env::current_exe()) {
        program.env(PROGRAM_VARIABLE, own);
    }
    Ok(program)
}

/// Redirects standard output and error to the files that the user named. Called as the user, in the
/// working directory.
fn redirect_output(files: &OutputFiles) -> Result<(), ExecError> {
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

/// Opens a file for appending output; creates it and its directories where they are missing.
fn open_output(path: &str) -> Result<OwnedFd, ExecError> {
    let failed =
        |error: &std::io::Error| exec_error(&format!("cannot write the output into {path}"), error);
    if let Some(folder) = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    // Without O_NONBLOCK the open of a named pipe without a reader would block the task.
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666))
        .map_err(|error| failed(&error.into()))?;
    let status = rustix::fs::fstat(&file).map_err(|error| failed(&error.into()))?;
    let kind = rustix::fs::FileType::from_raw_mode(status.st_mode);
    if kind != rustix::fs::FileType::RegularFile && path != "/dev/null" {
        return Err(ExecError::Permanent(format!(
            "cannot write the output into {path}: it is not a regular file"
        )));
    }
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND).map_err(|error| failed(&error.into()))?;
    Ok(file)
}

/// Checks that the submitter's user name and uid still belong together. Both are reused once an
/// account was deleted, and no job of the former owner may run as the new one.
fn check_account(identity: &Identity) -> Result<(), ExecError> {
    let Identity { user, uid, .. } = identity;
    let found = User::from_uid(Uid::from_raw(*uid))
        .map_err(|error| format!("cannot look up the account with uid {uid}: {error}"))?;
    match found {
        Some(found) if found.name == user.as_str() => Ok(()),
        Some(found) => Err(ExecError::Permanent(format!(
            "{user} submitted it with uid {uid}, which is the account {} now",
            found.name
        ))),
        // Submitted under a uid without an account.
        None if user.as_str() == format!("#{uid}") => Ok(()),
        // The user database may be unavailable for a moment.
        None => {
            Err(ExecError::Transient(format!("there is no account {user} with uid {uid} any more")))
        }
    }
}

/// Makes this process, which is root's, one of an account. The account must still be that of the number.
pub(crate) fn become_account(identity: &Identity) -> Result<(), String> {
    check_account(identity).map_err(|error| match error {
        ExecError::Permanent(text) | ExecError::Transient(text) => text,
    })?;
    become_user(identity)
}

/// Sets supplementary groups, group and user, then verifies that root cannot be regained.
fn become_user(identity: &Identity) -> Result<(), String> {
    let failed =
        |what: &str, error: nix::Error| format!("cannot {what} as {}: {error}", identity.user);
    let name =
        CString::new(identity.user.as_str()).map_err(|_| "user name with a NUL byte".to_owned())?;
    let uid = Uid::from_raw(identity.uid);
    let gid = Gid::from_raw(identity.gid);
    initgroups(&name, gid).map_err(|error| failed("set groups", error))?;
    setgid(gid).map_err(|error| failed("set the group", error))?;
    setuid(uid).map_err(|error| failed("set the user", error))?;
    if !uid.is_root() && setuid(Uid::from_raw(0)).is_ok() {
        return Err("root privileges could not be given up".to_owned());
    }
    Ok(())
}

/// Returns the program to execute. It is looked up now rather than at Go, so that a missing one
/// refuses the gang.
fn resolve(command: &TaskCommand, path: Option<&str>) -> Result<Program, ExecError> {
    match command {
        TaskCommand::Argv(argv) => {
            let Some((name, arguments)) = argv.split_first() else {
                return Err(ExecError::Permanent("the command is empty".to_owned()));
            };
            let mut program = Program::new(find(name, path)?);
            program.arg0(name).args(arguments);
            Ok(program)
        }
        TaskCommand::Ray(_) => resolve(&muster_ray::program(command, true), path),
        TaskCommand::Script(text) => match text.strip_prefix("#!") {
            Some(rest) => interpret(text, rest.lines().next().unwrap_or_default()),
            None => {
                let mut program = Program::new("/bin/sh");
                program.arg("-c").arg(text);
                Ok(program)
            }
        },
    }
}

/// Returns the command that runs a script by the interpreter of its first line, as the kernel
/// would: one optional argument, then the script, which is a file in memory.
fn interpret(text: &str, line: &str) -> Result<Program, ExecError> {
    let line = line.trim();
    let (interpreter, argument) = match line.split_once([' ', '\t']) {
        Some((interpreter, argument)) => (interpreter, Some(argument.trim())),
        None => (line, None),
    };
    check_executable(Path::new(interpreter))
        .map_err(|error| exec_error(&format!("interpreter {interpreter}"), &error))?;
    // Not close-on-exec: the interpreter opens it by its path after the exec.
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
fn find(name: &str, path: Option<&str>) -> Result<PathBuf, ExecError> {
    if name.contains('/') {
        return check_executable(Path::new(name))
            .map(|()| name.into())
            .map_err(|error| exec_error(name, &error));
    }
    let mut denied = false;
    for dir in path.unwrap_or("/usr/local/bin:/usr/bin:/bin").split(':') {
        let candidate = Path::new(if dir.is_empty() { "." } else { dir }).join(name);
        match check_executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) => denied |= error.kind() == std::io::ErrorKind::PermissionDenied,
        }
    }
    Err(ExecError::Permanent(if denied {
        format!("{name}: found in PATH but not executable")
    } else {
        format!("{name}: not found in PATH")
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

/// Opens a terminal without making it the controlling terminal of this process.
pub fn open_terminal(path: &Path) -> std::io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> TaskCommand {
        TaskCommand::Argv(words.iter().map(|word| (*word).to_owned()).collect())
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
        let plain = resolve(&TaskCommand::Script("echo hi".into()), None).unwrap();
        assert_eq!(plain.get_program(), "/bin/sh");
        let env = resolve(&TaskCommand::Script("#!/usr/bin/env -S sh -e\nexit 3\n".into()), None)
            .unwrap();
        assert_eq!(env.get_program(), "/usr/bin/env");
        assert_eq!(env.get_args().next().unwrap(), "-S sh -e");
        assert!(resolve(&TaskCommand::Script("#!/nowhere/python\n".into()), None).is_err());
        let mut sh = resolve(&TaskCommand::Script("#! /bin/sh\nexit 7\n".into()), None).unwrap();
        assert_eq!(sh.status().unwrap().code(), Some(7));
    }
}
