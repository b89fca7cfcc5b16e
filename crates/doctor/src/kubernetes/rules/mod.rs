//! The rules for Kubernetes, in the order in which they are shown: lists of data with one independent
//! function each.

mod disruption;
mod gangs;
mod kueue;
mod kueue_jobs;
mod nodes;
pub(crate) mod ray;
mod schedulers;
mod workloads;

pub(crate) use schedulers::GANG_SCHEDULERS;

use super::view::ClusterView;
use crate::rule::{CheckRule, RuleResult};

/// Rule about a Kubernetes cluster.
pub(crate) type KubernetesRule = CheckRule<fn(&ClusterView<'_>) -> RuleResult>;

/// Returns all rules in order.
pub(crate) fn all() -> impl Iterator<Item = &'static KubernetesRule> {
    let before = [gangs::RULES, schedulers::RULES, nodes::RULES, workloads::RULES];
    let after = [kueue::RULES, kueue_jobs::RULES, disruption::RULES];
    before.into_iter().flatten().chain(ray::all()).chain(after.into_iter().flatten())
}
