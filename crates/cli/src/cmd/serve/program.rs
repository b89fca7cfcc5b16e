//! The program that a service starts as root. Its file and all folders above it must be root's alone:
//! a user who can replace it would run as root.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::unit::quoted;
use crate::exit::Failure;

/// Write permission of the group and of others.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITE: u32 = 0o020;

/// Next step of most refusals.
const HINT: &str =
    "`install -m 0755 \"$(command -v muster)\" /usr/local/bin/muster`, then call that one";

/// Returns the path of this program, without symbolic links.
///
/// # Errors
/// When the file is gone, or its path cannot be written in a unit.
pub fn own_path() -> Result<String> {
    let path = std::env::current_exe().context("the path of this program")?;
    let path = path.canonicalize().with_context(|| format!("{} is gone", path.display()))?;
    match path.to_str().filter(|text| quoted(text) == **text) {
        Some(text) => Ok(text.to_owned()),
        None => {
            let message = format!("{} cannot be the program of a service", path.display());
            Err(Failure::new(message).hint(HINT).into())
        }
    }
}

/// Refuses a program that another user than root can replace.
///
/// # Errors
/// [`Failure`] with the first file or folder that is open to others.
pub fn check(path: &Path) -> Result<()> {
    for part in path.ancestors() {
        let found = fs::symlink_metadata(part).with_context(|| part.display().to_string())?;
        if let Some(reason) = reason_against(found.uid(), found.gid(), found.mode()) {
            let message = format!(
                "a service of root must not start {}: {} {reason}",
                path.display(),
                part.display()
            );
            return Err(Failure::new(message).hint(HINT).into());
        }
    }
    Ok(())
}

/// Returns how another user can write a file or folder. The sticky bit does not help: it allows new files.
fn reason_against(uid: u32, gid: u32, mode: u32) -> Option<&'static str> {
    match () {
        () if uid != 0 => Some("belongs to another user"),
        () if mode & OTHERS_WRITE != 0 => Some("can be written by all users"),
        () if mode & GROUP_WRITE != 0 && gid != 0 => Some("can be written by its group"),
        () => None,
    }
}

/// Returns an absolute path of a file that the daemon reads at its start.
///
/// # Errors
/// When it does not exist, or its path is not UTF-8 or has control characters.
pub fn absolute(file: &Path) -> Result<String> {
    let absolute: PathBuf = file
        .canonicalize()
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    let text = absolute.to_str().filter(|text| !text.contains(char::is_control));
    let text = text.ok_or_else(|| {
        Failure::usage(format!("{} cannot be named in a unit", absolute.display()))
    })?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_root_that_nobody_else_writes_are_started() {
        for (uid, gid, mode, is_safe) in [
            (0, 0, 0o100_755, true),
            (0, 0, 0o040_775, true),
            (0, 50, 0o042_755, true),
            (0, 50, 0o042_775, false),
            (0, 0, 0o041_777, false),
            (1000, 0, 0o100_755, false),
        ] {
            assert_eq!(reason_against(uid, gid, mode).is_none(), is_safe, "{uid} {gid} {mode:o}");
        }
    }

    #[test]
    fn a_file_in_an_open_folder_is_refused_with_the_folder() {
        let error = check(&std::env::temp_dir().join("..").join("tmp")).unwrap_err();
        assert!(error.to_string().contains("can be written by all users"), "{error}");
    }
}
