//! Flips: the smallest changes of facts that change the answer. Exact, because each is found by
//! asking again with the facts changed; no rule is known here.

use std::convert::Infallible;
use std::ops::ControlFlow;

use muster_model::advice::{Changes, Fact, Facts, Flip, Kind, Label, Plane, Threshold, Thresholds};

/// What comes of asking. Two answers are the same when their labels are.
pub(crate) trait Answer: PartialEq {
    /// The plane.
    fn primary(&self) -> Plane;
    /// The label; made only of what is shown, because making it costs more than the answer.
    fn into_label(self) -> Label;
}

impl Answer for Label {
    fn primary(&self) -> Plane {
        self.primary
    }

    fn into_label(self) -> Label {
        self
    }
}

/// What may change, and how far to look.
pub(crate) struct Search<'a> {
    /// Facts that may change. One that no rule reads may be among them, and only costs time.
    pub(crate) askable: &'a [Fact],
    /// Thresholds that the rules read: a number matters where it crosses one.
    pub(crate) read: &'a [Threshold],
    /// Facts that change together, at most. Every combination is tried, so the cost grows with the
    /// binomial.
    pub(crate) together: usize,
}

/// Facts with their new values, in the order of facts.
type Change = [(Fact, u32)];

/// A change that leads elsewhere.
struct Found<A> {
    change: Vec<(Fact, u32)>,
    answer: A,
    /// False when nearer values of the same facts lead to the same answer.
    shown: bool,
}

impl Search<'_> {
    /// Every change that is smallest in one of two senses: no part of it alone changes the answer;
    /// or it leads to another primary and no part of it alone leads there. Ordered by size, then by
    /// facts. Where several values of a number lead to the same answer, the nearest is given.
    pub(crate) fn flips<A: Answer>(
        &self,
        facts: &Facts,
        thresholds: &Thresholds,
        ask: impl Fn(&Facts) -> A,
    ) -> Vec<Flip> {
        // 1. The answer to beat, and what each fact could be instead.
        let present = ask(facts);
        let moves = self.moves(facts, thresholds);

        // 2. Every change that leads elsewhere, small ones first.
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

        // 3. As people and programs see them.
        let shown = found.into_iter().filter(|found| found.shown);
        shown
            .map(|found| Flip { change: written(&found.change), label: found.answer.into_label() })
            .collect()
    }

    /// The smallest change of other facts after which a fact makes a difference: the answer with
    /// its value is another than with its default. Empty when it does already; nothing when it
    /// never does.
    pub(crate) fn matters_after<A: Answer>(
        &self,
        fact: Fact,
        facts: &Facts,
        thresholds: &Thresholds,
        ask: impl Fn(&Facts) -> A,
    ) -> Option<Changes> {
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

    /// What each fact could be instead. Facts that could not are left out.
    fn moves(&self, facts: &Facts, thresholds: &Thresholds) -> Vec<(Fact, Vec<u32>)> {
        let others = self.askable.iter().map(|fact| (*fact, self.others(*fact, facts, thresholds)));
        others.filter(|(_, values)| !values.is_empty()).collect()
    }

    /// What a fact could be instead, nearest first: the other value of a flag; of a number the
    /// nearest value in each other stretch between thresholds, because rules cannot tell two values
    /// of one stretch apart.
    fn others(&self, fact: Fact, facts: &Facts, thresholds: &Thresholds) -> Vec<u32> {
        let now = facts.get(fact);
        let (min, max) = match fact.kind() {
            Kind::Flag => return vec![1 - now],
            Kind::Count { min, max, .. } => (min, max),
            Kind::Hundredths { max } => (0, max),
        };
        // A number that is asked for as if it were a flag has an edge above 0.
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

fn written(change: &Change) -> Changes {
    Changes(change.iter().map(|(fact, stored)| (*fact, fact.value(*stored))).collect())
}

/// Calls `see` with every way to change `size` of the facts, in the order of facts and of their
/// values, until it breaks off.
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

/// Whether no part of the change does the same. Parts were tried before.
fn smallest<A: Answer>(change: &Change, answer: &A, present: Plane, found: &[Found<A>]) -> bool {
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

/// Whether nearer values of the same facts lead to the same answer. Nearer values were tried
/// before.
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

    fn answer(primary: Plane, addon: &str) -> Label {
        Label { primary, addon: addon.to_owned(), hybrid: None }
    }

    /// Nobody below 16 GPUs, Slurm below 33, Kubernetes from there; whoever talks is told so.
    fn by_size(facts: &Facts) -> Label {
        let talk = if facts.is(Fact::Talk) { "talk" } else { "" };
        match facts.get(Fact::FleetGpus) {
            ..16 => answer(Plane::None, talk),
            16..33 => answer(Plane::Slurm, talk),
            _ => answer(Plane::Kubernetes, talk),
        }
    }

    fn check(gpus: u32, expected: &[(&Change, Plane, &str)]) {
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
    fn a_number_flips_at_the_nearest_value_of_each_stretch() {
        check(
            4,
            &[
                (&[(Fact::FleetGpus, 16)], Plane::Slurm, ""),
                (&[(Fact::FleetGpus, 33)], Plane::Kubernetes, ""),
                (&[(Fact::Talk, 1)], Plane::None, "talk"),
            ],
        );
        check(
            20,
            &[
                (&[(Fact::FleetGpus, 15)], Plane::None, ""),
                (&[(Fact::FleetGpus, 33)], Plane::Kubernetes, ""),
                (&[(Fact::Talk, 1)], Plane::Slurm, "talk"),
            ],
        );
        check(
            99,
            &[
                (&[(Fact::FleetGpus, 32)], Plane::Slurm, ""),
                (&[(Fact::FleetGpus, 15)], Plane::None, ""),
                (&[(Fact::Talk, 1)], Plane::Kubernetes, "talk"),
            ],
        );
    }

    /// Two stretches with one answer are one flip, to the nearer; what contradicts itself is no
    /// flip.
    #[test]
    fn neither_farther_values_nor_contradictions_are_offered() {
        let read = [Threshold::SchedulerGpus, Threshold::ConventionGpus];
        let search = Search { askable: &[Fact::FleetGpus], read: &read, together: 1 };
        let small_or_not = |facts: &Facts| match facts.get(Fact::FleetGpus) {
            ..16 => answer(Plane::None, ""),
            _ => answer(Plane::Slurm, ""),
        };
        let flips = search.flips(&Facts::default(), &Thresholds::default(), small_or_not);
        assert_eq!(flips.len(), 1, "{flips:?}");
        assert_eq!(flips[0].change, written(&[(Fact::FleetGpus, 16)]));

        let search =
            Search { askable: &[Fact::Teams], read: &[Threshold::CommercialTeams], together: 1 };
        let by_teams = |facts: &Facts| {
            answer(Plane::Slurm, if facts.get(Fact::Teams) < 10 { "" } else { "many" })
        };
        let ask = |users| {
            let facts = Facts::default().with(Fact::Users, users);
            search.flips(&facts, &Thresholds::default(), by_teams).len()
        };
        assert_eq!((ask(10), ask(9)), (1, 0), "nine users cannot be in ten teams");
    }
}
