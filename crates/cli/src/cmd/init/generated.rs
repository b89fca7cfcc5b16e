//! Files that are made again from the same description: each says in its head what it was when it
//! was written, so that one that nobody touched may be written anew, and one that somebody changed
//! is kept.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Result;

use crate::exit::{FAILURE, Failure};
use crate::source::{self, plain};
use crate::unified;

/// What the line begins with that holds the fingerprint of all other lines.
const HEAD: &str = "# Written by `muster init slurm`, fingerprint ";
/// What follows it. Who reads the file should know what happens to changes.
const TAIL: &str =
    ". Changed by hand it is kept, unless --force is given; --diff shows what would change.";
/// Largest file that is compared: a cluster of as many nodes as a cluster file can hold.
const MAX_BYTES: u64 = 64 << 20;
/// The key whose value is never shown.
const SECRET: &str = "StoragePass=";

/// A file to be: name, text without its head, and who may read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Name in its folder.
    pub name: &'static str,
    /// Text with its head.
    pub text: String,
    /// Permissions.
    pub mode: u32,
}

impl Generated {
    /// A file with its head, which goes below the line of an interpreter.
    pub fn new(name: &'static str, body: &str) -> Self {
        let head = format!("{HEAD}{:016x}{TAIL}\n", fingerprint(body));
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

/// Whether a text is as it was written.
fn is_untouched(text: &str) -> bool {
    let Some(line) = text.lines().take(2).find(|line| line.starts_with(HEAD)) else { return false };
    let body = text.replacen(&format!("{line}\n"), "", 1);
    line == format!("{HEAD}{:016x}{TAIL}", fingerprint(&body))
}

/// FNV-1a of 64 bits: it tells a change by hand from none, and is no proof against anybody who
/// means to deceive.
fn fingerprint(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// What lies in a folder under these names, where something does.
fn there(dir: &Path, file: &Generated) -> Result<Option<String>> {
    let path = dir.join(file.name);
    match path.symlink_metadata() {
        Err(_) => Ok(None),
        Ok(_) => Ok(Some(source::text(&path, MAX_BYTES)?.1)),
    }
}

/// What writing would change, as `diff -u` shows it; empty where it would change nothing. Secrets
/// are not shown.
pub fn diff(dir: &Path, files: &[Generated]) -> Result<String> {
    let mut text = String::new();
    for file in files {
        let now = there(dir, file)?;
        let path = dir.join(file.name).display().to_string();
        let old_name = if now.is_some() { path.clone() } else { "/dev/null".to_owned() };
        let now = now.unwrap_or_default();
        let shown = unified::diff(&old_name, &path, &veiled(&now), &veiled(&file.text));
        // A change of the password alone must not look like none.
        if shown.is_empty() && now != file.text {
            text.push_str(&format!(
                "--- {old_name}\n+++ {path}\n{SECRET} differs, and is not shown\n"
            ));
        }
        text.push_str(&shown);
    }
    Ok(text)
}

/// A text without the values of secrets, nor the fingerprint, which is made of them, too.
fn veiled(text: &str) -> String {
    let veil = |line: &str| {
        if line.starts_with(SECRET) && !line.ends_with(muster_backends::slurm::init::FILL_IN) {
            format!("{SECRET}(not shown)\n")
        } else if line.starts_with(HEAD) {
            String::new()
        } else {
            format!("{line}\n")
        }
    };
    text.lines().map(veil).collect()
}

/// Writes all files, or none: not over one that was changed by hand, unless that is asked for.
/// Answers how many were new or changed.
pub fn write(dir: &Path, files: &[Generated], force: bool) -> Result<usize> {
    // 1. What is there, and whose.
    if dir.exists() && !dir.is_dir() {
        return Err(Failure::usage(format!("{} is a file, not a directory", dir.display()))
            .hint("-o names another place")
            .into());
    }
    let mut changed = Vec::new();
    let mut touched = Vec::new();
    for file in files {
        let now = there(dir, file)?;
        if now.as_ref().is_some_and(|now| !is_untouched(now) && *now != file.text) {
            touched.push(file.name);
        }
        if now.as_ref() != Some(&file.text) {
            changed.push(file);
        }
    }
    if !touched.is_empty() && !force {
        let what = format!(
            "{} holds {} that somebody changed; nothing was written",
            dir.display(),
            touched.join(", ")
        );
        return Err(Failure { code: FAILURE, ..Failure::new(what) }
            .hint("--diff shows what would change, --force writes over it, -o names another place")
            .into());
    }

    // 2. Each beside its place first, so that nobody reads half of one.
    let failed = |path: &Path, error: &std::io::Error| {
        Failure::new(format!("cannot write {}: {}", path.display(), plain(error)))
            .hint("-o names another place")
    };
    fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    for file in &changed {
        let (path, new) = (dir.join(file.name), dir.join(format!(".{}.new", file.name)));
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
            let file = Generated::new("slurm.conf", body);
            assert!(is_untouched(&file.text), "{}", file.text);
            assert!(!is_untouched(&format!("{}#\n", file.text)));
            assert!(!is_untouched(body));
        }
        let file = Generated::new("slurm.conf", "A=1\n");
        assert!(!is_untouched(&file.text.replace("A=1", "A=2")));
        assert!(
            Generated::new("accounts.sh", "#!/bin/sh\necho\n")
                .text
                .starts_with("#!/bin/sh\n# Written")
        );
    }

    #[test]
    fn a_password_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = Generated::new("slurmdbd.conf", "A=1\nStoragePass=old\n");
        write(dir.path(), &[file], false).unwrap();
        let file = Generated::new("slurmdbd.conf", "A=1\nStoragePass=new\n");
        let shown = diff(dir.path(), std::slice::from_ref(&file)).unwrap();
        assert!(
            shown.contains("is not shown") && !shown.contains("new\n") && !shown.contains("old"),
            "{shown}"
        );
        let mode = fs::metadata(dir.path().join("slurmdbd.conf")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
