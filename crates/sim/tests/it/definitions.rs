//! Definition of each figure of a fleet, on loads of a few jobs whose figures are worked out by
//! hand. The definitions are in docs/simulate.md.

use muster_model::job::{GpuRequest, Resources};
use muster_model::node::GpuModel;
use muster_model::queue::Preemption;
use muster_model::simulation::FleetFigures;
use muster_model::{NodeId, QueueSpec, QueueTree, Time};
use muster_sim::fleet::{
    ClusterState, Failures, Finished, Fleet, FleetJob, FleetSite, JobNo, Scheduler, SchedulerError,
    SchedulerKind, StopCosts, figures, to_common_horizon,
};
use muster_sim::peers::kube::{Creation, KubeDefault};

use crate::fleet::{gang, played, site};

fn of(scheduler: SchedulerKind, site: &FleetSite, jobs: &[FleetJob]) -> FleetFigures {
    let fleet = played(site, scheduler.begin(site, 1).unwrap(), jobs);
    figures(scheduler, fleet.cluster(), false)
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
}

/// Seconds as hours of one GPU.
fn hours(gpu_seconds: f64) -> f64 {
    gpu_seconds / 3600.0
}

/// One node of four GPUs and Kueue without preemption delays that matter: `low` starts at once, is
/// evicted for `high`, and starts again from nothing.
///
/// ```text
/// low   0 ── runs ── 100  evicted, waits ── 200 ── runs 300 s ── 500
/// high             100 ── runs 100 s ── 200
/// ```
#[test]
fn waiting_counts_after_an_eviction_too() {
    let tree = QueueTree {
        preemption: Preemption { reclaim: false, priority: true },
        ..QueueTree::single()
    };
    let site = FleetSite { tree, ..site(1, 4) };
    let jobs = [gang("low", 0, 4, 300), FleetJob { priority: 9, ..gang("high", 100, 4, 100) }];
    let found = of(SchedulerKind::Kueue, &site, &jobs);
    assert_eq!((found.ended, found.left, found.evictions), (2, 0, 1));
    // Turnaround: 500 s and 100 s. Waited: 100 s (from 100 to 200) and 0. First start: 0 and 0.
    near(found.turnaround_secs.mean, (500.0 + 100.0) / 2.0);
    near(found.waited_secs.mean, (100.0 + 0.0) / 2.0);
    near(found.waited_secs.max, 100.0);
    near(found.first_start_secs.mean, 0.0);
    // Slowdown: 500 / 300 and 100 / 100.
    near(found.bounded_slowdown.mean, (500.0 / 300.0 + 1.0) / 2.0);
    // Four GPUs ran for 500 s; the first 100 s of them were lost.
    near(found.hours.ran, hours(4.0 * 500.0));
    near(found.hours.lost, hours(4.0 * 100.0));
}

/// Two gangs of five on eight GPUs, pods in turns: each holds four and is pending for ever. Slurm
/// runs one after the other: 0 to 600 and 600 to 1200. So the horizon of both is 1200 s.
#[test]
fn jobs_that_never_end_count_until_the_last_instant_of_any_run() {
    let site = site(1, 8);
    let jobs = [gang("a", 0, 5, 600), gang("b", 0, 5, 600)];
    let order = [0, 1].repeat(5).into_iter().map(JobNo).collect();
    let stuck: Box<dyn Scheduler> =
        Box::new(KubeDefault::new(&site, 1).creating(Creation::Given(order)));
    let other = SchedulerKind::Slurm.begin(&site, 1).unwrap();
    let mut runs = [
        Finished::of(SchedulerKind::KubeDefault, played(&site, stuck, &jobs), false),
        Finished::of(SchedulerKind::Slurm, played(&site, other, &jobs), false),
    ];
    near(runs[0].figures().turnaround_secs.mean, 0.0);
    to_common_horizon(&mut runs);
    let [stuck, other] = [0, 1].map(|run| runs[run].figures());
    // Slurm's own clock starts the second a few seconds later: both count until then.
    let end = other.horizon_secs;
    assert!((1200.0..1320.0).contains(&end) && other.left == 0, "{end}");
    assert_eq!((stuck.left, stuck.left_holding, stuck.ended), (2, 2, 0));
    for of_all in [stuck.turnaround_secs, stuck.waited_secs, stuck.first_start_secs] {
        near(of_all.mean, end);
    }
    near(stuck.horizon_secs, end);
    near(other.turnaround_secs.mean, (600.0 + end) / 2.0);
    near(other.waited_secs.mean, (0.0 + end - 600.0) / 2.0);
    // Eight GPUs held idle until the horizon, and nothing stranded: nothing was free.
    near(stuck.hours.held_idle, hours(8.0 * end));
    near(stuck.hours.stranded, 0.0);
}

/// A scheduler that follows a list of starts: the job of each number starts then, whole, on the
/// first nodes with room.
#[derive(Debug)]
struct StartList(Vec<(u64, u32)>);

