//! A second account of every job, kept from the journal alone: what was accepted, asked for, started and reported. It says
//! how each element must end and finds what the engine says otherwise. It shares no code with the engine and never plans.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::{
    AttemptId, CheckpointBy, Decision, Dependency, DependencyKind, ElementId, Event, Eviction, EvictionCause,
    JobId, JobSpec, Kind, NodeId, NodeName, Observation, Outcome, QueueName, QueueSpec, QueueTree, Rank,
    Replicas, Restart, Span, Target, TaskCheckpoint, TaskPlacement, Time, Topology, TopologyRule, UserName,
};
use muster_runtime::engine::Fact;
use muster_runtime::{Batch, Record};

use super::attempt::{Attempt, Fate};
use super::budget::{self, Spent};
use super::claims::{self, Claim, Claims};
use super::cover::Cover;
use super::windows::{self, Windows};
use super::{holdings, site, topology};

/// A failed start is tried again at least so often (docs/jobs.md, `restart`).
const START_RETRIES: u32 = 3;

/// Where an element stands.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Waits { held: bool, not_before: Time },
    Active(Box<Attempt>),
    Ended(Outcome),
}

/// One element.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) phase: Phase,
    /// What its saved progress is called.
    pub(crate) saved: Option<Arc<str>>,
    attempts: u32,
    restarts: u32,
    begun: bool,
}

impl Element {
    fn new(held: bool) -> Self {
        let phase = Phase::Waits { held, not_before: Time(0) };
        Self { phase, saved: None, attempts: 0, restarts: 0, begun: false }
    }

    /// It is over, and is not any more.
    fn wait_again(&mut self, held: bool) {
        (self.phase, self.restarts) = (Phase::Waits { held, not_before: Time(0) }, 0);
    }

    /// It was never started.
    pub(crate) fn is_new(&self) -> bool {
        self.attempts == 0
    }
}

/// One job that is not over.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) spec: Arc<JobSpec>,
    /// The leaf that it waits in.
    pub(crate) leaf: QueueName,
    held: bool,
    /// Jobs whose start it waited for, and that have begun. A service may have to begin anew when it is given more.
    met: BTreeSet<JobId>,
    pub(crate) elements: BTreeMap<u32, Element>,
}

impl Job {
    /// All of it has begun; of a service what it promises to be, or its first.
    fn has_begun(&self) -> bool {
        let floor = self.spec.service().map(|service| service.replicas.floor.max(1));
        let counts = |index: u32| floor.is_none_or(|floor| index < floor);
        self.elements.iter().all(|(index, element)| element.begun || !counts(*index))
    }
}

/// Everything that the journal says.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    pub(crate) jobs: BTreeMap<JobId, Job>,
    /// Jobs that are over, and whether all of them succeeded.
    pub(crate) over: BTreeMap<JobId, bool>,
    /// What jobs waited for that have ended for it in the batch at hand.
    waited_for: BTreeMap<JobId, Vec<Dependency>>,
    pub(crate) nodes: Vec<holdings::Host>,
    pub(crate) queues: QueueTree,
    /// Levels of the topology, widest first.
    pub(crate) levels: Vec<Arc<str>>,
    pub(crate) claims: Claims,
    pub(crate) windows: Windows,
    /// What attempts that are over took, since the queues are what they are.
    pub(crate) spent: Vec<Spent>,
    /// Ends of elements and of jobs that this batch must tell.
    ends: Vec<(ElementId, Outcome)>,
    job_ends: Vec<(JobId, bool)>,
    running: Vec<muster_model::AttemptId>,
    /// The name of every job ever accepted.
    names: BTreeMap<Arc<str>, JobId>,
}

impl Book {
    pub(crate) fn new(queues: QueueTree) -> Self {
        Self {
            jobs: BTreeMap::new(),
            over: BTreeMap::new(),
            waited_for: BTreeMap::new(),
            nodes: Vec::new(),
            queues,
            levels: Vec::new(),
            claims: Claims::default(),
            windows: Windows::new(),
            spent: Vec::new(),
            ends: Vec::new(),
            job_ends: Vec::new(),
            running: Vec::new(),
            names: BTreeMap::new(),
        }
    }

