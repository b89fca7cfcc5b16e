//! Views shared by the tests of this crate: the contention example six seconds after its
//! submission.

use muster_model::reason::{CapacityGap, HeadReservedPlace, Limiting};
use muster_model::view::{
    ArrayView, DeviceBar, ElasticView, ElementView, Eta, Explanation, Holder, HolderEnd, JobChange,
    JobState, JobView, NativeView, TaskStage, TaskView,
};
use muster_model::{
    Bytes, CpuMilli, DependencyKind, ElementId, GpuMilli, JobId, Outcome, Rank, Reason, Span,
    TaskExit, Time,
};

use crate::timeline::TimelineStart;

/// The instant 2026-11-20 12:00:00 UTC.
pub const NOON: Time = Time(1_795_176_000_000);

pub fn after(secs: u64) -> Time {
    NOON + Span::from_secs(secs)
}

pub fn id(job: u64, index: u32) -> ElementId {
    ElementId { job: JobId(job), index }
}

pub fn gap(limiting: Limiting) -> CapacityGap {
    CapacityGap {
        group: "main".to_owned(),
        tasks_needed: 5,
        tasks_placeable: 3,
        tasks_per_node: None,
        beside: Vec::new(),
        gpus_per_task: GpuMilli(1000),
        models: Vec::new(),
        gpus_free: GpuMilli(3000),
        gpus_total: GpuMilli(8000),
        nodes_eligible: 1,
        nodes_fitting: 1,
        limiting,
    }
}

fn capacity(gap: CapacityGap) -> Reason {
    Reason::Capacity(Box::new(gap))
}

fn never(gap: CapacityGap) -> Reason {
    Reason::NeverFits(Box::new(gap))
}

/// Returns every variant of a reason, and every form of a gap.
pub fn every_reason() -> Vec<Reason> {
    [own_terms(), quotas(), limits(), capacities(), others_first(), refusals()].concat()
}

fn own_terms() -> Vec<Reason> {
    vec![
        Reason::Held,
        Reason::HeldByAdmin { by: "root".into() },
        Reason::NotBefore { until: after(90), restarts: 0 },
        Reason::NotBefore { until: after(8), restarts: 2 },
        Reason::Dependency { on: JobId(4), kind: DependencyKind::After },
        Reason::Dependency { on: JobId(4), kind: DependencyKind::AfterAny },
        Reason::Dependency { on: JobId(4), kind: DependencyKind::AfterOk },
        Reason::Dependency { on: JobId(4), kind: DependencyKind::AfterNotOk },
        Reason::ArrayCap { running: 2, cap: 2 },
    ]
}

/// Nothing borrowable, lent out, and as much as may be borrowed.
fn quotas() -> Vec<Reason> {
    let quota = |asked, used, borrowable, lent| Reason::Quota {
        queue: "research/vision".into(),
        model: "h100".into(),
        asked: GpuMilli(asked),
        used: GpuMilli(used),
        nominal: GpuMilli(16_000),
        borrowable: GpuMilli(borrowable),
        lent: GpuMilli(lent),
    };
    vec![quota(4000, 14_000, 0, 0), quota(4000, 8000, 0, 6000), quota(8000, 16_000, 4000, 0)]
}

fn limits() -> Vec<Reason> {
    vec![
        Reason::BorrowedTime {
            queue: "vision".into(),
            model: "h100".into(),
            asked: GpuMilli(4000),
            used: GpuMilli(14_000),
            nominal: GpuMilli(16_000),
            length: Some(Span::from_secs(28_830)),
            limit: Span::from_secs(14_400),
        },
        Reason::BorrowedTime {
            queue: "vision".into(),
            model: "h100".into(),
            asked: GpuMilli(4000),
            used: GpuMilli(0),
            nominal: GpuMilli(0),
            length: None,
            limit: Span::from_secs(14_400),
        },
        Reason::RunningJobs { queue: "vision".into(), running: 50, limit: 50 },
        Reason::Budget {
            queue: "research".into(),
            user: None,
            asked_gpu_secs: 64 * 3600,
            used_gpu_secs: 4000 * 3600,
            promised_gpu_secs: 988 * 3600,
            budget_gpu_secs: 5000 * 3600,
            refills_at: after(43_200),
        },
        Reason::Budget {
            queue: "vision".into(),
            user: Some("alice".into()),
            asked_gpu_secs: 400 * 3600,
            used_gpu_secs: 0,
            promised_gpu_secs: 0,
            budget_gpu_secs: 200 * 3600,
            refills_at: Time::NEVER,
        },
        Reason::PendingJobs {
            queue: "vision".into(),
            user: "alice".into(),
            pending: 100,
            limit: 100,
        },
        Reason::GpusPerUser {
            queue: "vision".into(),
            user: "alice".into(),
            asked: GpuMilli(2000),
            used: GpuMilli(15_000),
            limit: GpuMilli(16_000),
        },
    ]
}

