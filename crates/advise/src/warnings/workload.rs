//! Failure modes of one workload, as a closed list. Data only.

use muster_model::advice::{Fact, Page, Plane, Source, Threshold};

use crate::condition::Condition::{All, Chosen, Is, Reaches};
use crate::rule::Hazard;

/// Failure modes of one workload, most dangerous first.
pub(crate) const WORKLOAD: &[Hazard] = &[Hazard {
    id: "k3s-envelope",
    source: Source::new(Page::Guide, "failure modes, 6"),
    when: All(&[Chosen(&[Plane::K3s, Plane::Ray]), Is(Fact::EdgeOrDev), Reaches(Threshold::K3sNodes)]),
    sentence: "k3s as the control plane of more nodes than it was sized for",
    tell: "slow API calls and leader changes while nodes join or jobs start together",
    cure: "full Kubernetes for the datacentre; k3s for the edge and for CI",
}];
