//! A queue takes back what it lent: everything is full, and others hold it.

use std::sync::Arc;

use muster_model::{Decision, Event, JobId, JobSpec, Plan, Target};

use super::{Goal, Meter, Row, USUAL, Unit};
use crate::mix::{Bench, Scale, gang, single};

pub fn rows() -> Vec<Row> {
    let row = |name, what, goal, unit, run| Row {
        name,
        what,
        goal: Some(Goal::AtMost(goal)),
        unit,
        scale: USUAL,
        run,
    };
    vec![
        row(
            "reclaim",
            "reclaim of one GPU, 4,000 jobs running, cluster full, p99",
            1e-3,
            Unit::Worst,
            one,
        ),
        row(
            "reclaim-gang",
            "reclaim of 4,000 GPUs for one gang of 500 nodes, cluster full",
            50e-3,
            Unit::Seconds,
            many,
        ),
        row(
            "reclaim-single",
            "reclaim of 4,000 GPUs for one gang of 4,000 tasks, cluster full",
            50e-3,
            Unit::Seconds,
            scattered,
        ),
    ]
}

fn one(scale: Scale, meter: &mut Meter) {
    take_back(scale, meter, 1, |_| Arc::new(single("owner")));
}

fn many(scale: Scale, meter: &mut Meter) {
    take_back(scale, meter, 4_000, |_| gang(500, 8, None));
}

fn scattered(scale: Scale, meter: &mut Meter) {
    take_back(scale, meter, 4_000, |_| gang(4_000, 1, None));
}

/// The lender asks; who goes is decided and judged. It is never committed: the lender gives up, and
/// asks again a moment later, when others have run longer.
fn take_back(scale: Scale, meter: &mut Meter, gpus: u64, spec: impl Fn(usize) -> Arc<JobSpec>) {
    let mut bench = Bench::lent(scale);
    while meter.goes_on() {
        bench.tick();
        let spec = spec(meter.taken.len());
        let event = bench.submission(&spec);
        let Event::Submitted { job, .. } = event else { unreachable!("a submission") };
        let plan = meter.measure(|| {
            bench.apply(&[event]);
            let plan = bench.engine.plan(bench.now);
            bench.engine.check(bench.now, &plan).expect("plans are right");
            plan
        });
        assert!(claimed(&plan, job) >= gpus, "{:?}", plan.decisions.len());
        bench.apply(&[Event::Cancel { target: Target { job, index: None }, by: "user0".into() }]);
    }
}

/// GPUs that a plan claims for a job.
fn claimed(plan: &Plan, owner: JobId) -> u64 {
    let of = |decision: &Decision| match decision {
        Decision::Claim { element, placement, evict }
            if element.job == owner && !evict.is_empty() =>
        {
            placement.iter().map(|task| u64::from(task.devices.len())).sum()
        }
        _ => 0,
    };
    plan.decisions.iter().map(of).sum()
}
