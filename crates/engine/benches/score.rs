//! Speed of placement by each placement policy: `cargo bench -p muster-engine --bench score`.

#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock; the library may not")]

#[allow(dead_code, unused_imports, reason = "shared with the other benches, which use the rest")]
mod mix;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mix::{EngineBench, MIXES, Scale, gang, singles};
use muster_model::job::GpuRequest;
use muster_model::queue::PlacementPolicy;
use muster_model::{Event, GpuMilli, JobSpec, QueueSpec, QueueTree};

/// Number of events of one instant.
const BATCH: usize = 256;
const NODES: usize = 5_000;

/// Returns idle nodes and one queue under a placement policy.
fn world(placement: PlacementPolicy) -> EngineBench {
    let mut bench = EngineBench::idle(Scale { nodes: NODES, running: 0, pending: 0, queues: 1 });
    let mut team = QueueSpec::named("team0");
    team.queues.push(QueueSpec::named("queue0"));
    let mut tree = QueueTree { placement, ..QueueTree::single() };
    tree.queues.push(team);
    bench.engine.apply(bench.now, &Event::QueuesSet(Box::new(tree)));
    bench
}

/// Returns jobs with shares and few devices, like the workloads on which FGD was measured.
fn shares() -> Vec<Arc<JobSpec>> {
    let mut specs = singles(MIXES, 1);
    for (at, spec) in specs.iter_mut().enumerate() {
        let spec = Arc::make_mut(spec);
        let gpu = &mut spec.groups[0].task.gpu;
        *gpu = match at % 8 {
            0..=3 => GpuRequest {
                devices: 0,
                share: GpuMilli(100 * (1 + (at / 8 % 9) as u32)),
                ..GpuRequest::default()
            },
            4..=6 => GpuRequest::whole(1),
            _ => GpuRequest::whole(2 << (at / 8 % 3)),
        };
    }
    specs
}

/// Measures starts and ends in equal number on a cluster that is half full: submission to commit,
/// `BATCH` per pass.
fn policies(criterion: &mut Criterion) {
    for (mix, specs) in [("single GPUs", singles(MIXES, 1)), ("shares and devices", shares())] {
        let mut group = criterion
            .benchmark_group(format!("placements by policy, {mix}, 5,000 nodes half full"));
        group.throughput(Throughput::Elements(BATCH as u64));
        for (name, placement) in PlacementPolicy::ALL {
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                let mut bench = world(placement);
                let mut at = 0;
                let mut running = VecDeque::new();
                for _ in 0..NODES * 4 / BATCH {
                    let events = bench.batch(&specs, &mut at, BATCH);
                    running.push_back(bench.step(&events));
                }
                bencher.iter_custom(|iterations| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..iterations {
                        bench.tick();
                        let ending =
                            running.pop_front().expect("as many batches run as were started");
                        bench.step(&EngineBench::whole_life(&ending));
                        let events = bench.batch(&specs, &mut at, BATCH);
                        let begin = Instant::now();
                        let plan = bench.step(&events);
                        spent += begin.elapsed();
                        assert!(!plan.decisions.is_empty());
                        running.push_back(plan);
                    }
                    spent
                });
            });
        }
        group.finish();
    }
}

/// Measures a gang of 5,000 single-GPU tasks on free nodes.
fn gangs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gang of 5,000 tasks by policy");
    let spec = gang(5_000, 1, None);
    for (name, placement) in PlacementPolicy::ALL {
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            let mut bench = world(placement);
            bencher.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    let event = bench.submission(&spec);
                    let begin = Instant::now();
                    let plan = bench.step(&[event]);
                    spent += begin.elapsed();
                    assert_eq!(plan.decisions.len(), 1);
                    bench.step(&EngineBench::whole_life(&plan));
                }
                spent
            });
        });
    }
    group.finish();
}

fn short() -> Criterion {
    Criterion::default().sample_size(10).measurement_time(Duration::from_secs(3)).without_plots()
}

criterion_group! {
    name = benches;
    config = short();
    targets = policies, gangs
}
criterion_main!(benches);
