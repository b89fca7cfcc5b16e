//! Runs the tests that need Debian packages: shells for the completions, a browser for the HTML
//! report of a simulation, environment modules. Missing packages are installed where possible; elsewhere the reason is
//! printed, and the tests of that program count as skipped.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Result;

use crate::totals::Totals;
use crate::{binaries, tools};

/// Programs; each is the prefix of its tests.
const PROGRAMS: [&str; 4] = ["zsh", "fish", "chromium", "modulecmd"];

/// Returns the package of a program.
fn package(program: &str) -> &str {
    if program == "modulecmd" { "environment-modules" } else { program }
}

/// Returns the arguments with which a program prints its version.
fn version(program: &str) -> &'static [&'static str] {
    if program == "modulecmd" { &["sh", "--version"] } else { &["--version"] }
}

/// Runs `cargo xtask programs`.
pub fn run_standalone(root: &Path) -> Result<ExitCode> {
    let mut totals = Totals::default();
    let result = run(root, &mut totals);
    println!("{totals}");
    result.map(|()| ExitCode::SUCCESS)
}

/// Runs the step of the test command.
pub fn run(root: &Path, totals: &mut Totals) -> Result<()> {
    let missing = PROGRAMS.into_iter().filter(|program| !is_there(program));
    let missing: Vec<&str> = missing.map(package).collect();
    // All together, or one by one if that fails: a distribution may lack one of them.
    if !missing.is_empty() && tools::install(&missing).is_err() {
        for package in &missing {
            if let Err(error) = tools::install(&[package]) {
                println!("{package} is missing, its tests are skipped: {error:#}");
            }
        }
    }
    let binary = binaries::with_own_step(root, "programs")?;
    for program in PROGRAMS {
        let mut tests = binary.command();
        tests.args([program, "--test-threads=1"]);
        if is_there(program) {
            tests.arg("--include-ignored");
        }
        binaries::watch(&mut tests, program, totals)?;
    }
    Ok(())
}

fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.args(version(program));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
