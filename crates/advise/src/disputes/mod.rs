//! Disputes: places where the pages disagree with each other, with themselves, or with later
//! facts. They are shown and change no answer.

mod site;
mod workload;

use muster_model::advice::{Citation, CitedPage, Dispute, DisputePosition};

use crate::case::FactsCase;
use crate::rule::Disagreement;

pub(crate) use site::SITE;
pub(crate) use workload::WORKLOAD;

/// Returns the disputes that concern a decided case.
pub(crate) fn touched(
    disagreements: &'static [Disagreement],
    case: &FactsCase<'_>,
) -> Vec<Dispute> {
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

/// Returns the position of a page, with its section.
const fn says(page: CitedPage, section: &'static str, says: &'static str) -> DisputePosition {
    DisputePosition { source: Citation::new(page, section), text: says }
}

#[cfg(test)]
mod tests {
    use muster_model::advice::DisputeKind;

    use super::*;

    /// A short answer states the first two positions, and after them Muster's choice with its reason.
    #[test]
    fn the_first_two_positions_oppose_each_other_and_the_choice_has_a_reason() {
        for dispute in SITE.iter().chain(WORKLOAD) {
            let [first, second] = [0, 1].map(|place| dispute.positions[place].source.page);
            let is_itself = dispute.kind == DisputeKind::Itself;
            assert_eq!(first == second, is_itself, "{}", dispute.id);
            assert!(dispute.muster.contains(", because "), "{}", dispute.id);
        }
    }
}
