//! Lineage of the state: its epochs, and whether it is older than the data outside the database.
//! Detects a restored copy, a lost write-ahead log and a deleted database before anything runs and
//! before a job number is reused.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use muster_backends::epoch::{Epoch, Epochs};
use muster_backends::live::{self, LiveEntry};
use muster_backends::record::private_dirs;
use muster_model::hash::fnv1a;
use muster_model::{AttemptId, Rank};
use muster_runtime::{Runtime, StoreError};
use serde::{Deserialize, Serialize};

use super::error::{LineageConflict, OlderState, ServeError, named};
use crate::paths::Paths;
use crate::store::{HighWater, SqliteStore};

/// Key in the `meta` table; value is JSON.
const LINEAGE: &str = "lineage";
/// Lineage as stored in the `meta` table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Lineage {
    epochs: Epochs,
    /// Lowest number of a new job.
    first_job: u64,
}

/// Returns the state's epochs; starts one for a new state, and for one whose task directories are
/// gone.
pub(super) fn check_lineage(
    runtime: Runtime<SqliteStore>,
    paths: &Paths,
) -> Result<(Runtime<SqliteStore>, Epochs, Vec<String>), ServeError> {
    let place = StateFiles::of(paths)?;
    let mut lineage = known(runtime.store())?;
    let mut runtime = runtime.with_first_job(lineage.first_job.max(1));
    let mut warnings = Vec::new();
    if let Some(why) = place.conflict(&runtime, &lineage)? {
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
            "tasks of a lost state keep running, and no daemon stops them: {}",
            named(&running)
        ));
    }
    Ok((runtime, lineage.epochs, warnings))
}

/// Accepts a state that is older than its task directories: starts an epoch, numbers new jobs above
/// everything on disk, and sets unknown running tasks aside. Returns `None` when the state is
/// consistent.
///
/// # Errors
/// When the state cannot be read or written, or when a daemon uses it.
pub fn accept_older_state(paths: &Paths) -> Result<Option<OlderState>, ServeError> {
    paths.prepare()?;
    let store = SqliteStore::open(&paths.state_dir)?;
    let place = StateFiles::of(paths)?;
    let mut lineage = known(&store)?;
    let runtime = Runtime::open(store, muster_model::QueueTree::single())?
        .with_first_job(lineage.first_job.max(1));
    let Some(why) = place.conflict(&runtime, &lineage)? else { return Ok(None) };
    let older = place.older(&runtime, &lineage, why);
    live::set_aside(&place.jobs, &unknown(&runtime, &lineage, &place.jobs))
        .map_err(|error| StoreError::Io(error.to_string()))?;
    let mut runtime = place.begin(runtime, &mut lineage)?;
    place.keep_marks(&mut runtime, &lineage)?;
    Ok(Some(older))
}

/// Data beside the database.
struct StateFiles {
    jobs: PathBuf,
    marks: [PathBuf; 2],
    /// Mark in the task directories, which a restored database does not include.
    beside_tasks: Option<HighWater>,
    /// Mark in the runtime directory, which a restored state directory does not include.
    beside_sockets: Option<HighWater>,
    /// Highest job number of a task directory.
    seen: Option<u64>,
}

impl StateFiles {
    fn of(paths: &Paths) -> Result<Self, StoreError> {
        let jobs = paths.state_dir.join("jobs");
        private_dirs(&jobs)
            .map_err(|error| StoreError::Io(format!("{}: {error}", jobs.display())))?;
        let marks = [jobs.join(".high-water"), beside_sockets(paths)];
        let beside_tasks = HighWater::read(&marks[0]);
        let beside_sockets = HighWater::read(&marks[1]);
        let seen = highest_job(&jobs);
        Ok(Self { jobs, marks, beside_tasks, beside_sockets, seen })
    }

    /// Returns true when no task has left data here.
    fn is_empty(&self) -> bool {
        self.beside_tasks.is_none() && self.seen.is_none()
    }

