//! Records of submitted jobs: script, number and output, in a directory named by Muster's job id.
//! Slurm may lose a job that it has acknowledged and give its number to another; the id stays
//! unique.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use muster_model::sweep::Sweep;
use muster_model::{Checkpoint, OutputFiles, TaskEnvironment, Time};
use serde::{Deserialize, Serialize};

/// Directory of this user's submissions to one cluster.
#[derive(Clone, Debug)]
pub(super) struct SubmissionRecords {
    root: PathBuf,
}

/// Record of one submitted job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SubmissionRecord {
    /// Job id given by Muster, unique for all time.
    pub(super) id: String,
    /// Slurm's job number; `None` until Slurm has answered.
    pub(super) number: Option<u64>,
    /// Earlier numbers, under which Slurm lost the job.
    #[serde(default)]
    pub(super) before: Vec<u64>,
    /// Name of the job.
    pub(super) name: String,
    /// Number of elements of the job.
    pub(super) elements: u32,
    /// Roles in order of ranks, with their number of tasks: Slurm numbers components, and one
    /// component may hold several roles.
    #[serde(default)]
    pub(super) roles: Vec<(String, u32)>,
    /// Time of the submission to Slurm.
    pub(super) submitted: Time,
    /// Command of each role, for display.
    pub(super) commands: std::collections::BTreeMap<String, String>,
    /// True if its tasks are nodes of a Ray cluster.
    #[serde(default)]
    pub(super) has_ray: bool,
    /// Working directory of the job.
    pub(super) workdir: String,
    /// Output files that the user named, as absolute patterns.
    #[serde(default)]
    pub(super) files: OutputFiles,
    /// Environment of its program.
    #[serde(default, skip_serializing_if = "TaskEnvironment::is_empty")]
    pub(super) environment: TaskEnvironment,
    /// Variables to remove from sbatch's environment: they would override options of the script.
    #[serde(default)]
    pub(super) without: Vec<String>,
    /// Set for jobs without dependencies and begin time, whose script can be resubmitted unchanged.
    #[serde(default)]
    pub(super) is_plain: bool,
    /// Checkpoint settings, if the job takes checkpoint requests.
    #[serde(default)]
    pub(super) checkpoint: Option<Checkpoint>,
    /// Parameters of a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sweep: Option<Sweep>,
}

const RECORD: &str = "job.json";
/// Line in an element's `ends` file that permits another start.
const RESTART_MARK: &str = "again";
const SCRIPT: &str = "script.sh";
const NUMBERS: &str = "by-number";
/// Directory with an empty file for each job that has not ended as far as known, by id.
const OPEN: &str = "open";
/// Marks in the directory of a job that its submission was withdrawn before it was acknowledged. A
/// script that finds the mark runs nothing.
const WITHDRAWN: &str = "withdrawn";
/// File whose time of change is the last clean-up of records of ended jobs.
const LAST_CLEANUP: &str = "looked";

impl SubmissionRecords {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Returns the directory of a job.
    pub(super) fn dir(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    /// Returns the path of the script for sbatch.
    pub(super) fn script(&self, id: &str) -> PathBuf {
        self.dir(id).join(SCRIPT)
    }

    /// Writes the record and the script before the submission.
    pub(super) fn keep(&self, record: &SubmissionRecord, script: &str) -> io::Result<()> {
        let dir = self.dir(&record.id);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        let script = NewFile::write(dir.join(SCRIPT), script.as_bytes(), 0o700)?;
        replace([Some(script), Some(self.record_file(record)?), self.number_file(record)?])?;
        std::fs::create_dir_all(self.root.join(OPEN))?;
        // If power loss removes this file, the job is not reconciled, but Slurm still has it.
        std::fs::write(self.root.join(OPEN).join(&record.id), b"")
    }

    /// Takes the lock on submissions of a job; dropping the result releases it. `None` where the
    /// file system has no locks.
    pub(super) async fn lock(&self, id: &str) -> Option<std::fs::File> {
        let path = self.dir(id).join("submit.lock");
        let lock = tokio::task::spawn_blocking(move || {
            let file = std::fs::File::options().create(true).append(true).open(path).ok()?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).ok()?;
            Some(file)
        });
        lock.await.ok().flatten()
    }

    /// Returns the records of all jobs that have not ended as far as known.
    pub(super) fn open_jobs(&self) -> Vec<SubmissionRecord> {
        let entries = std::fs::read_dir(self.root.join(OPEN)).into_iter().flatten().flatten();
        entries.filter_map(|entry| self.get(entry.file_name().to_str()?)).collect()
    }

    /// Returns whether a job has not ended as far as known.
    pub(super) fn is_open(&self, record: &SubmissionRecord) -> bool {
        self.root.join(OPEN).join(&record.id).exists() && !self.has_recorded_ends(record)
    }

