//! Runs the test binaries of the workspace beside each other, a few tests per process, and measures
//! each test. Every process runs one test at a time, so the time between two result lines of libtest
//! is that of one test; its output is printed whole when it ends.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo;
use crate::totals::Totals;

/// Maximum number of tests of one process: few for integration tests, which mostly take long; many
/// for unit tests, which take less than the start of a process.
const SLICE: (usize, usize) = (6, 150);

/// Number of processes per processor: tests of daemons mostly wait.
const PROCESSES_PER_CPU: usize = 2;

/// Niceness of tests that need only cargo. Those of clusters go first: they run longest, and wait for servers that a
/// busy machine delays by seconds.
const NICE: [&str; 2] = ["-n", "5"];

/// Cargo's selection of all tests. Unlike `cargo test` alone it includes targets with `test = false`,
/// so that one build serves every step: with other packages selected, cargo would choose other features
/// of third-party crates and build much again.
pub const ALL: [&str; 5] = ["--workspace", "--lib", "--bins", "--test", "*"];

/// Cargo's selection of the programs that tests and steps run. An example is among them because cargo then chooses
/// the features that it chooses for [`ALL`], and builds nothing a second time.
const PROGRAMS: [&str; 5] = ["--workspace", "--bin", "muster", "--example", "documents"];

/// Targets that need more than cargo, and have a step of their own.
const WITH_OWN_STEP: [&str; 5] = ["slurm", "kubernetes", "packages", "programs", "recipes"];

/// A test binary that cargo has built.
pub struct TestBinary {
    path: PathBuf,
    /// Folder of the package, where cargo runs its tests.
    package: PathBuf,
    /// Name of the target in cargo's manifest.
    name: String,
    is_integration: bool,
}

/// Some tests of a binary, which one process runs.
struct Slice<'a> {
    binary: &'a TestBinary,
    tests: &'a [String],
}

/// Builds `muster`, and the example `documents`; returns the path of the one with this name.
pub fn program(root: &Path, name: &str) -> Result<PathBuf> {
    let messages = messages(root, &[&["build"], &PROGRAMS[..]].concat())?;
    let is_named = |message: &&Value| message["target"]["name"] == name;
    let mut found = messages.iter().filter(is_named).filter_map(|it| it["executable"].as_str());
    Ok(found.next().with_context(|| format!("cargo built no {name}"))?.into())
}

/// Builds one target with a step of its own.
pub fn with_own_step(root: &Path, target: &str) -> Result<TestBinary> {
    let built = build(root, &["--workspace", "--test", target])?;
    let mut found =
        built.into_iter().filter(|binary| binary.has_own_step() && binary.name == target);
    found.next().with_context(|| format!("cargo built no test {target}"))
}

/// Builds tests and returns their binaries. `selection` is cargo's choice of packages and targets.
pub fn build(root: &Path, selection: &[&str]) -> Result<Vec<TestBinary>> {
    let messages = messages(root, &[&["test", "--no-run"], selection].concat())?;
    Ok(messages.iter().filter_map(built).collect())
}

