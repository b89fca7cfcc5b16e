//! What-if questions with known answers.

use std::sync::Arc;

use muster_engine::Engine;
use muster_model::job::{GpuRequest, Resources};
use muster_model::simulation::StartTimes;
use muster_model::view::RoleView;
use muster_model::{
    AfterCheckpoint, Array, Bytes, Checkpoint, CheckpointBy, CpuMilli, ElementId, Event, GpuMilli,
    JobId, JobSpec, Observation, PastRun, QueueSpec, QueueTree, Rank, SiteSnapshot, Span,
    TaskGroup, TaskReport, Time,
};
use muster_sim::fleet::{FleetSite, JobNo, SchedulerKind};
use muster_sim::whatif::{
    ChangeError, NodeKind, Replays, RuntimeEstimates, SiteChange, Situation, StartForecast,
    WhatIfError,
};
use muster_spec::{JobEnd, TraceJob};
use serde_json::value::to_raw_value;

use crate::fleet::{played, site};

const LIKE_MOST: NodeKind = NodeKind { gpus: None };

fn secs(secs: u64) -> Time {
    Time(0) + Span::from_secs(secs)
}

/// A job of this many single-GPU tasks with a limit.
fn job(user: &str, gpus: u32, limit_secs: u64) -> JobSpec {
    let task = Resources { gpu: GpuRequest::whole(1), ..Resources::default() };
    let group = TaskGroup::of("main", gpus, task);
    JobSpec {
        time_limit: Some(Span::from_secs(limit_secs)),
        ..JobSpec::plain("j", user, vec![group])
    }
}

/// The daemon's snapshot after these jobs were submitted together at 0 and the started ones ran
/// until `taken`.
fn snapshot(site: &FleetSite, jobs: Vec<JobSpec>, past: Vec<PastRun>, taken: Time) -> SiteSnapshot {
    let mut engine = Engine::new(site.tree.clone()).unwrap();
    for node in &site.nodes {
        engine.apply(Time(0), &Event::NodeJoined(Box::new(node.clone())));
    }
    for (spec, job) in jobs.into_iter().zip(1..) {
        engine.apply(Time(0), &Event::Submitted { job: JobId(job), spec: Arc::new(spec) });
    }
    let plan = engine.plan(Time(0));
    engine.commit(Time(0), &plan);
    for (id, placement, _) in plan.starts() {
        for rank in 0..placement.len() as u32 {
            let report = TaskReport { id, rank: Rank(rank), observation: Observation::Started };
            engine.apply(Time(0), &Event::Task(report));
        }
    }
    let state = to_raw_value(&engine.snapshot().redacted().0).unwrap();
    SiteSnapshot { version: 1, taken, since: Time(0), state, past, names: [].into() }
}

fn situation(site: &FleetSite, jobs: Vec<JobSpec>, past: Vec<PastRun>, taken: Time) -> Situation {
    Situation::read(snapshot(site, jobs, past, taken)).unwrap()
}

/// Returns the number of elements of a job that start, and the first and last start in seconds.
fn starts(situation: &Situation, job: u64) -> (u32, Option<u64>, Option<u64>) {
    let usual = RuntimeEstimates::of(&situation.past);
    let mut forecast = StartForecast::of(situation, &usual);
    forecast.begin().unwrap();
    while forecast.step().unwrap() {}
    let StartTimes { begun, first, last } = forecast.starts()[&JobId(job)];
    let secs = |at: Option<Time>| at.map(|at| at.0 / 1000);
    (begun, secs(first), secs(last))
}

fn run(user: &str, submitted: u64, began: u64, ran: u64, limit: u64) -> PastRun {
    PastRun {
        element: ElementId { job: JobId(100 + submitted), index: 0 },
        user: user.into(),
        queue: "default".into(),
        priority: 0,
        submitted: secs(submitted),
        began: secs(began),
        ran: Span::from_secs(ran),
        is_over: true,
        limit: Some(Span::from_secs(limit)),
        is_open_ended: false,
        tasks: 5,
        roles: vec![RoleView {
            name: "role-1".to_owned(),
            tasks: 5,
            gpus: GpuMilli(1000),
            models: Vec::new(),
            cpus: CpuMilli(0),
            memory: Bytes(0),
        }],
    }
}

#[test]
fn a_pending_job_starts_when_a_running_one_ends_or_at_once_on_more_nodes() {
    let now =
        situation(&site(1, 8), vec![job("ann", 5, 100), job("bob", 5, 100)], Vec::new(), secs(40));
    assert_eq!(starts(&now, 2), (1, Some(100), Some(100)));

    let mut change = SiteChange::default();
    change.join(now.more(1, &LIKE_MOST).unwrap());
    let more = now.with(&change).unwrap();
    assert_eq!(starts(&more, 2), (1, Some(40), Some(40)));
    assert_eq!(more.site().nodes.len(), 2);
    assert_eq!(starts(&now, 2), (1, Some(100), Some(100)), "the question changed nothing");

    // Three are idle, and two more of another model make five tasks of one GPU fit.
    let kind = NodeKind { gpus: Some(("h100".into(), 2)) };
    let mut change = SiteChange::default();
    change.join(now.more(1, &kind).unwrap());
    assert_eq!(change.joined[0].devices.len(), 2);
    assert_eq!(starts(&now.with(&change).unwrap(), 2), (1, Some(40), Some(40)));
}

