//! Comparison of two systems by dimension: which is ahead, whether that matters for given
//! facts, and the verdict of the rules that advise. The contents are in `dimensions`.

mod dimension;
mod dimensions;
mod verdict;

use muster_model::advice::{
    Compared, ComparedSystem, Comparison, Fact, Facts, Ruleset, Thresholds,
};

use crate::case::FactsCase;
use crate::condition::Condition;
use dimension::Dimension;

/// Compares two systems. With facts, the dimensions that matter for them come first, and a verdict
/// gives the advice for these facts and the place of both systems in it. The caller rejects the
/// comparison of a system with itself.
#[must_use]
pub fn compare(
    planes: [ComparedSystem; 2],
    facts: Option<&Facts>,
    thresholds: &Thresholds,
    ruleset: Ruleset,
) -> Comparison {
    let given = Facts::default();
    let case = FactsCase::new(facts.unwrap_or(&given), thresholds, ruleset);
    let mut dimensions: Vec<Compared> = dimensions::all()
        .map(|dimension| compared(dimension, planes, facts.map(|_| &case)))
        .collect();
    // A stable sort, so the order within both parts stays.
    dimensions.sort_by_key(|dimension| dimension.matters_for.is_empty());
    let verdict = facts.map(|facts| verdict::of(planes, facts, thresholds, ruleset, &dimensions));
    Comparison { planes, facts: facts.copied(), dimensions, verdict }
}

fn compared(
    dimension: &'static Dimension,
    planes: [ComparedSystem; 2],
    case: Option<&FactsCase<'_>>,
) -> Compared {
    let cells = planes.map(|plane| dimension.cell(plane));
    let [left, right] = cells.map(|cell| cell.standing_today());
    let ahead = match left.cmp(&right) {
        std::cmp::Ordering::Greater => Some(planes[0]),
        std::cmp::Ordering::Less => Some(planes[1]),
        std::cmp::Ordering::Equal => None,
    };
    let mut matters_for = Vec::new();
    if let Some(case) = case {
        for condition in dimension.matters.iter().filter(|condition| condition.holds(case)) {
            facts_of(condition, &mut matters_for);
        }
        matters_for.sort_unstable();
        matters_for.dedup();
    }
    Compared { id: dimension.id, title: dimension.title, matters_for, ahead, cells }
}

/// Appends the facts that a condition names. Conditions of dimensions are flags, thresholds and
/// conjunctions of them.
fn facts_of(condition: &Condition, into: &mut Vec<Fact>) {
    match condition {
        Condition::Is(fact) => into.push(*fact),
        Condition::Reaches(threshold) => into.push(threshold.fact()),
        Condition::All(conditions) => {
            conditions.iter().for_each(|condition| facts_of(condition, into))
        }
        _ => {}
    }
}
