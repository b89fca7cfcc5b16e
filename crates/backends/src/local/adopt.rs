//! Adopts tasks after a restart of the daemon: an actor per task finds it again.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{AttemptId, Rank};

use super::state::{Shared, TaskEntry};
use super::task::{ActorStart, Expectation, spawn_actor};
use crate::driver::ExpectedTask;

/// Adopts the expected tasks, and ends all others on the live list.
pub(super) fn adopt(shared: &Arc<Shared>, expected: Vec<ExpectedTask>) {
    let mut state = shared.state();
    let wanted: BTreeSet<(AttemptId, Rank)> =
        expected.iter().map(|task| (task.id, task.rank)).collect();
    for (id, rank) in &wanted {
        let newest = state.newest.entry(id.element).or_insert(id.attempt);
        *newest = id.attempt.max(*newest);
        match state.gangs.get(id).and_then(|gang| gang.tasks.get(rank)) {
            Some(entry) => {
                entry.observations().into_iter().for_each(|what| shared.send(*id, *rank, what))
            }
            None => {
                let to =
                    spawn_actor(shared, *id, *rank, ActorStart::ReadRecord, Expectation::Expected);
                state.gangs.entry(*id).or_default().tasks.insert(*rank, TaskEntry::new(to));
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
            // The actor ends it; it gets no further commands.
            drop(spawn_actor(shared, id, rank, ActorStart::ReadRecord, Expectation::Unexpected));
        }
    }
}
