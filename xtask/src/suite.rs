//! The test command: an ordered list of steps, each shown with its command line and time. Later
//! steps run also after a failure; the run then fails at the end and lists every failed command,
//! followed by cargo's totals.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::totals::Totals;
use crate::{cargo, generated, programs, recipes, slurm, tidy, tools};

/// Seed of property tests, fixed so that a result depends on the change alone; `cargo test` uses a
/// new seed each time.
const PROPTEST_SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1");

/// Extent of a test run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything, as in CI.
    Full,
    /// Quick checks between two edits: no rustdoc, no generated files, unit tests only.
    Quick,
}

/// Runs the steps in order.
pub fn run(root: &Path, extent: Extent) -> ExitCode {
    let start = Instant::now();
    let mut suite = Suite { root, failed: Vec::new(), totals: Totals::default() };
    let full = extent == Extent::Full;
    suite.step("tools", "programs that the tests need", tools::ensure);
    suite.cargo("format", &["fmt", "--all", "--check"], &[]);
    suite.step("tidy", "cargo xtask tidy", || tidy::run(root));
    suite.cargo("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]);
    // These targets have `test = false`: `--all-targets` leaves them out, as `cargo test` does.
    let excluded = [
        "clippy",
        "--package",
        "muster",
        "--test",
        "slurm",
        "--test",
        "recipes",
        "--test",
        "programs",
        "--",
        "-D",
        "warnings",
    ];
    suite.cargo("clippy", &excluded, &[]);
    if full {
        // Libraries only: doc comments of the binary are the text of its --help.
        suite.cargo(
            "rustdoc",
            &["doc", "--workspace", "--lib", "--no-deps"],
            &[("RUSTDOCFLAGS", "-D warnings")],
        );
        suite.step("generated files", "cargo xtask gen --check", || generated::check(root));
        // Tests that need root are marked as ignored with that reason: they run as root and count
        // as skipped elsewhere.
        let privileged: &[&str] = if tools::is_root() { &["--", "--include-ignored"] } else { &[] };
        suite.tests(&[&["test", "--workspace", "--no-fail-fast"], privileged].concat());
        suite.programs();
        suite.recipes();
        suite.slurm();
    } else {
        suite.tests(&["test", "--workspace", "--no-fail-fast", "--lib", "--bins"]);
    }
    suite.finish(start)
}

struct Suite<'a> {
    root: &'a Path,
    failed: Vec<String>,
    totals: Totals,
}

impl Suite<'_> {
    /// Runs one step and prints header and time. `command` is the command line that runs this step
    /// alone.
    fn step(&mut self, title: &str, command: &str, work: impl FnOnce() -> Result<()>) {
        println!("\n== {title}: {command}");
        let start = Instant::now();
        let result = work();
        let secs = start.elapsed().as_secs_f32();
        match result {
            Ok(()) => println!("== {title}: ok in {secs:.1}s"),
            Err(error) => {
                println!("{error:#}");
                println!("== {title}: FAILED in {secs:.1}s");
                self.failed.push(format!("{title}: {command}"));
            }
        }
    }

    fn cargo(&mut self, title: &str, args: &[&str], env: &[(&str, &str)]) {
        let root = self.root;
        let line = command_line(args, env);
        self.step(title, &line, || {
            let mut command = Command::new(cargo());
            command.args(args).envs(env.iter().copied()).current_dir(root).stdin(Stdio::null());
            let status = command.status().context("cargo did not start")?;
            if !status.success() {
                bail!("cargo ended with {status}");
            }
            Ok(())
        });
    }

    /// Runs a step as [`Suite::cargo`] does, and counts the result lines of its output.
    fn tests(&mut self, args: &[&str]) {
        let mut command = Command::new(cargo());
        command.args(args).env(PROPTEST_SEED.0, PROPTEST_SEED.1).current_dir(self.root);
        let mut totals = std::mem::take(&mut self.totals);
        let line = command_line(args, &[PROPTEST_SEED]);
        self.step("tests", &line, || count(&mut command, &mut totals));
        self.totals = totals;
    }

    /// Runs the tests that need shells and a browser.
    fn programs(&mut self) {
        let root = self.root;
        let mut totals = std::mem::take(&mut self.totals);
        self.step("programs", "cargo xtask programs", || programs::run(root, &mut totals));
        self.totals = totals;
    }

    /// Runs the tests that need PyTorch, Lightning and Transformers.
    fn recipes(&mut self) {
        let root = self.root;
        let mut totals = std::mem::take(&mut self.totals);
        self.step("recipes", "cargo xtask recipes", || recipes::run(root, &mut totals));
        self.totals = totals;
    }

    /// Runs the tests that need a Slurm cluster, in a new cluster.
    fn slurm(&mut self) {
        let root = self.root;
        let mut totals = std::mem::take(&mut self.totals);
        self.step("slurm", "cargo xtask slurm test", || slurm::test::run(root, None, &mut totals));
        self.totals = totals;
    }

    /// Prints the closing lines; the totals are the last one.
    fn finish(self, start: Instant) -> ExitCode {
        println!("\n== all steps: {:.0}s", start.elapsed().as_secs_f32());
        for failed in &self.failed {
            println!("failed: {failed}");
        }
        println!("{}", self.totals);
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Runs tests, prints their output and counts its result lines.
pub fn count(command: &mut Command, totals: &mut Totals) -> Result<()> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo did not start")?;
    let output = child.stdout.take().context("the output is piped")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        totals.add_line(&line);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("cargo ended with {status}");
    }
    Ok(())
}

fn command_line(args: &[&str], env: &[(&str, &str)]) -> String {
    let mut words: Vec<String> =
        env.iter().map(|(name, value)| format!("{name}='{value}'")).collect();
    words.push("cargo".to_owned());
    words.extend(args.iter().map(|arg| (*arg).to_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_fails_the_run_and_lets_later_steps_run() {
        let root = crate::root();
        let mut suite = Suite { root: &root, failed: Vec::new(), totals: Totals::default() };
        let mut later = false;
        suite.step("first", "first --step", || bail!("broken on purpose"));
        suite.step("second", "second --step", || {
            later = true;
            Ok(())
        });
        assert!(later);
        assert_eq!(suite.failed, ["first: first --step"]);
        assert_eq!(suite.finish(Instant::now()), ExitCode::FAILURE);
    }

    #[test]
    fn a_failing_cargo_command_fails_its_step() {
        let root = crate::root();
        let mut suite = Suite { root: &root, failed: Vec::new(), totals: Totals::default() };
        suite.cargo("unknown", &["no-such-subcommand-of-cargo"], &[]);
        assert_eq!(suite.failed, ["unknown: cargo no-such-subcommand-of-cargo"]);
    }
}
