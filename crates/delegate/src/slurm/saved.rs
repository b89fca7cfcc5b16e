//! Saved progress: who is asked for it, and what was answered. A rank answers by writing to its
//! file in the job's folder, which every node sees; that it has changed since the request is the
//! evidence, by the file's own clock alone.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use muster_api::types::ActionResponse;
use muster_model::job::CheckpointBy;
use muster_model::view::{CheckpointAskedView, CheckpointView, ElementView, JobView, State};
use muster_model::{Checkpoint, JobId, Time};
use serde::{Deserialize, Serialize};

use super::act::{self, Verb};
use super::record::{Record, Records};
use super::{Refusal, Result, Slurm, view};

/// The last request to an element, in its folder.
const ASKED: &str = "asked.json";
/// What rank 0 writes to; other ranks have their number behind it.
const FILE: &str = "checkpoint";
/// Longest label, as the local backend's.
const LABEL_BYTES: usize = 128;
/// So much of a file's end is read for its last line.
const TAIL_BYTES: u64 = 4096;

/// A request to an element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// The element's folder.
    #[serde(skip)]
    dir: PathBuf,
    /// The attempt that was asked.
    attempt: u32,
    at: Time,
    /// Until when the job said that it would answer.
    until: Time,
    /// What each rank whose word counts had written before.
    before: Vec<Option<Stamp>>,
}

/// What tells two words of a rank apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    modified: (i64, i64),
    size: u64,
    inode: u64,
}

impl Slurm {
    /// Asks what runs of a job to save its progress.
    pub(super) async fn checkpoint(
        &self,
        job: JobId,
        index: Option<u32>,
        record: Option<&Record>,
    ) -> Result<ActionResponse> {
        // 1. Whether it can be asked.
        let none = Refusal::refused(format!("job {job} takes no checkpoint signal"));
        let Some(record) = record else {
            return Err(none.hint(format!(
                "Muster did not hand it on, and does not know; `scancel --signal=USR1 {job}` sends one all the same"
            )));
        };
        let Some(checkpoint) = record.checkpoint else {
            return Err(none.hint(
                "write `checkpoint: {signal: USR1, grace: 60s}` into its spec; docs/jobs.md says what the signal asks for",
            ));
        };
        let (rows, _) = self.rows_of(job).await?;
        let Some(view) = view::jobs(&rows, None).into_iter().next() else {
            return Err(Refusal::not_found(format!("Slurm knows no job {job}")));
        };
        let wanted = |element: u32| index.is_none_or(|index| index == element);
        let running = view.elements.iter().filter(|element| element.state == State::Running);
        let running: Vec<_> = running.filter(|element| wanted(element.element.index)).collect();
        let only = "only what runs can save its progress; `muster ps` shows what does";
        if running.is_empty() && view.state.is_final() {
            return Err(
                Refusal::refused(format!("job {job} has ended: {}", view.state.word())).hint(only)
            );
        }
        if running.is_empty() {
            return Err(Refusal::refused(format!("job {job} does not run")).hint(only));
        }
        // 2. Slurm says that an element runs before its nodes are ready and its script has begun,
        //    which could not hear it.
        let dir = self.records().await?.dir(&record.id);
        let has_begun = |element: &&ElementView| has_begun(&folder(&dir, element), element.attempt);
        let running: Vec<_> = running.into_iter().filter(has_begun).collect();
        if running.is_empty() {
            return Err(Refusal::refused(format!("job {job} has not begun yet"))
                .hint("Slurm still makes its nodes ready; ask again when `muster logs` knows it"));
        }
        // 3. What was said before, then the signal: what is said from now on answers it.
        let at = self.now();
        let ranks = ranks(checkpoint, view.tasks);
        // SIGWINCH, whose name scancel refuses; its listeners pass the job's own signal on.
        let mut targets = vec!["--signal=28".to_owned()];
        let is_array = rows.iter().any(|row| row.array.is_some());
        let mut requests = Requests::default();
        for element in running {
            let dir = folder(&dir, element);
            let before = (0..ranks).map(|rank| stamp(&file(&dir, rank))).collect();
            let asked =
                Asked { dir, attempt: element.attempt, at, until: at + checkpoint.lead, before };
            requests
                .keep(asked)
                .map_err(|error| Refusal::internal(format!("the request is not noted: {error}")))?;
            targets.push(act::element(view.job.0, is_array.then_some(element.element.index)));
        }
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        self.told(job, Verb::Checkpoint, "scancel", &targets).await?;
        self.asked.lock().expect("nobody panics with this lock").extend(requests.made());
        Ok(ActionResponse { message: "asked to save its progress".to_owned() })
    }

    /// One that was asked through here has answered since the last look.
    pub(super) fn is_answered(&self) -> bool {
        let mut asked = self.asked.lock().expect("nobody panics with this lock");
        let before = asked.len();
        asked.retain(|one| !one.is_answered());
        asked.len() < before
    }
}

/// Requests that nobody has heard yet. Where they end so, what was asked before them is what is
/// asked.
#[derive(Default)]
struct Requests(Vec<(Asked, Option<Asked>)>);

impl Requests {
    fn keep(&mut self, asked: Asked) -> io::Result<()> {
        let earlier = Asked::of(&asked.dir);
        asked.keep()?;
        self.0.push((asked, earlier));
        Ok(())
    }

    /// They were heard.
    fn made(mut self) -> Vec<Asked> {
        std::mem::take(&mut self.0).into_iter().map(|(asked, _)| asked).collect()
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        for (asked, earlier) in &self.0 {
            // What cannot be taken back is only shown, until its time is over.
            let _ = match earlier {
                Some(earlier) => earlier.keep(),
                None => std::fs::remove_file(asked.dir.join(ASKED)),
            };
        }
    }
}

