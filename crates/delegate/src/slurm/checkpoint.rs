//! Checkpoint requests and their acknowledgement. A rank acknowledges by writing to its file in the
//! job's directory, which every node sees. A change of the file since the request is the evidence;
//! only the file system's clock is used.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use muster_api::types::ActionResponse;
use muster_model::job::CheckpointBy;
use muster_model::view::{CheckpointAskedView, CheckpointView, ElementView, JobState, JobView};
use muster_model::{Checkpoint, JobId, Time};
use serde::{Deserialize, Serialize};

use super::act::{self, SlurmAction};
use super::record::{SubmissionRecord, SubmissionRecords};
use super::{RequestError, Result, SlurmScheduler, view};
use crate::route::now;

/// File with the last request to an element, in the element's directory.
const REQUEST_FILE: &str = "asked.json";
/// File that rank 0 writes to acknowledge; other ranks append their number to the name.
const ACKNOWLEDGEMENT_FILE: &str = "checkpoint";
/// Maximum length of a label in bytes, as in the local backend.
const LABEL_BYTES: usize = 128;
/// Number of bytes at the end of a file in which its last line is searched.
const TAIL_BYTES: u64 = 4096;

/// Checkpoint request to an element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CheckpointRequest {
    /// Directory of the element.
    #[serde(skip)]
    dir: PathBuf,
    /// Attempt that was asked.
    attempt: u32,
    at: Time,
    /// Deadline for the acknowledgement, by the job's grace period.
    until: Time,
    /// State of the files of all ranks that must acknowledge, at the time of the request.
    before: Vec<Option<FileStamp>>,
}

/// State of a rank's file, which changes with each acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileStamp {
    modified: (i64, i64),
    size: u64,
    inode: u64,
}

impl SlurmScheduler {
    /// Sends a checkpoint request to the running elements of a job.
    pub(super) async fn checkpoint(
        &self,
        job: JobId,
        index: Option<u32>,
        record: Option<&SubmissionRecord>,
    ) -> Result<ActionResponse> {
        // 1. Check that the job takes checkpoint requests.
        let (record, checkpoint) = checkpoint_settings(job, record)?;
        let (rows, _) = self.rows_of(job).await?;
        let Some(view) = view::jobs(&rows, None).into_iter().next() else {
            return Err(RequestError::not_found(format!("Slurm has no job {job}")));
        };
        let wanted = |element: u32| index.is_none_or(|index| index == element);
        let running = view.elements.iter().filter(|element| element.state == JobState::Running);
        let running: Vec<_> = running.filter(|element| wanted(element.element.index)).collect();
        let only = "only running jobs can save a checkpoint; `muster ps` lists them";
        if running.is_empty() && view.state.is_final() {
            return Err(RequestError::refused(format!(
                "job {job} has ended: {}",
                view.state.word()
            ))
            .hint(only));
        }
        if running.is_empty() {
            return Err(RequestError::refused(format!("job {job} is not running")).hint(only));
        }
        // 2. Slurm reports an element as running before its nodes are ready and its script has
        // begun, which could not receive the signal.
        let dir = self.records().await?.dir(&record.id);
        let has_begun = |element: &&ElementView| has_begun(&folder(&dir, element), element.attempt);
        let running: Vec<_> = running.into_iter().filter(has_begun).collect();
        if running.is_empty() {
            return Err(RequestError::refused(format!("job {job} has not started yet")).hint(
                "Slurm is still preparing its nodes; retry once `muster logs` shows output",
            ));
        }
        // 3. Record the state of the files, then send the signal: later changes acknowledge it.
        let at = now();
        let ranks = ranks(checkpoint, view.tasks);
        // 28 is SIGWINCH, whose name scancel refuses; the listeners pass the job's own signal on.
        let mut targets = vec!["--signal=28".to_owned()];
        let is_array = rows.iter().any(|row| row.array.is_some());
        let mut requests = UnsentRequests::default();
        for element in running {
            let dir = folder(&dir, element);
            let before = (0..ranks).map(|rank| stamp(&file(&dir, rank))).collect();
            let asked = CheckpointRequest {
                dir,
                attempt: element.attempt,
                at,
                until: at + checkpoint.lead,
                before,
            };
            requests.keep(asked).map_err(|error| {
                RequestError::internal(format!("cannot record the request: {error}"))
            })?;
            targets.push(act::element(view.job.0, is_array.then_some(element.element.index)));
        }
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        self.run_on_job(job, SlurmAction::Checkpoint, "scancel", &targets).await?;
        self.open_checkpoints
            .lock()
            .expect("no thread panics while holding this lock")
            .extend(requests.sent());
        Ok(ActionResponse { message: "checkpoint requested".to_owned() })
    }

