//! One run as a row beside the advice, the rows of several seeds as one, and what all rows together
//! say of it.

use muster_model::advice::{PROVED, ProofSays, ProofVerdict, ProvedPlane, ProvedRole};
use muster_model::simulation::{Figure, FleetFigures, Hours};
use muster_model::{Span, Time};

use super::planes::Contender;
use crate::fleet::{FleetJob, Site, interval};

/// Turnarounds that differ by less than this part of the longer wait, or by less than so many
/// seconds, do not differ clearly, however well they are known: too little to choose by.
const WAIT_PART: f64 = 1.0 / 3.0;
const WAIT_SECS: f64 = 600.0;
/// Nor do GPU-hours that were idle or lost that differ by less than this part of all GPU-hours.
const IDLE_PART: f64 = 0.02;

/// From when until when use is counted, the same for whoever decides: from the first arrival to the
/// last and for the days on which jobs are submitted, or until the GPUs could have done all the
/// work where that is later. After that even the best of planes has idle GPUs, since there is
/// nothing left to do.
#[must_use]
pub fn counted(jobs: &[FleetJob], site: &Site, days: u32) -> (Time, Time) {
    let (Some(first), Some(last)) = (jobs.first(), jobs.last()) else { return (Time(0), Time(0)) };
    let least = work(jobs).div_ceil(u128::from(site.size_milli().max(1)));
    let least = Span(u64::try_from(least).unwrap_or(u64::MAX));
    let least = least.max(Span::from_secs(u64::from(days) * 86_400));
    (first.submit, last.submit.max(first.submit + least))
}

/// GPU-hours that jobs ask for.
#[must_use]
pub fn gpu_hours(jobs: &[FleetJob]) -> f64 {
    work(jobs) as f64 / 3.6e9
}

/// In thousandths of GPUs × milliseconds.
fn work(jobs: &[FleetJob]) -> u128 {
    jobs.iter().map(|job| u128::from(job.width_milli(true)) * u128::from(job.runtime.0)).sum()
}

