//! Processes as shown by `/proc`: identities that survive pid reuse, descendants, and the
//! environment tag.
//!
//! Invariants: a pid is trusted only together with its start time and the boot id, and signals go
//! through a pidfd that was opened before the identity was checked.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::env::TAG_VARIABLE;

/// Clock ticks per second in `/proc`: the kernel always reports hundredths of a second (proc(5),
/// time(7): `USER_HZ`).
pub const TICKS_PER_SEC: u64 = 100;

/// Size of the first read of an environment: most are smaller, and the kernel limits one variable to
/// as much.
const FIRST_READ_BYTES: usize = 128 << 10;

/// Unique identity of a process: never reused, also across reboots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessKey {
    /// Process id as seen by this process.
    pub pid: i32,
    /// Start time in clock ticks since boot, field 22 of `/proc/<pid>/stat`.
    pub start_ticks: u64,
    /// Id of the boot, from `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
}

impl ProcessKey {
    /// Returns the key of a live process.
    pub fn of(pid: i32) -> io::Result<Self> {
        let stat = Stat::read(pid).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Self { pid, start_ticks: stat.start_ticks, boot_id: boot_id()? })
    }

    /// Returns true while exactly this process runs; false for a zombie.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.is_of_this_boot()
            && Stat::read(self.pid)
                .is_some_and(|stat| stat.start_ticks == self.start_ticks && !stat.is_zombie)
    }

    /// Returns false when the machine was rebooted since.
    #[must_use]
    pub fn is_of_this_boot(&self) -> bool {
        boot_id().is_ok_and(|id| id == self.boot_id)
    }
}

/// Returns the random id of this boot.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The fields of `/proc/<pid>/stat` that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Pid of the parent process.
    pub parent: i32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
    /// CPU time in ticks, user and system, including children that it has waited for.
    pub cpu_ticks: u64,
    /// True when the process has ended and is not yet reaped.
    pub is_zombie: bool,
}

impl Stat {
    /// Reads the fields of a process; `None` when there is no such process.
    #[must_use]
    pub fn read(pid: i32) -> Option<Self> {
        Self::parse(&String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat")).ok()?))
    }

    /// Parses the file. The second field is the program's name in parentheses and may contain any
    /// character, so fields are counted from the last closing parenthesis.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let is_zombie = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        let mut cpu_ticks = 0u64;
        for field in fields.by_ref().skip(9).take(4) {
            // Children's times are signed, and have been seen below zero.
            cpu_ticks = cpu_ticks.saturating_add(field.parse::<i64>().ok()?.max(0).unsigned_abs());
        }
        let start_ticks = fields.nth(4)?.parse().ok()?;
        Some(Self { parent, start_ticks, cpu_ticks, is_zombie })
    }
}

/// Disposition of a process for a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The process has a handler for this signal.
    Caught,
    /// The process has handlers for all signals that would end it, including this one: a bash with
    /// an EXIT trap, which runs the trap and exits, or a program written in Go. Whether it treats
    /// this signal in a special way is unknown.
    CaughtLikeAll,
    /// The process has no handler, but every thread blocks the signal: it stays pending, or is
    /// waited for.
    Blocked,
    /// The process ignores the signal.
    Ignored,
    /// The process would take the kernel's default action: for most signals, termination.
    Default,
}

impl Disposition {
    /// Reads the disposition of a process; [`Disposition::Default`] where it cannot be read.
    #[must_use]
    pub fn of(pid: i32, signal: i32) -> Self {
        let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
        match Self::parse(&read(format!("/proc/{pid}/status")), signal) {
            // The mask in that file is that of the main thread only.
            Self::Blocked => {
                let threads =
                    std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
                let blocks = |thread: std::fs::DirEntry| {
                    let status =
                        std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
                    Self::parse(&status, signal) == Self::Blocked
                };
                if threads.into_iter().all(blocks) { Self::Blocked } else { Self::Default }
            }
            other => other,
        }
    }

    /// Parses the signal masks of a `status` file.
    fn parse(status: &str, signal: i32) -> Self {
        /// ILL, BUS, FPE, USR1, SEGV, USR2, VTALRM and SYS: a program that handles all of these
        /// handles every signal.
        const ALL: u64 = 1 << 3 | 1 << 6 | 1 << 7 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 25 | 1 << 30;
        let mask = |field: &str| {
            let mask = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
        };
        let bit =
            u32::try_from(signal - 1).ok().and_then(|bit| 1_u64.checked_shl(bit)).unwrap_or(0);
        let has = |field: &str| mask(field) & bit != 0;
        match () {
            () if has("SigCgt") && mask("SigCgt") & ALL == ALL => Self::CaughtLikeAll,
            () if has("SigCgt") => Self::Caught,
            () if has("SigIgn") => Self::Ignored,
            () if has("SigBlk") => Self::Blocked,
            () => Self::Default,
        }
    }
}

