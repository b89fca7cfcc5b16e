//! The production engine as a scheduler: events reach it as from the daemon, its plans
//! pass its checker, and its effects become actions on the cluster. Tasks are ready
//! once placed, and end a fixed time after a stop order. It makes no decisions of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_engine::{Engine, EventRefusal, JobLikeness, RuntimePredictor};
use muster_model::job::{AfterCheckpoint, Checkpoint, CheckpointBy, Restart};
use muster_model::{
    AttemptId, DeviceSet, Effect, Event, Foreign, JobId, JobSpec, NodeConstraint, NodeId, NodeSpec,
    Observation, Rank, Reason, Span, StopCause, TaskCheckpoint, TaskExit, TaskGroup, TaskPlacement,
    TaskReport, Time, Topology, TopologyRule,
};
use muster_report::RenderContext;

use super::cluster::ClusterState;
use super::error::SchedulerError;
use super::load::{FleetJob, JobNo};
use super::scheduler::Scheduler;
use super::site::FleetSite;

/// The engine, and what it runs.
#[derive(Debug)]
pub struct EngineScheduler {
    engine: Engine,
    /// Fields that all jobs share.
    plain: JobSpec,
    role: Arc<str>,
    now: Time,
    /// Last attempt of each job.
    attempts: Vec<Option<AttemptId>>,
    /// Attempts with a stop order, and when their processes have ended.
    stopping: BTreeSet<(Time, AttemptId)>,
    /// Predictions, for jobs that ask for them.
    predictor: RuntimePredictor,
    /// Rejected jobs with the reasons.
    refused: BTreeMap<JobNo, Reason>,
}

impl EngineScheduler {
    /// Creates an engine with the nodes and queues of a site.
    ///
    /// # Errors
    /// The engine rejects them.
    pub fn new(site: &FleetSite) -> Result<Self, SchedulerError> {
        let mut engine = idle_engine(site)?;
        engine.disable_facts();
        Ok(Self {
            engine,
            plain: plain(),
            role: "main".into(),
            now: Time(0),
            attempts: Vec::new(),
            stopping: BTreeSet::new(),
            predictor: RuntimePredictor::default(),
            refused: BTreeMap::new(),
        })
    }

    /// Returns the job as its user would have written it: with a checkpoint signal if it saves when
    /// evicted, and preferably close together where the site has levels.
    fn spec(&self, job: &FleetJob, saves_when_told: bool) -> JobSpec {
        let group = TaskGroup::of(Arc::clone(&self.role), job.tasks, (*job.task).clone());
        // As the topology-aware models treat it: close together if possible.
        let narrowest = self.engine.levels().last().filter(|_| job.tasks > 1);
        let topology = narrowest.map(|narrowest| Topology {
            rule: TopologyRule::Preferred(Arc::clone(narrowest)),
            segment: None,
        });
        let checkpoint = Checkpoint {
            signal: 10,
            lead: Span::from_secs(60),
            by: CheckpointBy::First,
            then: AfterCheckpoint::Continue,
            to: Default::default(),
        };
        JobSpec {
            name: Arc::clone(&job.id),
            user: job.user.clone(),
            queue: job.queue.clone(),
            groups: vec![group],
            priority: job.priority,
            time_limit: job.estimate,
            expected_runtime: job
                .predicted_by
                .as_ref()
                .and_then(|user| self.predictor.predict(user, likeness(job))),
            checkpoint: saves_when_told.then_some(checkpoint),
            constraint: NodeConstraint { topology, ..NodeConstraint::default() },
            ..self.plain.clone()
        }
    }

    /// Reports the same for every task of an attempt.
    fn report(&mut self, id: AttemptId, tasks: u32, what: &Observation) {
        for rank in 0..tasks {
            self.report_task(id, rank, what.clone());
        }
    }

    fn report_task(&mut self, id: AttemptId, rank: u32, what: Observation) {
        self.engine
            .apply(self.now, &Event::Task(TaskReport { id, rank: Rank(rank), observation: what }));
    }

