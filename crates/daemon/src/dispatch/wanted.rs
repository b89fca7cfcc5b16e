//! Which jobs in memory a list asks for. Chooses numbers before views are made: a list of a few
//! jobs costs the dispatcher little, however many wait.

use std::collections::BTreeSet;

use muster_api::query::JobFilter;
use muster_model::view::{JobView, State};
use muster_model::{JobId, QueueName, UserName};
use muster_runtime::engine::{Engine, JobKey};

/// Rows that are made at once at most: beyond these, numbers are listed and rows are asked for
/// later.
pub(crate) const PAGE: usize = 1000;

/// A filter whose parts are parsed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// As it was sent.
    pub(crate) filter: JobFilter,
    /// Its numbers.
    pub(crate) ids: Option<BTreeSet<JobId>>,
    /// Its state.
    pub(crate) state: Option<State>,
}

/// Jobs in memory that a filter asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    /// Rows, by number; at most a page, and as many as the filter bounds them to.
    pub(crate) views: Vec<JobView>,
    /// Jobs that follow them and have no row yet, by number.
    pub(crate) rest: Vec<JobId>,
    /// How many match.
    pub(crate) matched: u64,
}

impl Wanted {
    /// Returns the most rows that are asked for.
    pub(crate) fn first(&self) -> Option<usize> {
        self.filter.first.map(|first| first as usize)
    }

    /// Returns whether an ended job is asked for.
    pub(crate) fn keeps_ended(&self, view: &JobView) -> bool {
        let JobView { job, name, user, queue, state, .. } = view;
        self.keeps(&JobKey { job: *job, name, user, queue, state: *state })
    }

    /// Returns the numbers of the jobs in memory to list, rising, and how many match. Where the
    /// rows are bounded, active jobs go before those that wait, and older ones before newer ones.
    pub(super) fn choose(&self, engine: &Engine) -> (Vec<JobId>, u64) {
        let kept = engine.job_keys().filter(|key| self.keeps(key));
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

    fn keeps(&self, key: &JobKey<'_>) -> bool {
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

fn is_active(state: State) -> bool {
    matches!(state, State::Starting | State::Running | State::Stopping)
}

/// Returns whether a leaf is this queue or lies below it.
fn is_in(leaf: &QueueName, queue: &str) -> bool {
    leaf.as_str().strip_prefix(queue).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
