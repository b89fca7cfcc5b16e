//! `cargo xtask simulate`: runs the deterministic simulation test of `muster-testkit` for many seeds,
//! as a release build. The program is an example of this crate, so that xtask itself links no other
//! crate.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::cargo;

/// Runs the example with these arguments, and returns its exit code.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let status = Command::new(cargo())
        .args(["run", "--quiet", "--release", "--package", "xtask", "--example", "simulate", "--"])
        .args(args)
        .current_dir(root)
        .status()
        .context("cargo did not start")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