    /// Returns whether a request made here was acknowledged since the last call.
    pub(super) fn is_acknowledged(&self) -> bool {
        let mut asked =
            self.open_checkpoints.lock().expect("no thread panics while holding this lock");
        let before = asked.len();
        asked.retain(|one| !one.is_acknowledged());
        asked.len() < before
    }
}

/// Recorded requests that were not sent yet. Dropping them restores the requests recorded before.
#[derive(Default)]
struct UnsentRequests(Vec<(CheckpointRequest, Option<CheckpointRequest>)>);

impl UnsentRequests {
    fn keep(&mut self, asked: CheckpointRequest) -> io::Result<()> {
        let earlier = CheckpointRequest::of(&asked.dir);
        asked.keep()?;
        self.0.push((asked, earlier));
        Ok(())
    }

    /// Returns the requests after they were sent, which keeps them.
    fn sent(mut self) -> Vec<CheckpointRequest> {
        std::mem::take(&mut self.0).into_iter().map(|(asked, _)| asked).collect()
    }
}

impl Drop for UnsentRequests {
    fn drop(&mut self) {
        for (asked, earlier) in &self.0 {
            // A request that cannot be restored is only displayed until its deadline.
            let _ = match earlier {
                Some(earlier) => earlier.keep(),
                None => std::fs::remove_file(asked.dir.join(REQUEST_FILE)),
            };
        }
    }
}

impl CheckpointRequest {
    fn keep(&self) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        let new = self.dir.join("asked.new");
        std::fs::write(&new, text)?;
        std::fs::rename(new, self.dir.join(REQUEST_FILE))
    }

    fn of(dir: &Path) -> Option<Self> {
        let asked = serde_json::from_slice(&std::fs::read(dir.join(REQUEST_FILE)).ok()?).ok();
        asked.map(|asked: Self| Self { dir: dir.to_owned(), ..asked })
    }

    /// Returns whether all ranks that must acknowledge have written since the request.
    fn is_acknowledged(&self) -> bool {
        let mut ranks = self.before.iter().enumerate();
        ranks.all(|(rank, before)| {
            let now = stamp(&file(&self.dir, rank));
            now.is_some() && now != *before
        })
    }
}

/// Returns the record of a job with its checkpoint settings, or the error of a job without any.
fn checkpoint_settings(
    job: JobId,
    record: Option<&SubmissionRecord>,
) -> Result<(&SubmissionRecord, Checkpoint)> {
    let none = RequestError::refused(format!("job {job} has no checkpoint signal"));
    let Some(record) = record else {
        return Err(none.hint(format!(
            "it was not submitted through Muster; `scancel --signal=USR1 {job}` sends a signal anyway"
        )));
    };
    let Some(checkpoint) = record.checkpoint else {
        return Err(none.hint(
            "add `checkpoint: {signal: USR1, grace: 60s}` to its spec; docs/jobs.md explains the signal",
        ));
    };
    Ok((record, checkpoint))
}

/// Fills the last checkpoint and the open request into the views of a job's elements.
pub(super) fn fill(records: &SubmissionRecords, record: &SubmissionRecord, view: &mut JobView) {
    let ranks = record.checkpoint.map_or(1, |checkpoint| ranks(checkpoint, view.tasks));
    let signal = record.checkpoint.map_or(0, |checkpoint| checkpoint.signal);
    for element in &mut view.elements {
        let dir = folder(&records.dir(&record.id), element);
        // The request first: an acknowledgement that arrives in between is then seen by the next
        // view, and no view shows an acknowledged request without its label.
        let asked = CheckpointRequest::of(&dir)
            .filter(|asked| asked.attempt == element.attempt && !asked.is_acknowledged());
        element.checkpoint = saved(&dir, ranks);
        element.checkpoint_asked = asked.map(|asked| CheckpointAskedView {
            at: asked.at,
            until: asked.until,
            signal,
            undelivered: ranks_without_handler(&dir.join(element.attempt.to_string())),
        });
    }
}

/// Returns the number of ranks of an attempt without a handler for the signal, as their listeners
/// report.
fn ranks_without_handler(logs: &Path) -> u32 {
    let files = std::fs::read_dir(logs).into_iter().flatten().flatten();
    files.filter(|file| file.file_name().to_string_lossy().starts_with("unheard-")).count() as u32
}

/// Returns the number of ranks that must acknowledge.
fn ranks(checkpoint: Checkpoint, tasks: u32) -> usize {
    match checkpoint.by {
        CheckpointBy::First => 1,
        CheckpointBy::All => tasks as usize,
    }
}

