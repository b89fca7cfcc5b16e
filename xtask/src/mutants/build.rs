//! Builds one program with every mutant in it, each enabled by its number (mutant schemata; Untch,
//! Offutt and Harrold, "Mutation analysis using mutant schemata", 1993), so that all mutants cost
//! one build. The sources are copied to a separate folder; the working tree is not changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::table::{Mutant, apply};
use crate::cargo;

/// File to which the switch is added: all crates with mutants depend on it.
const SWITCH_FILE: &str = "crates/model/src/lib.rs";

/// Code of the switch; it reads the environment once.
const SWITCH: &str = r#"
/// Switch that enables one mutant.
pub mod mutant {
    /// Returns true for the enabled mutant.
    #[must_use]
    pub fn is(number: u32) -> bool {
        static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        let read = || std::env::var("MUSTER_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        *ON.get_or_init(read) == number
    }
}
"#;

/// Builds the program with all mutants, and returns its path. In release mode, without debug
/// assertions: only the reference ledger, the plan check and transcripts may detect a bug.
pub fn build(root: &Path, scratch: &Path, mutants: &[Mutant]) -> Result<PathBuf> {
    write_tree(root, &scratch.join("tree"), mutants)?;
    let built = scratch.join("build");
    cargo_in(&scratch.join("tree"), &["build", "--release"], &built)?;
    Ok(built.join("release/examples/hunt"))
}

/// Type-checks the program with all mutants, which costs a few seconds.
pub fn check(root: &Path, scratch: &Path, mutants: &[Mutant]) -> Result<()> {
    write_tree(root, &scratch.join("tree"), mutants)?;
    cargo_in(&scratch.join("tree"), &["check"], &scratch.join("build"))
}

/// Copies the sources with every mutant of every file. Unchanged files are not written, so that they
/// are not compiled again.
fn write_tree(root: &Path, tree: &Path, mutants: &[Mutant]) -> Result<()> {
    let mut by_file: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
    for (number, mutant) in (1..).zip(mutants) {
        by_file.entry(&mutant.file).or_default().push((number, mutant));
    }
    let files = files(root)?;
    for file in &files {
        let mut bytes = fs::read(root.join(file)).with_context(|| format!("reading {file}"))?;
        if let Some(mutants) = by_file.remove(file.as_str()) {
            bytes = apply(std::str::from_utf8(&bytes)?, &mutants)?.into_bytes();
        }
        if file == SWITCH_FILE {
            bytes.extend_from_slice(SWITCH.as_bytes());
        }
        write_if_new(&tree.join(file), &bytes)?;
    }
    if let Some((file, mutants)) = by_file.first_key_value() {
        bail!("mutant {}: file {file} does not exist", mutants[0].1.name);
    }
    remove_stale(tree, tree, &files.into_iter().collect())
}

/// Runs cargo on the program in a copy of the sources.
fn cargo_in(tree: &Path, args: &[&str], target: &Path) -> Result<()> {
    // Warnings of generated code are of no interest.
    let flags = format!("{} -Awarnings", std::env::var("RUSTFLAGS").unwrap_or_default());
    let ran = Command::new(cargo())
        .args(args)
        .args(["--quiet", "--package", "xtask", "--example", "hunt"])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target)
        .env("RUSTFLAGS", flags)
        .stdin(Stdio::null())
        .output()
        .context("cargo did not start")?;
    if !ran.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&ran.stderr));
        bail!(
            "the mutants do not compile; hint: each text is an expression, or whole statements without a `let`"
        );
    }
    Ok(())
}

/// Lists the files that git tracks or would track.
fn files(root: &Path) -> Result<Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .context("git did not start")?;
    let names = String::from_utf8(listed.stdout)?;
    let files = names.split('\0').filter(|name| !name.is_empty() && root.join(name).is_file());
    Ok(files.map(str::to_owned).collect())
}

fn write_if_new(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// Removes source files of an earlier copy that no longer exist, so that they are not compiled.
fn remove_stale(tree: &Path, folder: &Path, files: &BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_stale(tree, &path, files)?;
        } else if !files.contains(&path.strip_prefix(tree)?.display().to_string())
            && path.extension().is_some_and(|extension| extension == "rs" || extension == "txt")
        {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
