//! Disagreements about a site, as a closed list. Data only.

use muster_model::advice::{DisputeKind, Page, Position, Source, Threshold};

use crate::condition::Condition::{All, Below, Reaches};
use crate::rule::Disagreement;

/// Disagreements about a site.
pub(crate) const SITE: &[Disagreement] = &[Disagreement {
    id: "no-scheduler-boundary",
    kind: DisputeKind::Itself,
    when: All(&[Reaches(Threshold::SchedulerGpus), Below(Threshold::ConventionGpus)]),
    question: "is coordination failing today?",
    positions: &[
        Position {
            source: Source::new(Page::Kentino, "decision tree, step 1"),
            says: "fewer than 16 GPUs and fewer than 8 users: no scheduler",
        },
        Position {
            source: Source::new(Page::Kentino, "summary table, row 1"),
            says: "up to 16 GPUs on 1 or 2 nodes, 2 to 6 users: no scheduler",
        },
        Position {
            source: Source::new(Page::Kentino, "the honest small-team reality"),
            says: "up to 32 GPUs on 1 to 4 nodes, 2 to 6 users: no scheduler",
        },
    ],
    muster: "no scheduler while people still coordinate, one as soon as they do not: that is the sentence on which all three rest",
}];
