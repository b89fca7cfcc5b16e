//! Two control planes, dimension by dimension: who is ahead, whether that matters for given facts,
//! and what the same rules that advise make of both. What is known of each plane stands in
//! `dimensions`; nothing here is drawn.

mod dimension;
mod dimensions;
mod verdict;

use muster_model::advice::{Compared, Comparison, Fact, Facts, Plane, Ruleset, Thresholds};

use crate::case::Case;
use crate::condition::Condition;
use dimension::Dimension;

/// Compares two planes. With facts, the dimensions that matter for them come first, and a verdict
/// says what the advice for these facts makes of both. Comparing a plane with itself is left to the
/// caller to refuse.
#[must_use]
pub fn compare(
    planes: [Plane; 2],
    facts: Option<&Facts>,
    thresholds: &Thresholds,
    ruleset: Ruleset,
) -> Comparison {
    let given = Facts::default();
    let case = Case::new(facts.unwrap_or(&given), thresholds, ruleset);
    let mut dimensions: Vec<Compared> = dimensions::all()
        .map(|dimension| compared(dimension, planes, facts.map(|_| &case)))
        .collect();
    // Stable: within both parts the order stays.
    dimensions.sort_by_key(|dimension| dimension.matters_for.is_empty());
    let verdict = facts.map(|facts| verdict::of(planes, facts, thresholds, ruleset, &dimensions));
    Comparison { planes, facts: facts.copied(), dimensions, verdict }
}

fn compared(
    dimension: &'static Dimension,
    planes: [Plane; 2],
    case: Option<&Case<'_>>,
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

/// The facts that a condition names. Conditions of dimensions are flags, thresholds and
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
