//! Similarity of two schedules of the same jobs: order, waits, end. Independent of the schedulers.

use std::fmt;

/// Measures of agreement; times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Fraction of pairs in the same order, of all pairs of jobs that start at different seconds in
    /// both schedules.
    pub order: f64,
    /// The same fraction of pairs that were pending together in the true schedule: the scheduler
    /// chose one of the two.
    pub chosen: f64,
    /// Waits of the compared schedule, not of the true one.
    pub waits: Waits,
    pub mean_difference: f64,
    pub p90_difference: f64,
    /// Fraction of jobs that start less than 5 seconds from their true start.
    pub within_5: f64,
    pub within_15: f64,
}

/// Waits and the last start of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    pub mean: f64,
    pub median: f64,
    pub p90: f64,
    /// Time from the first arrival to the last start.
    pub last_start: f64,
}

/// Computes waits from arrivals and starts by job, in whole seconds of one clock.
pub fn waits(arrivals: &[i64], starts: &[i64]) -> Waits {
    let waits: Vec<i64> =
        arrivals.iter().zip(starts).map(|(arrival, start)| start - arrival).collect();
    let first = arrivals.iter().min().expect("there are jobs");
    let last = starts.iter().max().expect("there are jobs");
    Waits {
        mean: mean(&waits),
        median: quantile(&waits, 50),
        p90: quantile(&waits, 90),
        last_start: (last - first) as f64,
    }
}

/// Compares `starts` with `true_starts`.
pub fn agreement(arrivals: &[i64], true_starts: &[i64], starts: &[i64]) -> Agreement {
    let differences: Vec<i64> =
        true_starts.iter().zip(starts).map(|(one, other)| (one - other).abs()).collect();
    let within = |secs: i64| {
        differences.iter().filter(|difference| **difference < secs).count() as f64
            / differences.len() as f64
    };
    let waited_together = |one: usize, other: usize| {
        arrivals[one].max(arrivals[other]) < true_starts[one].min(true_starts[other])
    };
    Agreement {
        order: same_order(true_starts, starts, |_, _| true),
        chosen: same_order(true_starts, starts, waited_together),
        waits: waits(arrivals, starts),
        mean_difference: mean(&differences),
        p90_difference: quantile(&differences, 90),
        within_5: within(5),
        within_15: within(15),
    }
}

/// Returns the fraction of counted pairs with an order in both that have the same order; 1 where
/// there are none.
fn same_order(one: &[i64], other: &[i64], counts: impl Fn(usize, usize) -> bool) -> f64 {
    let mut same = 0u32;
    let mut all = 0u32;
    for late in 0..one.len() {
        for early in 0..late {
            let first = one[late].cmp(&one[early]);
            let second = other[late].cmp(&other[early]);
            if first.is_ne() && second.is_ne() && counts(late, early) {
                all += 1;
                same += u32::from(first == second);
            }
        }
    }
    if all == 0 { 1.0 } else { f64::from(same) / f64::from(all) }
}

fn mean(values: &[i64]) -> f64 {
    values.iter().sum::<i64>() as f64 / values.len() as f64
}

/// Returns a quantile by nearest rank.
fn quantile(values: &[i64], percent: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values[(values.len() * percent).div_ceil(100).max(1) - 1] as f64
}

/// Formats the cells of a row in a Markdown table.
impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { order, chosen, waits, mean_difference, p90_difference, within_5, within_15 } =
            self;
        write!(f, "{:.1} % | {:.1} % | {waits} | ", 100.0 * order, 100.0 * chosen)?;
        write!(f, "{mean_difference:.1} | {p90_difference:.0} | ")?;
        write!(f, "{:.0} % | {:.0} %", 100.0 * within_5, 100.0 * within_15)
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} | {:.0} | {:.0} | {:.0}",
            self.mean, self.median, self.p90, self.last_start
        )
    }
}

#[test]
fn a_schedule_agrees_with_itself_and_a_turned_one_with_nothing() {
    let arrivals = [0, 0, 0, 0];
    let starts = [10, 20, 30, 40];
    let same = agreement(&arrivals, &starts, &starts);
    assert_eq!(
        (same.order, same.chosen, same.mean_difference, same.within_5),
        (1.0, 1.0, 0.0, 1.0)
    );
    assert_eq!(same.waits, Waits { mean: 25.0, median: 20.0, p90: 40.0, last_start: 40.0 });
    let turned = agreement(&arrivals, &starts, &[40, 30, 20, 10]);
    assert_eq!((turned.order, turned.mean_difference, turned.p90_difference), (0.0, 20.0, 30.0));
    assert_eq!((turned.within_5, turned.within_15), (0.0, 0.5));
}

#[test]
fn who_had_started_before_another_came_was_not_chosen_from() {
    // The first two are pending together, the third arrives when both have started; its pairs are
    // in order, the first pair is not.
    let found = agreement(&[0, 0, 50], &[10, 20, 60], &[20, 10, 60]);
    assert_eq!((found.order, found.chosen), (2.0 / 3.0, 0.0));
    // Jobs that start together have no order.
    assert_eq!(agreement(&[0, 0], &[10, 10], &[20, 10]).order, 1.0);
}
