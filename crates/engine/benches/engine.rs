//! How fast the engine decides. `cargo bench -p muster-engine --bench engine`; figures are in `docs/PERFORMANCE.md`.

#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock; the library may not")]

mod mix;

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mix::{Bench, MIXES, all_mixes, single, single_gpu_mixes};
use muster_model::job::GpuRequest;
use muster_model::{CpuMilli, Event, JobSpec, Observation, Span, Topology, TopologyRule};

/// Events of one instant in the placement benches.
const BATCH: usize = 256;

/// Submission to commit of single-GPU jobs, `BATCH` per pass, on a cluster that fills up and is emptied untimed.
fn placements(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("single-gpu placements");
    // The last has leaves and blocks, which no job asks for.
    for (name, nodes, levels) in
        [("100", 100, false), ("1000", 1_000, false), ("5000", 5_000, false), ("5000 in leaves", 5_000, true)]
    {
        group.throughput(Throughput::Elements(BATCH as u64));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            let specs = single_gpu_mixes();
            bencher.iter_custom(|iterations| {
                let mut bench = if levels { Bench::with_levels(nodes) } else { Bench::new(nodes) };
                let (mut at, mut free, mut running) = (0, nodes * 8, Vec::new());
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    if free < BATCH {
                        for plan in running.drain(..) {
                            bench.step(&Bench::whole_life(&plan));
                        }
                        free = nodes * 8;
                    }
                    let events = batch(&mut bench, &specs, &mut at, BATCH);
                    let begin = Instant::now();
                    let plan = bench.step(&events);
                    spent += begin.elapsed();
                    assert_eq!(plan.decisions.len(), BATCH);
                    free -= BATCH;
                    running.push(plan);
                }
                spent
            });
        });
    }
    group.finish();
}

/// A full cluster with 10,000 single-GPU jobs waiting: in each pass `BATCH` end, as many are submitted and started.
fn sustained(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sustained starts with completions");
    for nodes in [100, 1_000, 5_000] {
        let batch_size = BATCH.min(nodes * 2);
        group.throughput(Throughput::Elements(batch_size as u64));
        group.bench_function(BenchmarkId::from_parameter(nodes), |bencher| {
            let specs = single_gpu_mixes();
            bencher.iter_custom(|iterations| {
                let (mut bench, mut at) = (Bench::new(nodes), 0);
                let mut running = std::collections::VecDeque::new();
                for _ in 0..nodes * 8 / batch_size {
                    let events = batch(&mut bench, &specs, &mut at, batch_size);
                    running.push_back(bench.step(&events));
                }
                let waiting = batch(&mut bench, &specs, &mut at, 10_000);
                let rest = bench.step(&waiting);
                running.push_back(rest);
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    bench.now = bench.now + Span(1);
                    let ending = running.pop_front().expect("as many batches run as were started");
                    let mut events = Bench::whole_life(&ending);
                    events.extend(batch(&mut bench, &specs, &mut at, batch_size));
                    let begin = Instant::now();
                    let plan = bench.step(&events);
                    spent += begin.elapsed();
                    running.push_back(plan);
                }
                spent
            });
        });
    }
    group.finish();
}

fn batch(bench: &mut Bench, specs: &[Arc<JobSpec>], at: &mut usize, count: usize) -> Vec<Event> {
    (0..count)
        .map(|_| {
            *at += 1;
            bench.submission(&specs[*at % MIXES])
        })
        .collect()
}

/// A gang of 5,000 single-GPU tasks in one block of 8,000 GPUs, and verdicts on one that no block has room for; the blocks
/// are partly held.
fn topology(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("required block, 5,000 nodes");
    let gang = |tasks: u32, rule: fn(Arc<str>) -> TopologyRule| {
        let mut spec = single("gang");
        (spec.groups[0].min_tasks, spec.groups[0].max_tasks) = (tasks, tasks);
        spec.groups[0].task.gpu = GpuRequest::whole(1);
        spec.constraint.topology = Some(Topology { rule: rule("block".into()), segment: None });
        Arc::new(spec)
    };
    let held = |bench: &mut Bench| {
        for _ in 0..5 {
            let event = bench.submission(&gang(2_500, TopologyRule::Required));
            bench.step(&[event]);
        }
    };
    group.bench_function("5,000 tasks", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut bench = Bench::with_levels(5_000);
            held(&mut bench);
            let mut spent = Duration::ZERO;
            for _ in 0..iterations {
                let event = bench.submission(&gang(5_000, TopologyRule::Required));
                let begin = Instant::now();
                let plan = bench.step(&[event]);
                spent += begin.elapsed();
                assert_eq!(plan.decisions.len(), 1);
                bench.step(&Bench::whole_life(&plan));
            }
            spent
        });
    });
    group.bench_function("5,000 tasks, preferred", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut bench = Bench::with_levels(5_000);
            held(&mut bench);
            let mut spent = Duration::ZERO;
            for _ in 0..iterations {
                let event = bench.submission(&gang(5_000, TopologyRule::Preferred));
                let begin = Instant::now();
                let plan = bench.step(&[event]);
                spent += begin.elapsed();
                assert_eq!(plan.decisions.len(), 1);
                bench.step(&Bench::whole_life(&plan));
            }
            spent
        });
    });
    group.finish();
}

fn gang_of(nodes: u32) -> Arc<JobSpec> {
    let mut spec = single("gang");
    let group = &mut spec.groups[0];
    (group.min_tasks, group.max_tasks, group.tasks_per_node) = (nodes, nodes, Some(1));
    group.task.gpu = GpuRequest::whole(8);
    Arc::new(spec)
}

