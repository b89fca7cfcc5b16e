//! Jobs in memory, by number. A job is looked up dozens of times and seldom listed, so jobs are
//! found by hash and their order is stored separately. The order of the hash map must never reach a
//! decision, a journal or a view.

use std::ops::Index;

use muster_model::{ElementId, JobId};
use rustc_hash::FxHashMap;

use super::job::{Element, Job, Run};

/// Removed job numbers that the order may contain before it is compacted.
const FEW: usize = 64;

/// Jobs in memory, found by hash and listed by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobTable {
    /// Boxed, since a hash table may be half empty.
    by_id: FxHashMap<JobId, Box<Job>>,
    /// Ascending. Numbers of removed jobs stay until they outnumber the others.
    order: Vec<JobId>,
}

impl JobTable {
    pub(crate) fn get(&self, id: &JobId) -> Option<&Job> {
        self.by_id.get(id).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, id: &JobId) -> Option<&mut Job> {
        self.by_id.get_mut(id).map(Box::as_mut)
    }

    /// Returns the ordinal of an element, if its job is in memory and has it.
    pub(crate) fn ordinal_of(&self, id: ElementId) -> Option<u32> {
        self.get(&id.job)?.record.ordinal_of(id.index)
    }

    /// Returns the record of an element, if it has one.
    pub(crate) fn element(&self, id: ElementId) -> Option<&Element> {
        let record = &self.get(&id.job)?.record;
        record.elements.get(&record.ordinal_of(id.index)?).map(Box::as_ref)
    }

    /// Returns the current or last attempt of an element.
    pub(super) fn run(&self, id: JobId, ordinal: u32) -> Option<&Run> {
        self.get(&id)?.record.elements.get(&ordinal)?.run.as_ref()
    }

    pub(super) fn element_mut(&mut self, id: JobId, ordinal: u32) -> Option<&mut Element> {
        self.get_mut(&id)?.record.elements.get_mut(&ordinal).map(Box::as_mut)
    }

    /// Gives an element a record of its own, as [`JobRecord::record_element`] does.
    pub(super) fn record_element(&mut self, id: JobId, index: u32) -> Option<u32> {
        self.get_mut(&id)?.record.record_element(index)
    }

    pub(crate) fn contains_key(&self, id: &JobId) -> bool {
        self.by_id.contains_key(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Adds a job that is not there yet. Numbers mostly ascend.
    pub(crate) fn insert(&mut self, id: JobId, job: Box<Job>) {
        if self.order.last().is_none_or(|last| *last < id) {
            self.order.push(id);
        } else if let Err(at) = self.order.binary_search(&id) {
            self.order.insert(at, id);
        }
        self.by_id.insert(id, job);
    }

    pub(crate) fn remove(&mut self, id: &JobId) -> Option<Box<Job>> {
        let job = self.by_id.remove(id);
        if self.order.len() > FEW + 2 * self.by_id.len() {
            self.order.retain(|id| self.by_id.contains_key(id));
        }
        job
    }

    /// Returns all jobs by number.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&JobId, &Job)> {
        self.order.iter().filter_map(|id| Some((id, self.get(id)?)))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Job> {
        self.iter().map(|(_, job)| job)
    }

    /// Returns all jobs in arbitrary order, for changes that do not depend on it.
    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.by_id.values_mut().map(Box::as_mut)
    }

    /// Returns the highest job number.
    pub(crate) fn last(&self) -> Option<JobId> {
        self.iter().next_back().map(|(id, _)| *id)
    }
}

impl Index<&JobId> for JobTable {
    type Output = Job;

    fn index(&self, id: &JobId) -> &Job {
        self.get(id).expect("callers index only jobs that are in memory")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_model::{QueueTree, Time};

    use super::*;
    use crate::fixture::spec;
    use crate::state::State;
    use crate::state::job::JobRecord;

    #[test]
    fn jobs_are_listed_by_number_in_any_order_of_insertion() {
        let mut state = State::new(QueueTree::single()).unwrap();
        let leaf = state.policy.queues().default_leaf();
        let user = state.policy.intern_user(&"ann".into());
        let record = JobRecord::new(Arc::new(spec(1)), leaf, Time(0));
        let job = || {
            Box::new(Job {
                record: record.clone(),
                user,
                class: Default::default(),
                waits_in: None,
            })
        };
        let mut jobs = JobTable::default();
        for id in (0..1000).rev().map(JobId) {
            jobs.insert(id, job());
        }
        for id in (0..1000).filter(|id| id % 10 != 7).map(JobId) {
            assert!(jobs.remove(&id).is_some() && jobs.remove(&id).is_none());
        }
        assert!(jobs.order.len() <= FEW + 2 * jobs.len(), "the order was compacted");
        jobs.insert(JobId(998), job());
        jobs.insert(JobId(5), job());
        let ids: Vec<u64> = jobs.iter().map(|(id, _)| id.0).collect();
        let expected: Vec<u64> =
            (0..1000).filter(|id| id % 10 == 7 || [5, 998].contains(id)).collect();
        assert_eq!(ids, expected);
        assert_eq!(
            (jobs.len(), jobs.last(), jobs.each_mut().count()),
            (102, Some(JobId(998)), 102)
        );
    }
}
