//! Figures of a fleet run.

use std::collections::BTreeMap;

use muster_model::simulation::{FleetCurve, FleetFigures, FleetHours, OwnerFigures, SizeFigures};
use muster_model::{Span, Time};

use super::cluster::ClusterState;
use super::load::JobNo;
use super::record::{FleetRecord, UsageSums};
use super::scheduler::SchedulerKind;
use crate::measure::{bounded_slowdown, quantile, secs, spread};

/// Size classes of jobs in thousandths of GPUs (or CPUs): upper bound and name.
const SIZES: [(u64, &str); 6] = [
    (999, "less than 1"),
    (1000, "1"),
    (8_000, "2 to 8"),
    (64_000, "9 to 64"),
    (512_000, "65 to 512"),
    (u64::MAX, "more than 512"),
];
/// Returns the name of a job's size class in [`SizeFigures`].
#[must_use]
pub fn size_name(width_milli: u64) -> &'static str {
    SIZES[size(width_milli)].1
}

/// Returns the names of all size classes, ascending.
pub(super) fn size_names() -> impl Iterator<Item = &'static str> {
    SIZES.iter().map(|(_, name)| *name)
}

fn size(width_milli: u64) -> usize {
    SIZES.iter().position(|(most, _)| width_milli <= *most).unwrap_or(0)
}

/// Number of users that are listed.
const MOST_USERS: usize = 50;

/// Returns the figures of a run so far. Unfinished jobs count until now; rejected jobs are not
/// counted.
#[must_use]
pub fn figures(scheduler: SchedulerKind, cluster: &ClusterState, is_partial: bool) -> FleetFigures {
    let jobs = || (0..cluster.jobs().len() as u32).map(JobNo);
    let refused = |job: &JobNo| cluster.status(*job).is_refused;
    let counted = || jobs().filter(|job| !refused(job));
    let left = || counted().filter(|job| !cluster.has_ended(*job));
    let holding = || left().filter(|job| cluster.placed(*job) > 0 && !cluster.runs(*job));
    let users = owners(cluster, |job| cluster.job(job).user.as_str());
    let queues = owners(cluster, |job| cluster.job(job).queue.as_str());
    let last = jobs().filter_map(|job| cluster.status(job).ended).max().unwrap_or_default();
    let first = cluster.record().first.unwrap_or_default();
    let held = |job: JobNo| cluster.width_milli(job) as f64 / 1000.0 * share_placed(cluster, job);
    FleetFigures {
        scheduler: scheduler.name().to_owned(),
        variant: String::new(),
        is_engine: scheduler == SchedulerKind::Muster,
        model_of: scheduler.model_of().map(str::to_owned),
        is_partial,
        arrived: cluster.jobs().len() as u64,
        ended: jobs().filter(|job| cluster.has_ended(*job)).count() as u64,
        refused: jobs().filter(refused).count() as u64,
        left: left().count() as u64,
        left_holding: holding().count() as u64,
        left_held: holding().map(held).sum(),
        left_why: None,
        turnaround_secs: spread(counted().map(|job| secs(cluster.turnaround(job)))),
        waited_secs: spread(counted().map(|job| secs(cluster.waited(job)))),
        first_start_secs: spread(counted().map(|job| secs(first_start(cluster, job)))),
        bounded_slowdown: spread(
            counted()
                .map(|job| bounded_slowdown(cluster.turnaround(job), cluster.job(job).runtime)),
        ),
        horizon_secs: secs(cluster.now().since(first)),
        makespan_secs: secs(last.since(first)),
        hours: hours(cluster.record(), cluster.size_milli()),
        evictions: cluster.record().evictions,
        breakdowns: cluster.record().breakdowns,
        node_spread: node_spread(cluster),
        domain_spread: cluster.domain_spreads(),
        user_fairness: jain(users.iter().map(|user| user.stretch)),
        queue_fairness: jain(queues.iter().map(|queue| queue.stretch)),
        sizes: sizes(cluster),
        users: most(users),
        queues,
        curve: curve(cluster.record(), cluster.size_milli()),
        intervals: Vec::new(),
    }
}

