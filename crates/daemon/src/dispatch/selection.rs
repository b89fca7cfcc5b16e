//! Selection of jobs in memory for a list. Selects numbers before views are made: a list of a few
//! jobs costs the dispatcher little, however many are pending.

use std::collections::BTreeSet;

use muster_api::query::JobFilter;
use muster_model::view::{JobState, JobView};
use muster_model::{JobId, QueueName, UserName};
use muster_runtime::engine::{Engine, JobKey};

/// Most rows that are made at once: of further jobs only the numbers are returned, and rows are
/// requested later.
pub(crate) const PAGE: usize = 1000;

/// Filter with parsed parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListSelection {
    /// Filter as the client sent it.
    pub(crate) filter: JobFilter,
    /// Job numbers of the filter; `None` means any.
    pub(crate) ids: Option<BTreeSet<JobId>>,
    /// State of the filter; `None` means any.
    pub(crate) state: Option<JobState>,
}

/// Jobs in memory that a filter matches.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListedJobs {
    /// Rows by number; at most a page, and at most as many as the filter allows.
    pub(crate) views: Vec<JobView>,
    /// Further jobs by number, without a row.
    pub(crate) rest: Vec<JobId>,
    /// Number of jobs that match.
    pub(crate) matched: u64,
}

impl ListSelection {
    /// Returns the highest number of rows; `None` means no limit.
    pub(crate) fn first(&self) -> Option<usize> {
        self.filter.first.map(|first| first as usize)
    }

    /// Returns true when an ended job matches.
    pub(crate) fn matches_ended(&self, view: &JobView) -> bool {
        let JobView { job, name, user, queue, state, .. } = view;
        self.matches(&JobKey { job: *job, name, user, queue, state: *state })
    }

    /// Returns the numbers of the jobs to list in ascending order, and the number of matches. When
    /// the rows are limited, active jobs precede pending ones, and older ones precede newer ones.
    pub(super) fn choose(&self, engine: &Engine) -> (Vec<JobId>, u64) {
        let kept = engine.job_keys().filter(|key| self.matches(key));
        let mut kept: Vec<(bool, JobId)> =
            kept.map(|key| (!is_active(key.state), key.job)).collect();
        let matched = kept.len() as u64;
        if let Some(first) = self.first().filter(|first| *first < kept.len()) {
            kept.sort_unstable();
            kept.truncate(first);
            kept.sort_unstable_by_key(|(_, job)| *job);
        }
        (kept.into_iter().map(|(_, job)| job).collect(), matched)
    }

    fn matches(&self, key: &JobKey<'_>) -> bool {
        let is_of = |user: &UserName| {
            self.filter.user.as_ref().is_none_or(|wanted| user.as_str() == wanted)
        };
        self.ids.as_ref().is_none_or(|ids| ids.contains(&key.job))
            && is_of(key.user)
            && self.filter.queue.as_ref().is_none_or(|queue| is_in(key.queue, queue))
            && self.state.is_none_or(|state| key.state == state)
            && self.filter.names(key.name)
    }
}

fn is_active(state: JobState) -> bool {
    matches!(state, JobState::Starting | JobState::Running | JobState::Stopping)
}

/// Returns true when a leaf queue is this queue or is below it.
fn is_in(leaf: &QueueName, queue: &str) -> bool {
    leaf.as_str().strip_prefix(queue).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
