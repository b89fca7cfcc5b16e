//! The scheduler under measurement as a process: what it used until its end.

use std::process::{Child, Command, Stdio};

use crate::Failure;

/// Running scheduler; killed when dropped.
pub struct SchedulerProcess(Child);

/// Use of a process.
#[derive(Clone, Copy)]
pub struct Used {
    /// User and system time.
    pub cpu_secs: f64,
    pub peak_memory_bytes: u64,
}

impl SchedulerProcess {
    /// Starts a command; its messages go to the file that `MUSTER_BENCH_LOG` names.
    pub fn start(words: &[String]) -> Result<Self, Failure> {
        let (program, rest) = words.split_first().ok_or("no command")?;
        let log = match std::env::var_os("MUSTER_BENCH_LOG") {
            Some(path) => Stdio::from(std::fs::File::create(path)?),
            None => Stdio::null(),
        };
        let mut command = Command::new(program);
        command.args(rest).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Ok(Self(command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?))
    }

    /// Kills the process; returns its use until now.
    pub fn end(self) -> Result<Used, Failure> {
        let pid = self.0.id();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // proc(5): utime and stime are the fields 14 and 15, in ticks of 10 ms; the second field
        // may contain spaces, and ends with the last parenthesis.
        let (_, rest) = stat.rsplit_once(')').ok_or("no fields in /proc/PID/stat")?;
        let ticks: u64 = rest
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(str::parse::<u64>)
            .sum::<Result<_, _>>()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = peak.and_then(|peak| peak.split_whitespace().next()).unwrap_or("0");
        Ok(Used {
            cpu_secs: ticks as f64 / 100.0,
            peak_memory_bytes: kibibytes.parse::<u64>()? * 1024,
        })
    }
}

impl Drop for SchedulerProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
