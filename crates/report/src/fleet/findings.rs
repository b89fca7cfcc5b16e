//! Findings: sentences on how control planes differ on one fleet. Each follows from the figures
//! alone, independent of which control planes they are. A difference within the margins of several
//! seeds is not reported.

use muster_model::simulation::{Figure, FleetComparison, FleetFigures, SizeFigures};

use super::unit;
use super::variants::differences;
use super::words::{amount, at_least, percent, span, with_margin};
use crate::amount::{grouped, grouped_count};
use crate::style::clean;

/// Smallest share of all hours that is reported.
const LEAST_SHARE: f64 = 0.005;
/// Smallest ratio that is reported.
const LEAST_RATIO: f64 = 1.01;
/// Smallest reported differences of Jain's index, and of the number of nodes used relative to the
/// fewest possible.
const LEAST_FAIRNESS: f64 = 0.05;
const LEAST_SPREAD: f64 = 0.1;
/// Small jobs that wait longer under the scheduler that is better overall are reported if they wait
/// this many times, and this many seconds, longer.
const WORSE_RATIO: f64 = 1.5;
const WORSE_SECS: f64 = 60.0;

/// Returns the findings, the most severe first. With several variants of the site these are their
/// differences, then the main findings on each.
#[must_use]
pub fn findings(comparison: &FleetComparison) -> Vec<String> {
    if comparison.variants.is_empty() {
        return all_findings(&ComparedRuns::of(comparison, comparison.runs.iter().collect()));
    }
    let mut sentences = differences(comparison);
    for variant in &comparison.variants {
        let runs = comparison.runs.iter().filter(|run| run.variant == variant.name).collect();
        let own = main_findings(&ComparedRuns::of(comparison, runs));
        sentences.extend(
            own.into_iter().map(|sentence| format!("{}: {sentence}", clean(&variant.name))),
        );
    }
    sentences
}

/// Returns jobs that did not end, and the difference of turnarounds.
fn main_findings(facts: &ComparedRuns<'_>) -> Vec<String> {
    let mut sentences = facts.interrupted();
    sentences.extend(facts.refused());
    sentences.extend(facts.stuck());
    sentences.extend(facts.turnarounds());
    sentences
}

fn all_findings(facts: &ComparedRuns<'_>) -> Vec<String> {
    let mut sentences = main_findings(facts);
    sentences.extend(facts.hours(
        "hours.held_idle",
        "were held but idle: by incomplete gangs, beyond the request, or after the work was done",
    ));
    sentences.extend(facts.hours(
        "hours.stranded",
        "were idle on any node while jobs waited that could have used as many",
    ));
    sentences.extend(facts.lost());
    sentences.extend(facts.spread());
    sentences.extend(facts.domains());
    sentences.extend(facts.fairness());
    sentences
}

/// A run, and its value of one figure.
type Valued<'c> = (&'c FleetFigures, f64);

/// The runs that the sentences are derived from.
struct ComparedRuns<'c> {
    comparison: &'c FleetComparison,
    /// Runs on one variant of the site.
    runs: Vec<&'c FleetFigures>,
    /// Those that were not interrupted.
    whole: Vec<&'c FleetFigures>,
    unit: &'static str,
}

impl<'c> ComparedRuns<'c> {
    fn of(comparison: &'c FleetComparison, runs: Vec<&'c FleetFigures>) -> Self {
        let whole = runs.iter().copied().filter(|run| !run.is_partial).collect();
        Self { comparison, runs, whole, unit: unit(comparison.unit) }
    }

    fn refused(&self) -> Vec<String> {
        let refused = self.runs.iter().filter(|run| run.refused > 0);
        let sentence = |run: &&FleetFigures| {
            let jobs = grouped_count(run.refused, "job");
            format!("{} refused {jobs}: its figures leave them out", run.scheduler)
        };
        refused.map(sentence).collect()
    }

    fn interrupted(&self) -> Vec<String> {
        let partial = self.runs.iter().filter(|run| run.is_partial);
        let sentence = |run: &&FleetFigures| {
            format!(
                "{} was interrupted (*): of {} {} had arrived and {} had ended by then; the others count until then",
                run.scheduler,
                grouped_count(self.comparison.jobs, "job"),
                grouped(run.arrived),
                grouped(run.ended),
            )
        };
        partial.map(sentence).collect()
    }

    /// Returns the seed of figures that have no mean, if there are several seeds.
    fn seed(&self) -> String {
        match self.comparison.seeds[..] {
            [first, _, ..] => format!("with seed {first}, "),
            _ => String::new(),
        }
    }

