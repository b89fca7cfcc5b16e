//! A run as a row, the rows of several seeds as one row, and the comparison of all rows with the
//! advice.

use muster_model::advice::{PROVED, ProofConclusion, ProofVerdict, ProvedPlane, ProvedRole};
use muster_model::simulation::{Figure, FleetFigures, FleetHours};
use muster_model::{Span, Time};

use super::candidates::Candidate;
use crate::fleet::{FleetJob, FleetSite, interval};

/// Least difference of turnarounds that counts as clear: this part of the longer wait and this many
/// seconds, however narrow the intervals.
const WAIT_PART: f64 = 1.0 / 3.0;
const WAIT_SECS: f64 = 600.0;
/// Least difference of idle or lost GPU-hours that counts as clear, as a part of all GPU-hours.
const IDLE_PART: f64 = 0.02;

/// Returns the period in which use is counted, the same for every scheduler: from the first arrival
/// to the last and for the days of submission, or until the GPUs could have done all the work if
/// that is later. After that even the best scheduler has idle GPUs, since no work is left.
#[must_use]
pub fn counted(jobs: &[FleetJob], site: &FleetSite, days: u32) -> (Time, Time) {
    let (Some(first), Some(last)) = (jobs.first(), jobs.last()) else { return (Time(0), Time(0)) };
    let least = work(jobs).div_ceil(u128::from(site.size_milli().max(1)));
    let least = Span(u64::try_from(least).unwrap_or(u64::MAX));
    let least = least.max(Span::from_secs(u64::from(days) * 86_400));
    (first.submit, last.submit.max(first.submit + least))
}

/// Returns the GPU-hours that jobs request.
#[must_use]
pub fn gpu_hours(jobs: &[FleetJob]) -> f64 {
    work(jobs) as f64 / 3.6e9
}

/// Returns the requested work in thousandths of GPUs × milliseconds.
fn work(jobs: &[FleetJob]) -> u128 {
    jobs.iter().map(|job| u128::from(job.width_milli(true)) * u128::from(job.runtime.0)).sum()
}

/// Returns a run as a row: how long jobs waited until all had ended, where the hours went in the
/// counted period, and the cost of hours in which no job ran. `largest` is the class of the largest
/// jobs.
#[must_use]
pub fn row(
    contender: &Candidate,
    hours: &FleetHours,
    end: &FleetFigures,
    largest: &str,
    price: Option<f64>,
) -> ProvedPlane {
    let idle = (hours.all - hours.ran).max(0.0);
    let of_largest = end.sizes.iter().find(|size| size.size == largest);
    ProvedPlane {
        name: contender.name.clone(),
        role: contender.role,
        change: contender.change.clone(),
        scheduler: end.scheduler.clone(),
        without_model: contender.without_model.clone(),
        is_partial: end.is_partial,
        ended: end.ended,
        refused: end.refused,
        left: end.left,
        turnaround_secs: end.turnaround_secs,
        waited_secs: end.waited_secs,
        largest_waited_secs: of_largest.map(|size| size.waited_secs.mean),
        gpu_use_percent: if hours.all > 0.0 { hours.ran / hours.all * 100.0 } else { 0.0 },
        idle_gpu_hours: idle,
        held_idle_gpu_hours: hours.held_idle,
        stranded_gpu_hours: hours.stranded,
        lost_gpu_hours: hours.lost,
        idle_cost: price.map(|price| idle * price),
        intervals: Vec::new(),
    }
}

/// Returns the rows of one scheduler with several seeds as one: the first, with the means of all.
/// There is at least one. Interrupted runs are ignored if others ended.
#[must_use]
pub fn over_seeds(rows: &[ProvedPlane]) -> ProvedPlane {
    let whole: Vec<&ProvedPlane> = rows.iter().filter(|row| !row.is_partial).collect();
    let mut first = whole.first().copied().unwrap_or(&rows[0]).clone();
    first.is_partial = whole.len() < rows.len();
    if whole.len() > 1 {
        let known = |(name, of): &(&str, fn(&ProvedPlane) -> Option<f64>)| {
            let values: Option<Vec<f64>> = whole.iter().map(|row| of(row)).collect();
            values.map(|values| interval(name, values.into_iter()))
        };
        first.intervals = PROVED.iter().filter_map(known).collect();
    }
    first
}

