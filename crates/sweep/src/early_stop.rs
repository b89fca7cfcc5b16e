//! Comparison of the elements of a sweep while they run: which of them do too badly to go on.
//!
//! Asynchronous successive halving is that of Li et al. 2020, "A system for massively parallel hyperparameter
//! tuning", without its pauses: instead of waiting to be promoted, an element stops as soon as it is not among the
//! best `1 / factor` of those that have reached its rung, itself included. The first to reach a rung goes on, since
//! nothing says that it is bad. The median rule is that of Golovin et al. 2017, "Google Vizier: a service for
//! black-box optimization", section 3.2.

use std::collections::BTreeMap;

use muster_model::sweep::{EarlyStop, Goal, MetricReport};

/// State of the comparison: what each element has reached.
#[derive(Clone, Debug)]
pub struct Standing {
    rule: EarlyStop,
    goal: Goal,
    elements: BTreeMap<u32, Progress>,
    /// Values that were compared, by mark (the step of a comparison), then by element.
    marks: BTreeMap<u64, BTreeMap<u32, f64>>,
}

/// Reports of one element since it began, or began again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Step and value that came last.
    pub last: MetricReport,
    /// Divisor of the sum, for the mean.
    pub reports: u64,
    /// Sum of their values.
    pub sum: f64,
    /// Best of their values.
    pub best: f64,
    /// Highest mark at which the element was compared; 0 before the first.
    pub mark: u64,
}

/// Comparison of an element with the others at a mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Step for which the elements were compared.
    pub mark: u64,
    /// Value with which the element counts there.
    pub value: f64,
    /// Reason for which it should stop, as the end of a sentence; `None` when it continues.
    pub stop: Option<String>,
}

impl Standing {
    /// Makes the state of a sweep of which no element has reported.
    #[must_use]
    pub fn new(rule: EarlyStop, goal: Goal) -> Self {
        Self { rule, goal, elements: BTreeMap::new(), marks: BTreeMap::new() }
    }

    /// Restores the progress of an element, as [`Standing::progress`] has returned it.
    pub fn restore(&mut self, element: u32, progress: Progress) {
        self.elements.insert(element, progress);
    }

    /// Restores a value that was compared, of [`Comparison`].
    pub fn restore_mark(&mut self, element: u32, mark: u64, value: f64) {
        self.marks.entry(mark).or_default().insert(element, value);
    }

    /// Returns the progress of an element; `None` before its first report.
    #[must_use]
    pub fn progress(&self, element: u32) -> Option<Progress> {
        self.elements.get(&element).copied()
    }

    /// Adds a report; returns the comparison that it leads to. Each element is compared once at a mark, and a
    /// report beyond several marks counts for the last of them. A repeated report changes nothing; with a lower step
    /// than before, the element has begun again.
    pub fn report(&mut self, element: u32, report: MetricReport) -> Option<Comparison> {
        let known = self.elements.get(&element).filter(|known| known.last.step <= report.step);
        if known.is_some_and(|known| known.last == report) {
            return None;
        }
        let mut progress = known.copied().unwrap_or(Progress {
            last: report,
            reports: 0,
            sum: 0.0,
            best: report.value,
            mark: 0,
        });
        progress.last = report;
        progress.reports += 1;
        progress.sum += report.value;
        if self.goal.is_better(report.value, progress.best) {
            progress.best = report.value;
        }
        let mark = last_mark(self.rule, report.step).filter(|mark| *mark > progress.mark);
        progress.mark = mark.unwrap_or(progress.mark);
        self.elements.insert(element, progress);
        let mark = mark?;
        let at_mark = self.marks.entry(mark).or_default();
        // An element that began again is none of the others.
        at_mark.remove(&element);
        let (value, stop) = match self.rule {
            EarlyStop::Asha { factor, .. } => {
                (report.value, halving(at_mark, report.value, self.goal, factor))
            }
            EarlyStop::Median { others, .. } => {
                let mean = progress.sum / progress.reports as f64;
                (mean, median_rule(at_mark, progress.best, self.goal, others))
            }
        };
        at_mark.insert(element, value);
        Some(Comparison { mark, value, stop })
    }
}

/// Returns the last step up to this one for which elements are compared.
fn last_mark(rule: EarlyStop, step: u64) -> Option<u64> {
    match rule {
        EarlyStop::Asha { first, factor } => {
            let next = |mark: &u64| mark.checked_mul(u64::from(factor));
            let marks = std::iter::successors(Some(first), next);
            marks.take_while(|mark| *mark <= step).last()
        }
        EarlyStop::Median { every, .. } => Some(step - step % every).filter(|mark| *mark > 0),
    }
}

/// Returns why an element with this value does not continue past a rung.
fn halving(rung: &BTreeMap<u32, f64>, value: f64, goal: Goal, factor: u32) -> Option<String> {
    let reached = rung.len() + 1;
    let places = (reached / factor as usize).max(1);
    let better = rung.values().filter(|other| goal.is_better(**other, value)).count();
    let best = if places == 1 { "best".to_owned() } else { format!("best {places}") };
    (better >= places).then(|| format!("{value} is not among the {best} of {reached}"))
}

