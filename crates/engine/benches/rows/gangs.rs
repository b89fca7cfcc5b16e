//! Large gangs: placed, or refused with reasons.

use muster_model::job::GpuRequest;
use muster_model::{CpuMilli, ElementId, Event, JobSpec, TopologyRule};
use std::sync::Arc;

use super::{BenchRow, Goal, Meter, RowUnit, USUAL};
use crate::mix::{EngineBench, Scale, gang};

/// Number of nodes of a block: half of its GPUs suffice for 5,000 tasks.
const BLOCK: usize = 1_700;

pub fn rows() -> Vec<BenchRow> {
    let row = |name, what, goal, scale, run| BenchRow {
        name,
        what,
        goal: Some(Goal::AtMost(goal)),
        unit: RowUnit::Seconds,
        scale,
        run,
    };
    let idle = Scale { running: 0, ..USUAL };
    vec![
        row("topology", "gang of 5,000 tasks, required block, placed", 10e-3, USUAL, topology),
        row("preferred", "gang of 5,000 tasks, preferred block, placed", 10e-3, USUAL, preferred),
        row(
            "whole",
            "gang of 5,000 tasks of 8 GPUs, a node each, required zone",
            10e-3,
            idle,
            whole,
        ),
        row("refused", "\"cannot run now\" for a gang: the pass", 1e-3, USUAL, refused),
        row("reasons", "\"cannot run now\" for a gang: pass and reasons", 1e-3, USUAL, reasons),
        row(
            "explained",
            "the same with expected start and what would help",
            1e-3,
            USUAL,
            explained,
        ),
        row(
            "two-groups",
            "\"cannot run now\", two groups tried and searched in vain",
            10e-3,
            idle,
            two_groups,
        ),
    ]
}

/// Measures placing the gang; ends it unmeasured.
fn place(mut bench: EngineBench, spec: &Arc<JobSpec>, meter: &mut Meter) {
    while meter.needs_more() {
        let event = bench.submission(spec);
        let plan = meter.measure(|| bench.step(&[event]));
        assert_eq!(plan.decisions.len(), 1);
        bench.step(&EngineBench::whole_life(&plan));
    }
}

fn topology(scale: Scale, meter: &mut Meter) {
    let bench = EngineBench::in_blocks(scale, BLOCK).fill_half(scale);
    place(bench, &gang(5_000, 1, Some(TopologyRule::Required("block".into()))), meter);
}

fn preferred(scale: Scale, meter: &mut Meter) {
    let bench = EngineBench::in_blocks(scale, BLOCK).fill_half(scale);
    place(bench, &gang(5_000, 1, Some(TopologyRule::Preferred("block".into()))), meter);
}

fn whole(scale: Scale, meter: &mut Meter) {
    let bench = EngineBench::in_blocks(scale, 5_000);
    place(bench, &gang(5_000, 8, Some(TopologyRule::Required("block".into()))), meter);
}

/// Returns a cluster with a pending gang that needs more whole nodes than are free.
fn waiting(scale: Scale) -> (EngineBench, ElementId) {
    let mut bench = EngineBench::half_full(scale);
    let event = bench.submission(&gang(scale.nodes as u32 * 4 / 5, 8, None));
    let Event::Submitted { job, .. } = event else { unreachable!("a submission") };
    assert!(bench.step(&[event]).decisions.is_empty());
    (bench, ElementId::single(job))
}

fn refused(scale: Scale, meter: &mut Meter) {
    let (mut bench, _) = waiting(scale);
    while meter.needs_more() {
        let plan = meter.measure(|| bench.engine.plan(bench.now));
        assert!(plan.decisions.is_empty());
    }
}

/// Measures the reasons that a list of jobs shows.
fn reasons(scale: Scale, meter: &mut Meter) {
    let (mut bench, element) = waiting(scale);
    while meter.needs_more() {
        let view = meter.measure(|| {
            drop(bench.engine.plan(bench.now));
            bench.engine.job(bench.now, element.job)
        });
        assert!(view.is_some_and(|view| view.waiting_for.is_some()));
    }
}

/// Measures what `muster explain` shows.
fn explained(scale: Scale, meter: &mut Meter) {
    let (mut bench, element) = waiting(scale);
    while meter.needs_more() {
        let reported = meter.measure(|| {
            drop(bench.engine.plan(bench.now));
            bench.engine.explain(bench.now, element)
        });
        assert!(
            reported.is_some_and(|reported| !reported.reasons.is_empty() && reported.eta.is_some())
        );
    }
}

/// Measures a gang of two groups that does not fit: there are enough GPUs, but not enough CPUs on
/// the nodes left by the first group.
fn two_groups(scale: Scale, meter: &mut Meter) {
    let mut bench = EngineBench::idle(scale);
    let nodes = scale.nodes as u32;
    let mut spec = (*gang(nodes - 40, 8, None)).clone();
    let mut second = spec.groups[0].clone();
    second.name = "second".into();
    (second.min_tasks, second.max_tasks, second.tasks_per_node) = (41, 41, None);
    (second.task.gpu, second.task.cpus) = (GpuRequest::whole(1), CpuMilli(128_000));
    spec.groups.push(second);
    let event = bench.submission(&Arc::new(spec));
    assert!(bench.step(&[event]).decisions.is_empty());
    while meter.needs_more() {
        drop(meter.measure(|| bench.engine.plan(bench.now)));
    }
}
