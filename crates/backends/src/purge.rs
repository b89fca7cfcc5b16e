//! Deletes the files of an attempt that is over and forgotten. Invariants: it opens directories one
//! by one and follows no symbolic link, deletes only names that this crate creates, and no
//! directory that holds anything else.

use std::os::fd::OwnedFd;
use std::path::Path;

use muster_model::{AttemptId, Rank};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, statat, unlinkat};
use rustix::io;

use crate::record::{CLAIM, EXIT, LOG, ORDER};
use crate::segments::{self, LOST};
use crate::times::TIMES;

/// Deletes the output of one task; its claim and exit record, unless its order is still there; and
/// then the directories up to that of the job, as far as they are empty. Files that are already
/// gone are not an error.
pub(crate) fn task(jobs: &Path, id: AttemptId, rank: Rank) {
    let names = [
        id.element.job.to_string(),
        id.element.index.to_string(),
        id.attempt.to_string(),
        rank.to_string(),
    ];
    if let Ok(jobs) = openat(CWD, jobs, DIRECTORY, Mode::empty()) {
        descend(&jobs, &names);
    }
}

/// Flags that open a directory but follow no symbolic link.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Clears the directory at the end of the path, then removes the empty directories on the way back.
fn descend(parent: &OwnedFd, names: &[String]) {
    let Some((name, below)) = names.split_first() else {
        clear(parent);
        return;
    };
    if let Ok(dir) = openat(parent, name, DIRECTORY, Mode::empty()) {
        descend(&dir, below);
    }
    // Fails if the directory holds other tasks or does not exist.
    let _kept = unlinkat(parent, name, AtFlags::REMOVEDIR);
}

fn clear(task: &OwnedFd) {
    for name in output_files(task) {
        let _absent = unlinkat(task, name, AtFlags::empty());
    }
    // While there is an order, a late supervisor might claim it: claim and exit record must still
    // be there to refuse it.
    if matches!(statat(task, ORDER, AtFlags::SYMLINK_NOFOLLOW), Err(io::Errno::NOENT)) {
        for record in [CLAIM, EXIT] {
            let _absent = unlinkat(task, record, AtFlags::empty());
        }
    }
}

/// Lists the existing files of the task's output.
fn output_files(task: &OwnedFd) -> Vec<String> {
    let entries = Dir::read_from(task).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    let is_output = |name: &str| {
        [LOG, LOST, TIMES].contains(&name) || segments::start_in(Path::new(LOG), name).is_some()
    };
    names.filter(|name| is_output(name)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use muster_model::{Attempt, ElementId, JobId, TaskExit};

    use super::*;
    use crate::process::ProcessKey;
    use crate::record::{ExitRecord, Sync, TaskDir, TaskEnd};

    fn id(index: u32) -> AttemptId {
        AttemptId { element: ElementId { job: JobId(12), index }, attempt: Attempt(1) }
    }

    /// Creates the files of a task that has run and is forgotten.
    fn ran(jobs: &Path, id: AttemptId, rank: Rank) -> TaskDir {
        let dir = TaskDir::of(jobs, id, rank);
        dir.create().unwrap();
        dir.claim(ProcessKey { pid: 1, start_ticks: 5, boot_id: "boot".into() }).unwrap();
        dir.write_exit(&ExitRecord::now(TaskEnd::Exited(TaskExit::Code { code: 0 })), Sync::No)
            .unwrap();
        dir.create_log().unwrap();
        dir
    }

    #[test]
    fn nothing_is_left_of_a_job_after_its_last_task() {
        let temp = tempfile::tempdir().unwrap();
        let jobs = temp.path().join("jobs");
        for (element, rank) in [(0, 0), (0, 1), (7, 0)] {
            ran(&jobs, id(element), Rank(rank));
        }
        task(&jobs, id(0), Rank(0));
        assert!(!jobs.join("12/0/1/0").exists() && jobs.join("12/0/1/1/output.log").exists());
        task(&jobs, id(0), Rank(1));
        assert!(!jobs.join("12/0").exists() && jobs.join("12/7").exists());
        task(&jobs, id(7), Rank(0));
        assert!(!jobs.join("12").exists() && jobs.exists());
        task(&jobs, id(7), Rank(0));
    }

    #[test]
    fn unknown_files_and_marks_of_tasks_with_an_order_stay() {
        let temp = tempfile::tempdir().unwrap();
        let noted = ran(temp.path(), id(0), Rank(0));
        fs::write(noted.path().join("note"), "kept").unwrap();
        let ordered = ran(temp.path(), id(1), Rank(0));
        fs::write(ordered.path().join(ORDER), "{}").unwrap();
        task(temp.path(), id(0), Rank(0));
        task(temp.path(), id(1), Rank(0));
        assert_eq!(fs::read_to_string(noted.path().join("note")).unwrap(), "kept");
        assert!(ordered.path().join(CLAIM).exists() && !ordered.log().exists());
    }

    #[test]
    fn no_link_is_followed() {
        let temp = tempfile::tempdir().unwrap();
        let jobs = temp.path().join("jobs");
        let victims = temp.path().join("victims");
        let victim = ran(&victims, id(0), Rank(0));
        fs::create_dir_all(jobs.join("12/1/1")).unwrap();
        symlink(victims.join("12/0"), jobs.join("12/0")).unwrap();
        symlink(victim.path(), jobs.join("12/1/1/0")).unwrap();
        task(&jobs, id(0), Rank(0));
        task(&jobs, id(1), Rank(0));
        assert!(victim.log().exists() && victim.path().join(EXIT).exists());
        assert!(jobs.join("12/0").is_symlink() && jobs.join("12/1/1/0").is_symlink());
    }
}
