//! What a run comes to.

use std::collections::BTreeMap;

use muster_model::simulation::{Curve, FleetFigures, Hours, OwnerFigures, SizeFigures};
use muster_model::{Span, Time};

use super::desk::Desk;
use super::load::JobNo;
use super::plane::Scheduler;
use super::record::{Record, Sums};
use crate::measure::{bounded_slowdown, quantile, secs, spread};

/// Sizes that are told apart, in GPUs (or CPUs): up to each, and how it is called.
const SIZES: [(u64, &str); 6] = [
    (999, "less than 1"),
    (1000, "1"),
    (8_000, "2 to 8"),
    (64_000, "9 to 64"),
    (512_000, "65 to 512"),
    (u64::MAX, "more than 512"),
];
/// How the size of a job is called among [`SizeFigures`].
#[must_use]
pub fn size_name(width_milli: u64) -> &'static str {
    SIZES[size(width_milli)].1
}

fn size(width_milli: u64) -> usize {
    SIZES.iter().position(|(most, _)| width_milli <= *most).unwrap_or(0)
}

/// Users that are listed.
const MOST_USERS: usize = 50;

/// The figures of a run as far as it has come. Jobs that have not ended count until now; jobs that
/// were refused count nowhere.
#[must_use]
pub fn figures(scheduler: Scheduler, desk: &Desk, is_partial: bool) -> FleetFigures {
    let jobs = || (0..desk.jobs().len() as u32).map(JobNo);
    let refused = |job: &JobNo| desk.fate(*job).is_refused;
    let counted = || jobs().filter(|job| !refused(job));
    let left = || counted().filter(|job| !desk.has_ended(*job));
    let holding = || left().filter(|job| desk.placed(*job) > 0 && !desk.runs(*job));
    let users = owners(desk, |job| desk.job(job).user.as_str());
    let queues = owners(desk, |job| desk.job(job).queue.as_str());
    let last = jobs().filter_map(|job| desk.fate(job).ended).max().unwrap_or_default();
    let first = desk.record().first.unwrap_or_default();
    let held = |job: JobNo| desk.width_milli(job) as f64 / 1000.0 * share_placed(desk, job);
    FleetFigures {
        scheduler: scheduler.name().to_owned(),
        is_engine: scheduler == Scheduler::Muster,
        is_partial,
        arrived: desk.jobs().len() as u64,
        ended: jobs().filter(|job| desk.has_ended(*job)).count() as u64,
        refused: jobs().filter(refused).count() as u64,
        left: left().count() as u64,
        left_holding: holding().count() as u64,
        left_held: holding().map(held).sum(),
        turnaround_secs: spread(counted().map(|job| secs(desk.turnaround(job)))),
        waited_secs: spread(counted().map(|job| secs(desk.waited(job)))),
        first_start_secs: spread(counted().map(|job| secs(first_start(desk, job)))),
        bounded_slowdown: spread(
            counted().map(|job| bounded_slowdown(desk.turnaround(job), desk.job(job).runtime)),
        ),
        horizon_secs: secs(desk.now().since(first)),
        makespan_secs: secs(last.since(first)),
        hours: hours(desk.record(), desk.size_milli()),
        evictions: desk.record().evictions,
        breakdowns: desk.record().breakdowns,
        node_spread: node_spread(desk),
        domain_spread: desk.domains().spreads(desk),
        user_fairness: jain(users.iter().map(|user| user.stretch)),
        queue_fairness: jain(queues.iter().map(|queue| queue.stretch)),
        sizes: sizes(desk),
        users: most(users),
        queues,
        curve: curve(desk.record(), desk.size_milli()),
        intervals: Vec::new(),
    }
}

/// From a job's submission to its first start, or until now.
fn first_start(desk: &Desk, job: JobNo) -> Span {
    desk.fate(job).began.unwrap_or(desk.now()).since(desk.job(job).submit)
}

fn share_placed(desk: &Desk, job: JobNo) -> f64 {
    f64::from(desk.placed(job)) / f64::from(desk.job(job).tasks)
}

/// Thousandths × milliseconds as hours.
fn in_hours(milli_millis: u128) -> f64 {
    milli_millis as f64 / 3.6e9
}

fn hours(record: &Record, size: u64) -> Hours {
    let Sums { running, held, down, stranded, millis, .. } = record.total;
    Hours {
        all: in_hours(u128::from(size) * millis),
        ran: in_hours(running),
        lost: in_hours(record.lost),
        held_idle: in_hours(held - running),
        stranded: in_hours(stranded),
        down: in_hours(down),
    }
}