    /// True for a job that was accepted.
    pub(crate) fn knows(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job) || self.over.contains_key(&job)
    }

    /// The job of this name.
    pub(crate) fn named(&self, name: &str) -> Option<JobId> {
        self.names.get(name).copied()
    }

    /// Attempts that hold something.
    pub(crate) fn active(&self) -> impl Iterator<Item = (&Job, &Attempt)> {
        self.jobs.values().flat_map(|job| {
            job.elements.values().filter_map(move |element| match &element.phase {
                Phase::Active(attempt) => Some((job, &**attempt)),
                Phase::Waits { .. } | Phase::Ended(_) => None,
            })
        })
    }

    /// What counts in quota and limits: what holds its places and was not told to go, and what was promised places.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&Job, &[TaskPlacement])> {
        self.counted_without(&[])
    }

    /// As [`Book::counted`], as if some attempts had been told to go.
    pub(crate) fn counted_without(
        &self,
        gone: &[AttemptId],
    ) -> impl Iterator<Item = (&Job, &[TaskPlacement])> {
        let stays = move |attempt: &&Attempt| attempt.leaving.is_none() && !gone.contains(&attempt.id);
        let holds = self.active().filter(move |(_, attempt)| stays(attempt));
        let holds = holds.map(|(job, attempt)| (job, &*attempt.placement));
        let promised = self.claims.of.iter();
        holds.chain(promised.filter_map(|(id, claim)| Some((self.jobs.get(&id.job)?, &*claim.placement))))
    }

    /// As [`Book::counted`], and from when on.
    pub(crate) fn counted_since(&self) -> impl Iterator<Item = (&Job, &[TaskPlacement], Time)> {
        let holds = self.active().filter(|(_, attempt)| attempt.leaving.is_none());
        let holds = holds.map(|(job, attempt)| (job, &*attempt.placement, attempt.held_from));
        let promised = self.claims.of.iter();
        holds.chain(
            promised
                .filter_map(|(id, claim)| Some((self.jobs.get(&id.job)?, &*claim.placement, claim.since))),
        )
    }

    /// The leaf in which a job waits and is counted.
    pub(crate) fn leaf_of<'a>(&'a self, job: &'a Job) -> &'a str {
        job.leaf.as_str()
    }

    /// The attempt that an element holds something for.
    pub(crate) fn attempt(&self, id: ElementId) -> Option<&Attempt> {
        match &self.jobs.get(&id.job)?.elements.get(&id.index)?.phase {
            Phase::Active(attempt) => Some(attempt),
            Phase::Waits { .. } | Phase::Ended(_) => None,
        }
    }

    /// Enters what became durable, and compares what the engine says of it.
    ///
    /// # Errors
    /// What the engine says or does otherwise.
    pub(crate) fn enter(&mut self, batch: &Batch, cover: &mut Cover) -> Result<(), String> {
        for record in &batch.records {
            match record {
                Record::Event(event) => self.event(batch.at, event, cover)?,
                Record::Plan(plan) => {
                    for decision in &plan.decisions {
                        self.decision(batch.at, decision, cover)?;
                    }
                }
            }
            self.dependencies();
        }
        self.compare(&batch.facts, cover)
    }

    fn event(&mut self, at: Time, event: &Event, cover: &mut Cover) -> Result<(), String> {
        if changes_the_world(event) {
            self.claims.intervene();
        }
        match event {
            Event::Submitted { job, spec } => self.submitted(*job, spec)?,
            Event::Hold(target) => self.hold(*target, true),
            Event::Release(target) => self.hold(*target, false),
            Event::Cancel { target, by } => self.cancel(*target, by),
            Event::Requeue(target) => self.requeue(*target),
            Event::QueuesSet(tree) => self.queues_set(tree),
            Event::LevelsSet(levels) => self.levels.clone_from(levels),
            Event::Checkpoint(target) => self.ask_checkpoint(*target, cover),
            Event::Scaled { job, replicas, by } => self.scaled(*job, *replicas, by, cover),
            Event::WindowSet(_) | Event::WindowPlaced { .. } | Event::WindowDropped { .. } => {
                windows::enter(&mut self.windows, event, cover);
            }
            Event::Task(report) => {
                let id = report.id;
                if let Observation::Checkpointed(told) = &report.what {
                    self.acknowledged(id, report.rank, told, cover);
                    return Ok(());
                }
                if let Some(attempt) = self.attempt_mut(id.element).filter(|attempt| attempt.id == id) {
                    if attempt.hear(report.rank, &report.what) {
                        attempt.ran_from = Some(at);
                        self.running.push(id);
                    }
                    self.settle(at, id.element);
                }
            }
            Event::StartOverdue { id, after } => {
                cover.overdue += 1;
                let Some(attempt) = self.attempt_mut(id.element).filter(|attempt| attempt.id == *id) else {
                    return Err(format!("{id} is given up though it is over"));
                };
                if at < attempt.held_from + *after {
                    return Err(format!("{id} is given up before its time"));
                }
                attempt.overdue(*after)?;
                self.settle(at, id.element);
            }
            Event::EvictionDue { id } => {
                self.eviction_due(at, *id)?;
                cover.unsaved += 1;
            }
            Event::NodeLost { node, reason } => self.node_lost(at, node, reason),
            Event::NodeJoined(spec) => match self.host_mut(&spec.name) {
                Some(host) => (host.spec, host.up) = ((**spec).clone(), true),
                None => self.nodes.push(holdings::Host::new(spec)),
            },
            Event::NodeDrained { node, drained, .. } => {
                if let Some(host) = self.host_mut(node) {
                    host.drained_from = drained.then_some(at);
                }
            }
            Event::DrainSet { node, devices, drain } => {
                if let Some(host) = self.host_mut(node) {
                    host.set_drain(*devices, drain.as_ref().map(|drain| drain.from));
                }
            }
            Event::ForeignUse { node, foreign } => {
                if let Some(host) = self.host_mut(node) {
                    host.foreign = foreign.clone();
                }
            }
        }
        Ok(())
    }

    /// Who was told to go has not saved its progress in time.
    fn eviction_due(&mut self, at: Time, id: AttemptId) -> Result<(), String> {
        let attempt = self.attempt_mut(id.element).filter(|attempt| attempt.id == id);
        let attempt = attempt.ok_or_else(|| format!("{id} is to go though it is over"))?;
        match attempt.leaving {
            Some(due) if due <= at => attempt.stop(Fate::Preempted),
            _ => return Err(format!("{id} is to go now, though nobody told it so")),
        }
        Ok(())
    }

    fn queues_set(&mut self, tree: &QueueTree) {
        let leaves = site::leaves(tree);
        for job in self.jobs.values_mut().filter(|job| !leaves.contains(&job.leaf)) {
            job.leaf = tree.default_queue.clone();
        }
        self.queues = tree.clone();
        self.spent.clear();
    }

    fn host_mut(&mut self, name: &NodeName) -> Option<&mut holdings::Host> {
        self.nodes.iter_mut().find(|host| host.spec.name == *name)
    }

    fn attempt_mut(&mut self, id: ElementId) -> Option<&mut Attempt> {
        match &mut self.jobs.get_mut(&id.job)?.elements.get_mut(&id.index)?.phase {
            Phase::Active(attempt) => Some(attempt),
            Phase::Waits { .. } | Phase::Ended(_) => None,
        }
    }

    fn submitted(&mut self, id: JobId, spec: &Arc<JobSpec>) -> Result<(), String> {
        if self.knows(id) {
            return Err(format!("the number {id} is given twice"));
        }
        if let Some(first) = self.names.insert(Arc::clone(&spec.name), id) {
            return Err(format!("{} is accepted twice, as {first} and as {id}", spec.name));
        }
        let indices: Vec<u32> = match (spec.service(), &spec.array) {
            (Some(service), _) => (0..service.replicas.ceiling).collect(),
            (None, Some(array)) => array.indices().collect(),
            (None, None) => vec![0],
        };
        let elements = indices.into_iter().map(|index| (index, Element::new(spec.held))).collect();
        let leaf = spec.queue.clone();
        self.jobs.insert(
            id,
            Job { spec: Arc::clone(spec), leaf, held: spec.held, met: BTreeSet::new(), elements },
        );
        Ok(())
    }

    fn hold(&mut self, target: Target, hold: bool) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        if target.index.is_none() {
            job.held = hold;
        }
        let mut promised = Vec::new();
        for (index, element) in meant(job, target) {
            if let Phase::Waits { held, .. } = &mut element.phase {
                *held = hold;
                promised.push(ElementId { job: target.job, index });
            }
        }
        // Who may not start gives up what it was promised.
        self.claims.of.retain(|id, _| !hold || !promised.contains(id));
    }

    /// A service has other numbers: replicas beyond the new ceiling end, those below it come, or come back.
    fn scaled(&mut self, id: JobId, replicas: Replicas, by: &UserName, cover: &mut Cover) {
        cover.scaled += 1;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Kind::Service(service) = &mut Arc::make_mut(&mut job.spec).kind else { return };
        let old = std::mem::replace(&mut service.replicas, replicas);
        for index in old.ceiling..replicas.ceiling {
            let element = job.elements.entry(index).or_insert_with(|| Element::new(job.held));
            match &mut element.phase {
                Phase::Waits { .. } => {}
                Phase::Active(attempt) => attempt.go_on(),
                Phase::Ended(_) => element.wait_again(job.held),
            }
        }
        for index in replicas.ceiling..old.ceiling {
            self.cancel(Target { job: id, index: Some(index) }, by);
        }
    }

    fn ask_checkpoint(&mut self, target: Target, cover: &mut Cover) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        for (_, element) in meant(job, target) {
            if let Phase::Active(attempt) = &mut element.phase
                && attempt.is_running()
            {
                cover.checkpoints += 1;
                attempt.ask();
            }
        }
    }

    fn acknowledged(&mut self, id: AttemptId, rank: Rank, told: &TaskCheckpoint, cover: &mut Cover) {
        let Some(job) = self.jobs.get_mut(&id.element.job) else { return };
        let by = job.spec.checkpoint.map_or(CheckpointBy::First, |terms| terms.by);
        let Some(element) = job.elements.get_mut(&id.element.index) else { return };
        let Phase::Active(attempt) = &mut element.phase else { return };
        if attempt.id == id
            && let Some(label) = attempt.acknowledge(rank, told, by)
        {
            cover.saved += 1;
            element.saved = Some(label);
        }
    }

    fn cancel(&mut self, target: Target, by: &UserName) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        let mut ended = Vec::new();
        for (index, element) in meant(job, target) {
            match &mut element.phase {
                Phase::Waits { .. } => ended.push(index),
                Phase::Active(attempt) => attempt.stop(Fate::Cancelled(by.clone())),
                Phase::Ended(_) => {}
            }
        }
        for index in ended {
            self.end(ElementId { job: target.job, index }, Outcome::Cancelled { by: by.clone() });
        }
    }

    fn requeue(&mut self, target: Target) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        let job_held = job.held;
        // What a service was scaled down by is no part of it.
        let most = job.spec.service().map_or(u32::MAX, |service| service.replicas.ceiling);
        for (_, element) in meant(job, target).filter(|(index, _)| *index < most) {
            match &mut element.phase {
                Phase::Waits { not_before, .. } => *not_before = Time(0),
                Phase::Active(attempt) => attempt.stop(Fate::Requeued),
                Phase::Ended(_) => element.wait_again(job_held),
            }
        }
    }

    fn node_lost(&mut self, at: Time, name: &NodeName, reason: &Arc<str>) {
        let Some(node) = self.nodes.iter().position(|host| host.spec.name == *name) else { return };
        self.nodes[node].up = false;
        let hit: Vec<ElementId> = self.active().map(|(_, attempt)| attempt.id.element).collect();
        for element in hit {
            if let Some(attempt) = self.attempt_mut(element) {
                attempt.lose_node(NodeId(node as u32), reason);
            }
            self.settle(at, element);
        }
    }

    /// An attempt of which every task is over is over.
    fn settle(&mut self, at: Time, id: ElementId) {
        let Some(job) = self.jobs.get_mut(&id.job) else { return };
        let (restart, held) = (job.spec.restart, job.held);
        let Some(element) = job.elements.get_mut(&id.index) else { return };
        let Phase::Active(attempt) = &element.phase else { return };
        element.begun |= attempt.has_run;
        if !attempt.is_over() {
            return;
        }
        if let Some(ran_from) =
            attempt.ran_from.filter(|_| attempt.leaving.is_none() && job.spec.time_limit.is_some())
        {
            self.spent.push(Spent {
                leaf: job.leaf.to_string(),
                user: job.spec.user.clone(),
                milli: budget::milli(&attempt.placement),
                from: attempt.held_from,
                ran: at.since(ran_from),
            });
        }
        let fate = attempt.fate.clone();
        // What ran long enough is healthy, where it always restarts.
        let is_healthy = |from: Time| restart.always && at.since(from) >= Restart::HEALTHY_AFTER;
        let used = if attempt.ran_from.is_some_and(is_healthy) { 0 } else { element.restarts };
        let is_left = |most: u32| used < most;
        let again = match &fate {
            Some(Fate::Requeued | Fate::Preempted) => Some((element.restarts, Time(0))),
            Some(Fate::Refused { .. }) if is_left(restart.max_restarts.max(START_RETRIES)) => {
                Some(next_restart(at, restart, used))
            }
            None | Some(Fate::Failed(Outcome::TimedOut)) if restart.always => {
                Some(next_restart(at, restart, used))
            }
            Some(Fate::Failed(outcome))
                if !matches!(outcome, Outcome::TimedOut | Outcome::Idle { .. })
                    && restart.on_failure
                    && is_left(restart.max_restarts) =>
            {
                Some(next_restart(at, restart, used))
            }
            _ => None,
        };
        if let Some((restarts, not_before)) = again {
            (element.restarts, element.phase) = (restarts, Phase::Waits { held, not_before });
            return;
        }
        self.end(
            id,
            match fate {
                None => Outcome::Succeeded,
                Some(Fate::Cancelled(by)) => Outcome::Cancelled { by },
                Some(Fate::Refused { rank, reason }) => Outcome::StartFailed { rank, reason },
                Some(Fate::Failed(outcome)) => outcome,
                Some(Fate::Requeued | Fate::Preempted) => return,
            },
        );
    }

    fn end(&mut self, id: ElementId, outcome: Outcome) {
        let Some(job) = self.jobs.get_mut(&id.job) else { return };
        let Some(element) = job.elements.get_mut(&id.index) else { return };
        element.begun = true;
        element.phase = Phase::Ended(outcome.clone());
        self.claims.of.remove(&id);
        self.ends.push((id, outcome));
        let outcomes = job.elements.values().map(|element| match &element.phase {
            Phase::Ended(outcome) => Some(outcome.is_success()),
            Phase::Waits { .. } | Phase::Active(_) => None,
        });
        let all: Option<Vec<bool>> = outcomes.collect();
        if let Some(all) = all {
            let succeeded = all.into_iter().all(|one| one);
            self.jobs.remove(&id.job);
            self.over.insert(id.job, succeeded);
            self.job_ends.push((id.job, succeeded));
        }
    }

    /// Ends what waits for something that can never be; by number, since a job may only wait for earlier ones.
    fn dependencies(&mut self) {
        let waiting: Vec<JobId> =
            self.jobs.iter().filter(|(_, job)| !job.spec.after.is_empty()).map(|(id, _)| *id).collect();
        for id in waiting {
            let begun = |on: &JobId| self.jobs.get(on).is_some_and(Job::has_begun);
            let Some(job) = self.jobs.get(&id) else { continue };
            let met: Vec<JobId> = job.spec.after.iter().map(|one| one.job).filter(begun).collect();
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            job.met.extend(met);
            let Some(job) = self.jobs.get(&id) else { continue };
            let Some(on) = job.spec.after.iter().find(|one| self.is_lost(one)).map(|one| one.job) else {
                continue;
            };
            let waits = |element: &Element| matches!(element.phase, Phase::Waits { .. });
            let ends: Vec<u32> =
                job.elements.iter().filter(|(_, element)| waits(element)).map(|(index, _)| *index).collect();
            self.waited_for.insert(id, job.spec.after.clone());
            for index in ends {
                self.end(ElementId { job: id, index }, Outcome::DependencyFailed { on });
            }
        }
    }

    /// True when a dependency can never be met.
    fn is_lost(&self, one: &Dependency) -> bool {
        match (self.over.get(&one.job), one.kind) {
            (Some(succeeded), DependencyKind::AfterOk) => !succeeded,
            (Some(succeeded), DependencyKind::AfterNotOk) => *succeeded,
            _ => false,
        }
    }

    /// Of several dependencies that fail in one batch the engine may name any; here the first is named.
    fn as_named_here(&self, id: ElementId, outcome: &Outcome) -> Outcome {
        let lost = self.waited_for.get(&id.job).map_or(&[][..], Vec::as_slice);
        let mut lost = lost.iter().filter(|one| self.is_lost(one));
        match outcome {
            Outcome::DependencyFailed { on } if lost.clone().any(|one| one.job == *on) => {
                Outcome::DependencyFailed { on: lost.next().map_or(*on, |one| one.job) }
            }
            other => other.clone(),
        }
    }

    /// True when a job waits for nobody.
    pub(crate) fn is_free(&self, job: &Job) -> bool {
        job.spec.after.iter().all(|one| match (self.over.get(&one.job), one.kind) {
            (Some(_), DependencyKind::After | DependencyKind::AfterAny) => true,
            (Some(succeeded), DependencyKind::AfterOk) => *succeeded,
            (Some(succeeded), DependencyKind::AfterNotOk) => !succeeded,
            (None, DependencyKind::After) => job.met.contains(&one.job),
            (None, _) => false,
        })
    }

    fn decision(&mut self, at: Time, decision: &Decision, cover: &mut Cover) -> Result<(), String> {
        match decision {
            Decision::Start { id, placement, backfilled } => {
                self.start(at, *id, (placement, *backfilled), cover)
            }
            Decision::Claim { element, placement, evict } => self
                .claim(at, *element, (placement, evict), cover)
                .map_err(|what| format!("{element} is promised places: {what}")),
            Decision::Unclaim { element } => {
                claims::judge_end(self, *element)
                    .map_err(|what| format!("{element} is promised nothing any more: {what}"))?;
                cover.given_up += 1;
                self.claims.of.remove(element);
                Ok(())
            }
        }
    }

    /// Others are told to go for an element.
    fn claim(
        &mut self,
        at: Time,
        id: ElementId,
        (placement, evict): (&Arc<[TaskPlacement]>, &[Eviction]),
        cover: &mut Cover,
    ) -> Result<(), String> {
        let job = self.jobs.get(&id.job).ok_or("it is of no job")?;
        let element = job.elements.get(&id.index).ok_or("it is no element")?;
        let Phase::Waits { held: false, not_before } = element.phase else {
            return Err("it does not wait, or is held".to_owned());
        };
        if at < not_before.max(job.spec.begin.unwrap_or_default()) || !self.is_free(job) {
            return Err("it may not start yet".to_owned());
        }
        claims::judge(self, at, id, placement, evict)?;
        for eviction in evict {
            let victim = eviction.id.element;
            let lead = self.jobs[&victim.job].spec.checkpoint.map(|terms| terms.lead);
            if let Some(attempt) = self.attempt_mut(victim) {
                attempt.evict(at, lead);
            }
            *self.claims.went.entry((victim, id)).or_default() += 1;
            match eviction.cause {
                EvictionCause::Reclaimed => cover.reclaimed += 1,
                EvictionCause::Outranked => cover.outranked += 1,
                EvictionCause::Yielded => cover.yielded += 1,
                EvictionCause::Shrunk | EvictionCause::Grown | EvictionCause::Moved => {}
            }
        }
        // Those who go count no more; so judged, and only then does it count itself.
        let job = &self.jobs[&id.job];
        topology::judge(self, job, placement)?;
        holdings::judge_queues(self, (job, id.index), placement, at)
            .map_err(|what| format!("beyond {what}"))?;
        let claim = Claim { placement: Arc::clone(placement), since: at, intervened: false };
        self.claims.of.insert(id, claim);
        Ok(())
    }

    fn start(
        &mut self,
        at: Time,
        id: AttemptId,
        (placement, backfilled): (&Arc<[TaskPlacement]>, bool),
        cover: &mut Cover,
    ) -> Result<(), String> {
        let ElementId { job: number, index } = id.element;
        let job = self.jobs.get(&number).ok_or_else(|| format!("{id} starts and is of no job"))?;
        let element = job.elements.get(&index).ok_or_else(|| format!("{id} starts and is no element"))?;
        // 1. May it start?
        let Phase::Waits { held, not_before } = element.phase else {
            return Err(format!("{id} starts though it does not wait"));
        };
        if held {
            return Err(format!("{id} starts though it is held"));
        }
        if at < not_before.max(job.spec.begin.unwrap_or_default()) {
            return Err(format!("{id} starts before its time"));
        }
        if !self.is_free(job) {
            return Err(format!("{id} starts though it waits for another job"));
        }
        if id.attempt.0 != element.attempts + 1 {
            return Err(format!("{id} follows attempt {}", element.attempts));
        }
        let is_active = |element: &&Element| matches!(element.phase, Phase::Active(_));
        let active = job.elements.values().filter(is_active).count() as u32;
        if job.spec.array.as_ref().and_then(|array| array.max_running).is_some_and(|most| active >= most) {
            return Err(format!("{id} starts beyond the cap of its array"));
        }
        // 2. May it start there?
        match self.claims.of.get(&id.element) {
            Some(claim) if claim.placement != *placement => {
                return Err(format!("{id} starts elsewhere than it was promised"));
            }
            Some(_) => cover.kept += 1,
            None => {}
        }
        holdings::judge_start(self, job, id, placement, at)?;
        claims::judge_start(self, id.element, placement).map_err(|what| format!("{id} starts: {what}"))?;
        windows::judge_start(self, job, placement, at, cover)
            .map_err(|what| format!("{id} starts {what}"))?;
        let pays = |(_, queue): &(String, &QueueSpec)| queue.budget.is_some();
        cover.budgeted += u64::from(holdings::path_of(self, job).iter().any(pays));
        count_start(job, element, placement, backfilled, cover);
        // 3. It does.
        let promised = self.claims.of.remove(&id.element).is_some();
        let attempt = Attempt::new(id, Arc::clone(placement), at, promised);
        let Some(element) = self.jobs.get_mut(&number).and_then(|job| job.elements.get_mut(&index)) else {
            return Ok(());
        };
        element.attempts += 1;
        element.phase = Phase::Active(Box::new(attempt));
        Ok(())
    }

    /// What the engine tells of this batch beside what it must tell.
    fn compare(&mut self, facts: &[Fact], cover: &mut Cover) -> Result<(), String> {
        let (mut ends, mut job_ends) = (Vec::new(), Vec::new());
        let mut running = Vec::new();
        let own = std::mem::take(&mut self.ends);
        self.ends = own.into_iter().map(|(id, how)| (id, self.as_named_here(id, &how))).collect();
        for fact in facts {
            match fact {
                Fact::ElementEnded { element, outcome, .. } => {
                    ends.push((*element, self.as_named_here(*element, outcome)));
                }
                Fact::RestEnded { job, count, first, last, step, outcome, .. } => {
                    let theirs = |id: &ElementId| {
                        id.job == *job
                            && (*first..=*last).contains(&id.index)
                            && (id.index - first).is_multiple_of(*step)
                    };
                    let outcome = self.as_named_here(ElementId { job: *job, index: *first }, outcome);
                    let told: Vec<_> =
                        self.ends.iter().filter(|(id, how)| theirs(id) && *how == outcome).cloned().collect();
                    if told.len() < *count as usize {
                        return Err(format!("{count} elements of {job} end together, {} should", told.len()));
                    }
                    let single = |id: &ElementId| {
                        facts
                            .iter()
                            .any(|fact| matches!(fact, Fact::ElementEnded { element, .. } if element == id))
                    };
                    ends.extend(told.into_iter().filter(|(id, _)| !single(id)));
                }
                Fact::JobEnded { job, succeeded, .. } => job_ends.push((*job, *succeeded)),
                Fact::Running { id, .. } => running.push(*id),
                Fact::Queued { .. }
                | Fact::Started { .. }
                | Fact::Evicted { .. }
                | Fact::AttemptEnded { .. } => {}
            }
        }
        for (_, outcome) in &ends {
            cover.ended(outcome);
        }
        self.waited_for.clear();
        let by_id = |one: &(ElementId, Outcome)| (one.0, format!("{:?}", one.1));
        ends.sort_by_key(by_id);
        self.ends.sort_by_key(by_id);
        job_ends.sort_unstable();
        self.job_ends.sort_unstable();
        running.sort_unstable();
        self.running.sort_unstable();
        let mine = (
            std::mem::take(&mut self.ends),
            std::mem::take(&mut self.job_ends),
            std::mem::take(&mut self.running),
        );
        match mine == (ends, job_ends, running) {
            true => Ok(()),
            false => Err(format!("the journal comes to {mine:?}, and the engine tells {facts:?}")),
        }
    }
}