    /// Runs one pass; true if its effects require another at this instant.
    fn pass(&mut self, cluster: &mut ClusterState) -> Result<bool, SchedulerError> {
        let plan = self.engine.plan(self.now);
        self.engine.check(self.now, &plan).map_err(SchedulerError::BadPlan)?;
        self.engine.commit(self.now, &plan);
        let mut again = false;
        for effect in self.engine.take_effects() {
            again |= self.execute(cluster, effect)?;
        }
        Ok(again)
    }

    fn execute(
        &mut self,
        cluster: &mut ClusterState,
        effect: Effect,
    ) -> Result<bool, SchedulerError> {
        let id = effect.id();
        let job = job_no(id);
        match effect {
            Effect::Prepare { placement, .. } => {
                self.prepare(cluster, id, &placement).map(|()| false)
            }
            Effect::Checkpoint { request, .. } => {
                let what = TaskCheckpoint {
                    count: request,
                    answers: request,
                    warned: false,
                    at: self.now,
                    label: "".into(),
                };
                self.report_task(id, 0, Observation::Checkpointed(what));
                Ok(true)
            }
            Effect::Stop { cause, .. } => {
                debug_assert!(cause != StopCause::Cancelled, "a replay has no cancellations");
                cluster.halt(job);
                self.stopping.insert((self.now + cluster.terms().stopping, id));
                Ok(false)
            }
            // Their start was reported together with the order to prepare.
            Effect::Go { .. } | Effect::Forget { .. } => Ok(false),
        }
    }

    fn prepare(
        &mut self,
        cluster: &mut ClusterState,
        id: AttemptId,
        placement: &[TaskPlacement],
    ) -> Result<(), SchedulerError> {
        let job = job_no(id);
        self.attempts[job.at()] = Some(id);
        for (rank, place) in (0..).zip(placement) {
            cluster.place_on(job, rank, place.node, place.devices)?;
        }
        self.report(id, placement.len() as u32, &Observation::Started);
        Ok(())
    }

    /// Reports the broken devices of a node.
    fn set_broken(&mut self, cluster: &ClusterState, node: NodeId) {
        let node = cluster.pool().node(node);
        let foreign = Foreign { drained: node.broken, ..Foreign::default() };
        let event = Event::ForeignUse { node: node.spec.name.clone(), foreign };
        self.engine.apply(self.now, &event);
    }
}

/// Returns an engine with the nodes, levels and queues of a site.
///
/// # Errors
/// The engine rejects them.
pub(crate) fn idle_engine(site: &FleetSite) -> Result<Engine, SchedulerError> {
    let refused = |what: String| move |refusal| SchedulerError::Refused { what, refusal };
    let mut engine = Engine::new(site.tree.clone())
        .map_err(EventRefusal::from)
        .map_err(refused("the queues".to_owned()))?;
    if !site.levels.is_empty() {
        engine.apply(Time(0), &Event::LevelsSet(site.levels.clone()));
    }
    for node in &site.nodes {
        let event = Event::NodeJoined(Box::new(node.clone()));
        engine.validate(&event).map_err(refused(format!("node {}", node.name)))?;
        engine.apply(Time(0), &event);
    }
    Ok(engine)
}

impl Scheduler for EngineScheduler {
    fn turn(&mut self, now: Time) {
        self.now = now;
        self.engine.advance_time(now);
    }

    fn arrived(&mut self, cluster: &ClusterState, job: JobNo) -> Result<(), SchedulerError> {
        self.attempts.push(None);
        let spec = self.spec(cluster.job(job), cluster.terms().saves_when_told);
        let event = Event::Submitted { job: JobId(u64::from(job.0) + 1), spec: spec.into() };
        match self.engine.validate(&event) {
            Ok(()) => self.engine.apply(self.now, &event),
            Err(EventRefusal::NeverStarts(reason) | EventRefusal::TooManyPending(reason)) => {
                drop(self.refused.insert(job, reason))
            }
            Err(refusal) => {
                return Err(SchedulerError::Refused {
                    what: format!("job {}", cluster.job(job).id),
                    refusal,
                });
            }
        }
        Ok(())
    }

