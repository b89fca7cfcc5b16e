//! The folder of a cluster: which paths are accepted, and the logs in it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Maximum length of the folder's path: the kernel accepts 107 bytes for the path of a socket in
/// it.
const MAX_DIR_BYTES: usize = 80;

/// Number of lines of each log that are shown after a failure.
const TAIL: usize = 12;

/// Returns the absolute path of a cluster's folder, which need not exist yet. The path is UTF-8, and
/// can stand in configuration files without quotes.
pub fn checked(dir: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(dir)?;
    let dir = fs::canonicalize(&absolute).unwrap_or(absolute);
    let text = dir.to_str().context("the folder's name is not UTF-8")?;
    if text.len() > MAX_DIR_BYTES
        || text.contains(|c: char| c.is_whitespace() || "\"'#,=".contains(c))
    {
        bail!(
            "{text}: a cluster needs a short path without spaces, quotes or commas\nhint: choose another DIR"
        );
    }
    Ok(dir)
}

/// Removes the files of an earlier cluster, which `mark` identifies; fails if the folder has other
/// files.
pub fn clear(dir: &Path, mark: &Path) -> Result<()> {
    let is_used = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    if is_used && !mark.exists() {
        bail!("{} is not empty and not a cluster's\nhint: name an empty folder", dir.display());
    }
    if is_used {
        fs::remove_dir_all(dir)?;
    }
    Ok(())
}

/// Deletes everything in a folder, but not the folder.
pub fn empty(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Prints the end of every log in a folder.
pub fn print_log_tails(logs: &Path) {
    let entries = fs::read_dir(logs).into_iter().flatten().flatten();
    let mut logs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    logs.sort();
    for log in logs {
        let text = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        println!("-- {}", log.display());
        for line in &lines[lines.len().saturating_sub(TAIL)..] {
            println!("{line}");
        }
    }
}

/// Hashes bytes with FNV-1a, whose result is the same in every build.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_an_invalid_path_is_rejected() {
        assert!(checked(Path::new("/no/such/with space")).is_err());
        assert!(checked(&Path::new("/no").join("x".repeat(100))).is_err());
        assert_eq!(checked(Path::new("/no/such")).unwrap(), Path::new("/no/such"));
    }

    #[test]
    fn only_the_folder_of_a_cluster_is_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("facts");
        fs::write(dir.path().join("other"), "").unwrap();
        assert!(clear(dir.path(), &mark).is_err());
        fs::write(&mark, "").unwrap();
        clear(dir.path(), &mark).unwrap();
        assert!(!dir.path().exists());
    }
}