    /// Reports jobs that never end.
    fn stuck(&self) -> Vec<String> {
        let seed = self.seed();
        let left = self.whole.iter().filter(|run| run.left > 0);
        let sentence = |run: &&FleetFigures| {
            let why =
                run.left_why.as_ref().map_or(String::new(), |why| format!("; {}", clean(why)));
            let begin = format!("{seed}under {} ", run.scheduler);
            let held = format!("{} {}{}", amount(run.left_held), self.unit, plural(run.left_held));
            let others = run.left - run.left_holding;
            let rest = match others {
                0 => "nothing more happens".to_owned(),
                _ => format!(
                    "nothing more happens, and {} beside them never end{}",
                    grouped_count(others, "job"),
                    verb_ending(others)
                ),
            };
            match run.left_holding {
                0 => format!(
                    "{begin}{} never end{}{why}",
                    grouped_count(run.left, "job"),
                    verb_ending(run.left)
                ),
                1 => format!(
                    "{begin}1 gang holds {held} and waits for the rest of what it needs; {rest}{why}"
                ),
                gangs => {
                    format!(
                        "{begin}{} gangs hold {held} and wait for each other; {rest}{why}",
                        grouped(gangs)
                    )
                }
            }
        };
        left.map(sentence).collect()
    }

    /// Reports the schedulers under which jobs take least and most time from submission to end, and
    /// the size of job that contributes most to the difference.
    fn turnarounds(&self) -> Vec<String> {
        let turnaround = |run: &FleetFigures| mean(run, "turnaround_secs.mean");
        let by = |one: &&&FleetFigures, other: &&&FleetFigures| {
            turnaround(one).value.total_cmp(&turnaround(other).value)
        };
        // A lower bound cannot be the least.
        let least = self.whole.iter().filter(|run| at_least(run).is_empty()).min_by(by);
        let most = self.whole.iter().max_by(by);
        let Some((least, most)) = least.zip(most).filter(|_| self.whole.len() > 1) else {
            return Vec::new();
        };
        let low = turnaround(least);
        let high = turnaround(most);
        let takes = |run: &FleetFigures| {
            let figure = |name| with_margin(mean(run, name), span);
            let at_least = if at_least(run).is_empty() { "" } else { "at least " };
            format!(
                "{at_least}{}, of which they wait {}",
                figure("turnaround_secs.mean"),
                figure("waited_secs.mean")
            )
        };
        let under_least = &least.scheduler;
        let under_most = &most.scheduler;
        let both =
            format!("under {under_least} {}; under {under_most} {}", takes(least), takes(most));
        if low.may_equal(high) {
            return vec![format!("mean turnarounds do not differ beyond chance: {both}")];
        }
        if self.whole.iter().all(|run| mean(run, "waited_secs.mean").value == 0.0) {
            return vec!["no job waits under any of them".to_owned()];
        }
        if high.value < low.value * LEAST_RATIO {
            return vec![format!(
                "from submission to end jobs take equally long under all of them: on average {}",
                takes(least)
            )];
        }
        let mut sentences = vec![format!("from submission to end jobs take on average {both}")];
        sentences.extend(
            by_size(least, most, self.unit).into_iter().map(|sentence| self.seed() + &sentence),
        );
        sentences
    }

    /// Reports the schedulers with the most and the least of such hours.
    fn hours(&self, name: &str, how: &str) -> Option<String> {
        let most = self.most(name)?;
        let wasted = Figure::of(most, name).value;
        let share = wasted / most.hours.all;
        if share < LEAST_SHARE || share.is_nan() {
            return None;
        }
        let hours = format!("{} {}-hours", amount(wasted), self.unit);
        let sentence = format!("under {} {hours} ({}) {how}", most.scheduler, percent(share));
        Some(sentence + &self.elsewhere(most, name))
    }

    /// Reports work that was lost.
    fn lost(&self) -> Option<String> {
        let most = self.most("hours.lost")?;
        let lost = Figure::of(most, "hours.lost").value;
        if lost <= 0.0 {
            return None;
        }
        let causes = [("evictions", "eviction"), ("breakdowns", "breakdown")];
        let number = |name: &str| Figure::of(most, name).value;
        let named = causes.iter().filter(|(name, _)| number(name) > 0.0);
        let named: Vec<String> = named
            .map(|(name, one)| {
                format!("{} {}", amount(number(name)), if number(name) == 1.0 { one } else { name })
            })
            .collect();
        let scheduler = &most.scheduler;
        let unit = self.unit;
        let lost = amount(lost);
        let sentence = format!(
            "under {scheduler} {lost} {unit}-hours of work were lost in {}",
            named.join(" and ")
        );
        Some(sentence + &self.elsewhere(most, "hours.lost"))
    }

