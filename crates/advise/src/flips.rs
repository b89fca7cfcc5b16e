//! Flips: the smallest changes of facts that change the answer. They are exact, because each is
//! found by evaluating the rules again with the facts changed.

use std::convert::Infallible;
use std::ops::ControlFlow;

use muster_model::advice::{
    ControlPlane, Fact, FactChanges, FactKind, Facts, Flip, Label, Threshold, Thresholds,
};

/// Result of one evaluation. Two answers are equal if their labels are.
pub(crate) trait Answer: PartialEq {
    /// Returns the chosen control plane.
    fn primary(&self) -> ControlPlane;
    /// Returns the label; built only for flips that are shown, because it costs more than the
    /// answer itself.
    fn into_label(self) -> Label;
}

impl Answer for Label {
    fn primary(&self) -> ControlPlane {
        self.primary
    }

    fn into_label(self) -> Label {
        self
    }
}

/// Parameters of a search for flips.
pub(crate) struct Search<'a> {
    /// Facts that may change. One that no rule reads is harmless and only costs time.
    pub(crate) askable: &'a [Fact],
    /// Thresholds that the rules read: a number matters only where it crosses one.
    pub(crate) read: &'a [Threshold],
    /// Maximum number of facts that change together. Every combination is tried, so the cost grows
    /// with the binomial coefficient.
    pub(crate) together: usize,
}

/// Facts with their new values, in the order of facts.
type Change = [(Fact, u32)];

/// A change that leads to another answer.
struct Found<A> {
    change: Vec<(Fact, u32)>,
    answer: A,
    /// False if nearer values of the same facts lead to the same answer.
    shown: bool,
}

impl Search<'_> {
    /// Returns every change that is minimal in one of two senses: no part of it alone changes the
    /// answer; or it leads to another primary and no part of it alone leads there. Ordered by size,
    /// then by facts. Where several values of a number lead to the same answer, the nearest is
    /// given.
    pub(crate) fn flips<A: Answer>(
        &self,
        facts: &Facts,
        thresholds: &Thresholds,
        ask: impl Fn(&Facts) -> A,
    ) -> Vec<Flip> {
        // 1. The present answer, and the other values of each fact.
        let present = ask(facts);
        let moves = self.moves(facts, thresholds);

        // 2. Every change that leads to another answer, small ones first.
        let mut found: Vec<Found<A>> = Vec::new();
        for size in 1..=self.together.min(moves.len()) {
            let ControlFlow::Continue(()) =
                for_each_change::<Infallible>(&moves, size, &mut Vec::new(), &mut |change| {
                    let changed = with(facts, change);
                    let answer = ask(&changed);
                    if answer != present
                        && changed.contradiction().is_none()
                        && smallest(change, &answer, present.primary(), &found)
                    {
                        let shown = !nearer(change, &answer, &found);
                        found.push(Found { change: change.to_vec(), answer, shown });
                    }
                    ControlFlow::Continue(())
                });
        }

        // 3. The changes that are shown, with their labels.
        let shown = found.into_iter().filter(|found| found.shown);
        shown
            .map(|found| Flip { change: written(&found.change), label: found.answer.into_label() })
            .collect()
    }

    /// Returns the smallest change of other facts after which a fact makes a difference: the answer
    /// with its value differs from that with its default. Empty if it does already; `None` if it
    /// never does.
    pub(crate) fn matters_after<A: Answer>(
        &self,
        fact: Fact,
        facts: &Facts,
        thresholds: &Thresholds,
        ask: impl Fn(&Facts) -> A,
    ) -> Option<FactChanges> {
        let mut moves = self.moves(facts, thresholds);
        moves.retain(|(other, _)| *other != fact);
        (0..=self.together.min(moves.len())).find_map(|size| {
            let first = for_each_change(&moves, size, &mut Vec::new(), &mut |change| {
                let given = with(facts, change);
                let absent = given.with(fact, fact.default());
                let possible = given.contradiction().is_none() && absent.contradiction().is_none();
                if possible && ask(&given) != ask(&absent) {
                    ControlFlow::Break(written(change))
                } else {
                    ControlFlow::Continue(())
                }
            });
            first.break_value()
        })
    }

    /// Returns the other possible values of each fact; facts without one are left out.
    fn moves(&self, facts: &Facts, thresholds: &Thresholds) -> Vec<(Fact, Vec<u32>)> {
        let others = self.askable.iter().map(|fact| (*fact, self.others(*fact, facts, thresholds)));
        others.filter(|(_, values)| !values.is_empty()).collect()
    }

    /// Returns the other values of a fact, nearest first: the other value of a flag; for a number
    /// the nearest value in each other interval between thresholds, because rules cannot
    /// distinguish two values of one interval.
    fn others(&self, fact: Fact, facts: &Facts, thresholds: &Thresholds) -> Vec<u32> {
        let now = facts.get(fact);
        let (min, max) = match fact.kind() {
            FactKind::Flag => return vec![1 - now],
            FactKind::Count { min, max, .. } => (min, max),
            FactKind::Hundredths { max } => (0, max),
        };
        // A condition may read a number like a flag, so 1 is an edge too.
        let edges = self.read.iter().filter(|threshold| threshold.fact() == fact);
        let edges = edges.map(|threshold| thresholds.get(*threshold)).chain([1]);
        let nearest = edges.map(|edge| if edge > now { edge } else { edge.saturating_sub(1) });
        let mut values: Vec<u32> =
            nearest.filter(|value| (min..=max).contains(value) && *value != now).collect();
        values.sort_unstable_by_key(|value| (value.abs_diff(now), *value));
        values.dedup();
        values
    }
}

fn with(facts: &Facts, change: &Change) -> Facts {
    change.iter().fold(*facts, |facts, (fact, stored)| facts.with(*fact, *stored))
}