    fn refuses(&self, job: JobNo) -> bool {
        self.refused.contains_key(&job)
    }

    fn ended(&mut self, cluster: &ClusterState, job: JobNo) {
        let ended = cluster.job(job);
        if let Some(user) = &ended.predicted_by {
            self.predictor.observe(user, likeness(ended), ended.runtime);
        }
        if let Some(id) = self.attempts[job.at()] {
            self.report(
                id,
                cluster.job(job).tasks,
                &Observation::Exited(TaskExit::Code { code: 0 }),
            );
        }
    }

    fn lost(
        &mut self,
        cluster: &ClusterState,
        node: NodeId,
        device: Option<usize>,
        tasks: &[(JobNo, u32)],
    ) {
        match device {
            None => {
                let node = cluster.pool().node(node).spec.name.clone();
                self.engine.apply(self.now, &Event::NodeLost { node, reason: "it broke".into() });
            }
            Some(_) => {
                self.set_broken(cluster, node);
                for (job, rank) in tasks {
                    let Some(id) = self.attempts[job.at()] else { continue };
                    self.report_task(id, *rank, Observation::Exited(TaskExit::Code { code: 1 }));
                }
            }
        }
    }

    fn repaired(&mut self, cluster: &ClusterState, node: NodeId, device: Option<usize>) {
        if device.is_none() {
            let spec = &cluster.pool().node(node).spec;
            self.engine.apply(self.now, &Event::NodeJoined(Box::new(NodeSpec::clone(spec))));
        }
        if device.is_some() || cluster.pool().node(node).broken != DeviceSet::EMPTY {
            self.set_broken(cluster, node);
        }
    }

    fn next_wake(&mut self, _now: Time) -> Option<Time> {
        let gone = self.stopping.first().map(|(at, _)| *at);
        [self.engine.next_wake(), gone].into_iter().flatten().min()
    }

    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        while let Some((_, id)) = self.stopping.first().copied().filter(|(at, _)| *at <= self.now) {
            self.stopping.pop_first();
            let job = job_no(id);
            cluster.evict(job);
            self.report(id, cluster.job(job).tasks, &Observation::Exited(TaskExit::Stopped));
        }
        for event in self.engine.due_events(self.now) {
            self.engine.apply(self.now, &event);
        }
        while self.pass(cluster)? {}
        Ok(())
    }

    fn why(&mut self, _cluster: &ClusterState, job: JobNo) -> String {
        let reason = match self.refused.get(&job) {
            Some(reason) => Some(reason.clone()),
            None => {
                let job = JobId(u64::from(job.0) + 1);
                self.engine.job(self.now, job).and_then(|view| view.waiting_for)
            }
        };
        reason.map_or_else(String::new, |reason| {
            muster_report::reason::short(&reason, RenderContext::plain().at(self.now))
        })
    }
}

/// Returns the properties by which similar jobs are found.
fn likeness(job: &FleetJob) -> JobLikeness {
    let task = u64::from(job.task.gpu.milli().0);
    let task = if task > 0 { task } else { u64::from(job.task.cpus.0) };
    JobLikeness { limit: job.estimate, width_milli: u64::from(job.tasks) * task }
}

/// Returns the job's number here; the engine counts from 1.
fn job_no(id: AttemptId) -> JobNo {
    JobNo(id.element.job.0 as u32 - 1)
}

/// Returns a job without owner and tasks, which restarts when a node is lost.
fn plain() -> JobSpec {
    JobSpec {
        restart: Restart { on_failure: true, max_restarts: u32::MAX, ..Restart::NEVER },
        ..JobSpec::plain("", "", Vec::new())
    }
}
