//! Files that are regenerated from the same description. Each has a fingerprint of its content in
//! its header, so that an unchanged file can be overwritten and one that was edited by hand is
//! kept: with all others where they belong together, else alone.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Result;
use muster_model::hash::fnv1a;
use similar::TextDiff;

use crate::app::App;
use crate::exit::{FAILURE, Failure};
use crate::source::{self, error_text};

/// Start of the line with the fingerprint of all other lines; the command follows.
const HEAD: &str = "# Written by `muster init ";
/// Rest of that line, which says what happens to changes. It is part of what is compared, so a new
/// text would make files of older versions look edited.
const TAIL: &str =
    ". Changed by hand it is kept, unless --force is given; --diff shows what would change.";
/// Largest file in bytes that is compared: enough for as many nodes as a cluster file can hold.
const MAX_BYTES: u64 = 64 << 20;
/// Key whose value is never shown.
const SECRET: &str = "StoragePass=";

/// File to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedFile {
    /// Name in its folder.
    pub name: &'static str,
    /// Text including the line with the fingerprint.
    pub text: String,
    /// Permissions, as for chmod.
    pub mode: u32,
}

impl GeneratedFile {
    /// Returns a file of `muster init COMMAND` with a fingerprint line, which follows a `#!` line if there is one.
    pub fn new(command: &str, name: &'static str, body: &str) -> Self {
        let head = format!("{HEAD}{command}`{}\n", fingerprint(body));
        let text = match body.split_once('\n') {
            Some((first, rest)) if first.starts_with("#!") => format!("{first}\n{head}{rest}"),
            _ => format!("{head}{body}"),
        };
        let mode = match name {
            "slurmdbd.conf" => 0o600,
            _ if body.starts_with("#!") => 0o755,
            _ => 0o644,
        };
        Self { name, text, mode }
    }
}

/// Returns the rest of the fingerprint line of a text, after the command.
fn fingerprint(body: &str) -> String {
    format!(", fingerprint {:016x}{TAIL}", fnv1a(body.as_bytes()))
}

/// Returns whether a text was not changed since it was written.
fn is_unedited(text: &str) -> bool {
    let Some(line) = text.lines().take(2).find(|line| line.starts_with(HEAD)) else { return false };
    let body = text.replacen(&format!("{line}\n"), "", 1);
    line.ends_with(&fingerprint(&body))
}

/// Options on the files of an earlier run.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct EarlierFiles {
    /// Also overwrite files that were edited by hand
    #[arg(long)]
    force: bool,
    /// Show what would change, without writing; exit with 1 if anything would
    #[arg(long, conflicts_with = "force")]
    diff: bool,
}

/// Handling of the files that were not edited by hand, where one was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherFiles {
    /// No file is written: they belong together.
    Keep,
    /// All others are written, and the edited ones are named.
    Write,
}

/// Writes the files of `dir`, prints them where that is `-`, or shows what would change. `of` says what they are for.
/// Returns the exit code of `--diff`; `None` after writing or printing.
///
/// # Errors
/// When a file cannot be read or written; with [`OtherFiles::Keep`] also when one was edited by hand.
pub fn deliver(
    app: &App,
    dir: &Path,
    files: &[GeneratedFile],
    earlier: EarlierFiles,
    others: OtherFiles,
    of: &str,
) -> Result<Option<u8>> {
    if dir == Path::new("-") {
        for file in files {
            app.ui.data(&format!("==> {} <==\n{}\n", file.name, file.text))?;
        }
    } else if earlier.diff {
        let shown = diff(dir, files)?;
        app.ui.data(&shown)?;
        return Ok(Some(if shown.is_empty() { 0 } else { FAILURE }));
    } else {
        let edited = if earlier.force { Vec::new() } else { edited(dir, files)? };
        if !edited.is_empty() && others == OtherFiles::Keep {
            return Err(refusal(dir, &edited).into());
        }
        let all = files.iter().filter(|file| !edited.contains(&file.name)).collect::<Vec<_>>();
        let changed = match write(dir, &all)? {
            0 => "all unchanged".to_owned(),
            changed => format!("{changed} written; nothing was run"),
        };
        app.ui.status(&format!("{}: {} files for {of}; {changed}", dir.display(), files.len()));
        if !edited.is_empty() {
            let names = edited.join(", ");
            app.ui.status(&format!("kept, since edited by hand: {names}"));
            app.ui.hint("--diff shows what would change in them, --force overwrites them");
        }
    }
    Ok(None)
}

/// Returns the present text of a file in a folder; `None` if it does not exist.
fn existing(dir: &Path, file: &GeneratedFile) -> Result<Option<String>> {
    let path = dir.join(file.name);
    match path.symlink_metadata() {
        Err(_) => Ok(None),
        Ok(_) => Ok(Some(source::text(&path, MAX_BYTES)?.1)),
    }
}