/// A run as a row: how long jobs waited until all had ended, where the hours went in the time that
/// is counted, and what those cost in which no job ran. `largest` is the class of the largest jobs.
#[must_use]
pub fn row(
    contender: &Contender,
    hours: &Hours,
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

/// The rows of one control plane with several seeds as one: the first, with the means of all. There
/// is one at least. Runs that were interrupted say nothing beside others that ended.
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

/// What the rows say of the advice. Muster's own engine has no say: no advice could have named it.
#[must_use]
pub fn verdict(planes: &[ProvedPlane], gpu_hours: f64) -> ProofVerdict {
    let silent = |says| ProofVerdict { says, better: Vec::new(), worse: Vec::new() };
    if planes.iter().any(|plane| plane.is_partial) {
        return silent(ProofSays::Interrupted);
    }
    let Some(advised) = planes.iter().find(|plane| plane.role == ProvedRole::Advised) else {
        return silent(ProofSays::Neither);
    };
    let others = || {
        planes.iter().filter(|plane| matches!(plane.role, ProvedRole::RunnerUp | ProvedRole::Other))
    };
    let names = |is: &dyn Fn(&ProvedPlane) -> bool| {
        others().filter(|plane| is(plane)).map(|plane| plane.scheduler.clone()).collect::<Vec<_>>()
    };
    let better = names(&|plane| is_better(plane, advised, gpu_hours));
    let worse = names(&|plane| is_better(advised, plane, gpu_hours));
    let says = match (better.is_empty(), worse.is_empty()) {
        (false, _) => ProofSays::Contradicts,
        (true, false) => ProofSays::Supports,
        (true, true) => ProofSays::Neither,
    };
    ProofVerdict { says, better, worse }
}

/// One does clearly better than another: it ends or takes jobs that the other never does; or it is
/// clearly ahead in turnaround or in GPU-hours that were idle or lost, and not clearly behind in
/// the other. What may as well be equal as far as the seeds tell is no difference.
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
    fn use_is_counted_while_work_comes_and_as_long_as_there_must_be_some() {
        let profile = SiteProfile {
            facts: Facts::default().with(Fact::FleetNodes, 2).with(Fact::FleetGpus, 8),
            ..SiteProfile::default()
        };
        let nodes = machines::nodes(&profile, &mut Vec::new()).unwrap();
        let site = Site { nodes, levels: Vec::new(), tree: QueueTree::single() };
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
    fn figures_speak_for_or_against_only_where_they_differ_clearly() {
        let check = |wait, idle, left, says, better: bool, worse: bool| {
            let planes = [
                plane("slurm", ProvedRole::Advised, 3600.0, 100.0, 0),
                plane("kai", ProvedRole::RunnerUp, wait, idle, left),
                plane("muster", ProvedRole::Muster, 0.0, 0.0, 0),
            ];
            let found = verdict(&planes, 1000.0);
            let expected = (says, better, worse);
            assert_eq!(
                (found.says, !found.better.is_empty(), !found.worse.is_empty()),
                expected,
                "{wait}, {idle}"
            );
        };
        check(3600.0, 100.0, 0, ProofSays::Neither, false, false);
        check(3000.0, 100.0, 0, ProofSays::Neither, false, false);
        check(1800.0, 100.0, 0, ProofSays::Contradicts, true, false);
        check(1800.0, 130.0, 0, ProofSays::Neither, false, false);
        check(3600.0, 70.0, 0, ProofSays::Contradicts, true, false);
        check(7200.0, 100.0, 0, ProofSays::Supports, false, true);
        check(3600.0, 130.0, 0, ProofSays::Supports, false, true);
        // Who never ends what others end is worse, however short the waits of the rest.
        check(60.0, 100.0, 1, ProofSays::Supports, false, true);
    }

    #[test]
    fn short_waits_do_not_differ_clearly_and_interrupted_runs_say_nothing() {
        let advised = plane("slurm", ProvedRole::Advised, 200.0, 100.0, 0);
        let other = plane("ray", ProvedRole::Other, 10.0, 100.0, 0);
        assert_eq!(verdict(&[advised.clone(), other.clone()], 1000.0).says, ProofSays::Neither);
        let cut = ProvedPlane { is_partial: true, idle_gpu_hours: 0.0, ..other };
        assert_eq!(verdict(&[advised, cut], 1000.0).says, ProofSays::Interrupted);
    }

    #[test]
    fn what_turns_with_the_seed_is_no_clear_difference_over_several() {
        let advised =
            [3600.0, 600.0, 5400.0].map(|wait| plane("slurm", ProvedRole::Advised, wait, 100.0, 0));
        let other =
            [1200.0, 4800.0, 1500.0].map(|wait| plane("kai", ProvedRole::Other, wait, 100.0, 0));
        let singly = advised
            .iter()
            .zip(&other)
            .map(|(advised, other)| verdict(&[advised.clone(), other.clone()], 1000.0).says);
        let turns = [ProofSays::Contradicts, ProofSays::Supports, ProofSays::Contradicts];
        assert_eq!(singly.collect::<Vec<_>>(), turns);
        let both = |other: &[ProvedPlane]| {
            verdict(&[over_seeds(&advised), over_seeds(other)], 1000.0).says
        };
        assert_eq!(both(&other), ProofSays::Neither);
        // What lies beyond the margins of both is one.
        let idle =
            [201.0, 199.0, 200.0].map(|idle| plane("kai", ProvedRole::Other, 3200.0, idle, 0));
        assert_eq!(both(&idle), ProofSays::Supports);
        // Jobs that one seed leaves may be left by the other plane with another.
        let left = [0, 0, 3].map(|left| plane("kai", ProvedRole::Other, 3200.0, 100.0, left));
        assert_eq!(both(&left), ProofSays::Neither);
        let left = [40, 41, 42].map(|left| plane("kai", ProvedRole::Other, 3200.0, 100.0, left));
        assert_eq!(both(&left), ProofSays::Supports);
    }

    #[test]
    fn a_row_of_several_seeds_is_made_of_those_that_ended_and_of_what_all_have() {
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
