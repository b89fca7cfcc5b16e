//! Several variants of a site: which jobs they share, and how their results differ.

use muster_model::job::{GpuRequest, Resources};
use muster_model::simulation::{FigureChange, FleetFigures, SiteVariant};
use muster_model::{Span, Time};
use muster_sim::flat::Estimates;
use muster_sim::fleet::{
    FleetSite, Loading, SchedulerKind, SharedLoad, SharedLoading, differences, figures,
};
use muster_spec::{JobEnd, TraceJob};

use crate::fleet::{played, site};

/// A job of single-GPU tasks that are placed one by one.
fn traced(id: &str, submit_secs: u64, tasks: u32, gpus: u32) -> TraceJob {
    TraceJob {
        id: id.into(),
        submit: Time(0) + Span::from_secs(submit_secs),
        runtime: Some(Span::from_secs(100)),
        requested: None,
        tasks,
        task: Resources { gpu: GpuRequest::whole(gpus), ..Resources::default() },
        user: None,
        queue: None,
        priority: 0,
        started: None,
        ended: JobEnd::Completed,
    }
}

fn loads(sites: &[FleetSite], jobs: &[TraceJob]) -> Vec<SharedLoad> {
    let loadings = sites.iter().map(|site| Loading::new(site, Estimates::Requested, true));
    let mut loading = SharedLoading::new(loadings.collect());
    jobs.iter().for_each(|job| loading.add(job));
    loading.done()
}

/// One node of eight GPUs, and four of four: `wide` needs a node of eight, `many` needs sixteen
/// GPUs, `huge` fits neither.
#[test]
fn only_jobs_that_every_variant_can_host_are_replayed() {
    let sites = [site(1, 8), site(4, 4)];
    let never = TraceJob { runtime: None, ..traced("never", 0, 1, 1) };
    let jobs = [
        traced("last", 9, 4, 1),
        never,
        traced("wide", 1, 1, 8),
        traced("many", 2, 16, 1),
        traced("huge", 3, 99, 1),
        traced("first", 0, 1, 1),
    ];
    let found = loads(&sites, &jobs);
    let ids = |shared: &SharedLoad| -> Vec<String> {
        shared.load.jobs.iter().map(|job| job.id.to_string()).collect()
    };
    assert_eq!(found.iter().map(ids).collect::<Vec<_>>(), [["first", "last"], ["first", "last"]]);
    let counts = |shared: &SharedLoad| {
        (shared.load.never_ran, shared.load.too_large, shared.left_out, shared.unhosted)
    };
    // The first cannot host `many` and `huge`, the second `wide` and `huge`.
    assert_eq!(found.iter().map(counts).collect::<Vec<_>>(), [(1, 2, 1, 3), (1, 2, 1, 3)]);
    // By GPU time the first leaves out 8 of 8 + 4 + 1, the second 16 of 16 + 4 + 1.
    let shares: Vec<f64> = found.iter().map(|shared| shared.left_out_share).collect();
    assert_eq!(shares, [8.0 / 13.0, 16.0 / 21.0]);
    // Alone, a variant keeps all that it can host.
    let alone = loads(&sites[..1], &jobs);
    assert_eq!((ids(&alone[0]).len(), counts(&alone[0])), (3, (1, 2, 0, 2)));
}

/// Two jobs of eight GPUs for 100 s each, on one node or on two.
#[test]
fn a_difference_is_this_variant_beside_the_first() {
    let sites = [site(1, 8), site(2, 8)];
    let jobs = [traced("a", 0, 1, 8), traced("b", 0, 1, 8)];
    let shared = loads(&sites, &jobs);
    let run = |at: usize| {
        let instance = SchedulerKind::Muster.begin(&sites[at], 1).unwrap();
        let fleet = played(&sites[at], instance, &shared[at].load.jobs);
        let of_run = figures(SchedulerKind::Muster, fleet.cluster(), false);
        FleetFigures { variant: format!("v{at}"), ..of_run }
    };
    let variant = |at: usize, capacity_hours| SiteVariant {
        name: format!("v{at}"),
        cluster: String::new(),
        queues: None,
        added: None,
        nodes: at as u64 + 1,
        size: 8.0,
        too_large: 0,
        left_out: 0,
        left_out_share: 0.0,
        strangers: 0,
        capacity_hours,
    };
    let variants = [variant(0, 1.0), variant(1, 2.0)];
    let mut runs = [vec![run(0)], vec![run(1)]];
    let [found] = &differences(&variants, &runs)[..] else { panic!("one difference") };
    assert_eq!(
        (found.scheduler.as_str(), found.variant.as_str(), found.first.as_str()),
        ("muster", "v1", "v0")
    );
    let change = |first, here| FigureChange { first, here, margin: None, may_be_chance: false };
    assert_eq!(found.turnaround_secs, change(150.0, 100.0));
    assert_eq!(found.waited_secs, change(50.0, 0.0));
    assert_eq!(found.capacity_hours, change(1.0, 2.0));
    // Means over seeds that differ more from each other than the variants do: seed by seed the
    // second waits 10 s less, always, or by chance.
    let of_seeds = |runs: &[Vec<FleetFigures>; 2], waits: [[f64; 3]; 2]| {
        let of = |at: usize| {
            let run = |wait: f64| {
                let mut run = runs[at][0].clone();
                run.waited_secs.mean = wait;
                run
            };
            waits[at].map(run).to_vec()
        };
        differences(&variants, &[of(0), of(1)])[0].waited_secs
    };
    let always = of_seeds(&runs, [[100.0, 500.0, 900.0], [90.0, 490.0, 890.0]]);
    let expected =
        FigureChange { first: 500.0, here: 490.0, margin: Some(0.0), may_be_chance: false };
    assert_eq!(always, expected);
    let perhaps = of_seeds(&runs, [[100.0, 500.0, 900.0], [120.0, 460.0, 890.0]]);
    // Differences of 20, -40 and -10: their standard deviation is 30.
    let margin = 4.303 * 30.0 / 3f64.sqrt();
    assert!(perhaps.may_be_chance && (perhaps.margin.unwrap() - margin).abs() < 1e-9);
    // An interrupted run has no difference.
    runs[1][0].is_partial = true;
    assert!(differences(&variants, &runs).is_empty() && differences(&[], &runs).is_empty());
}
