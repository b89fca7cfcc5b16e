//! The durable state as it may leave the house: it plans as before, and nobody is named in it. What
//! becomes of each name is said in `model`; here is where they stand. What has names in it is taken
//! apart field by field, so that a new field does not compile until somebody has said what becomes
//! of it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use muster_model::{Outcome, Redaction, TaskCheckpoint};
use serde::{Serialize, Serializer};

use super::hold::AdminHold;
use super::job::{Element, Fate, JobRecord, Phase, Rest, Run, Saved, TaskState};
use super::snapshot::{Jobs, Snapshot, StoredNode};
use super::window::Placed;

impl Snapshot {
    /// Replaces all names, and returns those that were given in their place. The result plans the
    /// same.
    #[must_use]
    pub fn redacted(self) -> (Self, Redaction) {
        let Snapshot { policy, levels, nodes, epoch, windows, jobs, recent, mix, moves, heads } =
            self.redacting();
        let RedactingJobs { mut jobs, names } = jobs;
        let names = &mut *names.borrow_mut();
        jobs.0.values_mut().for_each(|record| job(record, names));
        let given = names.clone();
        (Self { policy, levels, nodes, epoch, windows, jobs, recent, mix, moves, heads }, given)
    }

    /// Replaces all names, those of jobs only while they are written: no second copy of all jobs is
    /// made.
    #[must_use]
    pub fn redacting(self) -> Snapshot<RedactingJobs> {
        let Self { mut policy, levels, nodes, epoch, windows, jobs, recent, mix, moves, heads } =
            self;
        let windows_named = windows.iter().map(|placed| &placed.window.name);
        let mut given = Redaction::of(nodes.iter().map(|node| &node.spec), windows_named);
        let names = &mut given;
        // Users in the order of their ids: equal states get equal names.
        policy.rename_users(|user| names.user(user));
        let nodes = nodes.into_iter().map(|node| {
            let StoredNode { spec, up, drained, foreign, drains } = node;
            let drained = drained.map(|_| "".into());
            StoredNode {
                spec: names.node_spec(spec),
                up,
                drained,
                foreign,
                drains: drains.redacted(names),
            }
        });
        let nodes = nodes.collect();
        let windows = windows.into_iter().map(|placed| {
            let Placed { window, places } = placed;
            let window = Arc::new(names.window_spec(&window));
            Placed {
                window,
                places: places.into_iter().map(|place| names.window_place(place)).collect(),
            }
        });
        let windows = windows.collect();
        let jobs = RedactingJobs { jobs, names: Rc::new(RefCell::new(given)) };
        Snapshot { policy, levels, nodes, epoch, windows, jobs, recent, mix, moves, heads }
    }
}

impl Snapshot<RedactingJobs> {
    /// Returns the names that are given in place of others. Those of jobs are in it once the
    /// snapshot is written.
    #[must_use]
    pub fn names(&self) -> Rc<RefCell<Redaction>> {
        Rc::clone(&self.jobs.names)
    }
}

/// Jobs of a snapshot that lose their names one by one, each while it is written.
#[derive(Debug)]
pub struct RedactingJobs {
    jobs: Jobs,
    names: Rc<RefCell<Redaction>>,
}

impl Serialize for RedactingJobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let redacted = self.jobs.0.iter().map(|(id, record)| {
            let mut record = record.clone();
            job(&mut record, &mut self.names.borrow_mut());
            (id, record)
        });
        serializer.collect_map(redacted)
    }
}

fn job(record: &mut JobRecord, names: &mut Redaction) {
    let JobRecord {
        spec,
        elements,
        rest,
        leaf: _,
        submitted: _,
        held: _,
        admin_hold,
        started: _,
        waits_for: _,
        total: _,
        next: _,
        begun: _,
        active: _,
        claims: _,
        succeeded: _,
        failed: _,
    } = record;
    *spec = Arc::new(names.job_spec(spec));
    hold(admin_hold, names);
    elements.values_mut().for_each(|one| element(one, names));
    if let Some(rest) = rest {
        let Rest { outcome, from: _, count: _, at: _ } = &mut **rest;
        redact(outcome, names);
    }
}

fn element(element: &mut Element, names: &mut Redaction) {
    let Element {
        phase,
        run,
        last_end,
        saved,
        begun: _,
        attempt: _,
        restarts: _,
        avoid: _,
        avoid_epoch: _,
        claim: _,
    } = element;
    match phase {
        Phase::Ended { outcome, at: _ } => redact(outcome, names),
        Phase::Waiting { admin, held: _, not_before: _ } => hold(admin, names),
        Phase::Active => {}
    }
    if let Some(outcome) = last_end {
        redact(outcome, names);
    }
    if let Some(saved) = saved {
        let Saved { label, at: _, attempt: _ } = &mut **saved;
        *label = "".into();
    }
    if let Some(run) = run {
        attempt(run, names);
    }
}

fn attempt(run: &mut Run, names: &mut Redaction) {
    let Run {
        tasks,
        fate,
        placement: _,
        gpus: _,
        held_from: _,
        started: _,
        ended: _,
        backfilled: _,
        stage: _,
        prepared: _,
        running: _,
        over: _,
        end: _,
        asked: _,
        leaving: _,
        key: _,
        watched: _,
    } = run;
    match fate {
        Some(Fate::Failed(outcome) | Fate::Cancelled(outcome)) => redact(outcome, names),
        Some(Fate::Refused { reason, rank: _, node: _ }) => *reason = "".into(),
        Some(Fate::Preempted | Fate::Requeued) | None => {}
    }
    for task in tasks {
        let TaskState { checkpoint, stage: _, exit: _, ready: _, signals: _ } = task;
        if let Some(told) = checkpoint {
            let TaskCheckpoint { label, count: _, answers: _, warned: _, at: _ } = &mut **told;
            *label = "".into();
        }
    }
}

fn hold(hold: &mut Option<Box<AdminHold>>, names: &mut Redaction) {
    if let Some(hold) = hold {
        let AdminHold { by, own: _ } = &mut **hold;
        *by = names.user(by);
    }
}

fn redact(outcome: &mut Outcome, names: &mut Redaction) {
    *outcome = names.outcome(outcome.clone());
}