/// Start addresses of the program and the stack of a process: each exec chooses new ones, a fork
/// inherits them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Start of the code: field 26 of `/proc/<pid>/stat`.
    pub code: u64,
    /// Start of the stack: field 28 of `/proc/<pid>/stat`.
    pub stack: u64,
}

impl Image {
    /// Reads the addresses of a process; `None` where the kernel hides them.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let text =
            String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat")).ok()?).into_owned();
        let (_, rest) = text.rsplit_once(')')?;
        // The first field after the name is number 3.
        let mut fields = rest.split_ascii_whitespace().skip(26 - 3);
        let code = fields.next()?.parse().ok()?;
        let stack = fields.nth(1)?.parse().ok()?;
        (stack > 1).then_some(Self { code, stack })
    }
}

/// Returns true for a process that was stopped by a signal or a debugger.
#[must_use]
pub fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| matches!(rest.trim_start().chars().next(), Some('T' | 't')))
}

/// Returns the pids of all processes.
pub(crate) fn pids() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the working directory of a process, and whether it was deleted.
#[must_use]
pub fn working_dir(pid: i32) -> Option<(PathBuf, bool)> {
    let path = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    // The kernel appends this; a directory whose name ends so is not ours.
    let before = path.as_os_str().as_bytes().strip_suffix(b" (deleted)");
    Some(match before {
        Some(before) => (PathBuf::from(OsStr::from_bytes(before)), true),
        None => (path, false),
    })
}

/// Returns true for a process of this process's user with this argument.
#[must_use]
pub fn is_own_with_argument(pid: i32, argument: &str) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_own = std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == own);
    let arguments = read_at_once(Path::new(&format!("/proc/{pid}/cmdline"))).unwrap_or_default();
    is_own && arguments.split(|byte| *byte == 0).any(|found| found == argument.as_bytes())
}

/// Returns the live descendants of `root`, without `root`.
#[must_use]
pub fn descendants(root: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for pid in pids() {
        if let Some(stat) = Stat::read(pid).filter(|stat| !stat.is_zombie) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    let mut seen = BTreeSet::from([root]);
    while let Some(pid) = open.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            if seen.insert(child) {
                found.push(child);
                open.push(child);
            }
        }
    }
    found
}

/// Returns true when the process was started with this tag in its environment.
#[must_use]
pub fn has_tag(pid: i32, tag: &str) -> bool {
    tag_of(pid).is_some_and(|found| found == tag)
}

/// Reads a file of `/proc` in one call. After a first call a process may execute another program, and
/// a second call then reports the end of the file: what was read would look complete.
///
/// # Errors
/// The file cannot be opened or read.
pub fn read_at_once(path: &Path) -> io::Result<Vec<u8>> {
    let mut size = FIRST_READ_BYTES;
    loop {
        let mut bytes = vec![0; size];
        let count = File::open(path)?.read(&mut bytes)?;
        if count < size {
            bytes.truncate(count);
            return Ok(bytes);
        }
        size *= 2;
    }
}

/// Returns the tag in a process's environment; `None` without one, or where it cannot be read.
#[must_use]
pub fn tag_of(pid: i32) -> Option<String> {
    let environ = read_at_once(Path::new(&format!("/proc/{pid}/environ"))).ok()?;
    environ.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(TAG_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

/// Returns the name of a process's program and the login name of its user, or that user's number;
/// both are empty for a process that is gone.
#[must_use]
pub fn program_and_user(pid: u32) -> (String, String) {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let program = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
    let login = |uid: u32| {
        let account = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid));
        account.ok().flatten().map_or_else(|| format!("#{uid}"), |account| account.name)
    };
    let user = std::fs::metadata(&folder).map(|found| login(found.uid())).unwrap_or_default();
    (program.trim_end().to_owned(), user)
}

