//! Passes over many pending jobs.

use muster_model::JobSpec;
use muster_model::job::GpuRequest;
use std::sync::Arc;

use super::{BenchRow, Goal, Meter, RowUnit, USUAL};
use crate::mix::{EngineBench, MIXES, Scale, mixes, single, singles};

pub fn rows() -> Vec<BenchRow> {
    let row = |name, what, goal, scale, run| BenchRow {
        name,
        what,
        goal: Some(Goal::AtMost(goal)),
        unit: RowUnit::Seconds,
        scale,
        run,
    };
    let many = Scale { pending: 100_000, ..USUAL };
    let queues = Scale { pending: 50_000, queues: 1_000, ..USUAL };
    let limited = Scale { running: 0, ..many };
    vec![
        row("backfill", "backfill pass, the first over 100,000 pending", 1.0, many, first),
        row("incremental", "pass after one completion, 100,000 pending", 5e-3, many, incremental),
        row("queues", "1,000 queues, 50,000 pending: the first pass", 200e-3, queues, first),
        row(
            "queues-incremental",
            "1,000 queues, 50,000 pending: after one completion",
            200e-3,
            queues,
            incremental,
        ),
        row(
            "limit-jobs",
            "100,000 pending behind a limit on running jobs",
            5e-3,
            limited,
            behind_jobs,
        ),
        row("limit-user", "100,000 pending behind GPUs per user", 5e-3, limited, behind_user),
        row("limit-quota", "100,000 pending behind a quota", 5e-3, limited, behind_quota),
    ]
}

/// Returns a half-full cluster with all pending jobs submitted.
fn crowded(scale: Scale) -> EngineBench {
    let mut bench = EngineBench::half_full(scale);
    let specs = mixes(MIXES * 8, scale.queues);
    let mut at = 0;
    let events = bench.batch(&specs, &mut at, scale.pending);
    bench.apply(&events);
    bench
}

/// Measures the pass that fills the other half; it is never committed, so that it can be repeated.
fn first(scale: Scale, meter: &mut Meter) {
    let mut bench = crowded(scale);
    while meter.needs_more() {
        let plan = meter.measure(|| {
            let plan = bench.engine.plan(bench.now);
            bench.engine.check(bench.now, &plan).expect("plans pass the checker");
            plan
        });
        assert!(plan.decisions.len() > 100 && !plan.reservations.is_empty());
    }
}

/// Measures the pass after one running job ends.
fn incremental(scale: Scale, meter: &mut Meter) {
    while meter.needs_more() {
        let mut bench = crowded(scale);
        bench.step(&[]);
        for ending in std::mem::take(&mut bench.running) {
            bench.tick();
            let exits = EngineBench::whole_life(&ending);
            meter.measure(|| bench.step(&exits));
            if !meter.needs_more() {
                return;
            }
        }
    }
}

fn behind_jobs(scale: Scale, meter: &mut Meter) {
    behind(scale, meter, "running jobs");
}

fn behind_user(scale: Scale, meter: &mut Meter) {
    behind(scale, meter, "GPUs per user");
}

fn behind_quota(scale: Scale, meter: &mut Meter) {
    behind(scale, meter, "quota");
}

/// Measures jobs behind a limit: all in one queue, with one to four GPUs, on a cluster with enough
/// free capacity.
fn behind(scale: Scale, meter: &mut Meter, kind: &str) {
    let mut bench = EngineBench::idle(scale);
    bench.limit(scale.queues, kind);
    let in_one_queue = |spec: &Arc<JobSpec>| {
        let mut one = JobSpec { queue: single("").queue, ..(**spec).clone() };
        one.groups[0].task.gpu = GpuRequest::whole(1 + spec.groups[0].task.cpus.0 / 1000 % 4);
        Arc::new(one)
    };
    let specs: Vec<Arc<JobSpec>> = singles(MIXES, scale.queues).iter().map(in_one_queue).collect();
    let mut at = 0;
    let events = bench.batch(&specs, &mut at, scale.pending);
    assert!((1..500).contains(&bench.step(&events).decisions.len()));
    while meter.needs_more() {
        let event = bench.batch(&specs, &mut at, 1);
        let plan = meter.measure(|| bench.step(&event));
        assert!(plan.decisions.is_empty());
    }
}
