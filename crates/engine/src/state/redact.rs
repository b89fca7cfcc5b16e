//! Redaction of the durable state for sharing: it plans the same, and contains no names. The
//! replacement of each name is in `model`; this module applies it. Structs with names are
//! destructured field by field, so that a new field does not compile until its redaction is
//! decided.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use muster_model::{Outcome, Redaction, TaskCheckpoint};
use serde::{Serialize, Serializer};

use super::advance_reservation::PlacedReservation;
use super::job::{
    AdminHold, AttemptFate, CommonEnd, Element, JobRecord, Phase, Run, SavedProgress, TaskState,
};
use super::snapshot::{Snapshot, SnapshotJobs, StoredNode};

impl Snapshot {
    /// Replaces all names. Returns the redacted snapshot, which plans the same, and the replaced
    /// names.
    #[must_use]
    pub fn redacted(self) -> (Self, Redaction) {
        let Snapshot {
            policy,
            levels,
            nodes,
            epoch,
            advance_reservations,
            jobs,
            recent,
            mix,
            move_budget,
            heads,
        } = self.redacting();
        let RedactingJobs { mut jobs, names } = jobs;
        let names = &mut *names.borrow_mut();
        jobs.0.values_mut().for_each(|record| job(record, names));
        let given = names.clone();
        (
            Self {
                policy,
                levels,
                nodes,
                epoch,
                advance_reservations,
                jobs,
                recent,
                mix,
                move_budget,
                heads,
            },
            given,
        )
    }

    /// Replaces all names; those in jobs only while they are serialised, so that no second copy of
    /// all jobs is made.
    #[must_use]
    pub fn redacting(self) -> Snapshot<RedactingJobs> {
        let Self {
            mut policy,
            levels,
            nodes,
            epoch,
            advance_reservations,
            jobs,
            recent,
            mix,
            move_budget,
            heads,
        } = self;
        let reservation_names = advance_reservations.iter().map(|placed| &placed.reservation.name);
        let mut given = Redaction::of(nodes.iter().map(|node| &node.spec), reservation_names);
        let names = &mut given;
        // Users are renamed in the order of their ids: equal states get equal names.
        policy.rename_users(|user| names.user(user));
        let nodes = nodes.into_iter().map(|node| {
            let StoredNode { spec, up, drained, foreign, drains } = node;
            let drained = drained.map(|_| "".into());
            StoredNode {
                spec: names.node_spec(spec),
                up,
                drained,
                foreign: names.foreign(foreign),
                drains: drains.redacted(names),
            }
        });
        let nodes = nodes.collect();
        let advance_reservations = advance_reservations.into_iter().map(|placed| {
            let PlacedReservation { reservation, places } = placed;
            PlacedReservation {
                reservation: Arc::new(names.advance_reservation_spec(&reservation)),
                places: places.into_iter().map(|place| names.reserved_place(place)).collect(),
            }
        });
        let advance_reservations = advance_reservations.collect();
        let jobs = RedactingJobs { jobs, names: Rc::new(RefCell::new(given)) };
        Snapshot {
            policy,
            levels,
            nodes,
            epoch,
            advance_reservations,
            jobs,
            recent,
            mix,
            move_budget,
            heads,
        }
    }
}

impl Snapshot<RedactingJobs> {
    /// Returns the replacements of names. Those in jobs are included once the snapshot is
    /// serialised.
    #[must_use]
    pub fn names(&self) -> Rc<RefCell<Redaction>> {
        Rc::clone(&self.jobs.names)
    }
}

/// Jobs of a snapshot that are redacted one by one while they are serialised.
#[derive(Debug)]
pub struct RedactingJobs {
    jobs: SnapshotJobs,
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
        pending_allocations: _,
        succeeded: _,
        failed: _,
    } = record;
    *spec = Arc::new(names.job_spec(spec));
    hold(admin_hold, names);
    elements.values_mut().for_each(|one| element(one, names));
    if let Some(rest) = rest {
        let CommonEnd { outcome, from: _, count: _, at: _ } = &mut **rest;
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
        pending_allocation: _,
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
        let SavedProgress { label, at: _, attempt: _ } = &mut **saved;
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
        expected: _,
        asked: _,
        eviction: _,
        key: _,
        watched: _,
    } = run;
    match fate {
        Some(
            AttemptFate::Failed(outcome)
            | AttemptFate::Cancelled(outcome)
            | AttemptFate::IdleRequeued { outcome, wait: _ },
        ) => redact(outcome, names),
        Some(AttemptFate::Refused { reason, rank: _, node: _ }) => *reason = "".into(),
        Some(AttemptFate::Preempted | AttemptFate::Requeued) | None => {}
    }
    for task in tasks {
        let TaskState { checkpoint, stage: _, exit: _, ready: _, signals: _ } = task;
        if let Some(reported) = checkpoint {
            let TaskCheckpoint { label, count: _, answers: _, warned: _, at: _ } = &mut **reported;
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
