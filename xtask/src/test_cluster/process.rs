//! Processes by pid: verification of their program, processes in a namespace, signals, and waiting
//! for a condition with a deadline. A process is never identified by name alone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Signal that ends a process.
#[derive(Clone, Copy, Debug)]
pub enum Signal {
    /// SIGTERM, which the process can handle.
    Term,
    /// SIGKILL, which ends it at once.
    Kill,
}

/// Sends a signal; a process that is already gone is not an error.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    let name = match signal {
        Signal::Term => "TERM",
        Signal::Kill => "KILL",
    };
    // The shell's builtin: not every machine has a `kill` program.
    let script = "kill -$0 $1 2>/dev/null || true";
    Command::new("sh").args(["-c", script, name, &pid.to_string()]).status()?;
    Ok(())
}

/// Returns true while this process is in that network namespace and runs a program whose name
/// starts with `program`: Debian's `slurmctld-wlm` is a `slurmctld`.
pub fn is(pid: u32, namespace: u64, program: &str) -> bool {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = exe.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    in_namespace(pid, namespace) && name.starts_with(program)
}

/// Returns true once the kernel has taken everything from this process, its listening sockets too: that is
/// some time after it has no program any more, because each of its threads ends by itself.
pub fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which may have any character: "Z" is an end that nobody has waited for.
    let state = stat.rsplit(") ").next().unwrap_or_default();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    stat.is_empty() || state.starts_with('Z') && threads <= 1
}

/// Returns the pids of all processes in a network namespace, except this process and its ancestors.
pub fn pids_in_namespace(namespace: u64) -> Vec<u32> {
    let excluded = ancestors();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| in_namespace(*pid, namespace) && !excluded.contains(pid)).collect()
}

/// Kills all of these processes and waits for their end; returns their number.
pub fn kill_in_namespace(namespace: u64) -> Result<usize> {
    let pids = pids_in_namespace(namespace);
    for pid in &pids {
        signal(*pid, Signal::Kill)?;
    }
    wait("the end of other processes", Duration::from_secs(15), || {
        pids_in_namespace(namespace).is_empty()
    })?;
    Ok(pids.len())
}

fn in_namespace(pid: u32, namespace: u64) -> bool {
    // A zombie has no namespace any more.
    fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|file| file.ino() == namespace)
}

fn ancestors() -> Vec<u32> {
    let mut chain = vec![std::process::id()];
    while let Some(parent) = parent(*chain.last().expect("begins with this process")) {
        chain.push(parent);
    }
    chain
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok().filter(|parent| *parent != 0)
}

/// Reads the pid from a pid file.
pub fn read_pid(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Polls until the condition holds; fails after `limit` with `what`.
pub fn wait(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > limit {
            bail!("{what}: not within {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_its_namespace_and_is_no_other_program() {
        let own = std::process::id();
        let here = fs::metadata("/proc/self/ns/net").unwrap().ino();
        assert!(in_namespace(own, here) && !in_namespace(own, here + 1));
        assert!(is(own, here, "xtask") && !is(own, here, "slurmd") && !is(own, here + 1, "xtask"));
        assert!(!pids_in_namespace(here).contains(&own));
    }

    #[test]
    fn a_process_has_ended_when_it_is_a_zombie_or_gone() {
        assert!(!has_ended(std::process::id()));
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(!has_ended(child.id()));
        signal(child.id(), Signal::Kill).unwrap();
        wait("its end", Duration::from_secs(10), || has_ended(child.id())).unwrap();
        child.wait().unwrap();
        assert!(has_ended(child.id()));
    }

    #[test]
    fn waiting_fails_at_the_deadline_with_the_condition() {
        let error = wait("the impossible", Duration::ZERO, || false).unwrap_err();
        assert!(error.to_string().starts_with("the impossible"), "{error}");
        wait("the certain", Duration::ZERO, || true).unwrap();
    }
}