fn capacities() -> Vec<Reason> {
    let wide = CapacityGap {
        tasks_needed: 4,
        tasks_placeable: 2,
        gpus_per_task: GpuMilli(8000),
        models: vec!["h100".into(), "a100".into()],
        gpus_free: GpuMilli(40_000),
        gpus_total: GpuMilli(64_000),
        nodes_eligible: 8,
        nodes_fitting: 2,
        ..gap(Limiting::Gpus)
    };
    let single = |milli| CapacityGap {
        tasks_needed: 1,
        tasks_placeable: 0,
        gpus_per_task: GpuMilli(milli),
        gpus_free: GpuMilli(0),
        ..gap(Limiting::Gpus)
    };
    let cpus = Limiting::Cpus { asked: CpuMilli(16_000), free: CpuMilli(4500) };
    let memory = Limiting::Memory { asked: Bytes(64 << 30), free: Bytes(3 << 29) };
    vec![
        capacity(gap(Limiting::Gpus)),
        capacity(wide.clone()),
        capacity(CapacityGap {
            group: "trainer".to_owned(),
            limiting: Limiting::Nodes,
            ..wide.clone()
        }),
        capacity(CapacityGap {
            group: "rollout".to_owned(),
            beside: vec!["trainer".to_owned()],
            ..gap(Limiting::Gpus)
        }),
        capacity(CapacityGap { tasks_per_node: Some(2), limiting: cpus.clone(), ..single(1000) }),
        capacity(single(8000)),
        capacity(single(1000)),
        capacity(single(500)),
        capacity(CapacityGap { limiting: cpus, ..single(0) }),
        capacity(gap(memory)),
        capacity(gap(Limiting::Extra { name: "intel.com/qat".into(), asked: 2, free: 1 })),
    ]
}

fn others_first() -> Vec<Reason> {
    vec![
        Reason::Reserved {
            element: id(2, 0),
            start: after(20),
            predicted: false,
            fits_if_shorter_than: Some(Span::from_secs(14)),
        },
        Reason::Reserved {
            element: id(3, 7),
            start: after(20),
            predicted: true,
            fits_if_shorter_than: None,
        },
        Reason::HeadReserved {
            element: id(2, 0),
            since: NOON,
            places: vec![HeadReservedPlace { node: "n1".into(), devices: vec![0, 1, 2] }],
        },
        Reason::Preempting { evicting: 2, by: after(90) },
        Reason::MayNotBorrow {
            queue: "vision".into(),
            model: "h100".into(),
            asked: GpuMilli(8000),
            used: GpuMilli(12_000),
            nominal: GpuMilli(16_000),
        },
        Reason::Behind { element: id(2, 0) },
    ]
}

/// Returns the reasons for which a submission is refused.
fn refusals() -> Vec<Reason> {
    vec![
        never(CapacityGap { tasks_needed: 16, gpus_free: GpuMilli(8000), ..gap(Limiting::Gpus) }),
        never(CapacityGap { models: vec!["h100".into()], ..gap(Limiting::Constraint) }),
        Reason::TimeLimit {
            queue: "vision".into(),
            asked: Some(Span::from_secs(259_200)),
            limit: Span::from_secs(172_800),
        },
        Reason::TimeLimit { queue: "vision".into(), asked: None, limit: Span::from_secs(172_800) },
        Reason::Priority { queue: "vision".into(), asked: 100, range: (0, 10) },
    ]
}

pub fn explanation() -> Explanation {
    Explanation {
        reasons: vec![capacity(gap(Limiting::Gpus))],
        position: Some((1, 1)),
        holders: vec![
            Holder {
                element: id(1, 0),
                name: "left".into(),
                gpus: GpuMilli(5000),
                ends_by: Some(after(20)),
                end: HolderEnd::Grace,
                expected_end: None,
            },
            Holder {
                element: id(3, 0),
                name: "sweep".into(),
                gpus: GpuMilli(2000),
                ends_by: None,
                end: HolderEnd::TimeLimit,
                expected_end: None,
            },
        ],
        eta: Some(Eta { start: after(20), reserved: true, predicted: false }),
        sooner: vec![JobChange::Tasks { tasks: 3 }],
        ..Explanation::blank(id(2, 0), "right".to_owned(), JobState::Pending, "default".into())
    }
}

pub fn task(rank: u32, device: u16, stage: TaskStage) -> TaskView {
    TaskView {
        rank: Rank(rank),
        group: "main".to_owned(),
        node: "host".into(),
        devices: vec![device],
        share: GpuMilli(1000),
        stage,
        ready: false,
        exit: (stage == TaskStage::Ended).then_some(TaskExit::Code { code: 0 }),
    }
}

pub fn running(
    job: u64,
    index: u32,
    devices: std::ops::Range<u16>,
    limit_secs: u64,
) -> ElementView {
    ElementView {
        element: id(job, index),
        state: JobState::Running,
        attempt: 1,
        backfilled: false,
        started: Some(NOON),
        ends_by: Some(after(limit_secs)),
        expected_end: None,
        ended: None,
        outcome: None,
        last_end: None,
        checkpoint: None,
        checkpoint_asked: None,
        restarts_with_tasks: None,
        tasks: devices
            .enumerate()
            .map(|(rank, device)| task(rank as u32, device, TaskStage::Running))
            .collect(),
    }
}