/// Returns the live processes that were started with this tag, except the caller.
#[must_use]
pub fn tagged(tag: &str) -> Vec<i32> {
    let own = std::process::id() as i32;
    let is_live = |pid: i32| Stat::read(pid).is_some_and(|stat| !stat.is_zombie);
    pids().into_iter().filter(|pid| *pid != own && has_tag(*pid, tag) && is_live(*pid)).collect()
}

/// Signals a process if `is_same` still holds once a pidfd pins it. A process that is gone is not
/// an error.
pub fn signal_checked(pid: i32, signal: Signal, is_same: impl Fn(i32) -> bool) {
    let Some(raw) = Pid::from_raw(pid) else { return };
    if let Ok(pidfd) = pidfd_open(raw, PidfdFlags::empty())
        && is_same(pid)
    {
        let _ = pidfd_send_signal(pidfd, signal);
    }
}

/// Signals a process whose pid cannot have been reused (a child, or just read from a cgroup).
pub fn signal(pid: i32, signal: Signal) {
    signal_checked(pid, signal, |_| true);
}

/// Kills every process with this tag. Returns true when none is left.
#[must_use]
pub fn kill_tagged(tag: &str, patience: Duration) -> bool {
    poll_until(patience, || {
        let left = tagged(tag);
        for pid in &left {
            signal_checked(*pid, Signal::KILL, |pid| has_tag(pid, tag));
        }
        left.is_empty()
    })
}

/// Calls `round` with growing pauses until it returns true, or `patience` has passed (a process
/// that cannot die is stuck in the kernel, usually in a file system or driver).
#[must_use]
pub fn poll_until(patience: Duration, mut round: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if round() {
            return true;
        }
        if start.elapsed() > patience {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_hostile_program_names() {
        let rest = "S 41 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 2 3";
        for name in ["sleep", "a b) S 7 (c", ")", "("] {
            let stat = Stat::parse(&format!("42 ({name}) {rest}")).unwrap();
            assert_eq!(
                stat,
                Stat { parent: 41, start_ticks: 987_654, cpu_ticks: 26, is_zombie: false }
            );
        }
        assert_eq!(Stat::parse("42 (x"), None);
        assert_eq!(Stat::parse("42 (x) S"), None);
    }

    #[test]
    fn a_file_is_read_whole_whatever_its_size() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for size in [0, 1, FIRST_READ_BYTES - 1, FIRST_READ_BYTES, 5 * FIRST_READ_BYTES] {
            let bytes = vec![b'x'; size];
            std::fs::write(file.path(), &bytes).unwrap();
            assert_eq!(read_at_once(file.path()).unwrap(), bytes);
        }
        assert!(read_at_once(Path::new("/no/such/file")).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_stat_is_read_or_refused(text in ".{0,120}", tail in "[ -~]{0,80}") {
            let _ = Stat::parse(&text);
            let _ = Stat::parse(&format!("1 (x) {tail}"));
        }
    }

    #[test]
    fn dispositions_are_read_from_the_signal_masks() {
        let status = "Name:\tx\nSigBlk:\t0000000000000a00\nSigIgn:\t0000000000000800\nSigCgt:\t0000000000000401\n";
        for (signal, expected) in [
            (1, Disposition::Caught),
            (11, Disposition::Caught),
            (10, Disposition::Blocked),
            (12, Disposition::Ignored),
            (15, Disposition::Default),
            (0, Disposition::Default),
            (65, Disposition::Default),
        ] {
            assert_eq!(Disposition::parse(status, signal), expected, "{signal}");
        }
        assert_eq!(Disposition::parse("", 10), Disposition::Default);
        // bash with an EXIT trap, and with one of its own for TERM.
        assert_eq!(
            Disposition::parse("SigCgt:\t0000000043817efb\n", 10),
            Disposition::CaughtLikeAll
        );
        assert_eq!(Disposition::parse("SigCgt:\t0000000000014000\n", 15), Disposition::Caught);
    }

    #[test]
    fn an_image_is_its_process_s_own() {
        let own = Image::of(std::process::id() as i32).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let is_another = || Image::of(child.id() as i32).is_some_and(|other| other != own);
        assert!(poll_until(Duration::from_secs(30), is_another), "it has executed another program");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_key_names_one_process_only() {
        let own = ProcessKey::of(std::process::id() as i32).unwrap();
        assert!(own.is_alive());
        assert!(!ProcessKey { start_ticks: own.start_ticks + 1, ..own.clone() }.is_alive());
        assert!(!ProcessKey { boot_id: "another".into(), ..own }.is_alive());
    }
}
