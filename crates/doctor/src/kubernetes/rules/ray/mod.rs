//! Rules on the objects of KubeRay. `muster check kubernetes` has them among others, `muster check ray`
//! has them alone.

mod clusters;
mod images;
mod jobs;
mod quotas;
mod sizes;

use super::KubernetesRule;

/// Returns all rules in order.
pub(crate) fn all() -> impl Iterator<Item = &'static KubernetesRule> {
    [quotas::RULES, clusters::RULES, sizes::RULES, jobs::RULES, images::RULES].into_iter().flatten()
}
