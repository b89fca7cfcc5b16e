//! Files that a verb makes for people: all or none, and never over what is there unless that was asked for.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::exit::{Failure, USAGE};

/// Writes texts to files of a directory, which is made when it is missing.
pub fn write_all(dir: &Path, files: &[(&str, String)], force: bool) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let there: Vec<&str> = files
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !force && dir.join(name).symlink_metadata().is_ok())
        .collect();
    if !there.is_empty() {
        let what = format!("{} already holds {}; nothing was written", dir.display(), there.join(", "));
        return Err(Failure { code: USAGE, ..Failure::new(what) }
            .hint("--force writes them anew, -o names another place")
            .into());
    }
    files.iter().try_for_each(|(name, text)| write(&dir.join(name), text, force))
}

/// Writes one text to a file.
pub fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    match force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(Failure { code: USAGE, ..Failure::new(format!("{} is already there", path.display())) }
                .hint("--force writes it anew, -o names another place")
                .into())
        }
        other => Ok(other.with_context(|| format!("cannot write {}", path.display()))?),
    }
}