/// Returns the time from a job's submission to its first start, or until now.
fn first_start(cluster: &ClusterState, job: JobNo) -> Span {
    cluster.status(job).began.unwrap_or(cluster.now()).since(cluster.job(job).submit)
}

fn share_placed(cluster: &ClusterState, job: JobNo) -> f64 {
    f64::from(cluster.placed(job)) / f64::from(cluster.job(job).tasks)
}

/// Converts thousandths × milliseconds to hours.
fn in_hours(milli_millis: u128) -> f64 {
    milli_millis as f64 / 3.6e9
}

fn hours(record: &FleetRecord, size: u64) -> FleetHours {
    let UsageSums { running, held, down, stranded, millis, .. } = record.total;
    FleetHours {
        all: in_hours(u128::from(size) * millis),
        ran: in_hours(running),
        lost: in_hours(record.lost),
        held_idle: in_hours(held - running),
        stranded: in_hours(stranded),
        down: in_hours(down),
    }
}

fn node_spread(cluster: &ClusterState) -> f64 {
    let jobs = (0..cluster.jobs().len() as u32).map(JobNo);
    let wide =
        jobs.filter(|job| cluster.job(*job).tasks > 1 && cluster.status(*job).began.is_some());
    let ratios = wide.map(|job| {
        let status = cluster.status(job);
        f64::from(status.nodes) / f64::from(cluster.job(job).fewest_nodes.max(1))
    });
    let (sum, count) = ratios.fold((0.0, 0u32), |(sum, count), ratio| (sum + ratio, count + 1));
    if count == 0 { 1.0 } else { sum / f64::from(count) }
}

/// Jain's fairness index, (Σx)² ÷ nΣx².
fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let mut sum = 0.0;
    let mut squares = 0.0;
    let mut count = 0.0;
    for value in values.filter(|value| *value > 0.0) {
        sum += value;
        squares += value * value;
        count += 1.0;
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

fn sizes(cluster: &ClusterState) -> Vec<SizeFigures> {
    let mut waits: [Vec<f64>; SIZES.len()] = Default::default();
    let mut turnarounds: [Vec<f64>; SIZES.len()] = Default::default();
    for job in
        (0..cluster.jobs().len() as u32).map(JobNo).filter(|job| !cluster.status(*job).is_refused)
    {
        let size = size(cluster.width_milli(job));
        waits[size].push(secs(cluster.waited(job)));
        turnarounds[size].push(secs(cluster.turnaround(job)));
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

/// Sums of one owner: jobs, waiting time, work of ended jobs, and work and work × time of all
/// accepted jobs.
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

fn owners<'d>(cluster: &'d ClusterState, owner: impl Fn(JobNo) -> &'d str) -> Vec<OwnerFigures> {
    let mut sums: BTreeMap<&str, Owned> = BTreeMap::new();
    for job in (0..cluster.jobs().len() as u32).map(JobNo) {
        let sum = sums.entry(owner(job)).or_default();
        sum.jobs += 1;
        if cluster.status(job).is_refused {
            continue;
        }
        sum.counted += 1;
        sum.waited += u128::from(cluster.waited(job).0);
        sum.turnaround += u128::from(cluster.turnaround(job).0);
        let width = u128::from(cluster.width_milli(job));
        let work = width * u128::from(cluster.job(job).runtime.0);
        sum.work += work;
        sum.there += width * u128::from(cluster.turnaround(job).0);
        sum.ran += if cluster.has_ended(job) { work } else { 0 };
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

fn curve(record: &FleetRecord, size: u64) -> FleetCurve {
    let share = |of: fn(&UsageSums) -> u128| {
        let there = |sums: &UsageSums| (size.max(1) as f64) * (sums.millis.max(1) as f64);
        record.curve.iter().map(|sums| of(sums) as f64 / there(sums)).collect()
    };
    FleetCurve {
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
