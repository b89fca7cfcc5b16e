//! Time from a start to the first task of a program: of jobs of kind `ray`, and of a cluster that `ray start`
//! makes by hand, in turns.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

use super::Daemon;
use crate::test_cluster::process::{Signal, signal};

/// Program that writes the time of its first task.
const PROGRAM: &str = "\
import sys, time
import ray
ray.init(log_to_driver=False)
@ray.remote(num_gpus=1)
def task():
    return time.time()
text = str(ray.get(task.remote()))
with open(sys.argv[1], \"w\") as file:
    file.write(text)
";

/// Measures a number of starts of each kind, and prints them; fails at the first that fails.
pub fn measure(daemon: &Daemon, count: u32) -> Result<()> {
    fs::write(daemon.path("program.py"), PROGRAM)?;
    let mut jobs = Vec::new();
    let mut bare = Vec::new();
    for turn in 1..=count {
        jobs.push(job(daemon, turn)?);
        bare.push(by_hand(daemon)?);
        let [job, bare] = [jobs.last(), bare.last()].map(|last| last.map_or(0.0, |time| *time));
        println!("{turn} of {count}: job {job:.2} s, by hand {bare:.2} s");
    }
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    println!("fastest: as a job {:.2} s, by hand {:.2} s", least(&jobs), least(&bare));
    let [job, bare] = [median(jobs), median(bare)];
    println!(
        "median of {count}, from the start to the first task: as a job {job:.2} s, by hand {bare:.2} s, {:.2} times",
        job / bare
    );
    Ok(())
}

/// Runs a job to its end; returns the seconds to its first task.
fn job(daemon: &Daemon, turn: u32) -> Result<f64> {
    let name = format!("start-{turn}");
    let start = now();
    let mark = daemon.path("mark");
    let run = format!("{} program.py {}", daemon.python.display(), mark.display());
    daemon.submit(&name, 1, &run)?;
    daemon.muster(&["wait", &name])?;
    Ok(marked(&mark)? - start)
}

/// Starts a head as a script would, with the options of the job's that change what Ray starts, and ends it.
fn by_hand(daemon: &Daemon) -> Result<f64> {
    let start = now();
    let folder = tempfile::Builder::new().prefix("mb").tempdir_in("/tmp")?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut head = Command::new(&daemon.python);
    head.args(["-m", "ray.scripts.scripts", "start", "--head", "--num-gpus=1", "--num-cpus=2"]);
    head.arg(format!("--port={port}")).arg(format!("--temp-dir={}", folder.path().display()));
    head.args(["--dashboard-port=0", "--dashboard-agent-listen-port=0", "--disable-usage-stats"]);
    let output = head.output().context("ray start")?;
    let mark = daemon.path("mark");
    let mut program = Command::new(&daemon.python);
    program
        .arg(daemon.path("program.py"))
        .arg(&mark)
        .env("RAY_ADDRESS", format!("127.0.0.1:{port}"));
    let ended = program.stderr(Stdio::null()).status();
    end_all(folder.path())?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ensure!(ended?.success(), "the program failed");
    Ok(marked(&mark)? - start)
}

/// Kills all processes of a cluster, which have its directory among their arguments.
fn end_all(folder: &Path) -> Result<()> {
    let text = folder.display().to_string();
    let is_of_cluster = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&text)
    };
    let entries = fs::read_dir("/proc")?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_of_cluster).try_for_each(|pid| signal(pid, Signal::Kill))
}

/// Reads the time that a program wrote, in seconds since 1970, and removes it.
fn marked(mark: &Path) -> Result<f64> {
    let text = fs::read_to_string(mark).context("the program wrote no time")?;
    fs::remove_file(mark)?;
    Ok(text.trim().parse()?)
}

fn now() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |time| time.as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
