//! Status of a task according to its records, its supervisor and `/proc`.
//!
//! The records on disk are authoritative. A supervisor counts as alive only if its pid, start time
//! and boot id agree. A dead supervisor without an exit record means that the task is lost; then
//! its remaining processes are killed here.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use muster_model::{AttemptId, Observation, Rank};
use rustix::process::Signal;

use super::launch;
use super::state::Shared;
use crate::cgroup::CgroupLimits;
use crate::process::{self, ProcessKey};
use crate::record::{RecordError, TaskDir, TaskEnd};

/// Time after which killing the processes of a lost task gives up.
const SWEEP_PATIENCE: Duration = Duration::from_secs(20);

/// Reason for the loss of a task that ran before the last boot.
pub(super) const REBOOTED: &str = "the machine rebooted";

/// Status of a task according to its records.
#[derive(Debug)]
pub(super) enum TaskStatus {
    /// Its supervisor runs and reports the present stage on this connection.
    Connected(UnixStream),
    /// The task is over, with this end.
    Over(Observation),
    /// No supervisor has ever claimed it.
    Unclaimed,
}

/// Determines the status of a task from its records, its supervisor and `/proc`. Blocks. When the
/// task is lost, its processes have been killed on return.
pub(super) fn task_status(shared: &Shared, id: AttemptId, rank: Rank) -> TaskStatus {
    let dir = shared.dir(id, rank);
    let claim = match (recorded_end(&dir), dir.claimed()) {
        (Ok(Some(what)), _) => return TaskStatus::Over(what),
        (Ok(None), Ok(Some(claim))) => claim,
        (Ok(None), Ok(None)) => return TaskStatus::Unclaimed,
        (Err(error @ RecordError::Newer { .. }), _)
        | (_, Err(error @ RecordError::Newer { .. })) => {
            return TaskStatus::Over(lost(error.to_string()));
        }
        (Err(error), _) | (_, Err(error)) => {
            let swept = sweep(shared, &dir, id, rank);
            return TaskStatus::Over(lost(format!("{error}; {swept}")));
        }
    };
    if !claim.supervisor.is_of_this_boot() {
        return TaskStatus::Over(lost(REBOOTED.to_owned()));
    }
    if is_own_claim(&dir) && claim.supervisor.is_alive() {
        return TaskStatus::Over(lost("this machine had no record of it".to_owned()));
    }
    let socket = shared.socket(id, rank);
    if let Some(stream) =
        claim.supervisor.is_alive().then(|| launch::connect(shared, &dir, &socket)).flatten()
    {
        return TaskStatus::Connected(stream);
    }
    // The supervisor may have recorded the end just before it exited.
    if let Ok(Some(what)) = recorded_end(&dir) {
        return TaskStatus::Over(what);
    }
    let why = if end_supervisor(&claim.supervisor) {
        "its supervisor could not be reached and was killed"
    } else {
        "its supervisor was killed"
    };
    // The supervisor may also have recorded the end after the check above, before it was killed.
    if let Ok(Some(what)) = recorded_end(&dir) {
        return TaskStatus::Over(what);
    }
    let swept = sweep(shared, &dir, id, rank);
    TaskStatus::Over(lost(format!("{why}; {swept}")))
}

/// Returns the recorded end of a task, if there is one.
fn recorded_end(dir: &TaskDir) -> Result<Option<Observation>, RecordError> {
    Ok(dir.exit()?.map(|ended| observation(ended.end)))
}

/// Converts a recorded end into an observation.
pub(super) fn observation(end: TaskEnd) -> Observation {
    match end {
        TaskEnd::Refused(reason) => Observation::Refused { reason: reason.into() },
        TaskEnd::Impossible(reason) => Observation::Impossible { reason: reason.into() },
        TaskEnd::Exited(exit) => Observation::Exited(exit),
    }
}

pub(super) fn lost(reason: String) -> Observation {
    Observation::Lost { reason: reason.into() }
}

/// Kills a supervisor that runs but cannot be reached. Returns true when there was one.
pub(super) fn end_supervisor(key: &ProcessKey) -> bool {
    if !key.is_alive() {
        return false;
    }
    process::signal_checked(key.pid, Signal::KILL, |_| key.is_alive());
    process::poll_until(SWEEP_PATIENCE, || !key.is_alive())
}

/// Kills all processes of a lost task. Returns a description of the result and the mechanism.
pub(super) fn sweep(shared: &Shared, dir: &TaskDir, id: AttemptId, rank: Rank) -> String {
    let groups = match dir.order() {
        Ok(Some(order)) => order.cgroup,
        // Without the order, the groups follow from the task's name.
        _ => shared.hierarchies.plan(&shared.group_name(id, rank), CgroupLimits::default()),
    };
    let by_group = groups.can_kill();
    let mut gone = !by_group || groups.kill_all(SWEEP_PATIENCE);
    gone &= process::kill_tagged(&shared.tag(id, rank), SWEEP_PATIENCE);
    if by_group {
        gone &= process::poll_until(Duration::from_secs(1), || groups.remove());
    }
    let mechanism = if by_group {
        "control group"
    } else {
        "environment tag, because there is no control group"
    };
    if gone {
        format!("all its processes were killed by {mechanism}")
    } else {
        format!("some of its processes could not be killed by {mechanism}")
    }
}

/// Returns true for a claim by this process, which marks a task that must never start; see
/// `finish_unstarted` of the actor.
pub(super) fn is_own_claim(dir: &TaskDir) -> bool {
    let own = std::process::id() as i32;
    matches!(dir.claimed(), Ok(Some(claim)) if claim.supervisor.pid == own)
}