    /// Returns the reason why this state does not match; `None` when it does.
    fn conflict(
        &self,
        runtime: &Runtime<SqliteStore>,
        lineage: &Lineage,
    ) -> Result<Option<LineageConflict>, StoreError> {
        let have = runtime.store().revision()?;
        let next = runtime.next_job();
        if have == 0 && lineage.epochs.newest().is_none() {
            // Only marks beside the sockets remain when the state was deleted on purpose.
            return Ok((!self.is_empty()).then_some(LineageConflict::New));
        }
        for mark in [&self.beside_tasks, &self.beside_sockets].into_iter().flatten() {
            if lineage.epochs.newest() != Some(&mark.epoch) {
                return Ok(Some(LineageConflict::Other));
            }
            if mark.revision > have {
                return Ok(Some(LineageConflict::Behind { have, seen: mark.revision }));
            }
        }
        Ok(self
            .seen
            .filter(|seen| *seen >= next)
            .map(|seen| LineageConflict::Numbers { next, seen }))
    }

    /// Returns the lowest job number that is unused on disk.
    fn free_number(&self, next: u64) -> u64 {
        let marks = [&self.beside_tasks, &self.beside_sockets].into_iter().flatten();
        let marked = marks.map(|mark| mark.next_job).max().unwrap_or(0);
        next.max(marked).max(self.seen.map_or(0, |seen| seen + 1))
    }

    fn older(
        &self,
        runtime: &Runtime<SqliteStore>,
        lineage: &Lineage,
        why: LineageConflict,
    ) -> OlderState {
        let mut unknown = unknown(runtime, lineage, &self.jobs);
        unknown.extend(self.set_aside());
        OlderState {
            why,
            first_job: self.free_number(runtime.next_job()),
            running: running(&self.jobs, &unknown),
        }
    }

    /// Starts an epoch, durably.
    fn begin(
        &self,
        runtime: Runtime<SqliteStore>,
        lineage: &mut Lineage,
    ) -> Result<Runtime<SqliteStore>, StoreError> {
        // Job numbers of a lost state belong to no directory of this epoch.
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
        let revision = runtime.store().revision()?;
        let next_job = runtime.next_job();
        runtime.store_mut().keep_marks(&self.marks, HighWater { epoch, revision, next_job })
    }

    fn set_aside(&self) -> Vec<LiveEntry> {
        live::set_aside_entries(&self.jobs)
    }
}

/// Returns the path of the mark in the runtime directory. Several states of a user may share that
/// directory, so the file name contains a hash of the state directory's path.
fn beside_sockets(paths: &Paths) -> PathBuf {
    let hash = fnv1a(paths.state_dir.as_os_str().as_bytes());
    paths.runtime_dir.join(format!("high-water.{hash:016x}"))
}

fn known(store: &SqliteStore) -> Result<Lineage, StoreError> {
    let Some(text) = store.meta(LINEAGE)? else { return Ok(Lineage::default()) };
    serde_json::from_str(&text)
        .map_err(|error| StoreError::Corrupt(format!("its lineage does not read: {error}")))
}

/// Returns entries of the live list whose task is not in the state.
fn unknown(runtime: &Runtime<SqliteStore>, lineage: &Lineage, jobs: &Path) -> Vec<LiveEntry> {
    let tasks = runtime.engine().map(|engine| engine.expected_tasks()).unwrap_or_default();
    let expected: BTreeSet<(AttemptId, Rank)> =
        tasks.into_iter().map(|(id, rank, _)| (id, rank)).collect();
    let is_known = |entry: &LiveEntry| {
        let epoch = lineage.epochs.of(entry.id.element.job);
        epoch == entry.epoch().as_ref() && expected.contains(&(entry.id, entry.rank))
    };
    live::unknown(jobs, is_known)
}

fn running(jobs: &Path, entries: &[LiveEntry]) -> Vec<String> {
    let line = |entry: &LiveEntry| {
        let pid = live::supervisor(&entry.dir(jobs))?;
        Some(format!("job {} rank {} (supervisor {pid})", entry.id.element.job, entry.rank))
    };
    entries.iter().filter_map(line).collect()
}

/// Returns the highest job number that has a directory, in any epoch.
fn highest_job(jobs: &Path) -> Option<u64> {
    let names = |dir: &Path| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let numbers = |names: &[String]| names.iter().filter_map(|name| name.parse::<u64>().ok()).max();
    let top = names(jobs);
    let in_epochs = top.iter().filter(|name| Epoch::parse(name).is_some());
    let below = in_epochs.filter_map(|name| numbers(&names(&jobs.join(name)))).max();
    // Eight digits may be an epoch, or a job of a version without epochs; as a job number it would
    // be implausibly high.
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
