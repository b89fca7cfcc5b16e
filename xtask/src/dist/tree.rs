//! Lays out the files of an installation: those of the prefix, and the unit of systemd with the path of
//! the binary there. Also packs folders as tar archives that depend on nothing but their files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::release::{Release, write};
use crate::tools;

/// Path of the binary in the unit of the repository.
const UNIT_BINARY: &str = "/usr/local/bin/muster";

/// Place of the unit below the prefix.
pub const UNIT: &str = "lib/systemd/system/muster.service";

/// Copies all files to `folder`, for an installation in `prefix`.
///
/// # Errors
/// When a file cannot be copied.
pub fn lay_out(release: &Release, folder: &Path, prefix: &str) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut copy = release.command("cp");
    // No links: a new link changes the file's times, and another format may be reading it.
    tools::succeed(
        copy.args(["--recursive", "--reflink=auto"]).arg(release.common().join(".")).arg(folder),
    )?;
    write(&folder.join(UNIT), &unit(release, &format!("{prefix}/bin/muster"))?)
}

/// Returns the unit for a binary at this path.
fn unit(release: &Release, binary: &str) -> Result<String> {
    let path = release.root.join("packaging/muster.service");
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let start = format!("ExecStart={UNIT_BINARY} ");
    ensure!(text.contains(&start), "{} starts no {UNIT_BINARY}", path.display());
    Ok(text.replace(&start, &format!("ExecStart={binary} ")))
}

/// Returns the paths of all files of a folder, relative to it and sorted.
///
/// # Errors
/// When a folder cannot be read.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("{}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(folder).expect("it is inside").to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Packs a folder below `parent` as an archive of root's files with the time of the commit. Two
/// archives of equal files are equal.
///
/// # Errors
/// When `tar` fails.
pub fn tar(release: &Release, parent: &Path, name: &str, archive: &Path) -> Result<()> {
    let mut tar = release.command("tar");
    tar.args(["--create", "--sort=name", "--format=ustar", "--numeric-owner"]);
    tar.args(["--owner=0", "--group=0", "--mode=u=rwX,go=rX"]);
    tar.arg(format!("--mtime=@{}", release.epoch));
    tar.arg("--file").arg(archive).arg("--directory").arg(parent);
    tools::succeed(tar.arg(name))
}

/// Compresses a file to `FILE.gz` in its place.
///
/// # Errors
/// When `gzip` fails.
pub fn gzip(release: &Release, file: &Path) -> Result<()> {
    let level = if release.is_fast { "-1" } else { "-9" };
    tools::succeed(release.command("gzip").args([level, "--no-name", "--force"]).arg(file))
}
