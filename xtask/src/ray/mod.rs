//! `cargo xtask ray`: jobs of kind `ray` with the real Ray, to look at (`demo`) and to measure (`starts`).

mod demo;
mod starts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::{binaries, recipes};

const USAGE: &str = "usage: cargo xtask ray demo [PYTHON] | starts COUNT [PYTHON]";

/// Longest wait for a cluster to start and its program to have actors, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs `cargo xtask ray`.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    match args {
        ["demo", python @ ..] if python.len() < 2 => {
            let daemon = Daemon::new(root, python.first().copied())?;
            daemon.ended(demo::show(&daemon))
        }
        ["starts", count, python @ ..] if python.len() < 2 => {
            let count = count.parse().context(USAGE)?;
            let daemon = Daemon::new(root, python.first().copied())?;
            daemon.ended(starts::measure(&daemon, count))
        }
        _ => bail!("{USAGE}"),
    }
}

/// Daemon of its own with eight virtual GPUs, and the interpreter that has Ray.
struct Daemon {
    muster: PathBuf,
    python: PathBuf,
    folder: tempfile::TempDir,
}

impl Daemon {
    /// Builds the program; the daemon starts with its first job.
    fn new(root: &Path, python: Option<&str>) -> Result<Self> {
        let python = match python {
            Some(python) => PathBuf::from(python),
            None => recipes::interpreter(root).map_err(|error| anyhow!("{error}"))?.to_owned(),
        };
        let muster = binaries::program(root, "muster")?;
        Ok(Self { muster, python, folder: tempfile::tempdir()? })
    }

    /// Stops the daemon, and returns how the command ends.
    fn ended(&self, shown: Result<()>) -> Result<ExitCode> {
        self.muster(&["stop-daemon", "--cancel"])?;
        shown.map(|()| ExitCode::SUCCESS)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command of Muster; returns what it prints.
    fn muster(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.muster);
        command.args(words).current_dir(self.folder.path()).env("MUSTER_HOME", self.path("home"));
        let output = command.env_remove("MUSTER_ON").output().context("muster")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "muster {}: {text}{errors}", words.join(" "));
        Ok(text)
    }

    /// Submits a job of a Ray cluster with a command.
    fn submit(&self, name: &str, gpus: u32, run: &str) -> Result<()> {
        let text = format!(
            "name: {name}\nkind: ray\ntasks: 1\ngpus-per-task: {gpus}\ntime: 15m\nray: {{python: {}}}\nrun: |\n  {}\n",
            self.python.display(),
            run.replace('\n', "\n  ")
        );
        let file = format!("{name}.yaml");
        fs::write(self.path(&file), text)?;
        self.muster(&["run", "--virtual-gpus", "8", &file])?;
        Ok(())
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Result<()> {
        let start = Instant::now();
        while !is_so() {
            ensure!(start.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
            thread::sleep(PAUSE);
        }
        Ok(())
    }
}
