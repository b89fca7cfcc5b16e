//! Failure modes to expect with a choice, each with its symptom and its fix. They change no answer.

mod site;
mod workload;

use std::borrow::Cow;

use muster_model::advice::Warning;

use crate::case::FactsCase;
use crate::rule::Hazard;

pub(crate) use site::SITE;
pub(crate) use workload::WORKLOAD;

/// Returns the warnings that are due on a decided case.
pub(crate) fn due(hazards: &'static [Hazard], case: &FactsCase<'_>) -> Vec<Warning> {
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
