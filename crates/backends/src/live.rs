//! The list of tasks that are not yet forgotten: a link to the order of each, so that a daemon
//! finds after a restart what may still run without walking the directories of every job it ever
//! had. A link and no file: where many short tasks come and go, ext4 without a journal searches
//! ever longer for an inode that was not used a moment ago. Beside it, the tasks that were set
//! aside: they run, and the state that ordered them was lost.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use muster_model::{Attempt, AttemptId, ElementId, JobId, Rank};

use crate::epoch::{Epoch, Epochs};
use crate::record::{RecordError, TaskDir, epoch_dir, private_dirs};

/// Name of the list in the `jobs` directory.
const LIVE: &str = ".live";
/// Name of the list of tasks that were set aside.
const SET_ASIDE: &str = ".unknown";

/// A task of which the list has an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Name of its epoch; empty for a version without epochs.
    epoch: String,
    /// Which attempt.
    pub id: AttemptId,
    /// Which task.
    pub rank: Rank,
}

impl Entry {
    /// Its epoch.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        Epoch::parse(&self.epoch)
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self, jobs: &Path) -> TaskDir {
        TaskDir::of(&epoch_dir(jobs, self.epoch().as_ref()), self.id, self.rank)
    }

    /// Its name in the list.
    #[must_use]
    pub fn name(&self) -> String {
        task_name(self.epoch().as_ref(), self.id, self.rank)
    }

    fn parse(name: &str) -> Option<Self> {
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
    /// The list under the `jobs` directory, made if it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(jobs: &Path, epochs: Epochs) -> Result<Self, RecordError> {
        for name in [LIVE, SET_ASIDE] {
            let dir = jobs.join(name);
            private_dirs(&dir).map_err(|source| RecordError::Io { path: dir.clone(), source })?;
        }
        Ok(Self { jobs: jobs.to_owned(), epochs })
    }

    /// Adds a task whose order is written; adding twice changes nothing.
    ///
    /// # Errors
    /// When the entry cannot be made.
    pub fn add(&self, id: AttemptId, rank: Rank, dir: &TaskDir) -> Result<(), RecordError> {
        let path = self.path(id, rank);
        match std::fs::hard_link(dir.order_path(), &path) {
            Err(source) if source.kind() != ErrorKind::AlreadyExists => {
                Err(RecordError::Io { path, source })
            }
            _ => Ok(()),
        }
    }

    /// Removes a task; removing twice changes nothing.
    pub fn remove(&self, id: AttemptId, rank: Rank) {
        let _ = std::fs::remove_file(self.path(id, rank));
    }

    /// All tasks in it that are of this state, in order.
    #[must_use]
    pub fn all(&self) -> Vec<(AttemptId, Rank)> {
        let ours = |entry: &Entry| self.epochs.of(entry.id.element.job) == entry.epoch().as_ref();
        entries(&self.jobs.join(LIVE))
            .into_iter()
            .filter(ours)
            .map(|entry| (entry.id, entry.rank))
            .collect()
    }

    /// Tasks that were set aside.
    #[must_use]
    pub fn set_aside(&self) -> Vec<Entry> {
        set_aside_entries(&self.jobs)
    }

    /// Forgets tasks that were set aside and have ended. Their output stays.
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

/// Entries of the live list of a `jobs` directory for which `is_known` is false.
#[must_use]
pub fn unknown(jobs: &Path, is_known: impl Fn(&Entry) -> bool) -> Vec<Entry> {
    entries(&jobs.join(LIVE)).into_iter().filter(|entry| !is_known(entry)).collect()
}

/// Sets tasks aside: no daemon ends or adopts them any more.
///
/// # Errors
/// When an entry cannot be moved.
pub fn set_aside(jobs: &Path, entries: &[Entry]) -> Result<(), RecordError> {
    let dir = jobs.join(SET_ASIDE);
    private_dirs(&dir).map_err(|source| RecordError::Io { path: dir.clone(), source })?;
    for entry in entries {
        let (from, to) = (jobs.join(LIVE).join(entry.name()), dir.join(entry.name()));
        std::fs::rename(&from, to).map_err(|source| RecordError::Io { path: from, source })?;
    }
    Ok(())
}

/// Tasks of a `jobs` directory that were set aside.
#[must_use]
pub fn set_aside_entries(jobs: &Path) -> Vec<Entry> {
    entries(&jobs.join(SET_ASIDE))
}

/// Pid of the supervisor of a task that is not over.
#[must_use]
pub fn supervisor(dir: &TaskDir) -> Option<i32> {
    let claim = dir.claimed().ok().flatten()?;
    (claim.supervisor.is_alive() && !matches!(dir.ended(), Ok(Some(_))))
        .then_some(claim.supervisor.pid)
}

fn entries(dir: &Path) -> Vec<Entry> {
    let found = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut entries: Vec<Entry> =
        found.filter_map(|entry| Entry::parse(entry.file_name().to_str()?)).collect();
    entries.sort_unstable();
    entries
}

/// `<epoch>.<job>.<index>.<attempt>.<rank>`: short, and safe as a file or cgroup name.
#[must_use]
pub fn task_name(epoch: Option<&Epoch>, id: AttemptId, rank: Rank) -> String {
    let AttemptId { element: ElementId { job, index }, attempt } = id;
    let name = format!("{job}.{index}.{attempt}.{rank}");
    epoch.map_or_else(|| name.clone(), |epoch| format!("{epoch}.{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with an order, of which the list needs no more than that it is there.
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
        let list = LiveList::open(temp.path(), epochs).unwrap();
        for job in [12, 21] {
            let dir = ordered(temp.path(), id(job), Rank(4));
            list.add(id(job), Rank(4), &dir).unwrap();
            list.add(id(job), Rank(4), &dir).unwrap();
        }
        std::fs::write(temp.path().join(".live/not.a.task"), "").unwrap();
        assert_eq!(list.all(), [(id(12), Rank(4)), (id(21), Rank(4))]);
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
            LiveList::open(temp.path(), epochs).unwrap()
        };
        of(1).add(id(5), Rank(0), &ordered(temp.path(), id(5), Rank(0))).unwrap();
        assert_eq!(of(2).all(), []);
        assert_eq!(of(1).all(), [(id(5), Rank(0))]);

        let strays = unknown(temp.path(), |_| false);
        assert_eq!(strays[0].dir(temp.path()).path(), temp.path().join("00000001/5/3/1/0"));
        set_aside(temp.path(), &strays).unwrap();
        assert_eq!((of(1).all(), of(2).set_aside()), (Vec::new(), strays));
        of(2).clear_set_aside();
        assert_eq!(of(2).set_aside(), []);
    }
}
