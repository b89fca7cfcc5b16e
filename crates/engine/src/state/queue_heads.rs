//! Queue heads: elements that have been first in their queue, blocked by capacity and without a
//! planned start, and since when. Durable, so that a restart does not reset their waiting time.
//! Which element is a head is decided in `plan/head_reservation.rs`.

use std::collections::BTreeMap;

use muster_model::{ElementId, JobId, Time};
use serde::{Deserialize, Serialize};

use super::entries::EntryOwner;
use super::job::JobRecord;
use super::jobs::JobTable;

/// Instant at which an element became a queue head, by ordinal. An element stays in it while it
/// waits, even while another one is first: otherwise two users whose shares alternate would reset
/// each other's waiting time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct QueueHeads(BTreeMap<JobId, BTreeMap<u32, Time>>);

impl QueueHeads {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the instant at which an element became a head.
    pub(crate) fn since(&self, jobs: &JobTable, id: ElementId) -> Option<Time> {
        let of = self.0.get(&id.job)?;
        of.get(&jobs.get(&id.job)?.record.ordinal_of(id.index)?).copied()
    }

    /// Returns all heads, by job and ordinal.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobId, u32, Time)> {
        self.0
            .iter()
            .flat_map(|(job, of)| of.iter().map(|(ordinal, since)| (*job, *ordinal, *since)))
    }

    /// Registers an element as a head.
    pub(super) fn add(&mut self, now: Time, job: JobId, ordinal: u32) {
        self.0.entry(job).or_default().entry(ordinal).or_insert(now);
    }

    /// Removes heads that no longer wait or may not start; if they wait again, their waiting time
    /// starts again.
    pub(super) fn remove_of(&mut self, owner: EntryOwner, record: &JobRecord) {
        match owner.ordinal {
            Some(ordinal) => self.forget(owner.job, ordinal),
            None => {
                self.forget_all_but(owner.job, |ordinal| record.elements.contains_key(&ordinal));
            }
        }
    }

    pub(super) fn forget(&mut self, job: JobId, ordinal: u32) {
        self.forget_all_but(job, |known| known != ordinal);
    }

    pub(super) fn forget_job(&mut self, job: JobId) {
        self.0.remove(&job);
    }

    fn forget_all_but(&mut self, job: JobId, stays: impl Fn(u32) -> bool) {
        let Some(of) = self.0.get_mut(&job) else { return };
        of.retain(|ordinal, _| stays(*ordinal));
        if of.is_empty() {
            self.0.remove(&job);
        }
    }
}