fn written(change: &Change) -> FactChanges {
    FactChanges(change.iter().map(|(fact, stored)| (*fact, fact.value(*stored))).collect())
}

/// Calls `see` with every combination of new values for `size` facts, in the order of facts and of
/// their values, until `see` returns `Break`.
fn for_each_change<B>(
    moves: &[(Fact, Vec<u32>)],
    size: usize,
    chosen: &mut Vec<(Fact, u32)>,
    see: &mut impl FnMut(&Change) -> ControlFlow<B>,
) -> ControlFlow<B> {
    if size == 0 {
        return see(chosen);
    }
    for (index, (fact, values)) in moves.iter().enumerate() {
        for stored in values {
            chosen.push((*fact, *stored));
            let seen = for_each_change(&moves[index + 1..], size - 1, chosen, see);
            chosen.pop();
            seen?;
        }
    }
    ControlFlow::Continue(())
}

/// Returns true if no part of the change has the same effect. Parts were tried before.
fn smallest<A: Answer>(
    change: &Change,
    answer: &A,
    present: ControlPlane,
    found: &[Found<A>],
) -> bool {
    let part = |found: &&Found<A>| {
        found.change.len() < change.len() && found.change.iter().all(|step| change.contains(step))
    };
    let mut no_part_changes_anything = true;
    let mut leads_nowhere_new = answer.primary() == present;
    for part in found.iter().filter(part) {
        no_part_changes_anything = false;
        leads_nowhere_new |= part.answer.primary() == answer.primary();
    }
    no_part_changes_anything || !leads_nowhere_new
}

/// Returns true if nearer values of the same facts lead to the same answer. Nearer values were
/// tried before.
fn nearer<A: Answer>(change: &Change, answer: &A, found: &[Found<A>]) -> bool {
    let same_facts = |found: &&Found<A>| {
        found.change.len() == change.len()
            && found.change.iter().zip(change).all(|((one, _), (other, _))| one == other)
    };
    found.iter().filter(same_facts).any(|found| found.answer == *answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(primary: ControlPlane, addon: &str) -> Label {
        Label { primary, addon: addon.to_owned(), hybrid: None }
    }

    /// A rule by size: no scheduler below 16 GPUs, Slurm below 33, else Kubernetes; the flag `talk`
    /// becomes the add-on.
    fn by_size(facts: &Facts) -> Label {
        let talk = if facts.is(Fact::Talk) { "talk" } else { "" };
        match facts.get(Fact::FleetGpus) {
            ..16 => answer(ControlPlane::None, talk),
            16..33 => answer(ControlPlane::Slurm, talk),
            _ => answer(ControlPlane::Kubernetes, talk),
        }
    }

    fn check(gpus: u32, expected: &[(&Change, ControlPlane, &str)]) {
        let read = [Threshold::SchedulerGpus, Threshold::ConventionGpus];
        let search = Search { askable: &[Fact::FleetGpus, Fact::Talk], read: &read, together: 2 };
        let facts = Facts::default().with(Fact::FleetGpus, gpus);
        let flips = search.flips(&facts, &Thresholds::default(), by_size);
        let expected: Vec<Flip> = expected
            .iter()
            .map(|(change, primary, addon)| Flip {
                change: written(change),
                label: answer(*primary, addon),
            })
            .collect();
        assert_eq!(flips, expected, "{gpus}");
    }

    #[test]
    fn a_number_flips_at_the_nearest_value_of_each_interval() {
        check(
            4,
            &[
                (&[(Fact::FleetGpus, 16)], ControlPlane::Slurm, ""),
                (&[(Fact::FleetGpus, 33)], ControlPlane::Kubernetes, ""),
                (&[(Fact::Talk, 1)], ControlPlane::None, "talk"),
            ],
        );
        check(
            20,
            &[
                (&[(Fact::FleetGpus, 15)], ControlPlane::None, ""),
                (&[(Fact::FleetGpus, 33)], ControlPlane::Kubernetes, ""),
                (&[(Fact::Talk, 1)], ControlPlane::Slurm, "talk"),
            ],
        );
        check(
            99,
            &[
                (&[(Fact::FleetGpus, 32)], ControlPlane::Slurm, ""),
                (&[(Fact::FleetGpus, 15)], ControlPlane::None, ""),
                (&[(Fact::Talk, 1)], ControlPlane::Kubernetes, "talk"),
            ],
        );
    }

    /// Two intervals with one answer are one flip, to the nearer; a contradiction is no flip.
    #[test]
    fn neither_farther_values_nor_contradictions_are_offered() {
        let read = [Threshold::SchedulerGpus, Threshold::ConventionGpus];
        let search = Search { askable: &[Fact::FleetGpus], read: &read, together: 1 };
        let small_or_not = |facts: &Facts| match facts.get(Fact::FleetGpus) {
            ..16 => answer(ControlPlane::None, ""),
            _ => answer(ControlPlane::Slurm, ""),
        };
        let flips = search.flips(&Facts::default(), &Thresholds::default(), small_or_not);
        assert_eq!(flips.len(), 1, "{flips:?}");
        assert_eq!(flips[0].change, written(&[(Fact::FleetGpus, 16)]));

        let search =
            Search { askable: &[Fact::Teams], read: &[Threshold::CommercialTeams], together: 1 };
        let by_teams = |facts: &Facts| {
            answer(ControlPlane::Slurm, if facts.get(Fact::Teams) < 10 { "" } else { "many" })
        };
        let ask = |users| {
            let facts = Facts::default().with(Fact::Users, users);
            search.flips(&facts, &Thresholds::default(), by_teams).len()
        };
        assert_eq!((ask(10), ask(9)), (1, 0), "nine users cannot be in ten teams");
    }
}
