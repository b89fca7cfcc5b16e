//! Which state this is: its epochs, and whether it is older than what it left outside the database.
//! A restored copy, a lost write-ahead log and a deleted database are found here, before anything
//! runs and before a number is given twice.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use muster_backends::epoch::{Epoch, Epochs};
use muster_backends::live::{self, Entry};
use muster_backends::record::private_dirs;
use muster_model::{AttemptId, Rank};
use muster_runtime::{Runtime, StoreError};
use serde::{Deserialize, Serialize};

use super::ServeError;
use crate::paths::Paths;
use crate::store::{HighWater, SqliteStore};

/// Name in the `meta` table.
const LINEAGE: &str = "lineage";
/// Tasks that a message names at most.
const NAMED: usize = 5;

/// What the `meta` table keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Lineage {
    epochs: Epochs,
    /// No new job gets a lower number.
    first_job: u64,
}

/// Why a state cannot go on where its task directories are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The database is new, and there are task directories.
    New,
    /// The marks are of another lineage.
    Other,
    /// It ends at record `have`; its marks have reached `seen`.
    Behind { have: u64, seen: u64 },
    /// Its next job is `next`; there are directories up to job `seen`.
    Numbers { next: u64, seen: u64 },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::New => {
                f.write_str("the database is new, and jobs/ holds task directories of another one")
            }
            Why::Other => f.write_str("jobs/ belongs to a state that took another course"),
            Why::Behind { have, seen } => {
                write!(
                    f,
                    "the database ends at record {have}, and the state had reached record {seen}"
                )
            }
            Why::Numbers { next, seen } => {
                write!(
                    f,
                    "the database goes up to job {}, and jobs/ up to job {seen}",
                    next.saturating_sub(1)
                )
            }
        }
    }
}

/// A state that is older than what it left on disk.
#[derive(Clone, Debug)]
pub struct Older {
    why: Why,
    /// The number that the next job gets if it is accepted.
    pub first_job: u64,
    /// Tasks that run and that the state does not know.
    pub running: Vec<String>,
}

impl fmt::Display for Older {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the state is older than its task directories: {}", self.why)?;
        if !self.running.is_empty() {
            write!(f, "; tasks that it does not know go on running: {}", named(&self.running))?;
        }
        Ok(())
    }
}

/// `job 3 rank 0 (supervisor 4711), and 2 more`.
fn named(running: &[String]) -> String {
    let mut text = running.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = running.len().checked_sub(NAMED) {
        text.push_str(&format!(", and {more} more"));
    }
    text
}

/// The state's epochs; begins one for a new state, and for one whose task directories are gone.
pub(super) fn settle(
    runtime: Runtime<SqliteStore>,
    paths: &Paths,
) -> Result<(Runtime<SqliteStore>, Epochs, Vec<String>), ServeError> {
    let place = Place::of(paths)?;
    let mut lineage = known(runtime.store())?;
    let mut runtime = runtime.with_first_job(lineage.first_job.max(1));
    let mut warnings = Vec::new();
    if let Some(why) = place.contradiction(&runtime, &lineage)? {
        return Err(ServeError::Older(Box::new(place.older(&runtime, &lineage, why))));
    }
    let is_new = lineage.epochs.newest().is_none();
    if is_new || place.is_empty() {
        if !is_new {
            warnings.push(
                "the task directories are gone: tasks that ran are lost, and so are the logs of ended jobs"
                    .to_owned(),
            );
        }
        runtime = place.begin(runtime, &mut lineage)?;
    }
    place.keep_marks(&mut runtime, &lineage)?;
    let running = running(&place.jobs, &place.set_aside());
    if !running.is_empty() {
        warnings.push(format!(
            "tasks of a lost state run, and no daemon ends them: {}",
            named(&running)
        ));
    }
    Ok((runtime, lineage.epochs, warnings))
}

/// Accepts a state that is older than its task directories: begins an epoch, numbers new jobs above
/// everything on disk, and sets aside what runs and is not known. `None` when the state is sound.
///
/// # Errors
/// When the state cannot be read or written, or when a daemon uses it.
pub fn accept_older_state(paths: &Paths) -> Result<Option<Older>, ServeError> {
    paths.prepare()?;
    let store = SqliteStore::open(&paths.state_dir)?;
    let place = Place::of(paths)?;
    let mut lineage = known(&store)?;
    let runtime = Runtime::open(store, muster_model::QueueTree::single())?
        .with_first_job(lineage.first_job.max(1));
    let Some(why) = place.contradiction(&runtime, &lineage)? else { return Ok(None) };
    let older = place.older(&runtime, &lineage, why);
    live::set_aside(&place.jobs, &unknown(&runtime, &lineage, &place.jobs))
        .map_err(|error| StoreError::Io(error.to_string()))?;
    let mut runtime = place.begin(runtime, &mut lineage)?;
    place.keep_marks(&mut runtime, &lineage)?;
    Ok(Some(older))
}

/// What lies beside the database.
struct Place {
    jobs: PathBuf,
    marks: [PathBuf; 2],
    /// The mark in the task directories, which a restored database does not bring along.
    beside_tasks: Option<HighWater>,
    /// The mark in the runtime directory, which a restored state directory does not bring along.
    beside_sockets: Option<HighWater>,
    /// The highest job number of a task directory.
    seen: Option<u64>,
}

impl Place {
    fn of(paths: &Paths) -> Result<Self, StoreError> {
        let jobs = paths.state_dir.join("jobs");
        private_dirs(&jobs)
            .map_err(|error| StoreError::Io(format!("{}: {error}", jobs.display())))?;
        let marks = [jobs.join(".high-water"), beside_sockets(paths)];
        let (beside_tasks, beside_sockets) =
            (HighWater::read(&marks[0]), HighWater::read(&marks[1]));
        let seen = highest_job(&jobs);
        Ok(Self { jobs, marks, beside_tasks, beside_sockets, seen })
    }

