//! Tests that the cost of a table is linear in its rows: counted in characters measured, for every
//! list that has a row for each job, node, queue, user or reservation.

use std::cell::Cell;

use muster_model::view::{
    AdvanceReservationView, JobState, JobView, NodeView, QueueView, UsageView,
};
use muster_model::{AdvanceReservationTimes, Span};

use crate::RenderContext;
use crate::sample::{self, NOON, after};
use crate::timeline::TimelineStart;
use crate::{advance_reservations, nodes, ps, queues, usage, watch};

thread_local! {
    static MEASURED: Cell<u64> = const { Cell::new(0) };
}

/// Counts characters that were measured, and one for the call.
pub fn measured(characters: usize) {
    MEASURED.set(MEASURED.get() + 1 + characters as u64);
}

/// Returns the number of characters measured by `work`.
fn cost(work: impl FnOnce() -> String) -> u64 {
    MEASURED.set(0);
    assert!(!work().is_empty());
    MEASURED.get()
}

/// A list with the given number of rows, as text.
type MeasuredList = fn(u64, RenderContext) -> String;

fn job_rows(rows: u64) -> (Vec<JobView>, Vec<TimelineStart>) {
    let job = |number: u64| {
        let [mut runs, mut waits, ..] = <[_; 4]>::try_from(sample::contention()).unwrap();
        let job = if number.is_multiple_of(2) { &mut runs } else { &mut waits };
        job.job.0 = number;
        job.user = format!("user-{:06}", number % 7).as_str().into();
        for element in &mut job.elements {
            element.element.job.0 = number;
            element.backfilled = true;
            // As many different ends as jobs, and most estimated starts at an end that does not
            // exist.
            element.ends_by = (job.state == JobState::Running).then(|| after(1000 + number));
        }
        job.eta = job.eta.map(|_| after(1000 + 2 * number));
        job.clone()
    };
    let plan = |number: u64| TimelineStart {
        element: sample::id(number, 0),
        name: "right".to_owned(),
        start: after(10 * number),
        predicted: false,
    };
    ((100_000..100_000 + rows).map(job).collect(), (100_000..100_000 + rows).map(plan).collect())
}

pub fn node(number: u64) -> NodeView {
    NodeView {
        name: format!("node-{number:06}").as_str().into(),
        up: true,
        drained: None,
        drain: None,
        cpus: muster_model::CpuMilli(64_000),
        cpus_used: muster_model::CpuMilli(2500),
        memory: muster_model::Bytes(256 << 30),
        memory_used: muster_model::Bytes(0),
        devices: Vec::new(),
        advance_reservations: Vec::new(),
    }
}

pub fn queue(number: u64) -> QueueView {
    QueueView {
        name: format!("queue-{number:06}").as_str().into(),
        is_leaf: true,
        weight: 1,
        gpus: Vec::new(),
        waiting: 3,
        running: 2,
        usage_gpu_secs: 45_000,
        share_ppm: 375_000,
        budget: None,
        default_time: None,
        idle: None,
        access: None,
    }
}

pub fn window(number: u64) -> AdvanceReservationView {
    AdvanceReservationView {
        name: format!("exam-{number:06}").as_str().into(),
        users: vec!["ann".into()],
        queues: Vec::new(),
        times: AdvanceReservationTimes {
            start: NOON,
            length: Span::from_secs(3600),
            every: None,
            count: None,
        },
        is_active: true,
        begins: Some(NOON),
        ends: Some(NOON + Span::from_secs(3600)),
        gpus: None,
        model: None,
        gpus_missing: 0,
        places: Vec::new(),
        running: 1,
        waiting: 2,
        stop: false,
        by: Some("root".into()),
        reason: String::new(),
    }
}

const LISTS: &[(&str, MeasuredList)] = &[
    ("ps", |rows, context| {
        let (jobs, planned) = job_rows(rows);
        ps::jobs(&jobs, &planned, context.at(after(6)))
    }),
    ("lines of a watch", |rows, context| {
        let (jobs, planned) = job_rows(rows);
        let others = ps::OtherJobs::of(&jobs, &planned);
        let lines = jobs.iter().map(|job| ps::line(job, &others, context.at(after(6))));
        lines.inspect(|line| measured(line.len())).collect()
    }),
    ("a frame", |rows, context| {
        let (jobs, planned) = job_rows(rows);
        let gantt = crate::timeline::TimelineInput {
            from: Some(NOON),
            devices: &[],
            bars: &[],
            planned: &planned,
            names: &watch::names(&jobs),
            max_rows: 8,
        };
        watch::frame(&jobs, &gantt, Some(50), context.at(after(6)))
    }),
    ("nodes", |rows, context| {
        nodes::nodes(&(0..rows).map(node).collect::<Vec<_>>(), context.at(NOON))
    }),
    ("queues", |rows, context| {
        queues::queues(&(0..rows).map(queue).collect::<Vec<_>>(), context.at(NOON))
    }),
    ("usage", |rows, context| {
        let row = |number: u64| UsageView {
            user: format!("user-{number:06}").as_str().into(),
            queue: "default".into(),
            jobs: 1,
            gpu_secs: 100_000,
            decayed_gpu_secs: 100_000,
        };
        usage::usage(&(0..rows).map(row).collect::<Vec<_>>(), context)
    }),
    ("windows", |rows, context| {
        advance_reservations::windows(&(0..rows).map(window).collect::<Vec<_>>(), context.at(NOON))
    }),
];

#[test]
fn the_cost_of_every_list_grows_with_its_rows() {
    for context in [RenderContext::plain(), RenderContext::plain().with_width(60)] {
        for (name, list) in LISTS {
            let [few, many] = [200, 1600].map(|rows| cost(|| list(rows, context)));
            assert!(many < 9 * few, "{name}: 8 times the rows cost {many} in place of {few}");
            assert!(many > 1600, "{name} measures nothing: {many}");
        }
    }
}

/// The lookups return the same as a search through all rows.
#[test]
fn what_ends_and_what_starts_is_the_first_of_the_others() {
    let (mut jobs, planned) = job_rows(40);
    for (number, job) in jobs.iter_mut().enumerate() {
        for element in &mut job.elements {
            element.ends_by = element.ends_by.map(|_| after(number as u64 / 6));
        }
    }
    let others = ps::OtherJobs::of(&jobs, &planned);
    for job in &jobs {
        for at in (0..8).map(after) {
            let ends = |row: &&JobView| {
                row.job != job.job
                    && row
                        .elements
                        .iter()
                        .any(|element| ps::holds(element.state) && element.ends_by == Some(at))
            };
            assert_eq!(
                others.job_ending_at(at, job.job),
                jobs.iter().find(ends).map(|row| row.job)
            );
        }
        for from in (0..30).map(|step| after(999_990 + 15 * step)) {
            let later =
                planned.iter().filter(|plan| plan.element.job != job.job && plan.start >= from);
            let first = later.min_by_key(|plan| plan.start).map(|plan| plan.element);
            assert_eq!(others.next_planned_start(from, job.job).map(|plan| plan.element), first);
        }
    }
}