/// Runs cargo, and returns its messages about what it built.
fn messages(root: &Path, arguments: &[&str]) -> Result<Vec<Value>> {
    let mut command = Command::new(cargo());
    command.args(arguments).args(["--quiet", "--message-format=json-render-diagnostics"]);
    command.current_dir(root).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().context("cargo did not start")?;
    if !output.status.success() {
        bail!("cargo ended with {}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Reads a message of cargo; returns `None` unless it names a test binary.
fn built(message: &Value) -> Option<TestBinary> {
    let path = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    Some(TestBinary {
        path: path.into(),
        package: Path::new(message["manifest_path"].as_str()?).parent()?.into(),
        name: message["target"]["name"].as_str()?.to_owned(),
        is_integration: message["target"]["kind"][0] == "test",
    })
}

impl TestBinary {
    /// Returns a command that runs this binary as cargo does.
    pub fn command(&self) -> Command {
        self.command_after(Command::new(&self.path))
    }

    /// Returns a command that runs this binary with a prefix.
    pub fn command_under(&self, mut prefix: Command) -> Command {
        prefix.arg(&self.path);
        self.command_after(prefix)
    }

    fn command_after(&self, mut command: Command) -> Command {
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        command.env("CARGO", cargo());
        command
    }

    /// Returns the names of its tests, ignored ones included.
    pub fn list(&self) -> Result<Vec<String>> {
        let output = self.command().args(["--list", "--format", "terse"]).output()?;
        if !output.status.success() {
            bail!("{} --list: {}", self.path.display(), output.status);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Returns true for a target that needs more than cargo.
    fn has_own_step(&self) -> bool {
        self.package.ends_with("crates/cli") && WITH_OWN_STEP.contains(&self.name.as_str())
    }

    fn title(&self) -> String {
        let package = self.package.file_name().unwrap_or_default().to_string_lossy();
        format!("{package}, {}", self.name)
    }
}

/// Builds the selected tests and runs all that need only cargo, `arguments` being those of libtest.
pub fn run(
    root: &Path,
    selection: &[&str],
    arguments: &[&str],
    environment: &[(&str, &str)],
    totals: &mut Totals,
) -> Result<()> {
    let mut binaries = build(root, selection)?;
    binaries.retain(|binary| !binary.has_own_step());
    // Integration tests first: they take longest.
    binaries.sort_by_key(|binary| !binary.is_integration);
    let lists = binaries.iter().map(TestBinary::list).collect::<Result<Vec<_>>>()?;
    let slices = slices(&binaries, &lists);
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    let shared = Mutex::new((totals, BTreeSet::new()));
    std::thread::scope(|scope| {
        for _ in 0..cpus * PROCESSES_PER_CPU {
            scope.spawn(|| {
                while let Some(slice) = slices.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut nice = Command::new("nice");
                    nice.args(NICE);
                    let mut command = slice.binary.command_under(nice);
                    command.args(["--exact", "--test-threads=1"]).args(arguments);
                    command.args(slice.tests).envs(environment.iter().copied());
                    let mut own = Totals::default();
                    let title = slice.binary.title();
                    let result = watch(&mut command, &title, &mut own);
                    let mut shared = lock(&shared);
                    shared.0.merge(own);
                    shared.1.extend(result.err().map(|error| format!("{title}: {error:#}")));
                }
            });
        }
    });
    let failed: Vec<String> = std::mem::take(&mut lock(&shared).1).into_iter().collect();
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("\n")) }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Splits all binaries into slices of neighbouring tests, which often share what they prepare.
fn slices<'a>(binaries: &'a [TestBinary], lists: &'a [Vec<String>]) -> Vec<Slice<'a>> {
    let of_binary = |(binary, tests): (&'a TestBinary, &'a Vec<String>)| {
        let most = if binary.is_integration { SLICE.0 } else { SLICE.1 };
        tests.chunks(most).map(move |tests| Slice { binary, tests })
    };
    binaries.iter().zip(lists).flat_map(of_binary).collect()
}

/// Runs a test process to its end, measures its tests, and prints its output whole. Standard error
/// is part of it.
pub fn watch(command: &mut Command, title: &str, totals: &mut Totals) -> Result<()> {
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("{:?}", command.get_program()))?;
    // The command holds the writing end, which must be closed for the output to end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut text = format!("\n-- {title}\n");
    let mut since = Instant::now();
    let mut running = None;
    // A test may run its own binary and pass on its output, which has a head and a result, too.
    let mut depth = 0;
    let mut lines = BufReader::new(reader).split(b'\n');
    for line in lines.by_ref() {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        text.push_str(&line);
        text.push('\n');
        if line.starts_with("running ") && line.trim_end_matches('s').ends_with(" test") {
            depth += 1;
        }
        if depth <= 1 {
            totals.add_line(&line);
        }
        // Output of processes that the test started may stand between its name and its result.
        let named = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        running = named.map(|(name, _)| name.to_owned()).or(running);
        if line.ends_with("ok") || line.ends_with("FAILED") {
            if let Some(name) = running.take() {
                totals.add_time(&name, since.elapsed());
            }
            since = Instant::now();
        }
        if line.starts_with("test result: ") {
            depth -= 1;
            if depth <= 0 {
                // The last line: processes that a test left behind may keep the output open.
                break;
            }
        }
    }
    print!("{text}");
    let status = child.wait()?;
    drop(lines);
    if !status.success() {
        bail!("the tests ended with {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(name: &str, is_integration: bool) -> TestBinary {
        let package = PathBuf::from("/no/such/package");
        TestBinary { path: "/no/such".into(), package, name: name.to_owned(), is_integration }
    }

    #[test]
    fn slices_contain_every_test_once() {
        let binaries = [binary("it", true), binary("lib", false), binary("empty", true)];
        let names = |count: usize| (0..count).map(|at| format!("t{at}")).collect::<Vec<_>>();
        let lists = [names(SLICE.0 * 2 + 1), names(SLICE.1), Vec::new()];
        let slices = slices(&binaries, &lists);
        assert_eq!(slices.len(), 4);
        for (binary, list) in binaries.iter().zip(&lists) {
            let of_it = slices.iter().filter(|slice| slice.binary.name == binary.name);
            assert_eq!(&of_it.flat_map(|slice| slice.tests).cloned().collect::<Vec<_>>(), list);
        }
    }

    #[test]
    fn a_target_with_its_own_step_is_known_by_its_package_and_name() {
        let of = |package: &str, name: &str| {
            let package = PathBuf::from(package);
            TestBinary { package, ..binary(name, true) }.has_own_step()
        };
        for name in WITH_OWN_STEP {
            assert!(of("/a/crates/cli", name) && !of("/a/crates/backends", name));
            let file = format!("crates/cli/tests/{name}/main.rs");
            assert!(crate::root().join(&file).exists(), "there is no {file}");
        }
        assert!(!of("/a/crates/cli", "it"));
    }

    #[test]
    fn only_test_binaries_are_taken_from_cargo_s_messages() {
        let message = |text: &str| built(&serde_json::from_str(text).unwrap()).map(|it| it.name);
        let target = r#""manifest_path":"/a/Cargo.toml","target":{"name":"it","kind":["test"]}"#;
        let test = format!(r#"{{"executable":"/b/it-1",{target},"profile":{{"test":true}}}}"#);
        assert_eq!(message(&test).as_deref(), Some("it"));
        assert_eq!(message(&test.replace("true", "false")), None);
        assert_eq!(message(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn a_test_s_time_includes_what_it_writes_before_its_result() {
        let script = "echo 'test a ... ok'; printf 'test b ... from a child\\nok\\n'; \
                      echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
        let mut totals = Totals::default();
        watch(Command::new("sh").args(["-c", script]), "a script", &mut totals).unwrap();
        assert_eq!(totals.slowest().lines().count(), 2, "{}", totals.slowest());
        assert_eq!(totals.to_string(), "2 passed, 0 failed");
        let failing = watch(Command::new("sh").args(["-c", "exit 3"]), "a script", &mut totals);
        assert!(failing.is_err());
    }

    #[test]
    fn a_test_that_runs_its_own_binary_neither_ends_the_output_nor_counts_twice() {
        let script = "printf 'running 2 tests\ntest a ... \nrunning 1 test\ntest b ... ok\n'; \
                      echo 'test result: ok. 1 passed; 0 failed; 0 ignored'; \
                      printf 'ok\ntest c ... ok\n'; \
                      echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
        let mut totals = Totals::default();
        watch(Command::new("sh").args(["-c", script]), "a script", &mut totals).unwrap();
        assert_eq!(totals.to_string(), "2 passed, 0 failed");
    }
}
