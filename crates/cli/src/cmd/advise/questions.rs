//! Selects the next question: one whose answer can still change the label for some answers to the
//! other open questions. Found by evaluating the rules for all answers.

use muster_model::advice::{
    ControlPlane, Fact, FactKind, Facts, Label, Ruleset, Threshold, Thresholds,
};

/// Rules that the answers are evaluated with.
pub struct Questions<'a> {
    /// Thresholds of the rules.
    pub thresholds: &'a Thresholds,
    /// Rule set that is evaluated.
    pub ruleset: Ruleset,
}

impl Questions<'_> {
    /// Returns the first of the open facts that can still change the label.
    pub fn next(&self, known: &Facts, open: &[Fact]) -> Option<Fact> {
        open.iter().copied().find(|fact| self.matters(*fact, known, open))
    }

    /// Returns whether the label depends on a fact for some answers to the other open questions.
    pub fn matters(&self, fact: Fact, known: &Facts, open: &[Fact]) -> bool {
        let others: Vec<Fact> = open.iter().copied().filter(|other| *other != fact).collect();
        let mut matters = false;
        self.for_each(known, &others, &mut |facts| {
            let mut labels =
                self.values(fact).into_iter().map(|value| self.label(&facts.with(fact, value)));
            let first = labels.next();
            matters |= labels.any(|label| Some(label) != first);
        });
        matters
    }

    /// Returns the control planes that are still possible.
    pub fn reachable(&self, known: &Facts, open: &[Fact]) -> Vec<ControlPlane> {
        let mut planes = Vec::new();
        self.for_each(known, open, &mut |facts| planes.push(self.label(facts).primary));
        planes.sort_unstable();
        planes.dedup();
        planes
    }

    fn label(&self, facts: &Facts) -> Label {
        muster_advise::label(facts, self.thresholds, self.ruleset)
    }

    /// Returns one value of each class that the rules distinguish, smallest first. For a number the
    /// classes are the ranges between thresholds, since rules only compare it with these.
    pub fn values(&self, fact: Fact) -> Vec<u32> {
        let smallest = match fact.kind() {
            FactKind::Flag => return vec![0, 1],
            FactKind::Count { min, .. } => min,
            FactKind::Hundredths { .. } => 0,
        };
        let edges = Threshold::ALL.iter().filter(|threshold| threshold.fact() == fact);
        let mut values: Vec<u32> = edges.map(|threshold| self.thresholds.get(*threshold)).collect();
        values.push(smallest);
        values.sort_unstable();
        values.dedup();
        values
    }

    /// Calls `see` with every combination of answers to the open questions.
    fn for_each(&self, known: &Facts, open: &[Fact], see: &mut impl FnMut(&Facts)) {
        match open.split_first() {
            None => see(known),
            Some((fact, rest)) => {
                for value in self.values(*fact) {
                    self.for_each(&known.with(*fact, value), rest, see);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the facts that are asked if `yes` are answered with yes and all others with no.
    fn asked(nodes: u32, yes: &[Fact], ruleset: Ruleset) -> Vec<Fact> {
        let thresholds = Thresholds::default();
        let questions = Questions { thresholds: &thresholds, ruleset };
        let mut known = Facts::default();
        let mut open = Fact::WORKLOAD.to_vec();
        let mut asked = Vec::new();
        while let Some(fact) = questions.next(&known, &open) {
            let value = if fact == Fact::Nodes { nodes } else { u32::from(yes.contains(&fact)) };
            known.set(fact, value);
            open.retain(|other| *other != fact);
            asked.push(fact);
        }
        // The label does not depend on the open facts any more.
        let label = questions.label(&known);
        questions.for_each(&known, &open, &mut |facts| assert_eq!(questions.label(facts), label));
        asked
    }

    #[test]
    fn only_what_can_change_the_label_is_asked() {
        use Fact::{
            BareMetal, EdgeOrDev, LongLivedServices, Nodes, PythonNativePipeline, TightlyCoupled,
        };
        let check = |nodes, yes: &[Fact], expected: &[Fact]| {
            assert_eq!(asked(nodes, yes, Ruleset::Corrected), expected, "{nodes} {yes:?}");
        };
        check(1, &[], &[Nodes, PythonNativePipeline, EdgeOrDev]);
        check(1, &[EdgeOrDev], &[Nodes, PythonNativePipeline, EdgeOrDev]);
        check(4, &[], &[Nodes, TightlyCoupled, PythonNativePipeline, EdgeOrDev]);
        check(
            4,
            &[TightlyCoupled],
            &[Nodes, TightlyCoupled, BareMetal, PythonNativePipeline, EdgeOrDev],
        );
        check(
            4,
            &[TightlyCoupled, BareMetal],
            &[Nodes, TightlyCoupled, BareMetal, LongLivedServices],
        );
    }

    #[test]
    fn what_a_site_sets_differently_is_heeded() {
        let mut thresholds = Thresholds::default();
        thresholds.set(Threshold::MultiNode, 8);
        let questions = Questions { thresholds: &thresholds, ruleset: Ruleset::Corrected };
        let open = &Fact::WORKLOAD[1..];
        assert!(!questions.matters(
            Fact::TightlyCoupled,
            &Facts::default().with(Fact::Nodes, 7),
            open
        ));
        assert!(questions.matters(
            Fact::TightlyCoupled,
            &Facts::default().with(Fact::Nodes, 8),
            open
        ));
    }

    #[test]
    fn the_planes_that_are_left_shrink() {
        let thresholds = Thresholds::default();
        let questions = Questions { thresholds: &thresholds, ruleset: Ruleset::Corrected };
        let all = questions.reachable(&Facts::default(), Fact::WORKLOAD);
        assert_eq!(
            all,
            [ControlPlane::Slurm, ControlPlane::Kubernetes, ControlPlane::K3s, ControlPlane::Ray]
        );
        let python = Facts::default().with(Fact::PythonNativePipeline, 1);
        assert_eq!(questions.reachable(&python, &[Fact::EdgeOrDev]), [ControlPlane::Ray]);
    }
}
