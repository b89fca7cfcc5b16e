//! `cargo xtask simulate`: plays seeded stories under faults, many of them, built for speed. The
//! stories are in `muster-sim`; the program that plays them is an example of this crate, so that
//! xtask itself links no room.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::cargo;

/// Hands the arguments on and the verdict back.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let status = Command::new(cargo())
        .args(["run", "--quiet", "--release", "--package", "xtask", "--example", "simulate", "--"])
        .args(args)
        .current_dir(root)
        .status()
        .context("cargo did not start")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