/// Compares the rows with the advice. The row of Muster's own engine is ignored,
/// since it is not one of the control planes that can be advised.
#[must_use]
pub fn verdict(planes: &[ProvedPlane], gpu_hours: f64) -> ProofVerdict {
    let silent = |says| ProofVerdict { conclusion: says, better: Vec::new(), worse: Vec::new() };
    if planes.iter().any(|plane| plane.is_partial) {
        return silent(ProofConclusion::Interrupted);
    }
    let Some(advice_proof) = planes.iter().find(|plane| plane.role == ProvedRole::Advised) else {
        return silent(ProofConclusion::Neither);
    };
    let others = || {
        planes.iter().filter(|plane| matches!(plane.role, ProvedRole::RunnerUp | ProvedRole::Other))
    };
    let names = |is: &dyn Fn(&ProvedPlane) -> bool| {
        others().filter(|plane| is(plane)).map(|plane| plane.scheduler.clone()).collect::<Vec<_>>()
    };
    let better = names(&|plane| is_better(plane, advice_proof, gpu_hours));
    let worse = names(&|plane| is_better(advice_proof, plane, gpu_hours));
    let says = match (better.is_empty(), worse.is_empty()) {
        (false, _) => ProofConclusion::Contradicts,
        (true, false) => ProofConclusion::Supports,
        (true, true) => ProofConclusion::Neither,
    };
    ProofVerdict { conclusion: says, better, worse }
}

/// Returns whether one row is clearly better: it ends or accepts jobs that the other never does; or
/// it is clearly ahead in turnaround or in idle or lost GPU-hours, and not clearly behind in the
/// other. Values whose intervals overlap do not differ.
fn is_better(one: &ProvedPlane, other: &ProvedPlane, gpu_hours: f64) -> bool {
    let is_less = |name: &str,
                   less: &ProvedPlane,
                   more: &ProvedPlane,
                   by: &dyn Fn(Figure, Figure) -> bool| {
        let known = less.figure(name).zip(more.figure(name));
        known.is_some_and(|(less, more)| {
            less.value < more.value && !less.may_equal(more) && by(less, more)
        })
    };
    let does_more =
        |one: &ProvedPlane, other: &ProvedPlane| is_less("undone", one, other, &|_, _| true);
    if does_more(one, other) || does_more(other, one) {
        return does_more(one, other);
    }
    let ends_sooner = |one: &ProvedPlane, other: &ProvedPlane| {
        let waited = other.figure("waited_secs.mean").map_or(0.0, |figure| figure.value);
        is_less("turnaround_secs.mean", one, other, &|less, more| {
            more.value - less.value >= WAIT_SECS.max(waited * WAIT_PART)
        })
    };
    let idles_less = |one: &ProvedPlane, other: &ProvedPlane| {
        is_less("unused_gpu_hours", one, other, &|less, more| {
            more.value - less.value >= gpu_hours * IDLE_PART
        })
    };
    (ends_sooner(one, other) && !idles_less(other, one))
        || (idles_less(one, other) && !ends_sooner(other, one))
}

#[cfg(test)]
mod tests {
    use muster_model::QueueTree;
    use muster_model::advice::{Fact, Facts, SiteProfile};
    use muster_model::job::{GpuRequest, Resources};
    use muster_model::simulation::Spread;

    use super::super::machines;
    use super::*;

    #[test]
    fn use_is_counted_from_first_arrival_to_the_least_possible_end() {
        let profile = SiteProfile {
            facts: Facts::default().with(Fact::FleetNodes, 2).with(Fact::FleetGpus, 8),
            ..SiteProfile::default()
        };
        let nodes = machines::nodes(&profile, &mut Vec::new()).unwrap();
        let site = FleetSite { nodes, levels: Vec::new(), tree: QueueTree::single() };
        let job = |submit: u64, hours: u64| FleetJob {
            id: "a".into(),
            submit: Time(submit * 3_600_000),
            runtime: Span::from_secs(hours * 3600),
            estimate: None,
            tasks: 2,
            task: Resources { gpu: GpuRequest::whole(2), ..Resources::default() }.into(),
            asked_milli: 2000,
            user: "u".into(),
            queue: "default".into(),
            priority: 0,
            fewest_nodes: 1,
            recorded_start: None,
            predicted_by: None,
        };
        let check = |jobs: &[FleetJob], days, hours: (u64, u64)| {
            let (from, until) = counted(jobs, &site, days);
            assert_eq!((from.0, until.0), (hours.0 * 3_600_000, hours.1 * 3_600_000), "{days}");
        };
        check(&[job(3, 1), job(7, 1)], 0, (3, 7));
        // Four of eight GPUs for 20 hours are 10 hours of all.
        check(&[job(3, 1), job(4, 19)], 0, (3, 13));
        check(&[job(0, 1), job(23, 1)], 1, (0, 24));
        assert!((gpu_hours(&[job(0, 1), job(1, 2)]) - 12.0).abs() < 1e-9);
    }

    fn plane(scheduler: &str, role: ProvedRole, wait: f64, idle: f64, left: u64) -> ProvedPlane {
        ProvedPlane {
            name: scheduler.to_owned(),
            role,
            change: None,
            scheduler: scheduler.to_owned(),
            without_model: Vec::new(),
            is_partial: false,
            ended: 10,
            refused: 0,
            left,
            turnaround_secs: Spread { mean: wait + 60.0, ..Spread::default() },
            waited_secs: Spread { mean: wait, ..Spread::default() },
            largest_waited_secs: None,
            gpu_use_percent: 0.0,
            idle_gpu_hours: idle,
            held_idle_gpu_hours: 0.0,
            stranded_gpu_hours: 0.0,
            lost_gpu_hours: 0.0,
            idle_cost: None,
            intervals: Vec::new(),
        }
    }

