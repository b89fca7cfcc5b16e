//! Disagreements about one workload, as a closed list. Data only.

use muster_model::advice::{DisputeKind, Fact, Page, Plane, Position, Source};

use crate::condition::Condition::{All, Chosen, Is};
use crate::rule::Disagreement;

/// Disagreements about one workload.
pub(crate) const WORKLOAD: &[Disagreement] = &[Disagreement {
    id: "tenancy-before-python",
    kind: DisputeKind::Itself,
    when: All(&[Chosen(&[Plane::Ray]), Is(Fact::MultiTenant)]),
    question: "do your users write actors, or do they submit containers?",
    positions: &[
        Position {
            source: Source::new(Page::Guide, "labeller, rule 2"),
            says: "asks for a Python pipeline first: ray",
        },
        Position {
            source: Source::new(Page::Guide, "decision flow"),
            says: "asks for tenancy and services first: kubernetes",
        },
    ],
    muster: "follows the labeller, which is the guide's checked part; Ray through KubeRay keeps the platform's quota either way",
}];