    /// Returns whether the scripts of all elements have recorded their end and none is to run
    /// again.
    pub(super) fn has_recorded_ends(&self, record: &SubmissionRecord) -> bool {
        let has_ended = |element: &u32| {
            let ends = std::fs::read_to_string(
                self.dir(&record.id).join(element.to_string()).join("ends"),
            );
            ends.is_ok_and(|ends| ends.lines().last().is_some_and(|line| line != RESTART_MARK))
        };
        let elements = super::output::numbers(&self.dir(&record.id));
        elements.len() >= record.elements as usize && elements.iter().all(has_ended)
    }

    /// Marks a submission as withdrawn: if it reaches Slurm all the same, its script runs nothing.
    pub(super) fn withdraw(&self, id: &str) -> io::Result<()> {
        write(&self.dir(id).join(WITHDRAWN), b"", 0o600)?;
        self.close(id);
        Ok(())
    }

    /// Returns whether records of ended jobs are due for a clean-up, and restarts the interval
    /// then.
    pub(super) fn is_cleanup_due(&self, between: std::time::Duration) -> bool {
        let path = self.root.join(LAST_CLEANUP);
        let age = std::fs::metadata(&path)
            .and_then(|file| file.modified())
            .ok()
            .and_then(|at| at.elapsed().ok());
        age.is_none_or(|age| age >= between) && write(&path, b"", 0o600).is_ok()
    }

    /// Removes the mark of an open job: it has ended, or was never accepted.
    pub(super) fn close(&self, id: &str) {
        // A mark that stays is checked once more, and removed then.
        let _ = std::fs::remove_file(self.root.join(OPEN).join(id));
    }

    /// Returns whether any element has started, in any attempt.
    pub(super) fn has_started(&self, id: &str) -> bool {
        let elements = std::fs::read_dir(self.dir(id)).into_iter().flatten().flatten();
        elements.into_iter().any(|element| element.path().join("starts").exists())
    }

    /// Writes the record of a job.
    pub(super) fn save(&self, record: &SubmissionRecord) -> io::Result<()> {
        replace([Some(self.record_file(record)?), self.number_file(record)?])
    }

    fn record_file(&self, record: &SubmissionRecord) -> io::Result<NewFile> {
        let text = serde_json::to_vec_pretty(record).map_err(io::Error::other)?;
        NewFile::write(self.dir(&record.id).join(RECORD), &text, 0o600)
    }

    /// Returns the list of the jobs that were given this job's number, if it changes.
    fn number_file(&self, record: &SubmissionRecord) -> io::Result<Option<NewFile>> {
        let Some(number) = record.number else { return Ok(None) };
        std::fs::create_dir_all(self.root.join(NUMBERS))?;
        let path = self.root.join(NUMBERS).join(number.to_string());
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        // The last line is the last job that was given the number.
        if before.lines().last() == Some(record.id.as_str()) {
            return Ok(None);
        }
        let others = before.lines().filter(|id| *id != record.id);
        let lines: Vec<&str> = others.chain([record.id.as_str()]).collect();
        NewFile::write(path, (lines.join("\n") + "\n").as_bytes(), 0o600).map(Some)
    }

    /// Returns the last exit code of a job's only element, as its script recorded it.
    pub(super) fn recorded_end(&self, record: &SubmissionRecord) -> Option<i32> {
        if record.elements > 1 {
            return None;
        }
        self.recorded_code(&record.id, 0)
    }

    /// Returns the last exit code of an element, as its script recorded it.
    pub(super) fn recorded_code(&self, id: &str, element: u32) -> Option<i32> {
        let ends =
            std::fs::read_to_string(self.dir(id).join(element.to_string()).join("ends")).ok()?;
        ends.lines().rfind(|line| *line != RESTART_MARK)?.split_once(' ')?.1.trim().parse().ok()
    }

    /// Permits another start of elements that have ended well: without this their script takes a
    /// further start for one that no user requested.
    pub(super) fn permit_restart(&self, record: &SubmissionRecord, index: Option<u32>) {
        let dir = self.dir(&record.id);
        let elements = index.map_or_else(|| super::output::numbers(&dir), |index| vec![index]);
        for element in elements {
            let path = dir.join(element.to_string()).join("ends");
            if let Ok(mut ends) = std::fs::OpenOptions::new().append(true).open(path) {
                let _ = writeln!(ends, "{RESTART_MARK}");
            }
        }
    }

