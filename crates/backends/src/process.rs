//! Processes as `/proc` shows them: identity that survives pid reuse, descendants, and the
//! environment tag.
//!
//! A pid alone names nothing: it is trusted only with its start time and the boot id. Signals go
//! through a pidfd that was opened before the identity was checked.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::env::TAG_VARIABLE;

/// Clock ticks of `/proc` in a second: the kernel shows its times to users in hundredths, whatever
/// it counts in itself (proc(5), time(7): `USER_HZ`).
pub const TICKS_PER_SEC: u64 = 100;

/// One process of one boot, for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessKey {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot, field 22 of `/proc/<pid>/stat`.
    pub start_ticks: u64,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
}

impl ProcessKey {
    /// The key of a live process.
    pub fn of(pid: i32) -> io::Result<Self> {
        let stat = Stat::read(pid).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Self { pid, start_ticks: stat.start_ticks, boot_id: boot_id()? })
    }

    /// True while exactly this process runs. A zombie does not.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.is_of_this_boot()
            && Stat::read(self.pid)
                .is_some_and(|stat| stat.start_ticks == self.start_ticks && !stat.is_zombie)
    }

    /// False when the machine was rebooted since.
    #[must_use]
    pub fn is_of_this_boot(&self) -> bool {
        boot_id().is_ok_and(|id| id == self.boot_id)
    }
}

/// Random id of this boot.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// What is needed of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Parent.
    pub parent: i32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
    /// CPU time in ticks, user and system, with that of children it has waited for.
    pub cpu_ticks: u64,
    /// Dead, not yet reaped.
    pub is_zombie: bool,
}

impl Stat {
    /// Of a process, if there is one.
    #[must_use]
    pub fn read(pid: i32) -> Option<Self> {
        Self::parse(&String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat")).ok()?))
    }

    /// The second field is the program's name in parentheses and may contain anything, so fields
    /// count from the last closing parenthesis.
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

/// What a process does with a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It has a handler.
    Caught,
    /// It has a handler for every signal that would end it, this one among them: a bash with an
    /// EXIT trap, which runs that and ends, or a program written in Go. Whether it does anything
    /// else for this signal cannot be told.
    CaughtLikeAll,
    /// It has none, but every thread of it blocks the signal: it stays pending, or is waited for.
    Blocked,
    /// It drops it.
    Ignored,
    /// It would do what the kernel does by default: for most signals, end.
    Default,
}

impl Disposition {
    /// Of a process; [`Disposition::Default`] where that cannot be read.
    #[must_use]
    pub fn of(pid: i32, signal: i32) -> Self {
        let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
        match Self::parse(&read(format!("/proc/{pid}/status")), signal) {
            // The mask in that file is the main thread's only.
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

    /// Reads the masks of a `status` file.
    fn parse(status: &str, signal: i32) -> Self {
        /// ILL, BUS, FPE, USR1, SEGV, USR2, VTALRM and SYS: of programs only those handle all of
        /// these that handle all there are.
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

/// Where the program and the stack of a process begin: both are chosen anew by each exec and
/// inherited by a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Field 26 of `/proc/<pid>/stat`.
    pub code: u64,
    /// Field 28.
    pub stack: u64,
}

impl Image {
    /// Of a process; `None` where the kernel does not show it.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let text =
            String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat")).ok()?).into_owned();
        let (_, rest) = text.rsplit_once(')')?;
        // The first field of the rest is number 3.
        let mut fields = rest.split_ascii_whitespace().skip(26 - 3);
        let code = fields.next()?.parse().ok()?;
        let stack = fields.nth(1)?.parse().ok()?;
        (stack > 1).then_some(Self { code, stack })
    }
}

/// True for a process that a signal (or a debugger) has stopped.
#[must_use]
pub fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| matches!(rest.trim_start().chars().next(), Some('T' | 't')))
}

/// Every pid now.
pub(crate) fn pids() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Live processes below `root`, without `root`.
#[must_use]
pub fn descendants(root: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for pid in pids() {
        if let Some(stat) = Stat::read(pid).filter(|stat| !stat.is_zombie) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let (mut found, mut open, mut seen) = (Vec::new(), vec![root], BTreeSet::from([root]));
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

/// True when the process was started with this tag in its environment.
#[must_use]
pub fn has_tag(pid: i32, tag: &str) -> bool {
    tag_of(pid).is_some_and(|found| found == tag)
}

/// The tag a process was started with, where its environment may be read.
#[must_use]
pub fn tag_of(pid: i32) -> Option<String> {
    let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    environ.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(TAG_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

/// Live processes that were started with this tag, but for the caller.
#[must_use]
pub fn tagged(tag: &str) -> Vec<i32> {
    let own = std::process::id() as i32;
    let is_live = |pid: i32| Stat::read(pid).is_some_and(|stat| !stat.is_zombie);
    pids().into_iter().filter(|pid| *pid != own && has_tag(*pid, tag) && is_live(*pid)).collect()
}

/// Signals a process if `is_meant` still holds once it is pinned by a pidfd. A process that is gone
/// is fine.
pub fn signal_checked(pid: i32, signal: Signal, is_meant: impl Fn(i32) -> bool) {
    let Some(raw) = Pid::from_raw(pid) else { return };
    if let Ok(pinned) = pidfd_open(raw, PidfdFlags::empty())
        && is_meant(pid)
    {
        let _ = pidfd_send_signal(pinned, signal);
    }
}

/// Signals a process that cannot have been replaced (a child, or read from a cgroup a moment ago).
pub fn signal(pid: i32, signal: Signal) {
    signal_checked(pid, signal, |_| true);
}

/// Kills every process with this tag until none is left. True when none is.
#[must_use]
pub fn kill_tagged(tag: &str, patience: Duration) -> bool {
    until_empty(patience, || {
        let left = tagged(tag);
        for pid in &left {
            signal_checked(*pid, Signal::KILL, |pid| has_tag(pid, tag));
        }
        left.is_empty()
    })
}

/// Calls `round` until it says that nothing is left, or patience ends (a process that cannot die is
/// in the kernel, usually on a dead file system or driver). Waits a little longer each time.
#[must_use]
pub fn until_empty(patience: Duration, mut round: impl FnMut() -> bool) -> bool {
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

    proptest::proptest! {
        #[test]
        fn any_stat_is_read_or_refused(text in ".{0,120}", tail in "[ -~]{0,80}") {
            let _ = Stat::parse(&text);
            let _ = Stat::parse(&format!("1 (x) {tail}"));
        }
    }

    #[test]
    fn what_a_process_does_with_a_signal_is_read_from_its_masks() {
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
        assert!(
            until_empty(Duration::from_secs(30), is_another),
            "it has executed another program"
        );
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
