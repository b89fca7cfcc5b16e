//! Attempts: a start decision creates one; when its last task has ended, the element restarts or
//! ends.

use std::sync::Arc;

use muster_model::job::Restart;
use muster_model::view::TaskStage;
use muster_model::{
    Attempt, AttemptId, Decision, Effect, ElementId, JobId, NodeId, Outcome, Plan, Span,
    TaskPlacement, Time,
};
use muster_policy::{BudgetCharge, ModelId};
use smallvec::{SmallVec, smallvec};

use super::State;
use super::entries::EntryOwner;
use super::job::{
    AttemptFate, CheckpointRequests, Element, Phase, Run, RunEnd, RunStage, Signals, TaskState,
};
use crate::fact::AccountingFact;
use crate::pool::Pool;

/// Minimum number of retries of a failed start, whatever the job's own restart policy: a failed
/// start says nothing about the job, and one fault of a node must not lose it.
const START_RETRIES: u32 = 3;

/// Returns the id of an attempt.
pub(crate) fn attempt_id(job: JobId, index: u32, attempt: u32) -> AttemptId {
    AttemptId { element: ElementId { job, index }, attempt: Attempt(attempt) }
}

/// Returns the thousandths of GPUs by model that a placement holds. A device that its node no
/// longer has does not count.
pub(crate) fn gpus_by_model(
    pool: &Pool,
    placement: &[TaskPlacement],
) -> SmallVec<[(ModelId, u64); 1]> {
    let mut sums: SmallVec<[(ModelId, u64); 1]> = SmallVec::new();
    for task in placement {
        let Some(model) =
            task.devices.iter().next().and_then(|device| pool.node(task.node).model_of(device))
        else {
            continue;
        };
        let milli = u64::from(task.devices.len()) * u64::from(task.share.0);
        match sums.iter_mut().find(|(known, _)| *known == model) {
            Some((_, sum)) => *sum += milli,
            None => sums.push((model, milli)),
        }
    }
    sums.sort_unstable();
    sums
}

impl State {
    /// Applies the decisions of a plan to the state. Returns whether all its starts were made: none
    /// of their jobs was gone.
    pub(crate) fn commit(&mut self, now: Time, plan: &Plan) -> bool {
        let mut has_all = true;
        for decision in &plan.decisions {
            match decision {
                Decision::Start { id, placement, backfilled } => {
                    has_all &= self.start(now, *id, placement, *backfilled);
                }
                Decision::Nominate { element, placement, evict } => {
                    self.nominate(now, *element, placement, evict);
                }
                Decision::Revoke { element } => self.revoke_allocation(now, *element),
            }
        }
        for id in &plan.heads {
            self.add_head(now, *id);
        }
        self.recheck_dependents(now);
        has_all
    }

    /// Starts an element; false if the job or the element no longer exists.
    fn start(
        &mut self,
        now: Time,
        id: AttemptId,
        placement: &Arc<[TaskPlacement]>,
        backfilled: bool,
    ) -> bool {
        let Some(job) = self.jobs.get(&id.element.job) else { return false };
        let Some(ordinal) = job.record.ordinal_of(id.element.index) else { return false };
        // 1. Take the resources; this ends a pending allocation.
        self.end_pending_allocation(now, id.element.job, ordinal);
        self.heads.forget(id.element.job, ordinal);
        let Some(job) = self.jobs.get_mut(&id.element.job) else { return false };
        let record = &mut job.record;
        let end = record.end_from_start();
        let shape = Arc::clone(self.classes.shape(job.class));
        let gpus = gpus_by_model(&self.pool, placement);
        let key = self.pool.hold(id.element, end.into(), shape, Arc::clone(placement));
        self.policy.hold(now, record.leaf, job.user, &gpus);
        let milli = gpus.iter().map(|(_, milli)| *milli).sum();
        let charge = BudgetCharge { from: now, length: record.duration() };
        self.policy.charge(record.leaf, job.user, milli, charge);
        // 2. Record the attempt.
        let run = Run {
            placement: Arc::clone(placement),
            gpus,
            held_from: now,
            started: None,
            ended: None,
            backfilled,
            stage: RunStage::Preparing,
            tasks: smallvec![
                TaskState { stage: TaskStage::Ordered, exit: None, ready: false, checkpoint: None, signals: Signals::default() };
                placement.len()
            ],
            prepared: 0,
            running: 0,
            over: 0,
            fate: None,
            end,
            asked: CheckpointRequests::default(),
            eviction: None,
            key,
            watched: None,
        };
        let element = record
            .elements
            .entry(ordinal)
            .or_insert_with(|| Box::new(Element::waiting(false, Time(0))));
        element.phase = Phase::Active;
        element.attempt = id.attempt.0;
        element.run = Some(run);
        record.active += 1;
        record.advance();
        let payload = record.spec.payload;
        // 3. Leave the queue order, and order the backend to prepare the tasks.
        self.sync(now, EntryOwner { job: id.element.job, ordinal: None });
        self.sync(now, EntryOwner { job: id.element.job, ordinal: Some(ordinal) });
        self.facts.record(|| AccountingFact::Started {
            id,
            at: now,
            placement: Arc::clone(placement),
        });
        self.effects.push(Effect::Prepare { id, placement: Arc::clone(placement), payload });
        self.update_start_wait(id.element.job, ordinal);
        self.update_preemptable(id.element.job, ordinal);
        true
    }