#[test]
fn runtimes_are_estimated_from_the_users_past_jobs() {
    let past: Vec<PastRun> =
        (0..5).map(|nth| run("user-1", nth * 100, nth * 100, 50, 100)).collect();
    let at = |taken| {
        let jobs = vec![job("ann", 5, 100), job("ann", 5, 100)];
        starts(&situation(&site(1, 8), jobs, past.clone(), secs(taken)), 2)
    };
    assert_eq!(at(40), (1, Some(50), Some(50)));
    // Once it has outrun them all it may use its limit.
    assert_eq!(at(60), (1, Some(100), Some(100)));
}

#[test]
fn array_elements_start_within_the_concurrency_limit() {
    let array = Array::range(0, 3, 1, Some(1));
    let array = JobSpec { array: Some(array), ..job("ann", 1, 10) };
    let now = situation(&site(1, 8), vec![array], Vec::new(), secs(4));
    // The first element runs since 0; three are pending.
    assert_eq!(starts(&now, 1), (3, Some(10), Some(30)));
}

#[test]
fn a_larger_quota_moves_the_start_forward() {
    let mut tree = QueueTree::single();
    let capped = |name: &str, gpus| QueueSpec {
        quota: [("a100".into(), gpus)].into(),
        ..QueueSpec::named(name)
    };
    tree.queues = vec![
        QueueSpec { borrow: Some(0), ..capped("default", 4) },
        QueueSpec { borrow: Some(0), ..capped("other", 4) },
    ];
    let site = FleetSite { tree, ..site(1, 8) };
    let now = situation(&site, vec![job("ann", 4, 100), job("bob", 4, 100)], Vec::new(), secs(40));
    assert_eq!(starts(&now, 2), (1, Some(100), Some(100)));

    let tree = now.with_quota(now.engine().tree().clone(), &[], "default", None, Some(8)).unwrap();
    let changed = now.with(&SiteChange { tree: Some(tree), ..SiteChange::default() }).unwrap();
    assert_eq!(starts(&changed, 2), (1, Some(40), Some(40)));

    let known = now.with_quota(now.engine().tree().clone(), &[], "nobody", None, Some(8));
    assert!(matches!(known, Err(ChangeError::NoQueue { known, .. }) if known == "default, other"));
}

#[test]
fn removed_nodes_are_the_least_used_and_their_jobs_finish() {
    let now =
        situation(&site(3, 8), vec![job("ann", 8, 100), job("bob", 3, 100)], Vec::new(), secs(40));
    let gone = now.fewer(2, &LIKE_MOST, &[]).unwrap();
    // One is idle, on one three GPUs are held.
    let left = now.with(&SiteChange { drained: gone, ..SiteChange::default() }).unwrap();
    let serving = left.site().nodes;
    assert_eq!(serving.len(), 1);
    let views = left.engine().nodes();
    let stays = views.iter().find(|view| view.name == serving[0].name).unwrap();
    assert!(stays.devices.iter().all(|device| device.used == GpuMilli(1000)));
    assert_eq!(now.fewer(4, &LIKE_MOST, &[]), Err(ChangeError::TooFew { there: 3 }));
}

#[test]
fn no_forecast_for_jobs_behind_unknown_runtimes() {
    let endless = JobSpec { time_limit: None, ..job("ann", 5, 1) };
    let now = situation(&site(1, 8), vec![endless, job("bob", 5, 100)], Vec::new(), secs(40));
    assert_eq!(starts(&now, 2), (0, None, None));
}

#[test]
fn past_jobs_are_replayed() {
    // Two gangs of five on eight GPUs, each for 100 seconds, submitted together: the second waited
    // for the first.
    let past = vec![run("user-1", 0, 0, 100, 200), run("user-2", 1, 100, 100, 200)];
    let now = situation(&site(1, 8), Vec::new(), past, secs(300));
    let began = |changed: &Situation| {
        let replays = Replays::of(&now, changed);
        assert!((replays.first_start_secs.mean - 49.5).abs() < 1e-9);
        [replays.as_it_is, replays.changed].map(|(site, jobs)| {
            let fleet = played(&site, SchedulerKind::Muster.begin(&site, 0).unwrap(), &jobs);
            [0, 1].map(|job| fleet.cluster().status(JobNo(job)).began.unwrap().0 / 1000)
        })
    };
    let mut change = SiteChange::default();
    change.join(now.more(1, &LIKE_MOST).unwrap());
    assert_eq!(began(&now.with(&change).unwrap()), [[0, 100], [0, 1]]);
    // Jobs that the changed site cannot host are left out of both, and counted.
    let none = now.with(&SiteChange {
        drained: now.fewer(1, &LIKE_MOST, &[]).unwrap(),
        ..SiteChange::default()
    });
    let replays = Replays::of(&now, &none.unwrap());
    assert_eq!((replays.no_longer_fit, replays.too_large, replays.as_it_is.1.len()), (2, 0, 0));
    // The restricted past is what was submitted since.
    assert_eq!(now.since(Span(299_500)).past.len(), 1);
}

