//! Large gangs: placed, or refused with reasons.

use muster_model::job::GpuRequest;
use muster_model::{CpuMilli, ElementId, Event, JobSpec, TopologyRule};
use std::sync::Arc;

use super::{Goal, Meter, Row, USUAL, Unit};
use crate::mix::{Bench, Scale, gang};

/// Nodes of a block: half of its GPUs are enough for 5,000 tasks.
const BLOCK: usize = 1_700;

pub fn rows() -> Vec<Row> {
    let row = |name, what, goal, scale, run| Row {
        name,
        what,
        goal: Some(Goal::AtMost(goal)),
        unit: Unit::Seconds,
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

/// Places the gang and ends it again, unmeasured.
fn place(mut bench: Bench, spec: &Arc<JobSpec>, meter: &mut Meter) {
    while meter.goes_on() {
        let event = bench.submission(spec);
        let plan = meter.measure(|| bench.step(&[event]));
        assert_eq!(plan.decisions.len(), 1);
        bench.step(&Bench::whole_life(&plan));
    }
}

fn topology(scale: Scale, meter: &mut Meter) {
    let bench = Bench::in_blocks(scale, BLOCK).fill_half(scale);
    place(bench, &gang(5_000, 1, Some(TopologyRule::Required("block".into()))), meter);
}

fn preferred(scale: Scale, meter: &mut Meter) {
    let bench = Bench::in_blocks(scale, BLOCK).fill_half(scale);
    place(bench, &gang(5_000, 1, Some(TopologyRule::Preferred("block".into()))), meter);
}

fn whole(scale: Scale, meter: &mut Meter) {
    let bench = Bench::in_blocks(scale, 5_000);
    place(bench, &gang(5_000, 8, Some(TopologyRule::Required("block".into()))), meter);
}

/// A gang that wants more whole nodes than are free, and its element.
fn waiting(scale: Scale) -> (Bench, ElementId) {
    let mut bench = Bench::half_full(scale);
    let event = bench.submission(&gang(scale.nodes as u32 * 4 / 5, 8, None));
    let Event::Submitted { job, .. } = event else { unreachable!("a submission") };
    assert!(bench.step(&[event]).decisions.is_empty());
    (bench, ElementId::single(job))
}

fn refused(scale: Scale, meter: &mut Meter) {
    let (mut bench, _) = waiting(scale);
    while meter.goes_on() {
        let plan = meter.measure(|| bench.engine.plan(bench.now));
        assert!(plan.decisions.is_empty());
    }
}

/// As a list of jobs shows them.
fn reasons(scale: Scale, meter: &mut Meter) {
    let (mut bench, element) = waiting(scale);
    while meter.goes_on() {
        let view = meter.measure(|| {
            drop(bench.engine.plan(bench.now));
            bench.engine.job(bench.now, element.job)
        });
        assert!(view.is_some_and(|view| view.waiting_for.is_some()));
    }
}

/// As `muster explain` tells it.
fn explained(scale: Scale, meter: &mut Meter) {
    let (mut bench, element) = waiting(scale);
    while meter.goes_on() {
        let told = meter.measure(|| {
            drop(bench.engine.plan(bench.now));
            bench.engine.explain(bench.now, element)
        });
        assert!(told.is_some_and(|told| !told.reasons.is_empty() && told.eta.is_some()));
    }
}

/// Enough GPUs for both groups; the CPUs of the nodes that the first leaves are not.
fn two_groups(scale: Scale, meter: &mut Meter) {
    let mut bench = Bench::idle(scale);
    let nodes = scale.nodes as u32;
    let mut spec = (*gang(nodes - 40, 8, None)).clone();
    let mut second = spec.groups[0].clone();
    second.name = "second".into();
    (second.min_tasks, second.max_tasks, second.tasks_per_node) = (41, 41, None);
    (second.task.gpu, second.task.cpus) = (GpuRequest::whole(1), CpuMilli(128_000));
    spec.groups.push(second);
    let event = bench.submission(&Arc::new(spec));
    assert!(bench.step(&[event]).decisions.is_empty());
    while meter.goes_on() {
        drop(meter.measure(|| bench.engine.plan(bench.now)));
    }
}
