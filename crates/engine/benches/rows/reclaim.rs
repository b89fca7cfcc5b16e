//! A queue reclaims what it lent: the cluster is full, and other queues hold its quota.

use std::sync::Arc;

use muster_model::{CommandTarget, Decision, Event, JobId, JobSpec, Plan};

use super::{BenchRow, Goal, Meter, RowUnit, USUAL};
use crate::mix::{EngineBench, Scale, gang, single};

pub fn rows() -> Vec<BenchRow> {
    let row = |name, what, goal, unit, run| BenchRow {
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
            RowUnit::P99,
            one,
        ),
        row(
            "reclaim-gang",
            "reclaim of 4,000 GPUs for one gang of 500 nodes, cluster full",
            50e-3,
            RowUnit::Seconds,
            many,
        ),
        row(
            "reclaim-single",
            "reclaim of 4,000 GPUs for one gang of 4,000 tasks, cluster full",
            50e-3,
            RowUnit::Seconds,
            scattered,
        ),
    ]
}

fn one(scale: Scale, meter: &mut Meter) {
    reclaim(scale, meter, 1, |_| Arc::new(single("owner")));
}

fn many(scale: Scale, meter: &mut Meter) {
    reclaim(scale, meter, 4_000, |_| gang(500, 8, None));
}

fn scattered(scale: Scale, meter: &mut Meter) {
    reclaim(scale, meter, 4_000, |_| gang(4_000, 1, None));
}

/// Measures a submission to the lender: choice of victims and check of the plan. It is never
/// committed: the job is cancelled and submitted again a millisecond later, when the victims have
/// run longer.
fn reclaim(scale: Scale, meter: &mut Meter, gpus: u64, spec: impl Fn(usize) -> Arc<JobSpec>) {
    let mut bench = EngineBench::lent(scale);
    while meter.needs_more() {
        bench.tick();
        let spec = spec(meter.taken.len());
        let event = bench.submission(&spec);
        let Event::Submitted { job, .. } = event else { unreachable!("a submission") };
        let plan = meter.measure(|| {
            bench.apply(&[event]);
            let plan = bench.engine.plan(bench.now);
            bench.engine.check(bench.now, &plan).expect("plans pass the checker");
            plan
        });
        assert!(nominated_gpus(&plan, job) >= gpus, "{:?}", plan.decisions.len());
        bench.apply(&[Event::Cancel {
            target: CommandTarget { job, index: None },
            by: "user0".into(),
        }]);
    }
}

/// Returns the GPUs that a plan nominates for a job.
fn nominated_gpus(plan: &Plan, owner: JobId) -> u64 {
    let of = |decision: &Decision| match decision {
        Decision::Nominate { element, placement, evict }
            if element.job == owner && !evict.is_empty() =>
        {
            placement.iter().map(|task| u64::from(task.devices.len())).sum()
        }
        _ => 0,
    };
    plan.decisions.iter().map(of).sum()
}