/// Gangs of whole nodes on 5,000 nodes: one pass from submission to commit.
fn gangs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gang on 5,000 nodes");
    for size in [1_000, 5_000] {
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut bench = Bench::new(5_000);
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    let event = bench.submission(&gang_of(size));
                    let begin = Instant::now();
                    let plan = bench.step(&[event]);
                    spent += begin.elapsed();
                    assert_eq!(plan.decisions.len(), 1);
                    bench.step(&Bench::whole_life(&plan));
                }
                spent
            });
        });
    }
    group.finish();
}

/// "Cannot run now" on 5,000 nodes of which one GPU each is held: the pass that says so. With an end in sight it also
/// works out when the gang will start and where.
fn verdict(criterion: &mut Criterion) {
    for (name, limit) in
        [("cannot run now", None), ("cannot run now, starts later", Some(Span::from_secs(60)))]
    {
        let mut group = criterion.benchmark_group(name);
        for size in [1_000u32, 5_000] {
            group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
                let mut bench = Bench::new(5_000);
                let mut spread = (*gang_of(5_000)).clone();
                spread.groups[0].task.gpu = GpuRequest::whole(1);
                spread.time_limit = limit;
                let event = bench.submission(&Arc::new(spread));
                assert_eq!(bench.step(&[event]).decisions.len(), 1);
                let event = bench.submission(&gang_of(size));
                assert!(bench.step(&[event]).is_empty());
                bencher.iter(|| bench.engine.plan(bench.now));
            });
        }
        group.finish();
    }
}

/// The same for a gang of two groups: more GPUs than are free, which sums tell; and enough of everything but no way, so
/// that both orders and the search are tried in vain.
fn verdict_of_two_groups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cannot run now, two groups");
    for (name, cpus) in [("GPUs", 0), ("CPUs", 128_000)] {
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            let mut bench = Bench::new(5_000);
            let mut held = single("held");
            held.time_limit = None;
            let events: Vec<Event> = (0..BATCH).map(|_| bench.submission(&Arc::new(held.clone()))).collect();
            assert_eq!(bench.step(&events).decisions.len(), BATCH);
            let mut spec = (*gang_of(4_980)).clone();
            let mut second = spec.groups[0].clone();
            second.name = "second".into();
            (second.min_tasks, second.max_tasks, second.tasks_per_node) = (16, 16, None);
            if cpus > 0 {
                // Enough GPUs; the CPUs of the nodes that the first group leaves are not.
                (spec.groups[0].min_tasks, spec.groups[0].max_tasks) = (4_960, 4_960);
                (second.task.gpu, second.task.cpus) = (GpuRequest::whole(1), CpuMilli(cpus));
                (second.min_tasks, second.max_tasks) = (41, 41);
            }
            spec.groups.push(second);
            let event = bench.submission(&Arc::new(spec));
            assert!(bench.step(&[event]).is_empty());
            bencher.iter(|| bench.engine.plan(bench.now));
        });
    }
    group.finish();
}

/// A pass over so many pending jobs of all shapes on a cluster that is full for hours.
fn backfill(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("backfill pass");
    for pending in [10_000, 100_000] {
        group.throughput(Throughput::Elements(pending as u64));
        group.bench_function(BenchmarkId::from_parameter(pending), |bencher| {
            let specs = all_mixes();
            let (mut bench, mut at) = (Bench::new(5_000), 0);
            for _ in 0..pending / 1_000 {
                let events = batch(&mut bench, &specs, &mut at, 1_000);
                let plan = bench.step(&events);
                bench.step(&Bench::reports(&plan, &Observation::Started));
            }
            bencher.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    // One more event, one more pass.
                    bench.now = bench.now + Span(1000);
                    let event = batch(&mut bench, &specs, &mut at, 1);
                    let begin = Instant::now();
                    bench.step(&event);
                    spent += begin.elapsed();
                }
                spent
            });
        });
    }
    group.finish();
}

/// A pass over 100,000 pending jobs of 40 users that limits or quota hold back, on a cluster with room for all that may
/// start.
fn limited(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pass behind a limit, 100,000 pending");
    group.throughput(Throughput::Elements(100_000));
    for kind in ["running jobs", "GPUs per user", "quota"] {
        group.bench_function(BenchmarkId::from_parameter(kind), |bencher| {
            let mut bench = Bench::new(1_000);
            bench.limit("team0/queue0", kind);
            let specs: Vec<Arc<JobSpec>> = single_gpu_mixes().iter().map(in_one_queue).collect();
            let mut at = 0;
            let events = batch(&mut bench, &specs, &mut at, 100_000);
            assert!((1..500).contains(&bench.step(&events).decisions.len()));
            bencher.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    let event = batch(&mut bench, &specs, &mut at, 1);
                    let begin = Instant::now();
                    assert!(bench.step(&event).is_empty());
                    spent += begin.elapsed();
                }
                spent
            });
        });
    }
    group.finish();
}

/// The same mix in the first queue, with one to four GPUs.
fn in_one_queue(spec: &Arc<JobSpec>) -> Arc<JobSpec> {
    let gpus = 1 + spec.groups[0].task.cpus.0 / 1000 % 4;
    let mut spec = JobSpec { queue: "team0/queue0".into(), ..(**spec).clone() };
    spec.groups[0].task.gpu = GpuRequest::whole(gpus);
    Arc::new(spec)
}

fn short() -> Criterion {
    Criterion::default().sample_size(10).measurement_time(Duration::from_secs(3)).without_plots()
}

criterion_group! {
    name = benches;
    config = short();
    targets = placements, sustained, topology, gangs, verdict, verdict_of_two_groups, backfill, limited
}
criterion_main!(benches);
