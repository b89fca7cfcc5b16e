//! Finding tasks again: after a restart of the daemon, and when a supervisor falls silent.
//!
//! The record on disk is the truth. A supervisor is believed alive only if its pid, start time and
//! boot id agree; a dead one without an exit record means that the task is lost, and then whatever
//! it started is ended here.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use muster_model::{AttemptId, Observation, Rank};
use rustix::process::Signal;

use super::launch;
use super::state::{Entry, Shared};
use super::task::{Audience, Begin, is_own_claim, start};
use crate::cgroup::Limits;
use crate::driver::Expected;
use crate::process;
use crate::record::{Claim, End, RecordError, TaskDir};

/// How long to keep killing what a lost task left behind.
const SWEEP_PATIENCE: Duration = Duration::from_secs(20);

/// Why a task is lost that ran before the last boot.
pub(super) const REBOOTED: &str = "the machine rebooted";

/// What became of a task.
#[derive(Debug)]
pub(super) enum Found {
    /// Its supervisor lives; it says the present stage on this connection.
    Connected(UnixStream),
    /// It is over.
    Over(Observation),
    /// No supervisor has ever owned it.
    Unclaimed,
}

/// Takes expected tasks over, and ends all others that are on the live list.
pub(super) fn adopt(shared: &Arc<Shared>, expected: Vec<Expected>) {
    let mut state = shared.state();
    let wanted: BTreeSet<(AttemptId, Rank)> =
        expected.iter().map(|task| (task.id, task.rank)).collect();
    for (id, rank) in &wanted {
        let newest = state.newest.entry(id.element).or_insert(id.attempt);
        *newest = id.attempt.max(*newest);
        match state.gangs.get(id).and_then(|gang| gang.tasks.get(rank)) {
            Some(entry) => entry.said().into_iter().for_each(|what| shared.send(*id, *rank, what)),
            None => {
                let to = start(shared, *id, *rank, Begin::Find, Audience::Daemon);
                state.gangs.entry(*id).or_default().tasks.insert(*rank, Entry::new(to));
            }
        }
        if let Ok(Some(order)) = shared.dir(*id, *rank).order() {
            order.ports.iter().for_each(|port| state.leases.keep(*port));
            state.gangs.entry(*id).or_default().ports = order.ports;
        }
    }
    for (id, rank) in shared.live.all() {
        let is_known = state.gangs.get(&id).is_some_and(|gang| gang.tasks.contains_key(&rank));
        if !is_known && !wanted.contains(&(id, rank)) {
            // The actor ends it and is told nothing more.
            drop(start(shared, id, rank, Begin::Find, Audience::Nobody));
        }
    }
}

/// What became of a task, from its record, its supervisor and `/proc`. Blocking. When it is lost,
/// nothing that it started is left on return.
pub(super) fn find_out(shared: &Shared, id: AttemptId, rank: Rank) -> Found {
    let dir = shared.dir(id, rank);
    let claim = match (over(&dir), dir.claimed()) {
        (Ok(Some(what)), _) => return Found::Over(what),
        (Ok(None), Ok(Some(claim))) => claim,
        (Ok(None), Ok(None)) => return Found::Unclaimed,
        (Err(error @ RecordError::Newer { .. }), _)
        | (_, Err(error @ RecordError::Newer { .. })) => {
            return Found::Over(lost(error.to_string()));
        }
        (Err(error), _) | (_, Err(error)) => {
            let swept = sweep(shared, &dir, id, rank);
            return Found::Over(lost(format!("{error}; {swept}")));
        }
    };
    if !claim.supervisor.is_of_this_boot() {
        return Found::Over(lost(REBOOTED.to_owned()));
    }
    if is_own_claim(&dir) && claim.supervisor.is_alive() {
        return Found::Over(lost("it was never started".to_owned()));
    }
    let socket = shared.socket(id, rank);
    if let Some(stream) =
        claim.supervisor.is_alive().then(|| launch::connect(shared, &dir, &socket)).flatten()
    {
        return Found::Connected(stream);
    }
    // It may have recorded the end just before it went.
    if let Ok(Some(what)) = over(&dir) {
        return Found::Over(what);
    }
    let why = match end_supervisor(&claim) {
        true => "its supervisor could not be reached and was killed",
        false => "its supervisor was killed",
    };
    // Or just before it was ended here.
    if let Ok(Some(what)) = over(&dir) {
        return Found::Over(what);
    }
    let swept = sweep(shared, &dir, id, rank);
    Found::Over(lost(format!("{why}; {swept}")))
}

/// How it ended, if that is recorded.
fn over(dir: &TaskDir) -> Result<Option<Observation>, RecordError> {
    Ok(dir.ended()?.map(|ended| observation(ended.end)))
}

/// A recorded end as it is reported.
pub(super) fn observation(end: End) -> Observation {
    match end {
        End::Refused(reason) => Observation::Refused { reason: reason.into() },
        End::Impossible(reason) => Observation::Impossible { reason: reason.into() },
        End::Exited(exit) => Observation::Exited(exit),
    }
}

pub(super) fn lost(reason: String) -> Observation {
    Observation::Lost { reason: reason.into() }
}

/// Kills a supervisor that lives but cannot be talked to. True when there was one.
fn end_supervisor(claim: &Claim) -> bool {
    let key = &claim.supervisor;
    if !key.is_alive() {
        return false;
    }
    process::signal_checked(key.pid, Signal::KILL, |_| key.is_alive());
    process::until_empty(SWEEP_PATIENCE, || !key.is_alive())
}

/// Ends whatever a lost task started, and says by what means.
pub(super) fn sweep(shared: &Shared, dir: &TaskDir, id: AttemptId, rank: Rank) -> String {
    let groups = match dir.order() {
        Ok(Some(order)) => order.cgroup,
        // Without its order, its groups are still known by name.
        _ => shared.hierarchies.plan(&shared.group_name(id, rank), Limits::default()),
    };
    let by_group = groups.can_kill();
    let mut gone = !by_group || groups.kill_all(SWEEP_PATIENCE);
    gone &= process::kill_tagged(&shared.tag(id, rank), SWEEP_PATIENCE);
    if by_group {
        gone &= process::until_empty(Duration::from_secs(1), || groups.remove());
    }
    let means = match by_group {
        true => "control group",
        false => "environment tag, there being no control group",
    };
    match gone {
        true => format!("what it started was ended by {means}"),
        false => format!("some of what it started could not be ended by {means}"),
    }
}