/// Returns the directory of an element.
fn folder(job: &Path, element: &ElementView) -> PathBuf {
    job.join(element.element.index.to_string())
}

fn file(dir: &Path, rank: usize) -> PathBuf {
    match rank {
        0 => dir.join(ACKNOWLEDGEMENT_FILE),
        rank => dir.join(format!("{ACKNOWLEDGEMENT_FILE}-{rank}")),
    }
}

/// Returns the state of a file; `None` for a missing or empty one, which acknowledges nothing.
fn stamp(path: &Path) -> Option<FileStamp> {
    let file = std::fs::metadata(path).ok().filter(|file| file.is_file() && file.len() > 0)?;
    Some(FileStamp {
        modified: (file.mtime(), file.mtime_nsec()),
        size: file.len(),
        inode: file.ino(),
    })
}

/// Returns the oldest of the ranks' last acknowledgements, once all have made one.
fn saved(dir: &Path, ranks: usize) -> Option<CheckpointView> {
    let paths = (0..ranks).map(|rank| file(dir, rank));
    let words: Option<Vec<(FileStamp, PathBuf)>> =
        paths.map(|path| Some((stamp(&path)?, path))).collect();
    let (stamp, path) = words?.into_iter().min_by_key(|(stamp, _)| stamp.modified)?;
    let (secs, nanos) = stamp.modified;
    let at = secs.saturating_mul(1000).saturating_add(nanos / 1_000_000);
    let at = Time(u64::try_from(at).unwrap_or_default());
    Some(CheckpointView {
        at,
        label: label(&path).unwrap_or_default(),
        attempt: attempt(dir, secs),
    })
}

/// Returns the last line of a file.
fn label(path: &Path) -> io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let text = String::from_utf8_lossy(&tail);
    let line = text.lines().last().unwrap_or_default().trim();
    Ok(line[..line.floor_char_boundary(LABEL_BYTES)].to_owned())
}

/// Returns the job number, attempt and start in seconds of each attempt, as the script recorded its
/// starts.
fn starts(dir: &Path) -> Vec<(u32, i64)> {
    let starts = std::fs::read_to_string(dir.join("starts")).unwrap_or_default();
    let start = |line: &str| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?.parse::<u32>().ok()?, words.next()?.parse::<i64>().ok()?))
    };
    starts.lines().filter_map(start).collect()
}

/// Returns whether the script of this attempt has begun.
fn has_begun(dir: &Path, attempt: u32) -> bool {
    starts(dir).iter().any(|(known, _)| *known == attempt)
}

/// Returns the attempt that ran at an instant.
fn attempt(dir: &Path, at_secs: i64) -> u32 {
    let starts = starts(dir);
    let ran = starts.iter().rfind(|(_, secs)| *secs <= at_secs).or(starts.first());
    ran.map_or(1, |(attempt, _)| *attempt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_by_what_is_written_after_it_and_by_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let ask = |ranks| {
            let before = (0..ranks).map(|rank| stamp(&file(dir, rank))).collect();
            let asked = CheckpointRequest {
                dir: dir.to_owned(),
                attempt: 2,
                at: Time(1),
                until: Time(9),
                before,
            };
            asked.keep().unwrap();
            CheckpointRequest::of(dir).unwrap()
        };
        std::fs::write(dir.join("starts"), "7 1 100 node1 1\n7 2 200 node1 1\n").unwrap();
        assert_eq!(saved(dir, 1), None);
        std::fs::write(dir.join("checkpoint"), "step 1\n").unwrap();
        let asked = ask(1);
        assert!(!asked.is_acknowledged(), "written before");
        std::fs::write(dir.join("checkpoint"), "").unwrap();
        assert!(!asked.is_acknowledged(), "nothing is written");
        std::fs::write(dir.join("checkpoint"), "step 1\nstep 20\n").unwrap();
        assert!(asked.is_acknowledged());
        let word = saved(dir, 1).unwrap();
        assert_eq!((word.label.as_str(), word.attempt), ("step 20", 2));
        // With `by: all` the other rank has not acknowledged.
        let asked = ask(2);
        std::fs::write(dir.join("checkpoint"), "step 300\n").unwrap();
        assert!(!asked.is_acknowledged() && saved(dir, 2).is_none());
        std::fs::write(dir.join("checkpoint-1"), "step 301\n").unwrap();
        assert!(asked.is_acknowledged());
        // The oldest acknowledgement counts, in the attempt that ran then.
        let old = std::fs::File::options().write(true).open(dir.join("checkpoint")).unwrap();
        old.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(150)).unwrap();
        let word = saved(dir, 2).unwrap();
        assert_eq!((word.label.as_str(), word.attempt, word.at), ("step 300", 1, Time(150_000)));
    }
}
