//! `cargo xtask ray demo`: two programs of five actors compete for eight virtual GPUs, with the real Ray. As
//! two jobs, one runs whole and then the other; as programs on one Ray cluster, both wait for ever.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::{cargo, recipes};

const USAGE: &str = "usage: cargo xtask ray demo [PYTHON]";

const DRIVER: &str = include_str!("driver.py");

/// Longest wait for a cluster to start and its program to have actors, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Time after which a program without its fifth actor counts as one that waits for ever: an actor that fits
/// starts within a few seconds.
const FOR_EVER: Duration = Duration::from_secs(30);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs `cargo xtask ray`.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let python = match args {
        ["demo"] => recipes::interpreter(root).map_err(|error| anyhow!("{error}"))?.to_owned(),
        ["demo", python] => PathBuf::from(python),
        _ => bail!("{USAGE}"),
    };
    let mut build = Command::new(cargo());
    let built = build.args(["build", "--package", "muster"]).current_dir(root).status()?;
    ensure!(built.success(), "the build failed");
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("driver.py"), DRIVER)?;
    let muster = root.join("target/debug/muster");
    let demo = Demo { muster, python, folder: folder.path().to_owned() };
    let shown = demo.two_jobs().and_then(|()| demo.one_cluster());
    demo.muster(&["stop-daemon", "--cancel"])?;
    shown.map(|()| ExitCode::SUCCESS)
}

/// Daemon of its own with eight virtual GPUs.
struct Demo {
    muster: PathBuf,
    python: PathBuf,
    folder: PathBuf,
}

impl Demo {
    /// Runs a command of Muster; returns what it prints.
    fn muster(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.muster);
        command.args(words).current_dir(&self.folder).env("MUSTER_HOME", self.folder.join("home"));
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
        fs::write(self.folder.join(&file), text)?;
        self.muster(&["run", "--virtual-gpus", "8", &file])?;
        Ok(())
    }

    /// Returns the command of a program.
    fn driver(&self, name: &str, other: &str) -> String {
        let python = self.python.display();
        format!("{python} driver.py {name} {} {other}", self.folder.display())
    }

    fn has(&self, name: &str, mark: &str) -> bool {
        self.folder.join(format!("{name}-{mark}")).exists()
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Result<()> {
        let start = Instant::now();
        while !is_so() {
            ensure!(start.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Lets a program end that has its actors.
    fn release(&self, name: &str) -> Result<()> {
        Ok(fs::write(self.folder.join(format!("{name}-go")), "")?)
    }

    /// Runs the programs as two jobs.
    fn two_jobs(&self) -> Result<()> {
        println!("two programs of 5 actors with a GPU each, on 8 GPUs, as two jobs:\n");
        let names = ["first", "second"];
        for name in names {
            self.submit(name, 5, &self.driver(name, ""))?;
        }
        for name in names {
            self.until("all actors of a job", || self.has(name, "5"))?;
            println!("{name} has all its actors:\n{}", self.muster(&["ps", "--all"])?);
            self.release(name)?;
            self.muster(&["wait", name])?;
        }
        println!("{}", self.muster(&["ps", "--all"])?);
        Ok(())
    }

    /// Runs the programs on one cluster.
    fn one_cluster(&self) -> Result<()> {
        println!("the same two programs on one Ray cluster of 8 GPUs:\n");
        let [left, right] = [self.driver("left", "right"), self.driver("right", "left")];
        self.submit("shared", 8, &format!("{left} &\n{right} &\nwait"))?;
        self.until("four actors of each program", || {
            self.has("left", "4") && self.has("right", "4")
        })?;
        let start = Instant::now();
        while start.elapsed() < FOR_EVER {
            ensure!(!self.has("left", "5") && !self.has("right", "5"), "a fifth actor started");
            thread::sleep(PAUSE);
        }
        let status = self.muster(&["ray", "status", "shared"])?;
        println!("after {} s each has 4 actors, and waits:\n{status}", FOR_EVER.as_secs());
        ensure!(
            status.contains("each hold GPUs and wait for more"),
            "muster ray status does not say so"
        );
        self.muster(&["cancel", "shared"])?;
        Ok(())
    }
}
