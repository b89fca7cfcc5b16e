//! Flips: the smallest changes of facts that change the answer. Exact, because each is found by asking again with the
//! facts changed; no rule is known here.

use muster_model::advice::{Changes, Fact, Facts, Flip, Kind, Label, Plane, Threshold, Thresholds};

/// What may change, and how far to look.
pub(crate) struct Search<'a> {
    /// Facts that may change.
    pub(crate) askable: &'a [Fact],
    /// Thresholds that the rules read: a number matters where it crosses one.
    pub(crate) read: &'a [Threshold],
    /// Facts that change together, at most. Every combination is tried, so the cost grows with the binomial.
    pub(crate) together: usize,
}

/// An answer to changed facts, with the change.
struct Tried {
    change: Vec<(Fact, u32)>,
    label: Label,
}

impl Search<'_> {
    /// Every change that is smallest in one of two senses: no part of it alone changes the answer; or it leads to another
    /// primary and no part of it alone leads there. Ordered by size, then by facts. Where several values of a number lead to the
    /// same answer, the nearest is given.
    pub(crate) fn flips(
        &self,
        facts: &Facts,
        thresholds: &Thresholds,
        ask: impl Fn(&Facts) -> Label,
    ) -> Vec<Flip> {
        // 1. The answer to beat, and what each fact could be instead.
        let present = ask(facts);
        let moves: Vec<(Fact, Vec<u32>)> =
            self.askable.iter().map(|fact| (*fact, self.others(*fact, facts, thresholds))).collect();

        // 2. Every change that leads elsewhere, small ones first.
        let mut found: Vec<Tried> = Vec::new();
        for size in 1..=self.together {
            for_each_change(&moves, size, &mut Vec::new(), &mut |change| {
                let changed = change.iter().fold(*facts, |facts, (fact, stored)| facts.with(*fact, *stored));
                let label = ask(&changed);
                if label != present
                    && changed.contradiction().is_none()
                    && smallest(change, &label, present.primary, &found)
                {
                    found.push(Tried { change: change.to_vec(), label });
                }
            });
        }

        // 3. As people and programs see them.
        let shown = |(fact, stored): (Fact, u32)| (fact, fact.value(stored));
        let flip = |tried: Tried| Flip {
            change: Changes(tried.change.into_iter().map(shown).collect()),
            label: tried.label,
        };
        found.into_iter().map(flip).collect()
    }

    /// What a fact could be instead, nearest first: the other value of a flag; of a number those on either side of each
    /// threshold.
    fn others(&self, fact: Fact, facts: &Facts, thresholds: &Thresholds) -> Vec<u32> {
        let now = facts.get(fact);
        let (min, max) = match fact.kind() {
            Kind::Flag => return vec![1 - now],
            Kind::Count { min, max, .. } => (min, max),
            Kind::Hundredths { max } => (0, max),
        };
        let about = self.read.iter().filter(|threshold| threshold.fact() == fact);
        let edges = about.flat_map(|threshold| {
            let edge = thresholds.get(*threshold);
            [edge.saturating_sub(1), edge]
        });
        let mut values: Vec<u32> =
            edges.filter(|value| (min..=max).contains(value) && *value != now).collect();
        values.sort_unstable_by_key(|value| (value.abs_diff(now), *value));
        values.dedup();
        values
    }
}

/// Calls `see` with every way to change `size` of the facts, in the order of facts and of their values.
fn for_each_change(
    moves: &[(Fact, Vec<u32>)],
    size: usize,
    chosen: &mut Vec<(Fact, u32)>,
    see: &mut impl FnMut(&[(Fact, u32)]),
) {
    if size == 0 {
        return see(chosen);
    }
    for (index, (fact, values)) in moves.iter().enumerate() {
        for stored in values {
            chosen.push((*fact, *stored));
            for_each_change(&moves[index + 1..], size - 1, chosen, see);
            chosen.pop();
        }
    }
}

/// Whether the change is worth telling: nothing smaller or nearer does the same.
fn smallest(change: &[(Fact, u32)], label: &Label, present: Plane, found: &[Tried]) -> bool {
    let changes = |fact: Fact| change.iter().any(|(other, _)| *other == fact);
    // The facts of `part` are among ours. Parts were tried before, and so were nearer values of the same facts.
    let within = |tried: &&Tried| tried.change.iter().all(|(fact, _)| changes(*fact));
    let mut changes_nothing_smaller = true;
    let mut leads_nowhere_new = label.primary == present;
    for tried in found.iter().filter(within) {
        if tried.change.len() == change.len() {
            if tried.label == *label {
                return false;
            }
        } else {
            changes_nothing_smaller = false;
            leads_nowhere_new |= tried.label.primary == label.primary;
        }
    }
    changes_nothing_smaller || !leads_nowhere_new
}
