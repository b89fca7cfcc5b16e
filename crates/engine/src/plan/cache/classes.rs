//! Cached results for classes of jobs: the model choices of a class, its eligible nodes, and
//! whether it failed to fit.

use std::sync::Arc;

use muster_model::Span;
use rustc_hash::FxHashMap;

use super::{CacheEpoch, PlanCache, SHORTEST_SPAN};
use crate::place::classes::ClassId;
use crate::place::request::ModelChoice;
use crate::pool::Pool;
use crate::pool::shape::{Eligible, Shape};

/// Classes that limits and quota cannot distinguish: the same models, the same numbers of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LimitClass(u32);

/// Cached results for a class.
#[derive(Clone, Debug)]
pub(crate) struct ClassCache {
    pub(crate) choices: Arc<[ModelChoice]>,
    pub(crate) eligible: Eligible,
    pub(in crate::plan) limit_class: LimitClass,
    /// True for one group without a topology: a failure to fit is certain.
    is_exact: bool,
    /// Epoch in which it did not fit even without reservations.
    infeasible_at: CacheEpoch,
    /// Epoch in which it did not fit because of reservations, and the shortest such duration.
    blocked_by_reservations: (CacheEpoch, Span),
}

/// Cached results of all classes.
#[derive(Debug, Default)]
pub(super) struct ClassResults {
    classes: FxHashMap<ClassId, ClassCache>,
    limit_classes: FxHashMap<(Arc<[ModelChoice]>, u64), LimitClass>,
}

impl ClassResults {
    pub(super) fn clear(&mut self) {
        self.classes.clear();
        self.limit_classes.clear();
    }
}

impl PlanCache {
    /// Returns the cached results of a class.
    pub(in crate::plan) fn get(&self, class: ClassId) -> Option<&ClassCache> {
        self.classes.classes.get(&class)
    }

    /// Returns the cached results of a class; `learn` computes its choices and eligible nodes.
    pub(in crate::plan) fn class_or_insert(
        &mut self,
        class: ClassId,
        learn: impl FnOnce() -> (Arc<[ModelChoice]>, Eligible, Arc<Shape>),
    ) -> &mut ClassCache {
        let ClassResults { classes, limit_classes } = &mut self.classes;
        classes.entry(class).or_insert_with(|| {
            let (choices, eligible, shape) = learn();
            let next = LimitClass(limit_classes.len() as u32);
            let limit_class =
                *limit_classes.entry((Arc::clone(&choices), shape.milli())).or_insert(next);
            ClassCache {
                choices,
                eligible,
                limit_class,
                is_exact: shape.groups.len() == 1 && shape.topology.is_none(),
                infeasible_at: CacheEpoch::default(),
                blocked_by_reservations: (CacheEpoch::default(), Span(0)),
            }
        })
    }

    /// Records that a class did not fit even without reservations.
    pub(in crate::plan) fn mark_infeasible(&mut self, class: ClassId) {
        let Some(cached) = self.classes.classes.get_mut(&class) else { return };
        if cached.infeasible_at != self.epochs.holdings {
            cached.infeasible_at =
                if cached.is_exact { self.epochs.holdings } else { self.epochs.pass };
        }
    }

    /// Records that a class did not fit for this duration because of reservations.
    pub(in crate::plan) fn mark_blocked_by_reservations(
        &mut self,
        pool: &Pool,
        class: ClassId,
        duration: Span,
    ) {
        let Some(cached) = self.classes.classes.get(&class) else { return };
        let known = self.blocked_by_reservations(pool, cached);
        let shortest = known.map_or(duration, |known| known.min(duration));
        let Some(cached) = self.classes.classes.get_mut(&class) else { return };
        cached.blocked_by_reservations = (self.epochs.round, shortest);
    }

    /// Returns true if a class is known not to fit for that duration.
    pub(in crate::plan) fn is_infeasible(
        &self,
        pool: &Pool,
        class: ClassId,
        duration: Span,
    ) -> bool {
        let Some(cached) = self.get(class) else { return false };
        let is_full = cached.infeasible_at == self.epochs.holdings
            || cached.infeasible_at == self.epochs.pass;
        is_full && duration >= SHORTEST_SPAN
            || self
                .blocked_by_reservations(pool, cached)
                .is_some_and(|shortest| shortest <= duration)
    }

    /// Returns the shortest duration for which reservations are known to block a class. A result of
    /// the last pass counts once all its reservations have been reused.
    fn blocked_by_reservations(&self, pool: &Pool, cached: &ClassCache) -> Option<Span> {
        let (epoch, shortest) = cached.blocked_by_reservations;
        let is_known = epoch == self.epochs.round
            || cached.is_exact && self.reservations.are_those_of(epoch, pool);
        (is_known && epoch != CacheEpoch::default()).then_some(shortest)
    }
}