/// Returns what writing would change, as a unified diff; empty if nothing. Secrets are not shown.
fn diff(dir: &Path, files: &[GeneratedFile]) -> Result<String> {
    let mut text = String::new();
    for file in files {
        let now = existing(dir, file)?;
        let path = dir.join(file.name).display().to_string();
        let old_name = if now.is_some() { path.clone() } else { "/dev/null".to_owned() };
        let now = now.unwrap_or_default();
        let shown = TextDiff::from_lines(&without_secrets(&now), &without_secrets(&file.text))
            .unified_diff()
            .header(&old_name, &path)
            .to_string();
        // A change of the password alone must be visible, too.
        if shown.is_empty() && now != file.text {
            text.push_str(&format!(
                "--- {old_name}\n+++ {path}\n{SECRET} differs; the values are not shown\n"
            ));
        }
        text.push_str(&shown);
    }
    Ok(text)
}

/// Returns a text without the values of secrets and without the fingerprint, which depends on them.
fn without_secrets(text: &str) -> String {
    let veil = |line: &str| {
        if line.starts_with(SECRET) && !line.ends_with(muster_slurm::init::FILL_IN) {
            format!("{SECRET}(not shown)\n")
        } else if line.starts_with(HEAD) {
            String::new()
        } else {
            format!("{line}\n")
        }
    };
    text.lines().map(veil).collect()
}

/// Returns the names of the files that were edited by hand.
fn edited(dir: &Path, files: &[GeneratedFile]) -> Result<Vec<&'static str>> {
    let mut names = Vec::new();
    for file in files {
        let now = existing(dir, file)?;
        if now.is_some_and(|now| !is_unedited(&now) && now != file.text) {
            names.push(file.name);
        }
    }
    Ok(names)
}

fn refusal(dir: &Path, edited: &[&str]) -> Failure {
    let what = format!(
        "{} contains files edited by hand: {}; nothing was written",
        dir.display(),
        edited.join(", ")
    );
    Failure { code: FAILURE, ..Failure::new(what) }
        .hint("--diff shows what would change, --force overwrites, -o names another directory")
}

/// Writes files. Returns the number of those that were new or changed.
fn write(dir: &Path, files: &[&GeneratedFile]) -> Result<usize> {
    // 1. Compare with the existing files.
    if dir.exists() && !dir.is_dir() {
        return Err(Failure::usage(format!("{} is a file, not a directory", dir.display()))
            .hint("-o names another directory")
            .into());
    }
    let mut changed = Vec::new();
    for file in files {
        if existing(dir, file)?.as_ref() != Some(&file.text) {
            changed.push(file);
        }
    }

    // 2. Write each file under a temporary name and rename it, so that a partial file is never
    //    read.
    let failed = |path: &Path, error: &std::io::Error| {
        Failure::new(format!("cannot write {}: {}", path.display(), error_text(error)))
            .hint("-o names another directory")
    };
    fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    for file in &changed {
        let path = dir.join(file.name);
        let new = dir.join(format!(".{}.new", file.name));
        let made = || -> std::io::Result<()> {
            let mut open = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(file.mode)
                .open(&new)?;
            fs::set_permissions(&new, fs::Permissions::from_mode(file.mode))?;
            open.write_all(file.text.as_bytes())?;
            fs::rename(&new, &path)
        };
        made().map_err(|error| failed(&path, &error))?;
    }
    Ok(changed.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_by_hand_is_seen() {
        for body in ["A=1\nB=2\n", "#!/bin/sh\necho\n", ""] {
            let file = GeneratedFile::new("slurm", "slurm.conf", body);
            assert!(is_unedited(&file.text), "{}", file.text);
            assert!(!is_unedited(&format!("{}#\n", file.text)));
            assert!(!is_unedited(body));
        }
        let file = GeneratedFile::new("slurm", "slurm.conf", "A=1\n");
        assert!(!is_unedited(&file.text.replace("A=1", "A=2")));
        assert!(
            GeneratedFile::new("slurm", "accounts.sh", "#!/bin/sh\necho\n")
                .text
                .starts_with("#!/bin/sh\n# Written")
        );
    }

    #[test]
    fn a_password_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = GeneratedFile::new("slurm", "slurmdbd.conf", "A=1\nStoragePass=old\n");
        write(dir.path(), &[&file]).unwrap();
        let file = GeneratedFile::new("slurm", "slurmdbd.conf", "A=1\nStoragePass=new\n");
        let shown = diff(dir.path(), std::slice::from_ref(&file)).unwrap();
        assert!(
            shown.contains("not shown") && !shown.contains("new\n") && !shown.contains("old"),
            "{shown}"
        );
        let mode = fs::metadata(dir.path().join("slurmdbd.conf")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
