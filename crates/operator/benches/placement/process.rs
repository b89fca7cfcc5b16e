//! The programs under measurement, one or two processes: what they used until their end.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use crate::Failure;

/// Running programs that schedule together; killed when dropped.
pub struct SchedulerProcesses(Vec<SchedulerProcess>);

impl SchedulerProcesses {
    /// Starts the commands, each after a `--`; their messages go to the file that `MUSTER_BENCH_LOG`
    /// names.
    pub fn start(words: &[String]) -> Result<Self, Failure> {
        let log = std::env::var_os("MUSTER_BENCH_LOG").map(File::create).transpose()?;
        let commands = words.split(|word| word == "--").filter(|command| !command.is_empty());
        let start = |command| SchedulerProcess::start(command, log.as_ref());
        Ok(Self(commands.map(start).collect::<Result<_, _>>()?))
    }

    /// Fails if one of them has ended.
    pub fn check(&mut self) -> Result<(), Failure> {
        for SchedulerProcess(child) in &mut self.0 {
            if let Some(status) = child.try_wait()? {
                return Err(format!("a program of the scheduler has ended: {status}").into());
            }
        }
        Ok(())
    }

    /// Kills the processes; returns their use until now, or nothing if there are none.
    pub fn end(self) -> Result<Option<Used>, Failure> {
        let used = self.0.into_iter().map(SchedulerProcess::end);
        let used = used.collect::<Result<Vec<_>, _>>()?;
        Ok(used.into_iter().reduce(|one, other| Used {
            cpu_secs: one.cpu_secs + other.cpu_secs,
            peak_memory_bytes: one.peak_memory_bytes + other.peak_memory_bytes,
        }))
    }
}

/// Running program; killed when dropped.
struct SchedulerProcess(Child);

/// Resources that processes used until now.
#[derive(Clone, Copy)]
pub struct Used {
    /// User and system time.
    pub cpu_secs: f64,
    pub peak_memory_bytes: u64,
}

impl SchedulerProcess {
    fn start(words: &[String], log: Option<&File>) -> Result<Self, Failure> {
        let (program, rest) = words.split_first().ok_or("no command")?;
        let log = log.map(File::try_clone).transpose()?;
        let mut command = Command::new(program);
        command.args(rest).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log.map_or_else(Stdio::null, Stdio::from));
        Ok(Self(command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?))
    }

    /// Kills the process; returns its use until now.
    fn end(self) -> Result<Used, Failure> {
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