impl Scheduler for StartList {
    fn arrived(&mut self, _: &ClusterState, _: JobNo) -> Result<(), SchedulerError> {
        Ok(())
    }
    fn ended(&mut self, _: &ClusterState, _: JobNo) {}
    fn lost(&mut self, _: &ClusterState, _: NodeId, _: Option<usize>, _: &[(JobNo, u32)]) {}
    fn repaired(&mut self, _: &ClusterState, _: NodeId, _: Option<usize>) {}
    fn next_wake(&mut self, now: Time) -> Option<Time> {
        self.0.iter().map(|(at, _)| Time(at * 1000)).filter(|at| *at > now).min()
    }
    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        let now = cluster.now();
        for (_, job) in self.0.iter().filter(|(at, _)| Time(at * 1000) == now) {
            let job = JobNo(*job);
            for rank in 0..cluster.job(job).tasks {
                let nodes: Vec<_> = cluster.pool().nodes().map(|(id, _)| id).collect();
                for node in nodes {
                    if cluster.place(job, rank, node)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
    fn why(&mut self, _: &ClusterState, _: JobNo) -> String {
        String::new()
    }
}

fn stranded(site: &FleetSite, starts: &[(u64, u32)], jobs: &[FleetJob]) -> f64 {
    let instance = Box::new(StartList(starts.to_vec()));
    let mut fleet =
        Fleet::new(site, instance, jobs.to_vec(), StopCosts::default(), Failures::default());
    while fleet.step().unwrap() {}
    figures(SchedulerKind::Muster, fleet.cluster(), false).hours.stranded
}

/// Eight GPUs in two nodes. `a` holds two from 0 to 100; `b`, of two, is pending from 0 to 1 and
/// starts; `c`, of eight, is pending from 0 to 100.
#[test]
fn stranded_gpus_are_those_that_pending_jobs_could_use() {
    let jobs = [gang("a", 0, 2, 100), gang("b", 0, 2, 99), gang("c", 0, 8, 50)];
    // From 0 to 1 six are idle and `b` could use two: 2 GPU-seconds. `c` asks for more than is idle
    // until 100: nothing of what is idle is of use to it. (All that is idle would be 6 + 4 × 99
    // GPU-seconds.)
    near(stranded(&site(2, 4), &[(0, 0), (1, 1), (100, 2)], &jobs), hours(2.0));
    // With `c` of four, and waiting for ten seconds more than it must: from 0 to 1 both could use
    // six, all that is idle; from 1 to 10 `c` could use all four that are left.
    let jobs = [gang("a", 0, 2, 100), gang("b", 0, 2, 99), gang("c", 0, 4, 90)];
    near(stranded(&site(2, 4), &[(0, 0), (1, 1), (10, 2)], &jobs), hours(6.0 + 4.0 * 9.0));
}

/// Four GPUs of one model and four of another. `a` accepts only the first, and lacks three; `b`
/// any, and lacks three.
#[test]
fn stranded_gpus_are_of_a_model_that_the_job_accepts() {
    let mut mixed = site(2, 4);
    mixed.nodes[1].devices.iter_mut().for_each(|device| device.model = "h100".into());
    let only = |models: &[&str], job: FleetJob| {
        let models: Vec<GpuModel> = models.iter().map(|model| (*model).into()).collect();
        let task = Resources {
            gpu: GpuRequest { models, ..GpuRequest::whole(1) },
            ..Resources::default()
        };
        FleetJob { task: task.into(), ..job }
    };
    let jobs = [only(&["a100"], gang("a", 0, 3, 90)), only(&[], gang("b", 0, 3, 90))];
    // Ten seconds late, both: six GPUs for ten seconds.
    near(stranded(&mixed, &[(10, 0), (10, 1)], &jobs), hours(60.0));
    // `a` asks for five of the four that there are of its model, `b` could use three.
    let jobs = [only(&["a100"], gang("a", 0, 5, 90)), only(&[], gang("b", 0, 3, 90))];
    let late = stranded(&mixed, &[(10, 1)], &jobs);
    near(late, hours(30.0));
}

/// Queue `capped` may hold two GPUs of eight and borrow none.
#[test]
fn stranded_gpus_are_within_the_quota_of_the_queue() {
    let capped = QueueSpec {
        quota: [("a100".into(), 2)].into(),
        borrow: Some(0),
        ..QueueSpec::named("capped")
    };
    let tree = QueueTree { queues: vec![capped, QueueSpec::named("free")], ..QueueTree::single() };
    let site = FleetSite { tree, ..site(1, 8) };
    let of = |queue: &str, job: FleetJob| FleetJob { queue: queue.into(), ..job };
    // `a` and `b` of `capped` ask for two each and could use two together; `c` asks for one and may
    // use it: from 0 to 10 three are stranded. Then `a` runs until 110, and `b` may hold nothing
    // meanwhile; `c` runs.
    let jobs = [
        of("capped", gang("a", 0, 2, 100)),
        of("capped", gang("b", 0, 2, 100)),
        of("free", gang("c", 0, 1, 100)),
    ];
    near(stranded(&site, &[(10, 0), (10, 2), (110, 1)], &jobs), hours(3.0 * 10.0));
}

/// A gang that holds three of its five pods could use two more.
#[test]
fn stranded_gpus_are_at_most_what_a_gang_lacks() {
    let site = site(1, 8);
    let jobs = [gang("a", 0, 5, 600), gang("b", 1, 5, 600)];
    // `a` runs from 0 to 600; `b` holds three from 1 on: nothing is idle until 600, when five
    // become free and `b` takes two of them at once.
    let instance = SchedulerKind::KubeDefault.begin(&site, 7).unwrap();
    let found =
        figures(SchedulerKind::KubeDefault, played(&site, instance, &jobs).cluster(), false);
    near(found.hours.stranded, 0.0);
    near(found.hours.held_idle, hours(3.0 * 599.0));
    near(found.turnaround_secs.max, 1199.0);
}