#[test]
fn a_trace_is_replayed_on_an_idle_site_and_on_the_changed_one() {
    // Two gangs of five on eight GPUs; the third needs more than two nodes have.
    let traced = |id: &str, gpus: u32, queue: &str| TraceJob {
        id: id.into(),
        submit: secs(10),
        runtime: Some(Span::from_secs(100)),
        started: (id == "b").then(|| secs(50)),
        requested: None,
        tasks: gpus,
        task: Resources { gpu: GpuRequest::whole(1), ..Resources::default() },
        user: None,
        queue: Some(queue.into()),
        priority: 0,
        ended: JobEnd::Completed,
    };
    let trace = [traced("a", 5, "default"), traced("b", 5, "gone"), traced("c", 20, "default")];
    let now = Situation::idle(&site(1, 8)).unwrap();
    let mut change = SiteChange::default();
    change.join(now.more(1, &LIKE_MOST).unwrap());
    let changed = now.with(&change).unwrap();
    let replays = Replays::of_trace(&trace, true, now.site(), changed.site());
    assert_eq!((replays.too_large, replays.no_longer_fit, replays.strangers), (1, 0, 0));
    assert_eq!((replays.first_starts, replays.first_start_secs.mean), (1, 40.0));
    let began = [replays.as_it_is, replays.changed].map(|(site, jobs)| {
        let fleet = played(&site, SchedulerKind::Muster.begin(&site, 0).unwrap(), &jobs);
        [0, 1].map(|job| fleet.cluster().status(JobNo(job)).began.unwrap().0 / 1000)
    });
    assert_eq!(began, [[10, 110], [10, 10]]);
    // With queues, a job of another one is counted.
    let mut tree = QueueTree::single();
    tree.queues.push(QueueSpec::named("other"));
    let queued = FleetSite { tree, ..site(1, 8) };
    assert_eq!(Replays::of_trace(&trace, true, queued.clone(), queued).strangers, 1);
}

#[test]
fn invalid_and_newer_snapshots_are_refused() {
    let good = snapshot(&site(1, 8), Vec::new(), Vec::new(), secs(1));
    let newer = SiteSnapshot { version: 99, ..good.clone() };
    assert_eq!(Situation::read(newer).unwrap_err(), WhatIfError::Newer { found: 99 });
    let broken = SiteSnapshot { state: to_raw_value("nothing").unwrap(), ..good };
    assert!(matches!(Situation::read(broken).unwrap_err(), WhatIfError::Malformed(_)));
}

#[test]
fn held_jobs_are_not_forecast() {
    let array = |held| {
        let array = Array::range(0, 9, 1, Some(1));
        JobSpec { array: Some(array), held, ..job("ann", 1, 10) }
    };
    let now = situation(&site(1, 8), vec![array(true), array(false)], Vec::new(), secs(4));
    assert_eq!(
        (now.engine().pending_unheld(JobId(1)), now.engine().pending_unheld(JobId(2))),
        (0, 9)
    );
    assert_eq!(starts(&now, 2), (9, Some(10), Some(90)));
}

#[test]
fn a_job_that_checkpoints_on_request_leaves_at_once_and_resumes() {
    let mut tree = QueueTree::single();
    let half =
        |name: &str| QueueSpec { quota: [("a100".into(), 4)].into(), ..QueueSpec::named(name) };
    tree.queues = vec![half("default"), half("other")];
    let site = FleetSite { tree, ..site(1, 8) };
    let checkpoint = Checkpoint {
        signal: 10,
        lead: Span::from_secs(60),
        by: CheckpointBy::All,
        then: AfterCheckpoint::Continue,
        to: Default::default(),
    };
    // Ann borrows the other queue's half; Bob reclaims it, and another job is pending behind both.
    let borrows = JobSpec { checkpoint: Some(checkpoint), ..job("ann", 8, 100) };
    let comes = JobSpec { queue: "other".into(), begin: Some(secs(50)), ..job("bob", 4, 100) };
    let last = JobSpec { priority: -1, ..job("cy", 8, 100) };
    let now = situation(&site, vec![borrows, comes, last], Vec::new(), secs(40));
    assert_eq!(starts(&now, 2), (1, Some(50), Some(50)));
    // Bob ends at 150; then Ann has half of her work left, and Cy starts at 200.
    assert_eq!(starts(&now, 3), (1, Some(200), Some(200)));
}