/// Returns why an element whose best value is this one does not continue.
fn median_rule(others: &BTreeMap<u32, f64>, best: f64, goal: Goal, fewest: u32) -> Option<String> {
    if others.len() < fewest as usize {
        return None;
    }
    let mut means: Vec<f64> = others.values().copied().collect();
    means.sort_by(f64::total_cmp);
    let half = means.len() / 2;
    let upper = *means.get(half)?;
    let median = if means.len() % 2 == 1 { upper } else { f64::midpoint(means[half - 1], upper) };
    let count = means.len();
    goal.is_better(median, best)
        .then(|| format!("its best is {best}, and {median} the median of {count} others"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASHA: EarlyStop = EarlyStop::Asha { first: 1, factor: 3 };

    fn at(step: u64, value: f64) -> MetricReport {
        MetricReport { step, value }
    }

    #[test]
    fn an_element_out_of_the_best_third_stops_at_its_rung() {
        let mut standing = Standing::new(ASHA, Goal::Min);
        let stops = |standing: &mut Standing, element, value| {
            standing.report(element, at(1, value)).unwrap().stop.is_some()
        };
        // The first goes on; of up to five only the best one, of six the best two.
        let values = [0.5, 0.4, 0.6, 0.3, 0.9, 0.35];
        let stopped: Vec<bool> = (0..)
            .zip(values)
            .map(|(element, value)| stops(&mut standing, element, value))
            .collect();
        assert_eq!(stopped, [false, false, true, false, true, false]);
        let reason = standing.report(9, at(1, 0.7)).unwrap().stop.unwrap();
        assert_eq!(reason, "0.7 is not among the best 2 of 7");
    }

    /// Plain form of the rule, as the paper has it: sort the rung, cut it at `len / factor`.
    fn plainly_continues(rung: &[f64], value: f64, factor: usize) -> bool {
        let mut all = [rung, &[value]].concat();
        all.sort_by(f64::total_cmp);
        let top = &all[..(all.len() / factor).max(1)];
        top.last().is_some_and(|worst| value <= *worst)
    }

    #[test]
    fn rungs_are_those_of_a_plain_implementation() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / 1000.0
        };
        for factor in [2, 3, 4] {
            let rule = EarlyStop::Asha { first: 2, factor };
            let mut standing = Standing::new(rule, Goal::Min);
            let mut rungs: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for element in 0..200 {
                let mut goes_on = true;
                for step in 1..=100 {
                    let value = random();
                    let found = standing.report(element, at(step, value));
                    let power = (0..10).find(|power| 2 * u64::from(factor).pow(*power) == step);
                    assert_eq!(found.is_some(), goes_on && power.is_some());
                    let Some(found) = found else { continue };
                    let rung = rungs.entry(step).or_default();
                    goes_on = plainly_continues(rung, value, factor as usize);
                    rung.push(value);
                    assert_eq!(found.stop.is_none(), goes_on, "element {element}, step {step}");
                    if !goes_on {
                        break;
                    }
                }
            }
            assert!(rungs.len() >= 3 && rungs.values().all(|rung| !rung.is_empty()));
        }
    }

    #[test]
    fn higher_may_be_better_and_a_jump_counts_for_the_last_rung() {
        let mut standing = Standing::new(ASHA, Goal::Max);
        assert_eq!(standing.report(0, at(20, 0.9)).unwrap().mark, 9);
        let second = standing.report(1, at(11, 0.8)).unwrap();
        assert_eq!((second.mark, second.stop.is_some()), (9, true));
        assert_eq!(standing.report(0, at(26, 0.1)), None, "its next rung is 27");
    }

    #[test]
    fn what_is_restored_counts() {
        let mut standing = Standing::new(ASHA, Goal::Min);
        standing.report(0, at(1, 0.1));
        let mut again = Standing::new(ASHA, Goal::Min);
        again.restore(0, standing.progress(0).unwrap());
        again.restore_mark(0, 1, 0.1);
        assert_eq!(again.report(0, at(2, 5.0)), None, "it was compared at 1");
        assert!(again.report(1, at(1, 0.2)).unwrap().stop.is_some());
    }

    #[test]
    fn a_repeated_report_counts_once_and_lower_steps_begin_again() {
        let rule = EarlyStop::Median { every: 2, others: 1 };
        let mut standing = Standing::new(rule, Goal::Min);
        standing.report(0, at(2, 1.0));
        standing.report(1, at(1, 4.0));
        assert_eq!(standing.report(1, at(1, 4.0)), None);
        assert_eq!(standing.progress(1).unwrap().reports, 1);
        assert!(standing.report(1, at(2, 3.0)).unwrap().stop.is_some());
        // A requeue: the best and the mark of the first start do not count.
        assert_eq!(standing.report(1, at(1, 9.0)), None);
        let found = standing.report(1, at(2, 0.5)).unwrap();
        assert_eq!((found.mark, found.stop), (2, None));
    }

    #[test]
    fn the_median_rule_compares_the_best_value_with_running_means() {
        let rule = EarlyStop::Median { every: 2, others: 2 };
        let mut standing = Standing::new(rule, Goal::Min);
        for (element, values) in [(0, [4.0, 2.0]), (1, [8.0, 6.0])] {
            assert_eq!(standing.report(element, at(1, values[0])), None);
            assert_eq!(standing.report(element, at(2, values[1])).unwrap().stop, None);
        }
        // Means 3 and 7: the median is 5.
        assert_eq!(standing.report(2, at(2, 5.0)).unwrap().stop, None);
        standing.report(3, at(1, 9.0));
        let found = standing.report(3, at(3, 5.5)).unwrap();
        assert_eq!(found.mark, 2);
        assert_eq!(found.stop.as_deref(), Some("its best is 5.5, and 5 the median of 3 others"));
    }
}
