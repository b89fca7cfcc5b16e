//! The durable state as it may leave the house: it plans as before, and nobody is named in it. What becomes of each name is
//! said in `model`; here is where they stand. What has names in it is taken apart field by field, so that a new field does not
//! compile until somebody has said what becomes of it.

use std::sync::Arc;

use muster_model::{Redaction, TaskCheckpoint};

use super::job::{Element, Fate, JobRecord, Phase, Rest, Run, Saved, TaskState};
use super::snapshot::{Snapshot, StoredNode};
use super::window::Placed;

impl Snapshot {
    /// The same without names, and the names that were given in their place. It plans the same.
    #[must_use]
    pub fn redacted(self) -> (Self, Redaction) {
        let Self { mut policy, levels, nodes, epoch, windows, jobs, recent, mix, moves } = self;
        let windows_named = windows.iter().map(|placed| &placed.window.name);
        let mut given = Redaction::of(nodes.iter().map(|node| &node.spec), windows_named);
        let names = &mut given;
        // Users in the order of their ids: equal states get equal names.
        policy.rename_users(|user| names.user(user));
        let nodes = nodes.into_iter().map(|node| {
            let StoredNode { spec, up, drained, foreign, drains } = node;
            let drained = drained.map(|_| "".into());
            StoredNode { spec: names.node_spec(spec), up, drained, foreign, drains: drains.redacted(names) }
        });
        let nodes = nodes.collect();
        let windows = windows.into_iter().map(|placed| {
            let Placed { window, places } = placed;
            let window = Arc::new(names.window_spec(&window));
            Placed { window, places: places.into_iter().map(|place| names.window_place(place)).collect() }
        });
        let windows = windows.collect();
        let jobs = jobs.into_iter().map(|(id, record)| (id, job(record, names))).collect();
        (Self { policy, levels, nodes, epoch, windows, jobs, recent, mix, moves }, given)
    }
}

fn job(record: JobRecord, names: &mut Redaction) -> JobRecord {
    let JobRecord {
        spec,
        leaf,
        submitted,
        held,
        started,
        waits_for,
        total,
        next,
        elements,
        rest,
        begun,
        active,
        claims,
        succeeded,
        failed,
    } = record;
    let elements = elements.into_iter();
    JobRecord {
        spec: Arc::new(names.job_spec(&spec)),
        leaf,
        submitted,
        held,
        started,
        waits_for,
        total,
        next,
        elements: elements.map(|(ordinal, one)| (ordinal, Box::new(element(*one, names)))).collect(),
        rest: rest.map(|rest| {
            let Rest { from, count, outcome, at } = *rest;
            Box::new(Rest { from, count, outcome: names.outcome(outcome), at })
        }),
        begun,
        active,
        claims,
        succeeded,
        failed,
    }
}

fn element(element: Element, names: &mut Redaction) -> Element {
    let Element { phase, begun, attempt, restarts, avoid, avoid_epoch, run, last_end, saved, claim } =
        element;
    let phase = match phase {
        Phase::Ended { outcome, at } => Phase::Ended { outcome: names.outcome(outcome), at },
        alive @ (Phase::Waiting { .. } | Phase::Active) => alive,
    };
    let saved = saved.map(|saved| {
        let Saved { at, label: _, attempt } = *saved;
        Box::new(Saved { at, label: "".into(), attempt })
    });
    let last_end = last_end.map(|outcome| Box::new(names.outcome(*outcome)));
    let run = run.map(|one| attempt_of(one, names));
    Element { phase, begun, attempt, restarts, avoid, avoid_epoch, run, last_end, saved, claim }
}

fn attempt_of(run: Run, names: &mut Redaction) -> Run {
    let Run {
        placement,
        gpus,
        held_from,
        started,
        ended,
        backfilled,
        stage,
        tasks,
        prepared,
        running,
        over,
        fate,
        end,
        asked,
        leaving,
        key,
        watched,
    } = run;
    let fate = fate.map(|fate| match fate {
        Fate::Failed(outcome) => Fate::Failed(names.outcome(outcome)),
        Fate::Cancelled(outcome) => Fate::Cancelled(names.outcome(outcome)),
        Fate::Refused { rank, reason: _, node } => Fate::Refused { rank, reason: "".into(), node },
        plain @ (Fate::Preempted | Fate::Requeued) => plain,
    });
    let tasks = tasks.into_iter().map(|task| {
        let TaskState { stage, exit, ready, checkpoint } = task;
        let checkpoint = checkpoint.map(|told| {
            let TaskCheckpoint { count, answers, warned, at, label: _ } = *told;
            Box::new(TaskCheckpoint { count, answers, warned, at, label: "".into() })
        });
        TaskState { stage, exit, ready, checkpoint }
    });
    Run {
        placement,
        gpus,
        held_from,
        started,
        ended,
        backfilled,
        stage,
        tasks: tasks.collect(),
        prepared,
        running,
        over,
        fate,
        end,
        asked,
        leaving,
        key,
        watched,
    }
}