    /// No task has left anything here.
    fn is_empty(&self) -> bool {
        self.beside_tasks.is_none() && self.seen.is_none()
    }

    /// Why this state cannot go on here; `None` when it can.
    fn contradiction(
        &self,
        runtime: &Runtime<SqliteStore>,
        lineage: &Lineage,
    ) -> Result<Option<Why>, StoreError> {
        let (have, next) = (runtime.store().revision()?, runtime.next_job());
        if have == 0 && lineage.epochs.newest().is_none() {
            // Sockets alone are what is left where the state was deleted on purpose.
            return Ok((!self.is_empty()).then_some(Why::New));
        }
        for mark in [&self.beside_tasks, &self.beside_sockets].into_iter().flatten() {
            if lineage.epochs.newest() != Some(&mark.epoch) {
                return Ok(Some(Why::Other));
            }
            if mark.revision > have {
                return Ok(Some(Why::Behind { have, seen: mark.revision }));
            }
        }
        Ok(self.seen.filter(|seen| *seen >= next).map(|seen| Why::Numbers { next, seen }))
    }

    /// The lowest number that nothing on disk has.
    fn free_number(&self, next: u64) -> u64 {
        let marks = [&self.beside_tasks, &self.beside_sockets].into_iter().flatten();
        let marked = marks.map(|mark| mark.next_job).max().unwrap_or(0);
        next.max(marked).max(self.seen.map_or(0, |seen| seen + 1))
    }

    fn older(&self, runtime: &Runtime<SqliteStore>, lineage: &Lineage, why: Why) -> Older {
        let mut unknown = unknown(runtime, lineage, &self.jobs);
        unknown.extend(self.set_aside());
        Older {
            why,
            first_job: self.free_number(runtime.next_job()),
            running: running(&self.jobs, &unknown),
        }
    }

    /// Begins an epoch, durably.
    fn begin(
        &self,
        runtime: Runtime<SqliteStore>,
        lineage: &mut Lineage,
    ) -> Result<Runtime<SqliteStore>, StoreError> {
        // Numbers of a lost state belong to no directory of this one.
        lineage.epochs.begin(runtime.next_job(), random_epoch()?);
        lineage.first_job = self.free_number(runtime.next_job());
        let text =
            serde_json::to_string(lineage).map_err(|error| StoreError::Io(error.to_string()))?;
        runtime.store().set_meta(LINEAGE, Some(&text))?;
        Ok(runtime.with_first_job(lineage.first_job))
    }

    fn keep_marks(
        &self,
        runtime: &mut Runtime<SqliteStore>,
        lineage: &Lineage,
    ) -> Result<(), StoreError> {
        let Some(epoch) = lineage.epochs.newest().cloned() else { return Ok(()) };
        let (revision, next_job) = (runtime.store().revision()?, runtime.next_job());
        runtime.store_mut().keep_marks(&self.marks, HighWater { epoch, revision, next_job })
    }

    fn set_aside(&self) -> Vec<Entry> {
        live::set_aside_entries(&self.jobs)
    }
}

/// Several states of a user may share one runtime directory: each has a mark of its own there,
/// named after the state directory (FNV-1a of its path).
fn beside_sockets(paths: &Paths) -> PathBuf {
    let bytes = paths.state_dir.as_os_str().as_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    paths.runtime_dir.join(format!("high-water.{hash:016x}"))
}

fn known(store: &SqliteStore) -> Result<Lineage, StoreError> {
    let Some(text) = store.meta(LINEAGE)? else { return Ok(Lineage::default()) };
    serde_json::from_str(&text)
        .map_err(|error| StoreError::Corrupt(format!("its lineage does not read: {error}")))
}

/// Entries of the live list that are of no task that the state stands for.
fn unknown(runtime: &Runtime<SqliteStore>, lineage: &Lineage, jobs: &Path) -> Vec<Entry> {
    let tasks = runtime.engine().map(|engine| engine.expected_tasks()).unwrap_or_default();
    let expected: BTreeSet<(AttemptId, Rank)> =
        tasks.into_iter().map(|(id, rank, _)| (id, rank)).collect();
    let is_known = |entry: &Entry| {
        let epoch = lineage.epochs.of(entry.id.element.job);
        epoch == entry.epoch().as_ref() && expected.contains(&(entry.id, entry.rank))
    };
    live::unknown(jobs, is_known)
}

fn running(jobs: &Path, entries: &[Entry]) -> Vec<String> {
    let line = |entry: &Entry| {
        let pid = live::supervisor(&entry.dir(jobs))?;
        Some(format!("job {} rank {} (supervisor {pid})", entry.id.element.job, entry.rank))
    };
    entries.iter().filter_map(line).collect()
}

/// The highest job number that has a directory, in any epoch.
fn highest_job(jobs: &Path) -> Option<u64> {
    let names = |dir: &Path| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let numbers = |names: &[String]| names.iter().filter_map(|name| name.parse::<u64>().ok()).max();
    let top = names(jobs);
    let in_epochs = top.iter().filter(|name| Epoch::parse(name).is_some());
    let below = in_epochs.filter_map(|name| numbers(&names(&jobs.join(name)))).max();
    // Eight digits may be an epoch or a job of a version without epochs; as a number it would be
    // out of reach.
    let plain: Vec<String> =
        top.iter().filter(|name| Epoch::parse(name).is_none()).cloned().collect();
    numbers(&plain).max(below)
}

fn random_epoch() -> Result<Epoch, StoreError> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Io(format!("no random number: {error}")))?;
    Ok(Epoch::of(u32::from_ne_bytes(bytes)))
}
