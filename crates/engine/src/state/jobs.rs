//! Jobs in memory, by number. Each is looked up dozens of times on its way and seldom listed: so
//! they are found by hash, and their order is kept beside. The order of the hash must not come near
//! a decision, a journal or a view.

use std::ops::Index;

use muster_model::JobId;
use rustc_hash::FxHashMap;

use super::job::Job;

/// So many numbers of jobs that are gone are not worth a walk of the order.
const FEW: usize = 64;

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    /// Boxed, since a table is half empty at times.
    by_id: FxHashMap<JobId, Box<Job>>,
    /// Rising. Numbers of jobs that are gone stay until they are more than those of the others.
    order: Vec<JobId>,
}

impl Jobs {
    pub(crate) fn get(&self, id: &JobId) -> Option<&Job> {
        self.by_id.get(id).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, id: &JobId) -> Option<&mut Job> {
        self.by_id.get_mut(id).map(Box::as_mut)
    }

    pub(crate) fn contains_key(&self, id: &JobId) -> bool {
        self.by_id.contains_key(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Adds a job that is not there. Numbers mostly rise.
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

    /// All jobs by number.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&JobId, &Job)> {
        self.order.iter().filter_map(|id| Some((id, self.get(id)?)))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Job> {
        self.iter().map(|(_, job)| job)
    }

    /// All jobs in no meaningful order: for what comes to the same in any.
    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.by_id.values_mut().map(Box::as_mut)
    }

    /// The highest number.
    pub(crate) fn last(&self) -> Option<JobId> {
        self.iter().next_back().map(|(id, _)| *id)
    }
}

impl Index<&JobId> for Jobs {
    type Output = Job;

    fn index(&self, id: &JobId) -> &Job {
        self.get(id).expect("who names a job by index knows that it is in memory")
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
    fn jobs_are_listed_by_number_whenever_they_came_and_went() {
        let mut state = State::new(QueueTree::single()).unwrap();
        let (leaf, user) = (state.policy.default_leaf(), state.policy.intern_user(&"ann".into()));
        let record = JobRecord::new(Arc::new(spec(1)), leaf, Time(0));
        let job = || {
            Box::new(Job {
                record: record.clone(),
                user,
                class: Default::default(),
                waits_in: None,
            })
        };
        let mut jobs = Jobs::default();
        for id in (0..1000).rev().map(JobId) {
            jobs.insert(id, job());
        }
        for id in (0..1000).filter(|id| id % 10 != 7).map(JobId) {
            assert!(jobs.remove(&id).is_some() && jobs.remove(&id).is_none());
        }
        assert!(jobs.order.len() <= FEW + 2 * jobs.len(), "what is gone is forgotten");
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
