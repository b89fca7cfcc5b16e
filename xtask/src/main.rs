//! Project automation: `cargo xtask test` is the one command that says whether a change is good, in
//! CI as on a desk. It must not depend on any room of the workspace, so that it compiles in seconds
//! and can judge them all.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")
)]

mod arrows;
mod bench;
mod dist;
mod generated;
mod mutants;
mod programs;
mod recipes;
mod simulate;
mod slurm;
mod suite;
mod tidy;
mod tools;
mod totals;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--quick]     everything that CI runs; --quick leaves out rustdoc, generated files and integration tests
  tidy               house rules over the tree
  gen [--check]      write the generated files under docs/, or only say which are stale
  arrows [--write]   dependencies between rooms, compared with docs/arrows.txt, or written there
  simulate --seeds N [--from N] [--jobs N]
                     stories under faults, each from one number; --seed N [--rounds N] [--trace] tells one
  mutants [NAME…] [--seeds N] [--jobs N] [--write]
                     are deliberate bugs found by stories and scenarios? --write puts the table into docs/proof.md
  bench [--json] [--only NAMES] [--quick] [--instructions] [--list]
                     how fast the engine is and how cost grows, as in docs/PERFORMANCE.md
  dist               the binary for others to install, laid out by how it runs: two builds and some replays
  programs           completions in real shells, and the page of a simulation in a real browser
  recipes            the recipes of examples/ with the real PyTorch, Lightning and Transformers
  slurm up|down|status|start|stop|kill|shell|test
                     a real Slurm cluster of eight nodes on this machine; `cargo xtask slurm help` tells the rest
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
        ["mutants", rest @ ..] => return mutants::run(&root, rest),
        ["bench", rest @ ..] => return bench::run(&root, rest),
        ["programs"] => return programs::alone(&root),
        ["recipes"] => return recipes::alone(&root),
        ["slurm", rest @ ..] => return slurm::run(&root, rest),
        ["tidy"] => tidy::run(&root)?,
        ["dist"] => dist::run(&root)?,
        ["gen"] => generated::write(&root)?,
        ["gen", "--check"] => generated::check(&root)?,
        ["arrows"] => arrows::compare(&root)?,
        ["arrows", "--write"] => arrows::write(&root)?,
        [] | ["help" | "--help" | "-h"] => print!("{USAGE}"),
        _ => bail!("unknown arguments: {}\n\n{USAGE}", args.join(" ")),
    }
    Ok(ExitCode::SUCCESS)
}

/// The workspace: the folder above this crate, as cargo says it when it runs this binary (two
/// checkouts may share a target folder), else as it was when it built it.
fn root() -> PathBuf {
    let told = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let own = told.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    own.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// The cargo that runs us, so that a toolchain chosen with `cargo +name xtask` stays chosen.
fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
