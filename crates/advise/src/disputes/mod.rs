//! Where the pages disagree with each other, with themselves, or with what has become true since.
//! Shown, never smoothed over; they change no answer.

mod site;
mod workload;

use muster_model::advice::{Dispute, Page, Position, Source};

use crate::case::Case;
use crate::rule::Disagreement;

pub(crate) use site::SITE;
pub(crate) use workload::WORKLOAD;

/// Those that touch a decided case.
pub(crate) fn touched(disagreements: &'static [Disagreement], case: &Case<'_>) -> Vec<Dispute> {
    let touched = disagreements.iter().filter(|disagreement| disagreement.when.holds(case));
    touched
        .map(|disagreement| Dispute {
            id: disagreement.id,
            kind: disagreement.kind,
            question: disagreement.question,
            positions: disagreement.positions,
            muster: disagreement.muster,
        })
        .collect()
}

/// What a page says at one place.
const fn says(page: Page, section: &'static str, says: &'static str) -> Position {
    Position { source: Source::new(page, section), says }
}
