//! Jobs of one GPU: starts per second.

use super::{BenchRow, Goal, Meter, RowUnit, USUAL};
use crate::mix::{EngineBench, MIXES, Scale, single, singles};

/// Number of jobs of one instant.
const BATCH: usize = 256;

pub fn rows() -> Vec<BenchRow> {
    vec![
        BenchRow {
            name: "starts",
            what: "single-GPU placements, sustained",
            goal: Some(Goal::AtLeast(100_000.0)),
            unit: RowUnit::PerSecond(BATCH as u32),
            scale: USUAL,
            run: starts,
        },
        BenchRow {
            name: "lives",
            what: "whole lives of jobs, cluster full, 10,000 waiting",
            goal: None,
            unit: RowUnit::PerSecond(BATCH as u32),
            scale: Scale { running: 0, pending: 10_000, ..USUAL },
            run: lives,
        },
    ]
}

/// Measures submission to commit. Each batch ends unmeasured, so that the cluster stays half full.
fn starts(scale: Scale, meter: &mut Meter) {
    let specs = singles(MIXES, scale.queues);
    let mut bench = EngineBench::half_full(scale);
    let mut at = 0;
    while meter.needs_more() {
        let events = bench.batch(&specs, &mut at, BATCH);
        let plan = meter.measure(|| bench.step(&events));
        assert_eq!(plan.decisions.len(), BATCH);
        bench.step(&EngineBench::whole_life(&plan));
    }
}

/// Measures a steady state in which as many jobs are submitted as start and end.
fn lives(scale: Scale, meter: &mut Meter) {
    let specs = singles(MIXES, scale.queues);
    let mut bench = EngineBench::idle(scale);
    let mut at = 0;
    bench.fill_up(&single("held"), scale.nodes * 8 - 4 * BATCH);
    let mut running = std::collections::VecDeque::new();
    for _ in 0..4 {
        let events = bench.batch(&specs, &mut at, BATCH);
        running.push_back(bench.step(&events));
    }
    let events = bench.batch(&specs, &mut at, scale.pending);
    running.push_back(bench.step(&events));
    while meter.needs_more() {
        bench.tick();
        let ending = running.pop_front().expect("as many batches run as were started");
        let mut events = EngineBench::whole_life(&ending);
        events.extend(bench.batch(&specs, &mut at, BATCH));
        let plan = meter.measure(|| bench.step(&events));
        running.push_back(plan);
    }
}
