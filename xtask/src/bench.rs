//! `cargo xtask bench`: the table of docs/PERFORMANCE.md, measured here and now. The rows are
//! benches of `muster-engine`; xtask itself links no room.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::cargo;

/// Hands the arguments on and the verdict back.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let status = Command::new(cargo())
        .args(["bench", "--quiet", "--package", "muster-engine", "--bench", "table", "--"])
        .args(args)
        .current_dir(root)
        .status()
        .context("cargo did not start")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