pub fn job(number: u64, name: &str, state: JobState, gpus: u32) -> JobView {
    JobView {
        queue: "default".into(),
        tasks: gpus,
        gpus: GpuMilli(gpus * 1000),
        time_limit: Some(Span::from_secs(20)),
        ..JobView::blank(JobId(number), name.to_owned(), "alice".into(), state, NOON)
    }
}

/// Elastic gangs: one waits, one runs and is about to grow, one does not change.
/// Returns what an external scheduler says of a job that runs.
pub fn native(system: &str) -> NativeView {
    NativeView {
        system: system.to_owned(),
        cluster: None,
        state: "RUNNING".to_owned(),
        reason: None,
        partition: "batch".to_owned(),
        qos: None,
        restarts: 0,
        id: None,
        name: None,
    }
}

pub fn elastic() -> Vec<JobView> {
    let elastic = Some(ElasticView {
        fewest_tasks: 2,
        most_tasks: 8,
        fewest_gpus: GpuMilli(2000),
        most_gpus: GpuMilli(8000),
    });
    let runs = |number: u64, restarts_with_tasks| JobView {
        elastic,
        started: Some(NOON),
        elements: vec![ElementView { restarts_with_tasks, ..running(number, 0, 0..5, 20) }],
        ..job(number, "train", JobState::Running, 5)
    };
    vec![
        JobView { elastic, ..job(1, "waits", JobState::Pending, 2) },
        runs(2, Some(8)),
        runs(3, None),
    ]
}

/// Returns four jobs: `left` runs, `right` waits for it, `sweep` fills two GPUs, `quick` is done.
pub fn contention() -> Vec<JobView> {
    let sweep_counts = ArrayView {
        total: 24,
        waiting: 15,
        active: 2,
        succeeded: 7,
        failed: 0,
        max_running: Some(2),
    };
    let backfilled = |element: ElementView| ElementView { backfilled: true, ..element };
    let quick = ElementView {
        state: JobState::Done,
        ended: Some(after(3)),
        outcome: Some(Outcome::Succeeded),
        tasks: vec![task(0, 7, TaskStage::Ended)],
        ..backfilled(running(4, 0, 7..8, 5))
    };
    vec![
        JobView {
            started: Some(NOON),
            elements: vec![running(1, 0, 0..5, 20)],
            ..job(1, "left", JobState::Running, 5)
        },
        JobView {
            elements: vec![ElementView {
                state: JobState::Pending,
                attempt: 0,
                started: None,
                ends_by: None,
                tasks: Vec::new(),
                ..running(2, 0, 0..0, 0)
            }],
            waiting_for: Some(capacity(gap(Limiting::Gpus))),
            eta: Some(after(20)),
            ..job(2, "right", JobState::Pending, 5)
        },
        JobView {
            started: Some(after(1)),
            array: Some(sweep_counts),
            elements: vec![backfilled(running(3, 7, 5..6, 9)), backfilled(running(3, 8, 6..7, 9))],
            waiting_for: Some(Reason::ArrayCap { running: 2, cap: 2 }),
            ..job(3, "sweep", JobState::Running, 1)
        },
        JobView {
            started: Some(NOON),
            ended: Some(after(3)),
            elements: vec![quick],
            ..job(4, "quick", JobState::Done, 1)
        },
    ]
}

pub fn bars() -> Vec<DeviceBar> {
    let bar = |device, job, index, from, to: Option<u64>| DeviceBar {
        node: "host".into(),
        device,
        element: id(job, index),
        from: after(from),
        to: to.map(after),
    };
    let mut bars: Vec<DeviceBar> = (0..5).map(|device| bar(device, 1, 0, 0, None)).collect();
    bars.extend([
        bar(5, 3, 0, 1, Some(3)),
        bar(6, 3, 1, 1, Some(3)),
        bar(5, 3, 2, 3, None),
        bar(6, 3, 3, 3, None),
        bar(7, 4, 0, 0, Some(3)),
    ]);
    bars
}

pub fn devices() -> Vec<(muster_model::NodeName, u16)> {
    (0..8).map(|device| ("host".into(), device)).collect()
}

pub fn planned() -> Vec<TimelineStart> {
    vec![TimelineStart {
        element: id(2, 0),
        name: "right".to_owned(),
        start: after(20),
        predicted: false,
    }]
}

/// The jobs of [`contention`] where planning goes by predicted run times: job 1 is expected to end after 8 s, and
/// the elements of job 3 after 7 s, whose time limits are over later than that.
pub fn predicted() -> Vec<JobView> {
    let mut rows = contention();
    rows[0].elements[0].expected_end = Some(after(8));
    (rows[1].eta, rows[1].eta_predicted) = (Some(after(8)), true);
    for element in &mut rows[2].elements {
        (element.ends_by, element.expected_end) = (Some(after(9)), Some(after(7)));
    }
    rows
}
