//! `cargo xtask bench`: measures the table of docs/PERFORMANCE.md on this machine. The rows are
//! benches of `muster-engine`; xtask itself links no other crate.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::cargo;

/// Runs the bench with these arguments, and returns its exit code.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let status = Command::new(cargo())
        .args(["bench", "--quiet", "--package", "muster-engine", "--bench", "table", "--"])
        .args(args)
        .current_dir(root)
        .status()
        .context("cargo did not start")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
