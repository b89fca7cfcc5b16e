//! Attempts: a decision makes one, and when its last task is over the element restarts or ends.

use std::sync::Arc;

use muster_model::job::Restart;
use muster_model::view::TaskStage;
use muster_model::{
    Attempt, AttemptId, Decision, Effect, ElementId, JobId, NodeId, Outcome, Plan, Span,
    TaskPlacement, Time,
};
use muster_policy::{ModelId, Promise};
use smallvec::{SmallVec, smallvec};

use super::State;
use super::entries::Owner;
use super::job::{Asked, Element, Fate, Phase, Run, RunEnd, RunStage, Signals, TaskState};
use super::pool::Pool;
use crate::fact::Fact;

/// A failed start says nothing about the job, so it is tried again at least this often whatever the
/// job's own policy is: one hiccup of a node must not lose a job.
const START_RETRIES: u32 = 3;

/// Names an attempt.
pub(crate) fn attempt_id(job: JobId, index: u32, attempt: u32) -> AttemptId {
    AttemptId { element: ElementId { job, index }, attempt: Attempt(attempt) }
}

/// Thousandths of GPUs by model that a placement holds. A device that its node no longer has counts
/// for nothing.
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
    /// Decisions enter the state.
    pub(crate) fn commit(&mut self, now: Time, plan: &Plan) {
        let planned = self.lore.awaits(&self.pool, plan);
        let mut has_all = true;
        for decision in &plan.decisions {
            match decision {
                Decision::Start { id, placement, backfilled } => {
                    has_all &= self.start(now, *id, placement, *backfilled);
                }
                Decision::Claim { element, placement, evict } => {
                    self.claim(now, *element, placement, evict);
                }
                Decision::Unclaim { element } => self.unclaim(now, *element),
            }
        }
        for id in &plan.heads {
            self.begin_head(now, *id);
        }
        if let Some(planned) = planned.filter(|_| has_all) {
            self.lore.stand_still(&mut self.pool, planned);
        }
        self.spread_news(now);
    }

    /// False when there is nobody to start.
    fn start(
        &mut self,
        now: Time,
        id: AttemptId,
        placement: &Arc<[TaskPlacement]>,
        backfilled: bool,
    ) -> bool {
        let Some(job) = self.jobs.get(&id.element.job) else { return false };
        let Some(ordinal) = job.record.ordinal_of(id.element.index) else { return false };
        // 1. Hold what it takes; what was promised is kept with that.
        self.end_claim(now, id.element.job, ordinal);
        self.heads.forget(id.element.job, ordinal);
        let Some(job) = self.jobs.get_mut(&id.element.job) else { return false };
        let record = &mut job.record;
        let end = record.end_from_start();
        let shape = Arc::clone(self.classes.shape(job.class));
        let gpus = gpus_by_model(&self.pool, placement);
        let key = self.pool.hold(id.element, end.into(), shape, Arc::clone(placement));
        self.policy.hold(now, record.leaf, job.user, &gpus);
        let milli = gpus.iter().map(|(_, milli)| *milli).sum();
        let promise = Promise { from: now, length: record.duration() };
        self.policy.promise(record.leaf, job.user, milli, promise);
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
            asked: Asked::default(),
            leaving: None,
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
        // 3. Out of the order, and off it goes.
        self.sync(now, Owner { job: id.element.job, ordinal: None });
        self.sync(now, Owner { job: id.element.job, ordinal: Some(ordinal) });
        self.facts.tell(|| Fact::Started { id, at: now, placement: Arc::clone(placement) });
        self.effects.push(Effect::Prepare { id, placement: Arc::clone(placement), payload });
        self.watch(id.element.job, ordinal);
        self.track(id.element.job, ordinal);
        true
    }

    /// Every task of an attempt is over: resources come back, and the element restarts or ends.
    pub(super) fn finish(&mut self, now: Time, id: JobId, ordinal: u32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let record = &mut job.record;
        let (index, length) = (record.index_of(ordinal), record.duration());
        let Some(element) = record.elements.get_mut(&ordinal) else { return };
        let attempt = attempt_id(id, index, element.attempt);
        let Some(run) = element.run.as_mut() else { return };
        // 1. Give back.
        run.ended = Some(now);
        let fate = run.fate.clone().or_else(|| run.left_without_word().then_some(Fate::Preempted));
        let own_end = run.end_while_leaving().filter(|_| fate == Some(Fate::Preempted));
        record.active -= 1;
        self.pool.release(run.key);
        let milli = run.milli();
        let leaving = run.leaving;
        if leaving.is_none() {
            self.policy.release(now, record.leaf, job.user, &run.gpus);
            let promise = Promise { from: run.held_from, length };
            self.policy.settle(now, record.leaf, job.user, milli, promise);
        }
        self.facts.tell(|| Fact::AttemptEnded {
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
        // 2. Again, or over.
        let watched = run.watched.take();
        if let Some(from) = watched {
            self.starting.waits_no_more(from, id, ordinal);
        }
        if let Some(leaving) = leaving {
            self.saves_no_more(id, ordinal, leaving.due);
        }
        // What went for itself goes on, unless it has come to another end on the way.
        if fate != Some(Fate::Preempted) {
            self.end_claim(now, id, ordinal);
        }
        if let Some(outcome) = own_end {
            self.remember_end(id, ordinal, outcome);
        }
        self.fall(now, id, ordinal, fate.unwrap_or(Fate::Failed(Outcome::Succeeded)));
        self.track(id, ordinal);
        self.sync(now, Owner { job: id, ordinal: None });
        self.sync(now, Owner { job: id, ordinal: Some(ordinal) });
        self.leave_if_over(now, id);
    }

    /// An attempt is over: what becomes of its element.
    fn fall(&mut self, now: Time, id: JobId, ordinal: u32, fate: Fate) {
        let Some(job) = self.jobs.get(&id) else { return };
        let restart = job.record.spec.restart;
        let Some(element) = job.record.elements.get(&ordinal) else { return };
        let used = element.restarts_after(now, restart);
        let is_left = used < restart.max_restarts.max(START_RETRIES);
        let has_saved = element.has_saved_in_its_attempt();
        let was_warned = element.takes_turns(&job.record);
        let takes_turns = |outcome: &Outcome| was_warned && is_own_end(outcome);
        match fate {
            Fate::Cancelled(outcome) => self.end_element(now, id, ordinal, outcome),
            Fate::Requeued | Fate::Preempted => self.wait_again(now, id, ordinal, None),
            Fate::Refused { node, rank, reason } if is_left => {
                self.avoid(id, ordinal, node);
                self.remember_end(id, ordinal, Outcome::StartFailed { rank, reason });
                self.wait_again(now, id, ordinal, Some(used.saturating_add(1)));
            }
            Fate::Refused { rank, reason, .. } => {
                self.end_element(now, id, ordinal, Outcome::StartFailed { rank, reason });
            }
            // It can never be started.
            Fate::Failed(outcome @ Outcome::StartFailed { .. }) => {
                self.end_element(now, id, ordinal, outcome);
            }
            // Its next turn counts as a restart where this one saved nothing.
            Fate::Failed(outcome) if takes_turns(&outcome) && (has_saved || is_left) => {
                self.remember_end(id, ordinal, outcome);
                self.wait_again(now, id, ordinal, (!has_saved).then(|| used.saturating_add(1)));
            }
            Fate::Failed(outcome) if is_restarted(restart, used, &outcome) => {
                self.remember_end(id, ordinal, outcome);
                self.wait_again(now, id, ordinal, Some(used.saturating_add(1)));
            }
            Fate::Failed(outcome) => self.end_element(now, id, ordinal, outcome),
        }
    }

    /// Keeps how an attempt ended that is followed by another.
    fn remember_end(&mut self, id: JobId, ordinal: u32, outcome: Outcome) {
        if let Some(element) = self.element_mut(id, ordinal) {
            element.last_end = Some(Box::new(outcome));
        }
    }

    /// Back into the queue, after a back-off when this is a restart.
    fn wait_again(&mut self, now: Time, id: JobId, ordinal: u32, restarts: Option<u32>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let restart = job.record.spec.restart;
        let mut phase = job.record.waiting_phase(Time(0));
        let Some(element) = job.record.elements.get_mut(&ordinal) else { return };
        if let (Some(restarts), Phase::Waiting { not_before, .. }) = (restarts, &mut phase) {
            element.restarts = restarts;
            *not_before = now + backoff(restart, restarts);
        }
        job.record.claims += u32::from(element.claim.is_some());
        element.phase = phase;
    }

    /// Keeps an element off the node on which it could not be started, if the others can host it:
    /// as they are, since nothing but a change of them or of the queues ends that.
    fn avoid(&mut self, id: JobId, ordinal: u32, node: NodeId) {
        let epoch = self.pool.epoch();
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(element) = job.record.elements.get(&ordinal) else { return };
        let mut avoid: SmallVec<[NodeId; 1]> = match element.avoid_epoch == epoch {
            true => element.avoid.clone(),
            false => SmallVec::new(),
        };
        avoid.push(node);
        let caps = self.policy.most_ever_of(job.record.leaf, job.record.duration()).into();
        if !crate::plan::idle::fits_working(
            &self.pool,
            self.classes.shape(job.class),
            &avoid,
            &caps,
        ) {
            return;
        }
        if let Some(element) = self.element_mut(id, ordinal) {
            (element.avoid, element.avoid_epoch) = (avoid, epoch);
        }
    }

    /// Effects that present state still stands for.
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

/// Does an attempt that ended so make room for another?
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

/// True for a bad end that the job's own limits did not bring about.
fn is_own_end(outcome: &Outcome) -> bool {
    !matches!(outcome, Outcome::Succeeded | Outcome::TimedOut | Outcome::Idle { .. })
}

/// How long to wait before a restart: doubles each time, up to a cap.
fn backoff(restart: Restart, restarts: u32) -> Span {
    let doublings = restarts.saturating_sub(1).min(32);
    Span(restart.backoff.0.saturating_mul(1 << doublings)).min(Restart::BACKOFF_CAP)
}

/// The end of an attempt whose processes began to run.
pub(super) fn end_of_run(started: Time, duration: Option<Span>) -> RunEnd {
    duration.map_or(RunEnd::Never, |span| RunEnd::At(started + span))
}
