//! Ends tasks whose directories were deleted while no daemon ran.
//!
//! The claim in its directory is what keeps an attempt from starting twice. Where it is gone, an
//! order that is repeated would start the attempt beside the processes of its first start. So
//! before the first order such tasks are claimed by this process and ended, and they are lost.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::{AttemptId, Rank, TaskReport};

use super::state::Shared;
use super::status::{end_supervisor, lost, sweep};
use crate::driver::ExpectedTask;
use crate::live::LiveEntry;
use crate::process::{self, ProcessKey, Stat};
use crate::record::{RecordError, TaskDir};
use crate::supervise::SUPERVISE;

type TaskId = (AttemptId, Rank);

/// Ends the tasks of this state that run without a claim, and returns the loss of those that are
/// expected. An expected task without processes is lost too when the live list has it, or when that
/// list is gone: it may have run and ended. Any other was never started. Blocks.
pub(super) fn end_unrecorded(shared: &Shared, expected: &[ExpectedTask]) -> Vec<TaskReport> {
    // 1. Find them. A supervisor that is about to claim its task has its directory.
    let expected: BTreeSet<TaskId> = expected
        .iter()
        .map(|task| (task.id, task.rank))
        .filter(|task| is_unclaimed(shared, *task))
        .collect();
    let running = running(shared, &expected);
    let ordered = expected.iter().copied().filter(|task| was_ordered(shared, *task));

    // 2. End them. The claim comes first: should this daemon die now, the next one finds it.
    let mut reports = Vec::new();
    for task in running.keys().copied().chain(ordered).collect::<BTreeSet<_>>() {
        let (id, rank) = task;
        let dir = shared.dir(id, rank);
        let claimed = claim(&dir);
        for supervisor in running.get(&task).into_iter().flatten() {
            end_supervisor(supervisor);
        }
        if matches!(claimed, Err(RecordError::Claimed)) || matches!(dir.exit(), Ok(Some(_))) {
            // Its record tells more.
            continue;
        }
        let end = if running.contains_key(&task) {
            sweep(shared, &dir, id, rank)
        } else {
            "it may have run and ended".to_owned()
        };
        tracing::warn!(attempt = %id, %rank, "the directory of a task was deleted; {end}");
        if expected.contains(&task) {
            let reason = format!("its directory was deleted while no daemon ran; {end}");
            reports.push(TaskReport { id, rank, observation: lost(reason) });
        }
    }

    // 3. From now on the live list tells which tasks were ordered.
    if let Err(error) = shared.live.create() {
        tracing::warn!(%error, "the list of live tasks cannot be created");
    }
    reports
}

fn is_unclaimed(shared: &Shared, (id, rank): TaskId) -> bool {
    matches!(shared.dir(id, rank).claimed(), Ok(None))
}

/// Returns true when a daemon may have started this task, which has no claim. With an order, its
/// supervisor may be about to claim it.
fn was_ordered(shared: &Shared, (id, rank): TaskId) -> bool {
    let dir = shared.dir(id, rank);
    let is_order_missing = || !dir.order_path().exists();
    shared.live.is_missing()
        || shared.live.contains(id, rank) && is_order_missing()
        || !matches!(dir.exit(), Ok(None))
}

fn claim(dir: &TaskDir) -> Result<(), RecordError> {
    dir.create()?;
    let own = ProcessKey::of(std::process::id() as i32)
        .map_err(|source| RecordError::Io { path: dir.path().to_owned(), source })?;
    dir.claim(own)
}

/// Returns the supervisors of the tasks that have processes but no claim, and of those whose
/// directory was deleted. A task whose supervisor is dead has none.
fn running(shared: &Shared, expected: &BTreeSet<TaskId>) -> BTreeMap<TaskId, BTreeSet<ProcessKey>> {
    let mut found: BTreeMap<TaskId, BTreeSet<ProcessKey>> = BTreeMap::new();
    for (task, pids) in in_groups(shared).into_iter().chain(tagged(shared, expected)) {
        let parents = pids.into_iter().filter_map(|pid| Some(Stat::read(pid)?.parent));
        found.entry(task).or_default().extend(parents.filter_map(own_supervisor));
    }
    let Ok(jobs) = shared.jobs().canonicalize() else { return found };
    for pid in process::pids() {
        let Some((dir, is_deleted)) = process::working_dir(pid) else { continue };
        let task = LiveEntry::of_dir(&jobs, &dir).and_then(|entry| of_this_state(shared, &entry));
        if let Some(task) = task.filter(|task| is_deleted || found.contains_key(task)) {
            // Read again with its key: the pid may have been reused.
            let same = |_: &ProcessKey| process::working_dir(pid) == Some((dir, is_deleted));
            found.entry(task).or_default().extend(own_supervisor(pid).filter(same));
        }
    }
    found
}

/// Returns the key of a process that is a supervisor of this user.
fn own_supervisor(pid: i32) -> Option<ProcessKey> {
    let key = ProcessKey::of(pid).ok()?;
    process::is_own_with_argument(pid, SUPERVISE).then_some(key)
}

/// Returns the task of an entry, if its epoch is the one of that job in this state.
fn of_this_state(shared: &Shared, entry: &LiveEntry) -> Option<TaskId> {
    let is_ours = shared.epoch(entry.id.element.job) == entry.epoch().as_ref();
    is_ours.then_some((entry.id, entry.rank))
}

/// Returns the unclaimed tasks that have processes in their control groups, with these.
fn in_groups(shared: &Shared) -> Vec<(TaskId, Vec<i32>)> {
    let groups = shared.hierarchies.occupied(&shared.instance);
    groups
        .into_iter()
        .filter_map(|(name, pids)| Some((of_this_state(shared, &LiveEntry::parse(&name)?)?, pids)))
        .filter(|(task, _)| is_unclaimed(shared, *task))
        .collect()
}

/// Returns those of the tasks that have processes with their environment tag, with these. Any user
/// can set a tag, so it counts only where there are no control groups.
fn tagged(shared: &Shared, tasks: &BTreeSet<TaskId>) -> Vec<(TaskId, Vec<i32>)> {
    if shared.hierarchies.kill_by_group() || tasks.is_empty() {
        return Vec::new();
    }
    let mut by_tag: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for pid in process::pids() {
        if let Some(tag) = process::tag_of(pid) {
            by_tag.entry(tag).or_default().push(pid);
        }
    }
    tasks
        .iter()
        .filter_map(|(id, rank)| Some(((*id, *rank), by_tag.remove(&shared.tag(*id, *rank))?)))
        .collect()
}
