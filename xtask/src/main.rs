//! Project automation: `cargo xtask test` runs every check of a change, in CI and on a developer's
//! machine. The binary links no other crate of the workspace, so that it compiles in seconds.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")
)]

mod arrows;
mod bench;
mod binaries;
mod debian;
mod demo;
mod dependencies;
mod dist;
mod generated;
mod kubernetes;
mod mutants;
mod packages;
mod programs;
mod python;
mod ray;
mod recipes;
mod simulate;
mod slurm;
mod suite;
mod test_cluster;
mod tidy;
mod tools;
mod totals;
mod venv;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--quick]     run everything that CI runs; --quick leaves out rustdoc, generated files and integration tests
  tidy               check the source tree against the project's rules (STYLE.md)
  dependencies       check licences, sources and bans of third-party crates; list those with several versions
  gen [--check]      write the generated files under docs/; --check only lists stale ones
  arrows [--write]   compare the dependencies between crates with docs/arrows.txt; --write updates that file
  simulate --seeds N [--from N] [--jobs N]
                     run the deterministic simulation test (faults included) for N seeds;
                     --seed N [--rounds N] [--trace] runs and shows one seed
  mutants [NAME…] [--seeds N] [--jobs N] [--write]
                     mutation test: check that simulation runs and scenarios find each deliberate bug of
                     xtask/mutants; --write updates the table in docs/proof.md
  mutants --check    check that every mutant still applies and compiles
  bench [--json] [--only NAMES] [--quick] [--instructions] [--list]
                     measure the speed and scaling of the engine, as in docs/PERFORMANCE.md
  dist               build the release binary with profile-guided optimisation (PGO), and make its packages
  dist binary        build only that binary: two builds and some replays
  dist packages [--binary PATH] [--output DIR] [--newest-glibc VERSION] [--fast]
                     make only the packages, of target/release/muster unless named; --fast compresses little
  demo [--draw]      record docs/demo.txt with a release build as docs/demo.cast, and draw it as docs/demo.svg
  packages           test the packages: install each in a clean root, run a job there, and remove it
  programs           test shell completions, pages in a real browser, and jobs with environment modules
  recipes            test the recipes of examples/ with the real PyTorch, Lightning, Transformers and Ray
  python [ARG…]      test the Python client of python/ with the real daemon and submitit; arguments are those of pytest
  ray demo [PYTHON]  show two Ray programs that compete for GPUs: as two jobs, and on one Ray cluster; PYTHON has Ray
  ray starts COUNT [PYTHON]  measure the time to the first task of Ray jobs, and of clusters started by hand
  slurm up|down|status|start|stop|kill|shell|test
                     run a real Slurm cluster of eight nodes on this machine; see `cargo xtask slurm help`
  kubernetes build|up|down|status|start|stop|kill|shell|kubeconfig|test
                     run a real Kubernetes control plane with fake or real nodes on this machine; see `cargo xtask kubernetes help`
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<ExitCode> {
    let root = root();
    match args {
        ["test"] => return Ok(suite::run(&root, suite::Extent::Full)),
        ["test", "--quick"] => return Ok(suite::run(&root, suite::Extent::Quick)),
        ["simulate", rest @ ..] => return simulate::run(&root, rest),
        ["mutants", "--check"] => mutants::check(&root)?,
        ["mutants", rest @ ..] => return mutants::run(&root, rest),
        ["bench", rest @ ..] => return bench::run(&root, rest),
        ["packages"] => return packages::run_standalone(&root),
        ["programs"] => return programs::run_standalone(&root),
        ["recipes"] => return recipes::run_standalone(&root),
        ["python", rest @ ..] => return python::run_standalone(&root, rest),
        ["ray", rest @ ..] => return ray::run(&root, rest),
        ["slurm", rest @ ..] => return slurm::run(&root, rest),
        ["kubernetes", rest @ ..] => return kubernetes::run(&root, rest),
        ["tidy"] => tidy::run(&root)?,
        ["dependencies"] => dependencies::check(&root)?,
        ["demo"] => demo::record(&root)?,
        ["demo", "--draw"] => demo::draw(&root)?,
        ["dist", rest @ ..] => dist::run(&root, rest)?,
        ["gen"] => generated::write(&root)?,
        ["gen", "--check"] => generated::check(&root)?,
        ["arrows"] => arrows::compare(&root)?,
        ["arrows", "--write"] => arrows::write(&root)?,
        [] | ["help" | "--help" | "-h"] => print!("{USAGE}"),
        _ => bail!("unknown arguments: {}\n\n{USAGE}", args.join(" ")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the workspace folder: the parent of this crate, from cargo's run-time environment (two
/// checkouts may share a target folder), else as of build time.
fn root() -> PathBuf {
    let from_cargo = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let own = from_cargo.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    own.parent().expect("xtask is a folder of the workspace").to_path_buf()
}

/// Returns the cargo that runs this binary, so that `cargo +name xtask` keeps its toolchain.
fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
