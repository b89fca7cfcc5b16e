//! Files that a verb makes for people: all or none, and never over what is there unless that was
//! asked for.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::Result;

use crate::exit::{Failure, USAGE};
use crate::source::plain;

/// Writes texts to files of a directory, which is made when it is missing.
pub fn write_all(dir: &Path, files: &[(&str, String)], force: bool) -> Result<()> {
    if dir.exists() && !dir.is_dir() {
        return Err(Failure::usage(format!("{} is a file, not a directory", dir.display()))
            .hint("-o names another place")
            .into());
    }
    fs::create_dir_all(dir).map_err(|error| unwritable("make", dir, &error))?;
    let there: Vec<&str> = files
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !force && dir.join(name).symlink_metadata().is_ok())
        .collect();
    if !there.is_empty() {
        let what =
            format!("{} already holds {}; nothing was written", dir.display(), there.join(", "));
        return Err(Failure { code: USAGE, ..Failure::new(what) }
            .hint("--force writes them anew, -o names another place")
            .into());
    }
    files.iter().try_for_each(|(name, text)| write(&dir.join(name), text, force))
}

/// Writes one text to a file.
pub fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    let written = create(path, force)?.write_all(text.as_bytes());
    Ok(written.map_err(|error| unwritable("write", path, &error))?)
}

/// Makes a file, to be written bit by bit.
pub fn create(path: &Path, force: bool) -> Result<File> {
    if path.is_dir() {
        return Err(Failure::usage(format!("{} is a directory", path.display()))
            .hint("-o names a file")
            .into());
    }
    let mut options = OpenOptions::new();
    options.write(true);
    match force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Failure {
            code: USAGE,
            ..Failure::new(format!("{} is already there", path.display()))
        }
        .hint("--force writes it anew, -o names another place")
        .into()),
        other => Ok(other.map_err(|error| unwritable("write", path, &error))?),
    }
}

/// What cannot be done to a path.
fn unwritable(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {what} {}: {}", path.display(), plain(error)))
        .hint("-o names another place")
}
