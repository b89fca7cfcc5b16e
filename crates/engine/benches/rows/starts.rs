//! Jobs of one GPU: how many begin in a second.

use super::{Goal, Meter, Row, USUAL, Unit};
use crate::mix::{Bench, MIXES, Scale, single, singles};

/// Jobs of one instant.
const BATCH: usize = 256;

pub fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "starts",
            what: "single-GPU placements, sustained",
            goal: Some(Goal::AtLeast(100_000.0)),
            unit: Unit::PerSecond(BATCH as u32),
            scale: USUAL,
            run: starts,
        },
        Row {
            name: "lives",
            what: "whole lives of jobs, cluster full, 10,000 waiting",
            goal: None,
            unit: Unit::PerSecond(BATCH as u32),
            scale: Scale { running: 0, pending: 10_000, ..USUAL },
            run: lives,
        },
    ]
}

/// From submission to commit. Each batch ends unmeasured, so that the cluster stays half full.
fn starts(scale: Scale, meter: &mut Meter) {
    let specs = singles(MIXES, scale.queues);
    let (mut bench, mut at) = (Bench::half_full(scale), 0);
    while meter.goes_on() {
        let events = bench.batch(&specs, &mut at, BATCH);
        let plan = meter.measure(|| bench.step(&events));
        assert_eq!(plan.decisions.len(), BATCH);
        bench.step(&Bench::whole_life(&plan));
    }
}

/// As many end as are submitted and as start.
fn lives(scale: Scale, meter: &mut Meter) {
    let specs = singles(MIXES, scale.queues);
    let (mut bench, mut at) = (Bench::idle(scale), 0);
    bench.fill_up(&single("held"), scale.nodes * 8 - 4 * BATCH);
    let mut running = std::collections::VecDeque::new();
    for _ in 0..4 {
        let events = bench.batch(&specs, &mut at, BATCH);
        running.push_back(bench.step(&events));
    }
    let events = bench.batch(&specs, &mut at, scale.pending);
    running.push_back(bench.step(&events));
    while meter.goes_on() {
        bench.tick();
        let ending = running.pop_front().expect("as many batches run as were started");
        let mut events = Bench::whole_life(&ending);
        events.extend(bench.batch(&specs, &mut at, BATCH));
        let plan = meter.measure(|| bench.step(&events));
        running.push_back(plan);
    }
}
