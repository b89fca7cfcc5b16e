//! Failure modes that a choice invites, each with its tell and its cure. They change no answer.

mod site;
mod workload;

use std::borrow::Cow;

use muster_model::advice::Warning;

use crate::case::Case;
use crate::rule::Hazard;

pub(crate) use site::SITE;
pub(crate) use workload::WORKLOAD;

/// Those that are due on a decided case.
pub(crate) fn due(hazards: &'static [Hazard], case: &Case<'_>) -> Vec<Warning> {
    let due = hazards.iter().filter(|hazard| hazard.when.holds(case));
    due.map(|hazard| Warning {
        id: hazard.id,
        sentence: Cow::Borrowed(hazard.sentence),
        tell: Cow::Borrowed(hazard.tell),
        cure: Cow::Borrowed(hazard.cure),
        source: hazard.source,
    })
    .collect()
}