    /// Returns the record with this id.
    pub(super) fn get(&self, id: &str) -> Option<SubmissionRecord> {
        // An id is a single directory name.
        if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric()) {
            return None;
        }
        serde_json::from_slice(&std::fs::read(self.dir(id).join(RECORD)).ok()?).ok()
    }

    /// Returns the jobs that were acknowledged under this number, latest first; they may have other
    /// numbers now.
    pub(super) fn holders(&self, number: u64) -> Vec<SubmissionRecord> {
        let path = self.root.join(NUMBERS).join(number.to_string());
        let ids = std::fs::read_to_string(path).unwrap_or_default();
        let records = ids.lines().rev().filter_map(|id| self.get(id.trim()));
        records
            .filter(|record| record.number == Some(number) || record.before.contains(&number))
            .collect()
    }

    /// Returns the last job that was given this number; it may have another one now.
    pub(super) fn of_number(&self, number: u64) -> Option<SubmissionRecord> {
        self.holders(number).into_iter().next()
    }
}

/// Replaces a file atomically.
fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace([Some(NewFile::write(path.to_owned(), bytes, mode)?)])
}

/// New contents of a file, beside it.
struct NewFile {
    path: PathBuf,
    file: std::fs::File,
}

impl NewFile {
    fn write(path: PathBuf, bytes: &[u8], mode: u32) -> io::Result<Self> {
        use std::io::Write as _;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(mode);
        let mut file = options.open(Self::beside(&path))?;
        file.write_all(bytes)?;
        Ok(Self { path, file })
    }

    fn beside(path: &Path) -> PathBuf {
        path.with_extension("new")
    }
}

/// Replaces files in this order, each atomically and when all are on disk. They are synced at the
/// same time, since a sync takes most of the time of a submission.
fn replace<const COUNT: usize>(files: [Option<NewFile>; COUNT]) -> io::Result<()> {
    let files: Vec<NewFile> = files.into_iter().flatten().collect();
    let (first, others) = files.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    std::thread::scope(|scope| {
        let sync = |new: &'_ NewFile| new.file.sync_all();
        let threads: Vec<_> = others
            .iter()
            .map(|new| (new, std::thread::Builder::new().spawn_scoped(scope, move || sync(new))))
            .collect();
        sync(first)?;
        threads.into_iter().try_for_each(|(new, thread)| match thread {
            Ok(thread) => thread.join().map_err(|_| io::Error::other("a sync panicked"))?,
            // The user's limit on processes is reached.
            Err(_) => sync(new),
        })
    })?;
    files.iter().try_for_each(|new| std::fs::rename(NewFile::beside(&new.path), &new.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_by_its_id_and_by_its_last_number() {
        let dir = tempfile::tempdir().unwrap();
        let records = SubmissionRecords::new(dir.path().to_owned());
        let mut record = SubmissionRecord {
            id: "a1".to_owned(),
            number: None,
            before: Vec::new(),
            name: "train".to_owned(),
            elements: 1,
            roles: Vec::new(),
            submitted: Time(5),
            commands: [("main".to_owned(), "true".to_owned())].into(),
            has_ray: false,
            workdir: "/".to_owned(),
            files: OutputFiles::default(),
            environment: TaskEnvironment::default(),
            without: Vec::new(),
            is_plain: true,
            checkpoint: None,
            sweep: None,
        };
        records.keep(&record, "#!/bin/bash\n").unwrap();
        assert_eq!(records.get("a1"), Some(record.clone()));
        assert_eq!(records.of_number(7), None);
        record.number = Some(7);
        records.save(&record).unwrap();
        assert_eq!(records.of_number(7), Some(record.clone()));
        // The number now belongs to another job.
        let other = SubmissionRecord { id: "b2".to_owned(), ..record.clone() };
        records.keep(&other, "").unwrap();
        assert_eq!(records.of_number(7), Some(other.clone()));
        assert_eq!(records.holders(7), [other, record.clone()]);
        assert!(records.is_open(&record));
        assert_eq!(records.get("../a1"), None);
        // Both are open until they are closed.
        assert_eq!(records.open_jobs().len(), 2);
        records.close("a1");
        assert_eq!(
            records.open_jobs().iter().map(|record| record.id.as_str()).collect::<Vec<_>>(),
            ["b2"]
        );
        assert!(!records.has_started("b2"));
        std::fs::create_dir(records.dir("b2").join("0")).unwrap();
        std::fs::write(records.dir("b2").join("0/starts"), "7 1 0 node1 1\n").unwrap();
        assert!(records.has_started("b2"));
        let b2 = records.get("b2").unwrap();
        std::fs::write(records.dir("b2").join("0/ends"), "1 0\nagain\n").unwrap();
        assert!(records.is_open(&b2), "it is to run again");
        std::fs::write(records.dir("b2").join("0/ends"), "1 0\n").unwrap();
        assert!(!records.is_open(&b2) && records.has_recorded_ends(&b2));
    }
}
