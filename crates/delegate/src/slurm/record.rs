//! What is kept of a job that was handed on: its script, its number, and its output, in a folder by
//! Muster's own id. Slurm may lose a job that it has acknowledged, and give its number to another;
//! the id it cannot give away.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use muster_model::{Checkpoint, OutputFiles, Time};
use serde::{Deserialize, Serialize};

/// Folder of everything that this user handed on to one cluster.
#[derive(Clone, Debug)]
pub(super) struct Records {
    root: PathBuf,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Muster's id.
    pub(super) id: String,
    /// Slurm's number, once it has given one.
    pub(super) number: Option<u64>,
    /// Numbers that it had before Slurm lost it.
    #[serde(default)]
    pub(super) before: Vec<u64>,
    /// Name.
    pub(super) name: String,
    /// How many elements.
    pub(super) elements: u32,
    /// Its roles in order of ranks, with their tasks: Slurm knows numbers of components, of which
    /// one may hold several roles.
    #[serde(default)]
    pub(super) roles: Vec<(String, u32)>,
    /// When it was handed on.
    pub(super) submitted: Time,
    /// What each role runs, for people.
    pub(super) commands: std::collections::BTreeMap<String, String>,
    /// Where it runs.
    pub(super) workdir: String,
    /// Files that its user named for its output, as absolute patterns.
    #[serde(default)]
    pub(super) files: OutputFiles,
    /// Variables that sbatch must not see: they would overrule its script.
    #[serde(default)]
    pub(super) without: Vec<String>,
    /// It waits for no other job and no time: handed on again, its script still says what it did.
    #[serde(default)]
    pub(super) is_plain: bool,
    /// How it is asked to save its progress.
    #[serde(default)]
    pub(super) checkpoint: Option<Checkpoint>,
}

const RECORD: &str = "job.json";
/// A line among the ends of an element, after which it may start once more.
const AGAIN: &str = "again";
const SCRIPT: &str = "script.sh";
const NUMBERS: &str = "by-number";
/// Jobs that have not ended, as far as is known: an empty file each, by id.
const OPEN: &str = "open";
/// In the folder of a job: its submission was withdrawn before it was acknowledged. A script that
/// finds it runs nothing.
const WITHDRAWN: &str = "withdrawn";
/// When marks of jobs that have ended were last looked through.
const LOOKED: &str = "looked";

impl Records {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Folder of a job.
    pub(super) fn dir(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    /// The script, as a file for sbatch.
    pub(super) fn script(&self, id: &str) -> PathBuf {
        self.dir(id).join(SCRIPT)
    }

    /// Keeps what is about to be handed on.
    pub(super) fn keep(&self, record: &Record, script: &str) -> io::Result<()> {
        let dir = self.dir(&record.id);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        write(&dir.join(SCRIPT), script.as_bytes(), 0o700)?;
        self.save(record)?;
        std::fs::create_dir_all(self.root.join(OPEN))?;
        // Lost with the power, the job is not looked for; Slurm has it all the same.
        std::fs::write(self.root.join(OPEN).join(&record.id), b"")
    }

    /// Held by who hands a job on, so that nobody else does at the same time; dropped with what is
    /// returned. Where the file system keeps no locks there is none.
    pub(super) async fn lock(&self, id: &str) -> Option<std::fs::File> {
        let path = self.dir(id).join("submit.lock");
        let lock = tokio::task::spawn_blocking(move || {
            let file = std::fs::File::options().create(true).append(true).open(path).ok()?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).ok()?;
            Some(file)
        });
        lock.await.ok().flatten()
    }

    /// Everything that has not ended, as far as is known.
    pub(super) fn open(&self) -> Vec<Record> {
        let entries = std::fs::read_dir(self.root.join(OPEN)).into_iter().flatten().flatten();
        entries.filter_map(|entry| self.get(entry.file_name().to_str()?)).collect()
    }

    /// True when a job has not ended, as far as is known.
    pub(super) fn is_open(&self, record: &Record) -> bool {
        self.root.join(OPEN).join(&record.id).exists() && !self.has_noted_ends(record)
    }

    /// True when the script of every element noted its end, and none is to run again.
    pub(super) fn has_noted_ends(&self, record: &Record) -> bool {
        let has_ended = |element: &u32| {
            let ends = std::fs::read_to_string(
                self.dir(&record.id).join(element.to_string()).join("ends"),
            );
            ends.is_ok_and(|ends| ends.lines().last().is_some_and(|line| line != AGAIN))
        };
        let elements = super::output::numbers(&self.dir(&record.id));
        elements.len() >= record.elements as usize && elements.iter().all(has_ended)
    }

    /// Notes that a submission was withdrawn: should it arrive all the same, its script runs
    /// nothing.
    pub(super) fn withdraw(&self, id: &str) -> io::Result<()> {
        write(&self.dir(id).join(WITHDRAWN), b"", 0o600)?;
        self.close(id);
        Ok(())
    }

    /// True once in a while: marks of jobs that have ended are due to be looked through.
    pub(super) fn is_due_to_look(&self, between: std::time::Duration) -> bool {
        let path = self.root.join(LOOKED);
        let age = std::fs::metadata(&path)
            .and_then(|file| file.modified())
            .ok()
            .and_then(|at| at.elapsed().ok());
        age.is_none_or(|age| age >= between) && write(&path, b"", 0o600).is_ok()
    }

    /// It has ended, or was never taken: nobody looks for it any more.
    pub(super) fn close(&self, id: &str) {
        // Left open it is looked for once more, and closed then.
        let _ = std::fs::remove_file(self.root.join(OPEN).join(id));
    }

