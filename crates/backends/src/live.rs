//! The live list: one hard link to the order of each task that is not yet forgotten, so that a
//! restarted daemon finds tasks that may still run without walking the directories of all jobs.
//! Links rather than files: with many short tasks, ext4 without a journal searches ever longer for
//! an inode that was not freed a moment ago. A second list holds tasks that were set aside: they
//! still run, but the state that ordered them was lost.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use muster_model::{Attempt, AttemptId, ElementId, JobId, Rank};

use crate::epoch::{Epoch, Epochs};
use crate::record::{RecordError, TaskDir, epoch_dir, private_dirs};

/// Directory name of the live list, in the `jobs` directory.
const LIVE: &str = ".live";
/// Directory name of the list of tasks that were set aside.
const SET_ASIDE: &str = ".unknown";

/// An entry of the list: one task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveEntry {
    /// Name of its epoch; empty for tasks of versions without epochs.
    epoch: String,
    /// Attempt of the task.
    pub id: AttemptId,
    /// Rank of the task within the attempt.
    pub rank: Rank,
}

impl LiveEntry {
    /// Returns the epoch of its job.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        Epoch::parse(&self.epoch)
    }

    /// Returns the directory of the task.
    #[must_use]
    pub fn dir(&self, jobs: &Path) -> TaskDir {
        TaskDir::of(&epoch_dir(jobs, self.epoch().as_ref()), self.id, self.rank)
    }

    /// Returns the file name of the entry in the list.
    #[must_use]
    pub fn name(&self) -> String {
        task_name(self.epoch().as_ref(), self.id, self.rank)
    }

    /// Returns the entry of the task with this directory; `None` for a path that is no task's.
    #[must_use]
    pub fn of_dir(jobs: &Path, dir: &Path) -> Option<Self> {
        Self::parse(&dir.strip_prefix(jobs).ok()?.to_str()?.replace('/', "."))
    }

    /// Parses the name of an entry; `None` for any other name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (epoch, rest) = match name.split_once('.') {
            Some((first, rest)) if rest.bytes().filter(|byte| *byte == b'.').count() == 3 => {
                (Epoch::parse(first)?.as_str().to_owned(), rest)
            }
            _ => (String::new(), name),
        };
        let mut parts = rest.split('.');
        let job = JobId(parts.next()?.parse().ok()?);
        let index = parts.next()?.parse().ok()?;
        let attempt = Attempt(parts.next()?.parse().ok()?);
        let rank = Rank(parts.next()?.parse().ok()?);
        let id = AttemptId { element: ElementId { job, index }, attempt };
        parts.next().is_none().then_some(Self { epoch, id, rank })
    }
}

/// The list of live tasks of a state.
#[derive(Clone, Debug)]
pub struct LiveList {
    jobs: PathBuf,
    epochs: Epochs,
}

impl LiveList {
    /// Returns the list under the `jobs` directory, which may be missing.
    #[must_use]
    pub fn of(jobs: &Path, epochs: Epochs) -> Self {
        Self { jobs: jobs.to_owned(), epochs }
    }

    /// Returns true when the list has not been created, or was deleted: no entry then means
    /// nothing.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        !self.jobs.join(LIVE).exists()
    }

    /// Creates the list if it is missing.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(&self) -> Result<(), RecordError> {
        let path = self.jobs.join(LIVE);
        private_dirs(&path).map_err(|source| RecordError::Io { path, source })
    }

    /// Adds a task whose order is written; adding it twice changes nothing.
    ///
    /// # Errors
    /// The entry cannot be created.
    pub fn add(&self, id: AttemptId, rank: Rank, dir: &TaskDir) -> Result<(), RecordError> {
        let path = self.path(id, rank);
        let link = || match std::fs::hard_link(dir.order_path(), &path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        };
        let linked = match link() {
            // The list was deleted while this daemon runs.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.create()?;
                link()
            }
            linked => linked,
        };
        linked.map_err(|source| RecordError::Io { path: path.clone(), source })
    }

    /// Returns true when the task is on the list.
    #[must_use]
    pub fn contains(&self, id: AttemptId, rank: Rank) -> bool {
        self.path(id, rank).exists()
    }

    /// Removes a task; removing it twice changes nothing.
    pub fn remove(&self, id: AttemptId, rank: Rank) {
        let _ = std::fs::remove_file(self.path(id, rank));
    }

    /// Returns the tasks of this state's epochs, in order.
    #[must_use]
    pub fn all(&self) -> Vec<(AttemptId, Rank)> {
        let ours =
            |entry: &LiveEntry| self.epochs.of(entry.id.element.job) == entry.epoch().as_ref();
        entries(&self.jobs.join(LIVE))
            .into_iter()
            .filter(ours)
            .map(|entry| (entry.id, entry.rank))
            .collect()
    }

    /// Returns the tasks that were set aside.
    #[must_use]
    pub fn set_aside(&self) -> Vec<LiveEntry> {
        set_aside_entries(&self.jobs)
    }

    /// Deletes the records of tasks that were set aside and have ended. Their output stays.
    pub fn clear_set_aside(&self) {
        for entry in self.set_aside() {
            let dir = entry.dir(&self.jobs);
            if supervisor(&dir).is_none() {
                dir.forget();
                let _ = std::fs::remove_file(self.jobs.join(SET_ASIDE).join(entry.name()));
            }
        }
    }

    fn path(&self, id: AttemptId, rank: Rank) -> PathBuf {
        self.jobs.join(LIVE).join(task_name(self.epochs.of(id.element.job), id, rank))
    }
}

