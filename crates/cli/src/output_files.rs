//! Writes the output files of a subcommand: all or none, and existing files are only overwritten
//! with `--force`.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::Result;

use crate::exit::{Failure, USAGE};
use crate::source::error_text;

/// Writes texts to files of a directory, which is created if it does not exist.
pub fn write_all(dir: &Path, files: &[(&str, String)], force: bool) -> Result<()> {
    if dir.exists() && !dir.is_dir() {
        return Err(Failure::usage(format!("{} is a file, not a directory", dir.display()))
            .hint("-o names another directory")
            .into());
    }
    fs::create_dir_all(dir).map_err(|error| unwritable("create", dir, &error))?;
    let there: Vec<&str> = files
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !force && dir.join(name).symlink_metadata().is_ok())
        .collect();
    if !there.is_empty() {
        let what =
            format!("{} already contains {}; nothing was written", dir.display(), there.join(", "));
        return Err(Failure { code: USAGE, ..Failure::new(what) }
            .hint("--force overwrites, -o names another directory")
            .into());
    }
    files.iter().try_for_each(|(name, text)| write(&dir.join(name), text, force))
}

/// Writes one text to a file.
pub fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    let written = create(path, force)?.write_all(text.as_bytes());
    Ok(written.map_err(|error| unwritable("write", path, &error))?)
}

/// Creates a file to be written incrementally.
pub fn create(path: &Path, force: bool) -> Result<File> {
    if path.is_dir() {
        return Err(Failure::usage(format!("{} is a directory", path.display()))
            .hint("-o names a file")
            .into());
    }
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Failure {
            code: USAGE,
            ..Failure::new(format!("{} already exists", path.display()))
        }
        .hint("--force overwrites it, -o names another file")
        .into()),
        other => Ok(other.map_err(|error| unwritable("write", path, &error))?),
    }
}

/// Returns the error of a path that cannot be created or written.
fn unwritable(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {what} {}: {}", path.display(), error_text(error)))
        .hint("-o names another place")
}
