//! Resident memory of this process, before and after. Only right in a process that has done nothing
//! else.

use muster_model::{Event, JobSpec, Time};
use std::sync::Arc;

use super::{BenchRow, Goal, Meter, RowUnit};
use crate::mix::{self, EngineBench, MIXES, Scale, mixes, node};

pub fn rows() -> Vec<BenchRow> {
    let row = |name, what, goal, scale, run| BenchRow {
        name,
        what,
        goal: Some(Goal::AtMost(goal)),
        unit: RowUnit::Bytes,
        scale,
        run,
    };
    vec![
        row(
            "per-job",
            "memory per pending job",
            1024.0,
            Scale { nodes: 100, running: 0, pending: 100_000, queues: 20 },
            per_job,
        ),
        row(
            "per-node",
            "memory per node",
            4096.0,
            Scale { nodes: 5_000, running: 0, pending: 0, queues: 20 },
            per_node,
        ),
    ]
}

/// Returns the resident bytes of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has statm");
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("statm has a second number");
    pages * 4096
}

/// Returns a copy that shares nothing with the original, as if parsed from a file.
fn own(spec: &JobSpec) -> JobSpec {
    let mut own = spec.clone();
    own.name = own.name.to_string().into();
    own.user = own.user.to_string().into();
    own.queue = own.queue.to_string().into();
    for group in &mut own.groups {
        group.name = group.name.to_string().into();
    }
    own
}

/// Measures jobs that cannot start, each with a spec of its own.
fn per_job(scale: Scale, meter: &mut Meter) {
    let mut bench = EngineBench::idle(scale);
    let specs: Vec<Arc<JobSpec>> = mixes(MIXES, scale.queues);
    bench.fill_up(&mix::single("held"), scale.nodes * 8);
    let before = resident();
    for at in 0..scale.pending {
        let event = bench.submission(&Arc::new(own(&specs[at % MIXES])));
        bench.engine.apply(bench.now, &event);
        drop(bench.engine.take_facts());
    }
    meter.bytes = Some((resident() - before) / scale.pending as u64);
    assert_eq!(bench.engine.counts().pending, scale.pending as u64);
}

/// Measures nodes with names of their own.
fn per_node(scale: Scale, meter: &mut Meter) {
    let mut bench = EngineBench::in_blocks(Scale { nodes: 1, ..scale }, 1_000);
    let before = resident();
    for at in 1..=scale.nodes {
        let domains = vec![format!("b{:02}", at / 1_000).into(), format!("l{:04}", at / 20).into()];
        let node = muster_model::NodeSpec { domains, ..node(at) };
        bench.engine.apply(Time(0), &Event::NodeJoined(Box::new(node)));
    }
    meter.bytes = Some((resident() - before) / scale.nodes as u64);
    assert_eq!(bench.engine.nodes().len(), scale.nodes + 1);
}