impl Asked {
    fn keep(&self) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        let new = self.dir.join("asked.new");
        std::fs::write(&new, text)?;
        std::fs::rename(new, self.dir.join(ASKED))
    }

    fn of(dir: &Path) -> Option<Self> {
        let asked = serde_json::from_slice(&std::fs::read(dir.join(ASKED)).ok()?).ok();
        asked.map(|asked: Self| Self { dir: dir.to_owned(), ..asked })
    }

    /// Every rank whose word counts has written since.
    fn is_answered(&self) -> bool {
        let mut ranks = self.before.iter().enumerate();
        ranks.all(|(rank, before)| {
            let now = stamp(&file(&self.dir, rank));
            now.is_some() && now != *before
        })
    }
}

/// Puts what was saved, and what is asked for, into the views of a job's elements.
pub(super) fn fill(records: &Records, record: &Record, view: &mut JobView) {
    let ranks = record.checkpoint.map_or(1, |checkpoint| ranks(checkpoint, view.tasks));
    let signal = record.checkpoint.map_or(0, |checkpoint| checkpoint.signal);
    for element in &mut view.elements {
        let dir = folder(&records.dir(&record.id), element);
        element.checkpoint = saved(&dir, ranks);
        let asked = Asked::of(&dir)
            .filter(|asked| asked.attempt == element.attempt && !asked.is_answered());
        element.checkpoint_asked = asked.map(|asked| CheckpointAskedView {
            at: asked.at,
            until: asked.until,
            signal,
            undelivered: unheard(&dir.join(element.attempt.to_string())),
        });
    }
}

/// Ranks of an attempt in which no process handles the signal, as their listeners say.
fn unheard(logs: &Path) -> u32 {
    let files = std::fs::read_dir(logs).into_iter().flatten().flatten();
    files.filter(|file| file.file_name().to_string_lossy().starts_with("unheard-")).count() as u32
}

/// Ranks whose word counts.
fn ranks(checkpoint: Checkpoint, tasks: u32) -> usize {
    match checkpoint.by {
        CheckpointBy::First => 1,
        CheckpointBy::All => tasks as usize,
    }
}

/// Where an element keeps what it says.
fn folder(job: &Path, element: &ElementView) -> PathBuf {
    job.join(element.element.index.to_string())
}

fn file(dir: &Path, rank: usize) -> PathBuf {
    match rank {
        0 => dir.join(FILE),
        rank => dir.join(format!("{FILE}-{rank}")),
    }
}

/// None where nothing is written: an empty file says nothing.
fn stamp(path: &Path) -> Option<Stamp> {
    let file = std::fs::metadata(path).ok().filter(|file| file.is_file() && file.len() > 0)?;
    Some(Stamp { modified: (file.mtime(), file.mtime_nsec()), size: file.len(), inode: file.ino() })
}

/// The oldest of the ranks' last words, once all have said one.
fn saved(dir: &Path, ranks: usize) -> Option<CheckpointView> {
    let paths = (0..ranks).map(|rank| file(dir, rank));
    let words: Option<Vec<(Stamp, PathBuf)>> =
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

/// The last line.
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

/// Attempts with the second in which each began, as the script noted its starts: number, attempt,
/// second.
fn starts(dir: &Path) -> Vec<(u32, i64)> {
    let starts = std::fs::read_to_string(dir.join("starts")).unwrap_or_default();
    let start = |line: &str| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?.parse::<u32>().ok()?, words.next()?.parse::<i64>().ok()?))
    };
    starts.lines().filter_map(start).collect()
}

/// The script of this attempt has begun.
fn has_begun(dir: &Path, attempt: u32) -> bool {
    starts(dir).iter().any(|(known, _)| *known == attempt)
}

/// The attempt that ran at an instant.
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
            let asked =
                Asked { dir: dir.to_owned(), attempt: 2, at: Time(1), until: Time(9), before };
            asked.keep().unwrap();
            Asked::of(dir).unwrap()
        };
        std::fs::write(dir.join("starts"), "7 1 100 node1 1\n7 2 200 node1 1\n").unwrap();
        assert_eq!(saved(dir, 1), None);
        std::fs::write(dir.join("checkpoint"), "step 1\n").unwrap();
        let asked = ask(1);
        assert!(!asked.is_answered(), "written before");
        std::fs::write(dir.join("checkpoint"), "").unwrap();
        assert!(!asked.is_answered(), "nothing is written");
        std::fs::write(dir.join("checkpoint"), "step 1\nstep 20\n").unwrap();
        assert!(asked.is_answered());
        let word = saved(dir, 1).unwrap();
        assert_eq!((word.label.as_str(), word.attempt), ("step 20", 2));
        // By all: the other rank has not said it.
        let asked = ask(2);
        std::fs::write(dir.join("checkpoint"), "step 300\n").unwrap();
        assert!(!asked.is_answered() && saved(dir, 2).is_none());
        std::fs::write(dir.join("checkpoint-1"), "step 301\n").unwrap();
        assert!(asked.is_answered());
        // The oldest word counts, in the attempt that ran then.
        let old = std::fs::File::options().write(true).open(dir.join("checkpoint")).unwrap();
        old.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(150)).unwrap();
        let word = saved(dir, 2).unwrap();
        assert_eq!((word.label.as_str(), word.attempt, word.at), ("step 300", 1, Time(150_000)));
    }
}
