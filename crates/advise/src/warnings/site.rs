//! Failure modes of a site, as a closed list. Data only.

use muster_model::advice::{Fact, Page, Source};

use crate::condition::Condition::Is;
use crate::rule::Hazard;

/// Failure modes of a site, most dangerous first.
pub(crate) const SITE: &[Hazard] = &[Hazard {
    id: "shared-nodes",
    source: Source::new(Page::Overview, "failure modes, 2"),
    when: Is(Fact::FleetSharedNodes),
    sentence: "two orchestrators start work on the same nodes: each sees the other's GPUs as free",
    tell: "out of memory at start, on a node that its scheduler calls idle",
    cure: "give every node to one of them: partition the fleet, or run one inside the other",
}];