    #[test]
    fn figures_decide_only_where_they_differ_significantly() {
        let check = |wait, idle, left, says, better: bool, worse: bool| {
            let planes = [
                plane("slurm", ProvedRole::Advised, 3600.0, 100.0, 0),
                plane("kai", ProvedRole::RunnerUp, wait, idle, left),
                plane("muster", ProvedRole::Muster, 0.0, 0.0, 0),
            ];
            let found = verdict(&planes, 1000.0);
            let expected = (says, better, worse);
            assert_eq!(
                (found.conclusion, !found.better.is_empty(), !found.worse.is_empty()),
                expected,
                "{wait}, {idle}"
            );
        };
        check(3600.0, 100.0, 0, ProofConclusion::Neither, false, false);
        check(3000.0, 100.0, 0, ProofConclusion::Neither, false, false);
        check(1800.0, 100.0, 0, ProofConclusion::Contradicts, true, false);
        check(1800.0, 130.0, 0, ProofConclusion::Neither, false, false);
        check(3600.0, 70.0, 0, ProofConclusion::Contradicts, true, false);
        check(7200.0, 100.0, 0, ProofConclusion::Supports, false, true);
        check(3600.0, 130.0, 0, ProofConclusion::Supports, false, true);
        // A plane that never ends some jobs is worse, however short its waits.
        check(60.0, 100.0, 1, ProofConclusion::Supports, false, true);
    }

    #[test]
    fn short_waits_and_interrupted_runs_decide_nothing() {
        let advice_proof = plane("slurm", ProvedRole::Advised, 200.0, 100.0, 0);
        let other = plane("ray", ProvedRole::Other, 10.0, 100.0, 0);
        assert_eq!(
            verdict(&[advice_proof.clone(), other.clone()], 1000.0).conclusion,
            ProofConclusion::Neither
        );
        let cut = ProvedPlane { is_partial: true, idle_gpu_hours: 0.0, ..other };
        assert_eq!(verdict(&[advice_proof, cut], 1000.0).conclusion, ProofConclusion::Interrupted);
    }

    #[test]
    fn differences_within_the_variation_of_seeds_are_not_significant() {
        let advice_proof =
            [3600.0, 600.0, 5400.0].map(|wait| plane("slurm", ProvedRole::Advised, wait, 100.0, 0));
        let other =
            [1200.0, 4800.0, 1500.0].map(|wait| plane("kai", ProvedRole::Other, wait, 100.0, 0));
        let singly = advice_proof.iter().zip(&other).map(|(advice_proof, other)| {
            verdict(&[advice_proof.clone(), other.clone()], 1000.0).conclusion
        });
        let turns =
            [ProofConclusion::Contradicts, ProofConclusion::Supports, ProofConclusion::Contradicts];
        assert_eq!(singly.collect::<Vec<_>>(), turns);
        let both = |other: &[ProvedPlane]| {
            verdict(&[over_seeds(&advice_proof), over_seeds(other)], 1000.0).conclusion
        };
        assert_eq!(both(&other), ProofConclusion::Neither);
        // A difference beyond the margins of both is clear.
        let idle =
            [201.0, 199.0, 200.0].map(|idle| plane("kai", ProvedRole::Other, 3200.0, idle, 0));
        assert_eq!(both(&idle), ProofConclusion::Supports);
        // The other plane may leave jobs with other seeds.
        let left = [0, 0, 3].map(|left| plane("kai", ProvedRole::Other, 3200.0, 100.0, left));
        assert_eq!(both(&left), ProofConclusion::Neither);
        let left = [40, 41, 42].map(|left| plane("kai", ProvedRole::Other, 3200.0, 100.0, left));
        assert_eq!(both(&left), ProofConclusion::Supports);
    }

    #[test]
    fn a_row_over_seeds_combines_the_completed_runs() {
        let of = |wait, largest| ProvedPlane {
            largest_waited_secs: largest,
            ..plane("kai", ProvedRole::Other, wait, wait / 10.0, 0)
        };
        let cut = ProvedPlane { is_partial: true, ..of(1e9, None) };
        let row = over_seeds(&[of(100.0, Some(5.0)), of(200.0, None), cut.clone()]);
        let figure = |name| row.figure(name).map(|figure| figure.value);
        assert!(row.is_partial && row.waited_secs.mean == 100.0, "{row:?}");
        assert_eq!(
            (figure("waited_secs.mean"), figure("idle_gpu_hours")),
            (Some(150.0), Some(15.0))
        );
        assert_eq!((figure("largest_waited_secs"), figure("idle_cost")), (None, None));
        let nothing = over_seeds(&[cut.clone(), cut.clone()]);
        assert_eq!(nothing, cut);
    }
}