/// Returns the entries of the live list of a `jobs` directory for which `is_known` is false.
#[must_use]
pub fn unknown(jobs: &Path, is_known: impl Fn(&LiveEntry) -> bool) -> Vec<LiveEntry> {
    entries(&jobs.join(LIVE)).into_iter().filter(|entry| !is_known(entry)).collect()
}

/// Sets tasks aside: from then on no daemon adopts or ends them.
///
/// # Errors
/// An entry cannot be moved.
pub fn set_aside(jobs: &Path, entries: &[LiveEntry]) -> Result<(), RecordError> {
    let dir = jobs.join(SET_ASIDE);
    private_dirs(&dir).map_err(|source| RecordError::Io { path: dir.clone(), source })?;
    for entry in entries {
        let from = jobs.join(LIVE).join(entry.name());
        let to = dir.join(entry.name());
        std::fs::rename(&from, to).map_err(|source| RecordError::Io { path: from, source })?;
    }
    Ok(())
}

/// Returns the tasks of a `jobs` directory that were set aside.
#[must_use]
pub fn set_aside_entries(jobs: &Path) -> Vec<LiveEntry> {
    entries(&jobs.join(SET_ASIDE))
}

/// Returns the pid of the live supervisor of a task that is not over.
#[must_use]
pub fn supervisor(dir: &TaskDir) -> Option<i32> {
    let claim = dir.claimed().ok().flatten()?;
    (claim.supervisor.is_alive() && !matches!(dir.exit(), Ok(Some(_))))
        .then_some(claim.supervisor.pid)
}

fn entries(dir: &Path) -> Vec<LiveEntry> {
    let found = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut entries: Vec<LiveEntry> =
        found.filter_map(|entry| LiveEntry::parse(entry.file_name().to_str()?)).collect();
    entries.sort_unstable();
    entries
}

/// Returns the name of a task: `<epoch>.<job>.<index>.<attempt>.<rank>`, safe as a file or cgroup
/// name.
#[must_use]
pub fn task_name(epoch: Option<&Epoch>, id: AttemptId, rank: Rank) -> String {
    let AttemptId { element: ElementId { job, index }, attempt } = id;
    let name = format!("{job}.{index}.{attempt}.{rank}");
    epoch.map_or_else(|| name.clone(), |epoch| format!("{epoch}.{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a task directory with an empty order.
    fn ordered(jobs: &Path, id: AttemptId, rank: Rank) -> TaskDir {
        let dir = TaskDir::of(jobs, id, rank);
        dir.create().unwrap();
        std::fs::write(dir.order_path(), "").unwrap();
        dir
    }

    fn id(job: u64) -> AttemptId {
        AttemptId { element: ElementId { job: JobId(job), index: 3 }, attempt: Attempt(1) }
    }

    #[test]
    fn the_live_list_round_trips() {
        let temp = tempfile::tempdir().unwrap();
        let mut epochs = Epochs::default();
        epochs.begin(20, Epoch::of(7));
        let list = LiveList::of(temp.path(), epochs);
        assert!(list.is_missing());
        for job in [12, 21] {
            let dir = ordered(temp.path(), id(job), Rank(4));
            list.add(id(job), Rank(4), &dir).unwrap();
            list.add(id(job), Rank(4), &dir).unwrap();
        }
        std::fs::write(temp.path().join(".live/not.a.task"), "").unwrap();
        assert_eq!(list.all(), [(id(12), Rank(4)), (id(21), Rank(4))]);
        assert!(!list.is_missing() && list.contains(id(12), Rank(4)));
        list.remove(id(12), Rank(4));
        list.remove(id(12), Rank(4));
        assert_eq!(list.all(), [(id(21), Rank(4))]);
    }

    #[test]
    fn tasks_of_another_epoch_are_in_no_list_of_this_state() {
        let temp = tempfile::tempdir().unwrap();
        let of = |epoch| {
            let mut epochs = Epochs::default();
            epochs.begin(1, Epoch::of(epoch));
            LiveList::of(temp.path(), epochs)
        };
        of(1).add(id(5), Rank(0), &ordered(temp.path(), id(5), Rank(0))).unwrap();
        assert_eq!(of(2).all(), []);
        assert_eq!(of(1).all(), [(id(5), Rank(0))]);

        let strays = unknown(temp.path(), |_| false);
        let dir = strays[0].dir(temp.path());
        assert_eq!(dir.path(), temp.path().join("00000001/5/3/1/0"));
        assert_eq!(LiveEntry::of_dir(temp.path(), dir.path()), Some(strays[0].clone()));
        assert_eq!(LiveEntry::of_dir(temp.path(), &temp.path().join("5/3/1")), None);
        set_aside(temp.path(), &strays).unwrap();
        assert_eq!((of(1).all(), of(2).set_aside()), (Vec::new(), strays));
        of(2).clear_set_aside();
        assert_eq!(of(2).set_aside(), []);
    }
}
