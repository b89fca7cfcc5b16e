//! Runs the tests that need a Slurm cluster, in parts: each part has a cluster of its own, which is
//! started for it and stopped afterwards, whatever the result; the parts run beside each other. Where
//! no cluster can run the reason is printed, and the tests count as skipped.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::cluster::SlurmTestCluster;
use super::probe;
use crate::binaries::{self, TestBinary, watch};
use crate::recipes;
use crate::test_cluster::temporary::{self, TemporaryCluster, own_path};
use crate::totals::Totals;

/// Time limit for the tests of one part, in seconds.
const SECS: &str = "1500";

/// Modules of the parts, except the last part, which has all other modules. The parts take about as
/// long as each other, so that the time of all is that of one.
const PARTS: [&[&str]; 2] = [
    // Tests that make the controller lose jobs. Slurm then reuses their numbers, and `muster` warns of
    // the loss, so no other test may share their cluster.
    &["reused_numbers::", "reconcile::"],
    &["agreement::", "cost::", "export::", "jobs::", "model::"],
];

/// Name of the test target.
const TARGET: &str = "slurm";

/// Runs `cargo xtask slurm test --release`: the tests inside the root of a release. They are built
/// outside, where the compiler is.
pub fn of_release(root: &Path, release: &str, filter: Option<&str>) -> Result<ExitCode> {
    binaries::with_own_step(root, TARGET)?;
    let args: Vec<&str> = ["slurm", "test"].into_iter().chain(filter).collect();
    super::root::enter(root, release, &args)
}

/// Runs `cargo xtask slurm test`.
pub fn run_standalone(root: &Path, filter: Option<&str>) -> Result<ExitCode> {
    let mut totals = Totals::default();
    let result = run(root, filter, &mut totals);
    print!("the slowest tests, in seconds:\n{}", totals.slowest());
    println!("{totals}");
    result.map(|()| ExitCode::SUCCESS)
}

/// Installs what a cluster needs, if this machine can run one: before steps that run beside each
/// other, each of which may install packages.
pub fn prepare() -> Result<()> {
    if let Some(obstacle) = probe::obstacle(&SlurmTestCluster::at(&temporary::dir(TARGET, 0))?) {
        println!("no Slurm cluster can run here: {obstacle}");
    }
    Ok(())
}

/// Runs the step of the test command.
pub fn run(root: &Path, filter: Option<&str>, totals: &mut Totals) -> Result<()> {
    temporary::remove_stale(TARGET)?;
    // Compile outside the namespace, which has no network.
    let binary = binaries::with_own_step(root, TARGET)?;
    if let Some(obstacle) = probe::obstacle(&SlurmTestCluster::at(&temporary::dir(TARGET, 0))?) {
        println!("no Slurm cluster can run here, its tests are skipped: {obstacle}");
        return watch(binary.command().args(filter), TARGET, totals);
    }
    let parts = filter.map_or_else(selections, |filter| vec![vec![filter]]);
    let run_part = |number: usize, words: &[&str]| {
        let mut totals = Totals::default();
        let title = format!("slurm, part {} of {}", number + 1, parts.len());
        let result =
            in_a_cluster(&binary, &temporary::dir(TARGET, number), &title, words, &mut totals);
        (totals, result.with_context(|| title))
    };
    let results: Vec<(Totals, Result<()>)> = std::thread::scope(|scope| {
        let run_part = &run_part;
        let numbered = parts.iter().enumerate();
        let threads: Vec<_> =
            numbered.map(|(number, words)| scope.spawn(move || run_part(number, words))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a part panics nowhere")).collect()
    });
    let mut failed = Vec::new();
    for (of_part, result) in results {
        totals.merge(of_part);
        failed.extend(result.err().map(|error| format!("{error:#}")));
    }
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("\n")) }
}

/// Returns the arguments of libtest for each part; all parts together select every test once.
fn selections<'a>() -> Vec<Vec<&'a str>> {
    let others = PARTS.concat().into_iter().flat_map(|module| ["--skip", module]).collect();
    PARTS.iter().map(|modules| modules.to_vec()).chain([others]).collect()
}

/// Starts a cluster, runs the tests that these arguments select, and stops it. The output of its start
/// and end is shown only after a failure.
fn in_a_cluster(
    binary: &TestBinary,
    folder: &Path,
    title: &str,
    words: &[&str],
    totals: &mut Totals,
) -> Result<()> {
    println!("{title}: starting a cluster in {}", folder.display());
    let running = TemporaryCluster::start(TARGET, folder, &[])?;
    let cluster = SlurmTestCluster::at(folder)?;
    let mut limited = cluster.inside();
    limited.args(["timeout", "--kill-after=5", SECS]);
    let mut tests = binary.command_under(limited);
    tests.args(["--include-ignored", "--test-threads=1"]).args(words);
    match recipes::interpreter(&crate::root()) {
        Ok(python) => {
            tests.env("MUSTER_TEST_PYTHON", python);
        }
        Err(reason) => {
            println!("Ray is missing, its tests are left out: {reason}");
            tests.args(["--skip", "ray::"]);
        }
    }
    tests.env("MUSTER_TEST_SLURM", cluster.dir());
    tests.env("MUSTER_XTASK", own_path()?);
    let result = watch(&mut tests, title, totals).with_context(|| format!("limited to {SECS} s"));
    drop(running);
    result
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    /// Returns the modules of the tests, named as their files.
    fn modules() -> Vec<String> {
        let files = fs::read_dir(crate::root().join("crates/cli/tests/slurm")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let modules = names.filter_map(|name| Some(format!("{}::", name.strip_suffix(".rs")?)));
        modules.filter(|module| module != "main::").collect()
    }

    /// Returns true if libtest runs a test with these arguments.
    fn selects(words: &[&str], test: &str) -> bool {
        match words {
            ["--skip", ..] => !words.iter().any(|word| *word != "--skip" && test.contains(word)),
            _ => words.iter().any(|word| test.contains(word)),
        }
    }

    #[test]
    fn each_test_is_in_exactly_one_part() {
        let modules = modules();
        assert!(modules.len() > 20, "{modules:?}");
        for module in &modules {
            let test = format!("{module}a_test");
            let parts = selections().iter().filter(|words| selects(words, &test)).count();
            assert_eq!(parts, 1, "{test}");
        }
        for module in PARTS.concat() {
            assert!(modules.iter().any(|name| name == module), "there is no {module}");
        }
    }

    #[test]
    fn clusters_of_one_run_have_different_job_numbers() {
        let first_job =
            |part| SlurmTestCluster::at(&temporary::dir(TARGET, part)).unwrap().first_job();
        let all: BTreeSet<u64> = (0..=PARTS.len()).map(first_job).collect();
        assert_eq!(all.len(), PARTS.len() + 1);
    }
}