    /// One of its elements has begun to run, in whichever attempt.
    pub(super) fn has_started(&self, id: &str) -> bool {
        let elements = std::fs::read_dir(self.dir(id)).into_iter().flatten().flatten();
        elements.into_iter().any(|element| element.path().join("starts").exists())
    }

    /// Notes what has become of it.
    pub(super) fn save(&self, record: &Record) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(record).map_err(io::Error::other)?;
        write(&self.dir(&record.id).join(RECORD), &text, 0o600)?;
        if let Some(number) = record.number {
            std::fs::create_dir_all(self.root.join(NUMBERS))?;
            let path = self.root.join(NUMBERS).join(number.to_string());
            let before = std::fs::read_to_string(&path).unwrap_or_default();
            // The last line is the last job that was given the number.
            if before.lines().last() != Some(record.id.as_str()) {
                let others = before.lines().filter(|id| *id != record.id);
                let lines: Vec<&str> = others.chain([record.id.as_str()]).collect();
                write(&path, (lines.join("\n") + "\n").as_bytes(), 0o600)?;
            }
        }
        Ok(())
    }

    /// How the only element of a job ended last, as its script noted.
    pub(super) fn noted_end(&self, record: &Record) -> Option<i32> {
        if record.elements > 1 {
            return None;
        }
        self.noted_code(&record.id, 0)
    }

    /// How an element ended last, as its script noted.
    pub(super) fn noted_code(&self, id: &str, element: u32) -> Option<i32> {
        let ends =
            std::fs::read_to_string(self.dir(id).join(element.to_string()).join("ends")).ok()?;
        ends.lines().rfind(|line| *line != AGAIN)?.split_once(' ')?.1.trim().parse().ok()
    }

    /// Lets an element run again that has ended well: its script takes a start after that for one
    /// that nobody asked for.
    pub(super) fn run_again(&self, record: &Record, index: Option<u32>) {
        let dir = self.dir(&record.id);
        let elements = index.map_or_else(|| super::output::numbers(&dir), |index| vec![index]);
        for element in elements {
            let path = dir.join(element.to_string()).join("ends");
            if let Ok(mut ends) = std::fs::OpenOptions::new().append(true).open(path) {
                let _ = writeln!(ends, "{AGAIN}");
            }
        }
    }

    /// By Muster's id.
    pub(super) fn get(&self, id: &str) -> Option<Record> {
        // An id is one name of a folder and nothing else.
        if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric()) {
            return None;
        }
        serde_json::from_slice(&std::fs::read(self.dir(id).join(RECORD)).ok()?).ok()
    }

    /// Jobs that were acknowledged under this number, the last first; they may have others by now.
    pub(super) fn holders(&self, number: u64) -> Vec<Record> {
        let path = self.root.join(NUMBERS).join(number.to_string());
        let ids = std::fs::read_to_string(path).unwrap_or_default();
        let records = ids.lines().rev().filter_map(|id| self.get(id.trim()));
        records
            .filter(|record| record.number == Some(number) || record.before.contains(&number))
            .collect()
    }

    /// The last one that was given this number; it may have another by now.
    pub(super) fn of_number(&self, number: u64) -> Option<Record> {
        self.holders(number).into_iter().next()
    }
}

/// Replaces a file as a whole.
fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    use std::io::Write as _;
    let new = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_by_its_id_and_by_its_last_number() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::new(dir.path().to_owned());
        let mut record = Record {
            id: "a1".to_owned(),
            number: None,
            before: Vec::new(),
            name: "train".to_owned(),
            elements: 1,
            roles: Vec::new(),
            submitted: Time(5),
            commands: [("main".to_owned(), "true".to_owned())].into(),
            workdir: "/".to_owned(),
            files: OutputFiles::default(),
            without: Vec::new(),
            is_plain: true,
            checkpoint: None,
        };
        records.keep(&record, "#!/bin/bash\n").unwrap();
        assert_eq!(records.get("a1"), Some(record.clone()));
        assert_eq!(records.of_number(7), None);
        record.number = Some(7);
        records.save(&record).unwrap();
        assert_eq!(records.of_number(7), Some(record.clone()));
        // The number is given to another: the first is no longer what it stands for.
        let other = Record { id: "b2".to_owned(), ..record.clone() };
        records.keep(&other, "").unwrap();
        assert_eq!(records.of_number(7), Some(other.clone()));
        assert_eq!(records.holders(7), [other, record.clone()]);
        assert!(records.is_open(&record));
        assert_eq!(records.get("../a1"), None);
        // Both are open until they are closed.
        assert_eq!(records.open().len(), 2);
        records.close("a1");
        assert_eq!(
            records.open().iter().map(|record| record.id.as_str()).collect::<Vec<_>>(),
            ["b2"]
        );
        assert!(!records.has_started("b2"));
        std::fs::create_dir(records.dir("b2").join("0")).unwrap();
        std::fs::write(records.dir("b2").join("0/starts"), "7 1 0 node1 1\n").unwrap();
        assert!(records.has_started("b2"));
        let b2 = records.get("b2").unwrap();
        std::fs::write(records.dir("b2").join("0/ends"), "1 0\nagain\n").unwrap();
        assert!(records.is_open(&b2), "it was told to run again");
        std::fs::write(records.dir("b2").join("0/ends"), "1 0\n").unwrap();
        assert!(!records.is_open(&b2) && records.has_noted_ends(&b2));
    }
}