    /// Ends an attempt whose tasks have all ended: releases its resources, then restarts or ends
    /// the element.
    pub(super) fn finish(&mut self, now: Time, id: JobId, ordinal: u32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let record = &mut job.record;
        let index = record.index_of(ordinal);
        let length = record.duration();
        let Some(element) = record.elements.get_mut(&ordinal) else { return };
        let attempt = attempt_id(id, index, element.attempt);
        let Some(run) = element.run.as_mut() else { return };
        // 1. Release the resources.
        run.ended = Some(now);
        let fate = run
            .fate
            .clone()
            .or_else(|| run.exited_without_acknowledgement().then_some(AttemptFate::Preempted));
        let own_end = run.failure_while_evicted().filter(|_| fate == Some(AttemptFate::Preempted));
        record.active -= 1;
        self.pool.release(run.key);
        let milli = run.milli();
        let eviction = run.eviction;
        if eviction.is_none() {
            self.policy.release(now, record.leaf, job.user, &run.gpus);
            let charge = BudgetCharge { from: run.held_from, length };
            self.policy.settle_charge(now, record.leaf, job.user, milli, charge);
        }
        self.facts.record(|| AccountingFact::AttemptEnded {
            id: attempt,
            user: record.spec.user.clone(),
            queue: self.policy.leaf_name(record.leaf).clone(),
            held_from: run.held_from,
            running_from: run.started,
            at: now,
            gpu_millis: milli.saturating_mul(now.since(run.held_from).0),
            placement: Arc::clone(&run.placement),
        });
        self.effects.push(Effect::Forget { id: attempt });
        // 2. Restart or end the element.
        let watched = run.watched.take();
        if let Some(from) = watched {
            self.start_waits.remove_wait(from, id, ordinal);
        }
        if let Some(eviction) = eviction {
            self.remove_eviction_deadline(id, ordinal, eviction.due);
        }
        // An element that was preempted to be resized keeps its pending allocation; any other end
        // gives it up.
        if fate != Some(AttemptFate::Preempted) {
            self.end_pending_allocation(now, id, ordinal);
        }
        if let Some(outcome) = own_end {
            self.store_outcome(id, ordinal, outcome);
        }
        self.restart_or_end(
            now,
            id,
            ordinal,
            fate.unwrap_or(AttemptFate::Failed(Outcome::Succeeded)),
        );
        self.update_preemptable(id, ordinal);
        self.sync(now, EntryOwner { job: id, ordinal: None });
        self.sync(now, EntryOwner { job: id, ordinal: Some(ordinal) });
        self.remove_if_over(now, id);
    }

    /// Requeues or ends an element whose attempt has ended.
    fn restart_or_end(&mut self, now: Time, id: JobId, ordinal: u32, fate: AttemptFate) {
        let Some(job) = self.jobs.get(&id) else { return };
        let restart = job.record.spec.restart;
        let Some(element) = job.record.elements.get(&ordinal) else { return };
        let used = element.restarts_after(now, restart);
        let is_left = used < restart.max_restarts.max(START_RETRIES);
        let has_saved = element.has_saved_in_its_attempt();
        let was_warned = element.is_requeued_at_limit(&job.record);
        let takes_turns = |outcome: &Outcome| was_warned && is_own_failure(outcome);
        match fate {
            AttemptFate::Cancelled(outcome) => self.end_element(now, id, ordinal, outcome),
            AttemptFate::Requeued | AttemptFate::Preempted => {
                self.requeue_element(now, id, ordinal, None)
            }
            AttemptFate::Refused { node, rank, reason } if is_left => {
                self.avoid_node(id, ordinal, node);
                self.store_outcome(id, ordinal, Outcome::StartFailed { rank, reason });
                self.requeue_element(now, id, ordinal, Some(used.saturating_add(1)));
            }
            AttemptFate::Refused { rank, reason, .. } => {
                self.end_element(now, id, ordinal, Outcome::StartFailed { rank, reason });
            }
            // The start can never succeed.
            AttemptFate::Failed(outcome @ Outcome::StartFailed { .. }) => {
                self.end_element(now, id, ordinal, outcome);
            }
            // A run that was stopped at its time limit counts as a restart only if it saved
            // nothing.
            AttemptFate::Failed(outcome) if takes_turns(&outcome) && (has_saved || is_left) => {
                self.store_outcome(id, ordinal, outcome);
                self.requeue_element(
                    now,
                    id,
                    ordinal,
                    (!has_saved).then(|| used.saturating_add(1)),
                );
            }
            AttemptFate::Failed(outcome) if is_restarted(restart, used, &outcome) => {
                self.store_outcome(id, ordinal, outcome);
                self.requeue_element(now, id, ordinal, Some(used.saturating_add(1)));
            }
            AttemptFate::Failed(outcome) => self.end_element(now, id, ordinal, outcome),
        }
    }