/// True for what may make a promise impossible: nodes, devices, levels and queues are not what they were.
fn changes_the_world(event: &Event) -> bool {
    match event {
        Event::NodeJoined(_)
        | Event::NodeLost { .. }
        | Event::NodeDrained { .. }
        | Event::DrainSet { .. }
        | Event::ForeignUse { .. }
        | Event::QueuesSet(_)
        | Event::LevelsSet(_)
        | Event::WindowSet(_)
        | Event::WindowPlaced { .. }
        | Event::WindowDropped { .. } => true,
        Event::Submitted { .. }
        | Event::Hold(_)
        | Event::Release(_)
        | Event::Cancel { .. }
        | Event::Requeue(_)
        | Event::Checkpoint(_)
        | Event::Scaled { .. }
        | Event::Task(_)
        | Event::StartOverdue { .. }
        | Event::EvictionDue { .. } => false,
    }
}

/// The elements of a job that are meant.
fn meant(job: &mut Job, target: Target) -> impl Iterator<Item = (u32, &mut Element)> {
    let is_meant = move |index: u32| target.index.is_none_or(|one| one == index);
    job.elements
        .iter_mut()
        .map(|(index, element)| (*index, element))
        .filter(move |(index, _)| is_meant(*index))
}

/// One restart more, after a wait that doubles.
fn next_restart(at: Time, restart: Restart, used: u32) -> (u32, Time) {
    let wait = (0..used).fold(restart.backoff.0, |wait, _| wait.saturating_mul(2));
    (used + 1, at + Span(wait).min(Restart::BACKOFF_CAP))
}

fn count_start(
    job: &Job,
    element: &Element,
    placement: &[muster_model::TaskPlacement],
    backfilled: bool,
    cover: &mut Cover,
) {
    cover.starts += 1;
    cover.gangs += u64::from(placement.len() > 1);
    cover.groups += u64::from(job.spec.groups.len() > 1);
    cover.backfills += u64::from(backfilled);
    cover.replicas += u64::from(job.spec.service().is_some());
    cover.array_starts += u64::from(job.spec.array.is_some());
    cover.restarts += u64::from(element.attempts > 0);
    let wish = job.spec.constraint.topology.as_ref();
    let must_lie = |wish: &Topology| matches!(wish.rule, TopologyRule::Required(_)) || wish.segment.is_some();
    cover.together += u64::from(wish.is_some_and(must_lie));
    cover.shares += u64::from(placement.iter().any(|place| (1..1000).contains(&place.share.0)));
}
