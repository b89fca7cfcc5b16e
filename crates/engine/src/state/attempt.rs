//! Attempts: a start decision creates one; when its last task has ended, the element restarts or
//! ends.

use std::sync::Arc;

use muster_model::view::TaskStage;
use muster_model::{
    Attempt, AttemptId, Decision, Effect, ElementId, JobId, NodeId, Outcome, Plan, Span,
    TaskPlacement, Time,
};
use muster_policy::{BudgetCharge, ModelId};
use smallvec::{SmallVec, smallvec};

use super::State;
use super::after_attempt::AfterAttempt;
use super::entries::EntryOwner;
use super::job::{
    AttemptFate, CheckpointRequests, Element, Phase, Run, RunEnd, RunStage, Signals, TaskState,
};
use super::jobs::JobTable;
use crate::fact::AccountingFact;
use crate::pool::Pool;
use crate::pool::ends::HoldingEnd;

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
            if let Some(ordinal) = self.jobs.ordinal_of(*id) {
                self.heads.add(now, id.job, ordinal);
            }
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
        let expected = self.expected_from(now, &job.record);
        // 1. Take the resources; this ends a pending allocation.
        self.end_pending_allocation(now, id.element.job, ordinal);
        self.heads.forget(id.element.job, ordinal);
        let Some(job) = self.jobs.get_mut(&id.element.job) else { return false };
        let record = &mut job.record;
        let end = record.end_from_start();
        let planned_end = expected.map_or(end.into(), HoldingEnd::After);
        let shape = Arc::clone(self.classes.shape(job.class));
        let gpus = gpus_by_model(&self.pool, placement);
        let key = self.pool.hold(id.element, planned_end, shape, Arc::clone(placement));
        self.policy.hold(now, record.leaf, job.user, &gpus);
        let milli = gpus.iter().map(|(_, milli)| *milli).sum();
        let charge = BudgetCharge { from: now, length: record.duration() };
        self.policy.queues_mut().charge(record.leaf, job.user, milli, charge);
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
            expected,
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
        self.start_waits.update(&mut self.jobs, id.element.job, ordinal);
        self.preemptable.update(&self.jobs, id.element.job, ordinal);
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
            self.policy.queues_mut().settle_charge(now, record.leaf, job.user, milli, charge);
        }
        self.facts.record(|| AccountingFact::AttemptEnded {
            id: attempt,
            user: record.spec.user.clone(),
            queue: self.policy.queues().leaf_name(record.leaf).clone(),
            held_from: run.held_from,
            running_from: run.started,
            at: now,
            gpu_millis: milli.saturating_mul(now.since(run.held_from).0),
            time_limit: record.spec.time_limit,
            placement: Arc::clone(&run.placement),
        });
        self.effects.push(Effect::Forget { id: attempt });
        // 2. Restart or end the element.
        let watched = run.watched.take();
        if let Some(from) = watched {
            self.start_waits.remove_wait(from, id, ordinal);
        }
        if let Some(eviction) = eviction {
            self.pending_allocations.remove_deadline(id, ordinal, eviction.due);
        }
        // An element that was preempted to be resized keeps its pending allocation; any other end
        // gives it up.
        if fate != Some(AttemptFate::Preempted) {
            self.end_pending_allocation(now, id, ordinal);
        }
        if let Some(outcome) = own_end
            && let Some(job) = self.jobs.get_mut(&id)
        {
            job.record.store_outcome(ordinal, outcome);
        }
        self.restart_or_end(
            now,
            id,
            ordinal,
            fate.unwrap_or(AttemptFate::Failed(Outcome::Succeeded)),
        );
        self.preemptable.update(&self.jobs, id, ordinal);
        self.sync(now, EntryOwner { job: id, ordinal: None });
        self.sync(now, EntryOwner { job: id, ordinal: Some(ordinal) });
        self.remove_if_over(now, id);
    }

    /// Requeues or ends an element whose attempt has ended.
    fn restart_or_end(&mut self, now: Time, id: JobId, ordinal: u32, fate: AttemptFate) {
        let Some(job) = self.jobs.get(&id) else { return };
        let refused_by = match &fate {
            AttemptFate::Refused { node, .. } => Some(*node),
            _ => None,
        };
        match job.record.after_attempt(now, ordinal, fate) {
            Some(AfterAttempt::Requeue { outcome, restarts }) => {
                if let Some(node) = refused_by {
                    self.avoid_node(id, ordinal, node);
                }
                let Some(job) = self.jobs.get_mut(&id) else { return };
                if let Some(outcome) = outcome {
                    job.record.store_outcome(ordinal, outcome);
                }
                job.record.requeue(now, ordinal, restarts);
            }
            Some(AfterAttempt::RequeueLater { outcome, not_before }) => {
                let Some(job) = self.jobs.get_mut(&id) else { return };
                job.record.store_outcome(ordinal, outcome);
                job.record.requeue(now, ordinal, None);
                job.record.wait_until(ordinal, not_before);
            }
            Some(AfterAttempt::End(outcome)) => self.end_element(now, id, ordinal, outcome),
            None => {}
        }
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
        if let Some(element) = self.jobs.element_mut(id, ordinal) {
            element.avoid = avoid;
            element.avoid_epoch = epoch;
        }
    }
}

impl JobTable {
    /// Returns the effects that the present state requires; all may be repeated.
    pub(crate) fn outstanding(&self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (id, job) in self.iter() {
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

/// Returns the latest end of an attempt whose processes began to run.
pub(super) fn end_of_run(started: Time, duration: Option<Span>) -> RunEnd {
    duration.map_or(RunEnd::Never, |span| RunEnd::At(started + span))
}