    /// Stores the outcome of an attempt that is followed by another.
    fn store_outcome(&mut self, id: JobId, ordinal: u32, outcome: Outcome) {
        if let Some(element) = self.element_mut(id, ordinal) {
            element.last_end = Some(Box::new(outcome));
        }
    }

    /// Puts an element back into the queue, after a back-off if this is a restart.
    fn requeue_element(&mut self, now: Time, id: JobId, ordinal: u32, restarts: Option<u32>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let restart = job.record.spec.restart;
        let mut phase = job.record.waiting_phase(Time(0));
        let Some(element) = job.record.elements.get_mut(&ordinal) else { return };
        if let (Some(restarts), Phase::Waiting { not_before, .. }) = (restarts, &mut phase) {
            element.restarts = restarts;
            *not_before = now + backoff(restart, restarts);
        }
        job.record.pending_allocations += u32::from(element.pending_allocation.is_some());
        element.phase = phase;
    }

    /// Keeps an element off a node on which it failed to start, if the other nodes can host it. A
    /// change of the nodes or queues ends this.
    fn avoid_node(&mut self, id: JobId, ordinal: u32, node: NodeId) {
        let epoch = self.pool.epoch();
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(element) = job.record.elements.get(&ordinal) else { return };
        let mut avoid: SmallVec<[NodeId; 1]> =
            if element.avoid_epoch == epoch { element.avoid.clone() } else { SmallVec::new() };
        avoid.push(node);
        let caps = self.policy.max_by_model(job.record.leaf, job.record.duration()).into();
        if !crate::place::feasibility::fits_in_service(
            &self.pool,
            self.classes.shape(job.class),
            &avoid,
            &caps,
        ) {
            return;
        }
        if let Some(element) = self.element_mut(id, ordinal) {
            element.avoid = avoid;
            element.avoid_epoch = epoch;
        }
    }

    /// Returns the effects that the present state requires; all may be repeated.
    pub(crate) fn outstanding(&self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (id, job) in self.jobs.iter() {
            for (ordinal, element) in &job.record.elements {
                let Some(run) = element.run.as_ref().filter(|_| element.phase == Phase::Active)
                else {
                    continue;
                };
                let id = attempt_id(*id, job.record.index_of(*ordinal), element.attempt);
                match run.stage {
                    RunStage::Preparing => effects.push(Effect::Prepare {
                        id,
                        placement: Arc::clone(&run.placement),
                        payload: job.record.spec.payload,
                    }),
                    RunStage::Going => effects.push(Effect::Go { id }),
                    RunStage::Running => {
                        let request = run.asked.unanswered.map(|_| run.asked.count);
                        effects.extend(request.map(|request| Effect::Checkpoint { id, request }));
                    }
                    RunStage::Stopping(cause) => effects.push(Effect::Stop { id, cause }),
                }
            }
        }
        effects
    }
}

/// True when an element restarts after an attempt with this outcome.
fn is_restarted(restart: Restart, used: u32, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Idle { .. } | Outcome::Cancelled { .. } | Outcome::DependencyFailed { .. } => {
            false
        }
        Outcome::Succeeded | Outcome::TimedOut => restart.always,
        Outcome::Failed { .. }
        | Outcome::Signaled { .. }
        | Outcome::OutOfMemory { .. }
        | Outcome::Lost { .. }
        | Outcome::StartFailed { .. }
        | Outcome::Native { .. } => restart.on_failure && used < restart.max_restarts,
    }
}

/// True for a failure that was not caused by the job's own limits.
fn is_own_failure(outcome: &Outcome) -> bool {
    !matches!(outcome, Outcome::Succeeded | Outcome::TimedOut | Outcome::Idle { .. })
}

/// Returns the delay before a restart: doubles each time, up to a cap.
fn backoff(restart: Restart, restarts: u32) -> Span {
    let doublings = restarts.saturating_sub(1).min(32);
    Span(restart.backoff.0.saturating_mul(1 << doublings)).min(Restart::BACKOFF_CAP)
}

/// Returns the latest end of an attempt whose processes began to run.
pub(super) fn end_of_run(started: Time, duration: Option<Span>) -> RunEnd {
    duration.map_or(RunEnd::Never, |span| RunEnd::At(started + span))
}
