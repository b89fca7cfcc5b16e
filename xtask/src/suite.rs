//! The test command: an ordered list of steps, each shown with its command line and time. Later
//! steps run also after a failure; the run then fails at the end and lists every failed command,
//! followed by the slowest tests and cargo's totals.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::kubernetes::test::{Preparation, TestOptions};
use crate::totals::Totals;
use crate::{
    binaries, cargo, dependencies, generated, kubernetes, mutants, packages, programs, python,
    recipes, slurm, tidy, tools,
};

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
    suite.step("tools", "programs that the tests need", tools::ensure);
    let kubernetes = (extent == Extent::Full).then(|| suite.build_kubernetes());
    suite.cargo("format", &["fmt", "--all", "--check"], &[]);
    suite.step("tidy", "cargo xtask tidy", || tidy::run(root));
    suite.step("dependencies", "cargo xtask dependencies", || dependencies::check(root));
    suite.cargo("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]);
    // `--all-targets` leaves out targets with `test = false`; the glob does not.
    let by_name = ["clippy", "--workspace", "--test", "*", "--", "-D", "warnings"];
    suite.cargo("clippy", &by_name, &[]);
    match kubernetes {
        Some(kubernetes) => suite.all_but_quick(kubernetes),
        None => suite.tests(&["--workspace", "--lib", "--bins"], &[]),
    }
    suite.finish(start)
}

/// Result of a step, its counts, and its time in seconds.
type StepResult = (Result<()>, Totals, f32);

/// Runs the work of a step.
fn timed(work: impl FnOnce(&mut Totals) -> Result<()>) -> StepResult {
    let start = Instant::now();
    let mut totals = Totals::default();
    let result = work(&mut totals);
    (result, totals, start.elapsed().as_secs_f32())
}

struct Suite<'a> {
    root: &'a Path,
    failed: Vec<String>,
    totals: Totals,
}

impl Suite<'_> {
    /// Starts the build of Kubernetes, which takes minutes the first time and leaves the processors to
    /// the steps beside it.
    fn build_kubernetes(&mut self) -> JoinHandle<Preparation> {
        self.step("kubernetes cluster", "programs that it needs", kubernetes::test::install);
        let root = self.root.to_path_buf();
        std::thread::spawn(move || kubernetes::test::prepare(&root))
    }

    /// Runs the steps that `--quick` leaves out, and all tests.
    fn all_but_quick(&mut self, kubernetes: JoinHandle<Preparation>) {
        let root = self.root;
        // Libraries only: doc comments of the binary are the text of its --help.
        self.cargo(
            "rustdoc",
            &["doc", "--workspace", "--lib", "--no-deps"],
            &[("RUSTDOCFLAGS", "-D warnings")],
        );
        self.step("generated files", "cargo xtask gen --check", || generated::check(root));
        self.step("mutants", "cargo xtask mutants --check", || mutants::check(root));
        self.step("slurm cluster", "programs that it needs", slurm::test::prepare);
        // Cargo builds one thing at a time: before the steps that run beside each other.
        self.cargo("build", &[&["test", "--no-run"], &binaries::ALL[..]].concat(), &[]);
        // Tests that need root are marked as ignored with that reason: they run as root and count
        // as skipped elsewhere.
        let privileged: &[&str] = if tools::is_root() { &["--include-ignored"] } else { &[] };
        // The tests of clusters mostly wait, so they run beside the others.
        let [slurm, kubernetes] = std::thread::scope(|scope| {
            let slurm = scope.spawn(|| timed(|totals| slurm::test::run(root, None, totals)));
            let kubernetes = scope.spawn(|| {
                let preparation = kubernetes.join().expect("the build panics nowhere");
                timed(|totals| {
                    kubernetes::test::run(root, preparation, &TestOptions::default(), totals)
                })
            });
            self.tests(&binaries::ALL, privileged);
            self.programs();
            self.packages();
            self.recipes();
            self.python();
            [slurm, kubernetes].map(|step| step.join().expect("the step panics nowhere"))
        });
        self.close("slurm", "cargo xtask slurm test", slurm);
        self.close("kubernetes", "cargo xtask kubernetes test", kubernetes);
    }

    /// Runs one step and prints header and time. `command` is the command line that runs this step
    /// alone.
    fn step(&mut self, title: &str, command: &str, work: impl FnOnce() -> Result<()>) {
        self.count(title, command, |_| work());
    }

    /// Runs one step as [`Suite::step`] does; the work counts its tests.
    fn count(&mut self, title: &str, command: &str, work: impl FnOnce(&mut Totals) -> Result<()>) {
        println!("\n== {title}: {command}");
        self.close(title, command, timed(work));
    }

    /// Prints the result of a step, and keeps it for the end.
    fn close(&mut self, title: &str, command: &str, (result, totals, secs): StepResult) {
        self.totals.merge(totals);
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

    /// Runs the selected tests, except those with a step of their own.
    fn tests(&mut self, selection: &[&str], arguments: &[&str]) {
        let root = self.root;
        // What needs more than cargo has `test = false`, so this runs the same tests.
        let targets: &[&str] =
            if selection == binaries::ALL { &["--workspace"] } else { selection };
        let separator: &[&str] = if arguments.is_empty() { &[] } else { &["--"] };
        let line = [&["test", "--no-fail-fast"], targets, separator, arguments].concat();
        self.count("tests", &command_line(&line, &[PROPTEST_SEED]), |totals| {
            binaries::run(root, selection, arguments, &[PROPTEST_SEED], totals)
        });
    }

    /// Runs the tests that need shells and a browser.
    fn programs(&mut self) {
        let root = self.root;
        self.count("programs", "cargo xtask programs", |totals| programs::run(root, totals));
    }

    /// Runs the tests of the packages.
    fn packages(&mut self) {
        let root = self.root;
        self.count("packages", "cargo xtask packages", |totals| packages::run(root, totals));
    }

    /// Runs the tests that need PyTorch, Lightning and Transformers.
    fn recipes(&mut self) {
        let root = self.root;
        self.count("recipes", "cargo xtask recipes", |totals| recipes::run(root, totals));
    }

    /// Runs the tests of the Python client.
    fn python(&mut self) {
        let root = self.root;
        self.count("python", "cargo xtask python", |totals| python::run(root, &[], totals));
    }

    /// Prints the closing lines; the totals are the last one.
    fn finish(self, start: Instant) -> ExitCode {
        println!("\n== all steps: {:.0}s", start.elapsed().as_secs_f32());
        for failed in &self.failed {
            println!("failed: {failed}");
        }
        print!("the slowest tests, in seconds:\n{}", self.totals.slowest());
        println!("{}", self.totals);
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn command_line(args: &[&str], env: &[(&str, &str)]) -> String {
    let mut words: Vec<String> =
        env.iter().map(|(name, value)| format!("{name}='{value}'")).collect();
    words.push("cargo".to_owned());
    words.extend(args.iter().map(|arg| if *arg == "*" { "'*'".into() } else { (*arg).to_owned() }));
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