fn node_spread(desk: &Desk) -> f64 {
    let jobs = (0..desk.jobs().len() as u32).map(JobNo);
    let wide = jobs.filter(|job| desk.job(*job).tasks > 1 && desk.fate(*job).began.is_some());
    let ratios = wide.map(|job| {
        let fate = desk.fate(job);
        f64::from(fate.nodes) / f64::from(desk.job(job).fewest_nodes.max(1))
    });
    let (sum, count) = ratios.fold((0.0, 0u32), |(sum, count), ratio| (sum + ratio, count + 1));
    if count == 0 { 1.0 } else { sum / f64::from(count) }
}

/// (Σx)² ÷ nΣx².
fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for value in values.filter(|value| *value > 0.0) {
        sum += value;
        squares += value * value;
        count += 1.0;
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

fn sizes(desk: &Desk) -> Vec<SizeFigures> {
    let mut waits: [Vec<f64>; SIZES.len()] = Default::default();
    let mut turnarounds: [Vec<f64>; SIZES.len()] = Default::default();
    for job in (0..desk.jobs().len() as u32).map(JobNo).filter(|job| !desk.fate(*job).is_refused) {
        let size = size(desk.width_milli(job));
        waits[size].push(secs(desk.waited(job)));
        turnarounds[size].push(secs(desk.turnaround(job)));
    }
    let named = SIZES
        .iter()
        .zip(waits.into_iter().zip(turnarounds))
        .filter(|(_, (waits, _))| !waits.is_empty());
    named
        .map(|((_, size), (mut waits, turnarounds))| {
            let waited_secs = spread(waits.iter().copied());
            waits.sort_unstable_by(f64::total_cmp);
            SizeFigures {
                size: (*size).to_owned(),
                jobs: waits.len() as u64,
                turnaround_secs: spread(turnarounds.into_iter()),
                waited_secs,
                waited_quantiles: (0..=100).map(|percent| quantile(&waits, percent)).collect(),
            }
        })
        .collect()
}

/// Sums of one owner: jobs, what they waited, work of those that ended, and work and work × time of
/// all that were taken.
#[derive(Default)]
struct Owned {
    jobs: u64,
    counted: u64,
    waited: u128,
    turnaround: u128,
    ran: u128,
    work: u128,
    there: u128,
}

fn owners<'d>(desk: &'d Desk, owner: impl Fn(JobNo) -> &'d str) -> Vec<OwnerFigures> {
    let mut sums: BTreeMap<&str, Owned> = BTreeMap::new();
    for job in (0..desk.jobs().len() as u32).map(JobNo) {
        let sum = sums.entry(owner(job)).or_default();
        sum.jobs += 1;
        if desk.fate(job).is_refused {
            continue;
        }
        sum.counted += 1;
        sum.waited += u128::from(desk.waited(job).0);
        sum.turnaround += u128::from(desk.turnaround(job).0);
        let width = u128::from(desk.width_milli(job));
        let work = width * u128::from(desk.job(job).runtime.0);
        sum.work += work;
        sum.there += width * u128::from(desk.turnaround(job).0);
        sum.ran += if desk.has_ended(job) { work } else { 0 };
    }
    let figures = sums.into_iter().map(|(name, sum)| {
        let mean = |millis: u128| millis as f64 / 1000.0 / sum.counted.max(1) as f64;
        OwnerFigures {
            name: name.to_owned(),
            jobs: sum.jobs,
            hours: in_hours(sum.ran),
            turnaround_secs: mean(sum.turnaround),
            waited_secs: mean(sum.waited),
            stretch: if sum.work == 0 { 0.0 } else { sum.there as f64 / sum.work as f64 },
        }
    });
    figures.collect()
}

fn most(mut users: Vec<OwnerFigures>) -> Vec<OwnerFigures> {
    users.sort_by(|one, other| other.hours.total_cmp(&one.hours));
    users.truncate(MOST_USERS);
    users
}

fn curve(record: &Record, size: u64) -> Curve {
    let share = |of: fn(&Sums) -> u128| {
        let there = |sums: &Sums| (size.max(1) as f64) * (sums.millis.max(1) as f64);
        record.curve.iter().map(|sums| of(sums) as f64 / there(sums)).collect()
    };
    Curve {
        start_secs: secs(record.first.unwrap_or_default().since(Time(0))),
        width_secs: secs(record.width),
        running: share(|sums| sums.running),
        held: share(|sums| sums.held),
        waiting: record
            .curve
            .iter()
            .map(|sums| sums.waiting as f64 / sums.millis.max(1) as f64)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_for_equals_and_one_over_n_for_one_of_many() {
        assert!((jain([3.0, 3.0, 3.0].into_iter()) - 1.0).abs() < 1e-12);
        assert!((jain([1.0, 3.0].into_iter()) - 0.8).abs() < 1e-12);
        assert!((jain(std::iter::empty()) - 1.0).abs() < 1e-12);
    }
}