    /// Returns the run with the highest value of a figure.
    fn most(&self, name: &str) -> Option<&'c FleetFigures> {
        let of = |run: &FleetFigures| Figure::of(run, name).value;
        self.whole.iter().copied().max_by(|one, other| of(one).total_cmp(&of(other)))
    }

    /// Returns the run with the lowest value, as `; under muster 3`, if it differs.
    fn elsewhere(&self, most: &FleetFigures, name: &str) -> String {
        let of = |run: &FleetFigures| Figure::of(run, name);
        let least =
            self.whole.iter().min_by(|one, other| of(one).value.total_cmp(&of(other).value));
        match least {
            Some(least) if of(least).value < of(most).value && !of(least).may_equal(of(most)) => {
                format!("; under {} {}", least.scheduler, amount(of(least).value))
            }
            _ => String::new(),
        }
    }

    /// Reports jobs that ran on more nodes than necessary.
    fn spread(&self) -> Option<String> {
        let (least, most) = self.apart("node_spread", LEAST_SPREAD)?;
        Some(format!(
            "under {} jobs of several tasks ran on {:.1} times the fewest nodes that could host them, under {} on {:.1} times",
            most.0.scheduler, most.1, least.0.scheduler, least.1
        ))
    }

    /// Reports gangs that ran in more domains of the narrowest level than necessary.
    fn domains(&self) -> Option<String> {
        let (least, most) = self.apart("domain_spread", LEAST_SPREAD)?;
        let level = &most.0.domain_spread.last()?.level;
        Some(format!(
            "under {} jobs of several tasks ran in {:.1} times the fewest {level}s that could host them, under {} in {:.1} times",
            most.0.scheduler, most.1, least.0.scheduler, least.1
        ))
    }

    fn fairness(&self) -> Option<String> {
        let (least, most) = self.apart("user_fairness", LEAST_FAIRNESS)?;
        Some(format!(
            "users are treated most equally under {} ({:.2}, where 1 is equal), least under {} ({:.2})",
            most.0.scheduler, most.1, least.0.scheduler, least.1
        ))
    }

    /// Returns the lowest and the highest value of a figure if they differ by at least `by`, and
    /// not only by chance.
    fn apart(&self, name: &str, by: f64) -> Option<(Valued<'c>, Valued<'c>)> {
        let (least, most) = extremes(&self.whole, |run| Figure::of(run, name).value)?;
        let low = Figure::of(least, name);
        let high = Figure::of(most, name);
        (high.value - low.value >= by && !low.may_equal(high))
            .then_some(((least, low.value), (most, high.value)))
    }
}

/// Returns the first run with the lowest and the last with the highest value, if there are two runs
/// to compare.
fn extremes<'c>(
    runs: &[&'c FleetFigures],
    of: impl Fn(&FleetFigures) -> f64,
) -> Option<(&'c FleetFigures, &'c FleetFigures)> {
    let by = |one: &&&FleetFigures, other: &&&FleetFigures| of(one).total_cmp(&of(other));
    let least = runs.iter().min_by(by)?;
    let most = runs.iter().max_by(by)?;
    (runs.len() > 1).then_some((*least, *most))
}

fn mean(run: &FleetFigures, name: &str) -> Figure {
    Figure::of(run, name)
}

/// Reports the size of job that contributes most to the difference, and the one that differs most
/// in the opposite direction.
fn by_size(least: &FleetFigures, most: &FleetFigures, unit: &str) -> Vec<String> {
    let pairs: Vec<(&SizeFigures, &SizeFigures)> = least
        .sizes
        .iter()
        .filter_map(|size| Some((size, most.sizes.iter().find(|other| other.size == size.size)?)))
        .collect();
    if pairs.len() < 2 {
        return Vec::new();
    }
    let differs = |(low, high): &(&SizeFigures, &SizeFigures)| {
        (high.waited_secs.mean - low.waited_secs.mean) * low.jobs.min(high.jobs) as f64
    };
    let waits = |(low, high): &(&SizeFigures, &SizeFigures)| {
        let under_least = span(low.waited_secs.mean);
        let under_most = span(high.waited_secs.mean);
        format!("{under_least} under {}, {under_most} under {}", least.scheduler, most.scheduler)
    };
    let mut sentences = Vec::new();
    let by = |one: &&(&SizeFigures, &SizeFigures), other: &&(&SizeFigures, &SizeFigures)| {
        differs(one).total_cmp(&differs(other))
    };
    let total: f64 = pairs.iter().map(differs).filter(|part| *part > 0.0).sum();
    if let Some(first) = pairs.iter().max_by(by).filter(|first| differs(first) > 0.0) {
        let share = differs(first) / total * 100.0;
        let jobs = sized(&first.0.size, unit);
        sentences.push(format!(
            "{share:.0} % of the difference comes from {jobs}, which wait {}",
            waits(first)
        ));
    }
    let is_worse = |(low, high): &&(&SizeFigures, &SizeFigures)| {
        let here = low.waited_secs.mean;
        let there = high.waited_secs.mean;
        here > there * WORSE_RATIO && here - there > WORSE_SECS
    };
    if let Some(worst) = pairs.iter().filter(is_worse).min_by(by) {
        let jobs = sized(&worst.0.size, unit);
        sentences.push(format!("conversely, {jobs} wait {}", waits(worst)));
    }
    sentences
}

/// `jobs of 9 to 64 GPUs`.
pub(crate) fn sized(size: &str, unit: &str) -> String {
    let many = if matches!(size, "1" | "less than 1") { "" } else { "s" };
    format!("jobs of {size} {unit}{many}")
}

fn plural(amount: f64) -> &'static str {
    if amount > 0.0 && amount <= 1.0 { "" } else { "s" }
}

/// Returns the ending of a verb.
fn verb_ending(number: u64) -> &'static str {
    if number == 1 { "s" } else { "" }
}
