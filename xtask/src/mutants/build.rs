//! One program with every deliberate bug in it, each behind a number (mutant schemata; Untch,
//! Offutt and Harrold, "Mutation analysis using mutant schemata", 1993): built once, so that a
//! hundred bugs cost one build. The sources are copied to a folder of their own; the working tree
//! stays as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::table::{Mutant, apply};
use crate::cargo;

/// In which room the switch is: everything that may be changed depends on it.
const SWITCH_FILE: &str = "crates/model/src/lib.rs";

/// What says which bug is on; the environment is read once.
const SWITCH: &str = r#"
/// Which deliberate bug is on.
pub mod mutant {
    /// True for the one that is on.
    #[must_use]
    pub fn is(number: u32) -> bool {
        static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        let read = || std::env::var("MUSTER_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        *ON.get_or_init(read) == number
    }
}
"#;

/// Copies, changes, builds; answers the program.
pub fn build(root: &Path, scratch: &Path, mutants: &[Mutant]) -> Result<PathBuf> {
    // 1. The tree, with every mutant of every file. What is the same stays untouched, so that it is
    //    not built again.
    let tree = scratch.join("tree");
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
        bail!("mutant {}: there is no file {file}", mutants[0].1.name);
    }
    forget_others(&tree, &tree, &files.into_iter().collect())?;
    // 2. The program, as fast as can be and without debug assertions: what finds a bug is an
    //    account or a transcript.
    let built = scratch.join("build");
    let ran = Command::new(cargo())
        .args(["build", "--quiet", "--release", "--package", "xtask", "--example", "hunt"])
        .current_dir(&tree)
        .env("CARGO_TARGET_DIR", &built)
        .stdin(Stdio::null())
        .output()
        .context("cargo did not start")?;
    if !ran.status.success() {
        // What is changed by a machine has warnings: they are of interest only now.
        eprintln!("{}", String::from_utf8_lossy(&ran.stderr));
        bail!(
            "the mutants do not build; hint: each text is an expression, or whole statements without a `let`"
        );
    }
    Ok(built.join("release/examples/hunt"))
}

/// What git knows or would know.
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
    fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// Removes what an earlier copy had and this one has not: a module that is gone must not be found.
fn forget_others(tree: &Path, folder: &Path, files: &BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            forget_others(tree, &path, files)?;
        } else if !files.contains(&path.strip_prefix(tree)?.display().to_string())
            && path.extension().is_some_and(|extension| extension == "rs" || extension == "txt")
        {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
