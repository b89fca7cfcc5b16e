//! The production engine as one of those who decide: what happens is told to it as the daemon
//! would, its plans pass its judge, and its effects become orders. Tasks are ready as soon as they
//! are placed, and gone a while after they are told. Nothing here chooses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_engine::{Engine, Refusal};
use muster_model::job::{AfterCheckpoint, Checkpoint, CheckpointBy, Restart};
use muster_model::{
    AttemptId, DeviceSet, Effect, Event, Foreign, JobId, JobSpec, NodeConstraint, NodeId, NodeSpec,
    Observation, Rank, Reason, Span, StopCause, TaskCheckpoint, TaskExit, TaskGroup, TaskPlacement,
    TaskReport, Time, Topology, TopologyRule,
};
use muster_report::style::Style;

use super::desk::Desk;
use super::load::{FleetJob, JobNo};
use super::plane::{Plane, PlaneError};
use super::site::Site;

/// The engine, and what it runs.
#[derive(Debug)]
pub struct EnginePlane {
    engine: Engine,
    /// What all jobs have in common.
    plain: JobSpec,
    role: Arc<str>,
    now: Time,
    /// The attempt of each job that was started last.
    attempts: Vec<Option<AttemptId>>,
    /// Attempts that were told to stop, and when they are gone.
    stopping: BTreeSet<(Time, AttemptId)>,
    /// What it would not take, and why.
    refused: BTreeMap<JobNo, Reason>,
}

impl EnginePlane {
    /// The nodes and queues of a site.
    ///
    /// # Errors
    /// They are not accepted.
    pub fn new(site: &Site) -> Result<Self, PlaneError> {
        let refused = |what: String| move |refusal| PlaneError::Refused { what, refusal };
        let mut engine = Engine::new(site.tree.clone())
            .map_err(Refusal::from)
            .map_err(refused("the queues".to_owned()))?;
        engine.stop_facts();
        if !site.levels.is_empty() {
            engine.apply(Time(0), &Event::LevelsSet(site.levels.clone()));
        }
        for node in &site.nodes {
            let event = Event::NodeJoined(Box::new(node.clone()));
            engine.judge(&event).map_err(refused(format!("node {}", node.name)))?;
            engine.apply(Time(0), &event);
        }
        Ok(Self {
            engine,
            plain: plain(),
            role: "main".into(),
            now: Time(0),
            attempts: Vec::new(),
            stopping: BTreeSet::new(),
            refused: BTreeMap::new(),
        })
    }

    /// A job as its user would have written it; it takes the signal to save if it can, and is to
    /// lie close together where the site has levels.
    fn spec(&self, job: &FleetJob, saves_when_told: bool) -> JobSpec {
        let group = TaskGroup::of(Arc::clone(&self.role), job.tasks, (*job.task).clone());
        // As the models of those who know of topology take it: close together if it can be.
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
            checkpoint: saves_when_told.then_some(checkpoint),
            constraint: NodeConstraint { topology, ..NodeConstraint::default() },
            ..self.plain.clone()
        }
    }

    /// Says the same of every task of a job's attempt.
    fn report(&mut self, id: AttemptId, tasks: u32, what: &Observation) {
        for rank in 0..tasks {
            self.report_task(id, rank, what.clone());
        }
    }

    fn report_task(&mut self, id: AttemptId, rank: u32, what: Observation) {
        self.engine.apply(self.now, &Event::Task(TaskReport { id, rank: Rank(rank), what }));
    }

    /// One pass; true when what came of it calls for another at this instant.
    fn pass(&mut self, desk: &mut Desk) -> Result<bool, PlaneError> {
        let plan = self.engine.plan(self.now);
        self.engine.check(self.now, &plan).map_err(PlaneError::BadPlan)?;
        self.engine.commit(self.now, &plan);
        let mut again = false;
        for effect in self.engine.take_effects() {
            again |= self.carry_out(desk, effect)?;
        }
        Ok(again)
    }

    fn carry_out(&mut self, desk: &mut Desk, effect: Effect) -> Result<bool, PlaneError> {
        let id = effect.id();
        let job = job_no(id);
        match effect {
            Effect::Prepare { placement, .. } => self.prepare(desk, id, &placement).map(|()| false),
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
                debug_assert!(cause != StopCause::Cancelled, "nobody cancels in a replay");
                desk.halt(job);
                self.stopping.insert((self.now + desk.terms().stopping, id));
                Ok(false)
            }
            // That they run was said with the order to prepare them.
            Effect::Go { .. } | Effect::Forget { .. } => Ok(false),
        }
    }

    fn prepare(
        &mut self,
        desk: &mut Desk,
        id: AttemptId,
        placement: &[TaskPlacement],
    ) -> Result<(), PlaneError> {
        let job = job_no(id);
        self.attempts[job.at()] = Some(id);
        for (rank, place) in (0..).zip(placement) {
            desk.place_on(job, rank, place.node, place.devices)?;
        }
        self.report(id, placement.len() as u32, &Observation::Started);
        Ok(())
    }

    /// Devices of a node that are out of order now.
    fn set_broken(&mut self, desk: &Desk, node: NodeId) {
        let node = desk.pool().node(node);
        let foreign = Foreign { drained: node.broken, ..Foreign::default() };
        let event = Event::ForeignUse { node: node.spec.name.clone(), foreign };
        self.engine.apply(self.now, &event);
    }
}

impl Plane for EnginePlane {
    fn turn(&mut self, now: Time) {
        self.now = now;
        self.engine.turn(now);
    }

    fn arrived(&mut self, desk: &Desk, job: JobNo) -> Result<(), PlaneError> {
        self.attempts.push(None);
        let spec = self.spec(desk.job(job), desk.terms().saves_when_told);
        let event = Event::Submitted { job: JobId(u64::from(job.0) + 1), spec: spec.into() };
        match self.engine.judge(&event) {
            Ok(()) => self.engine.apply(self.now, &event),
            Err(Refusal::Never(reason) | Refusal::TooMany(reason)) => {
                drop(self.refused.insert(job, reason))
            }
            Err(refusal) => {
                return Err(PlaneError::Refused {
                    what: format!("job {}", desk.job(job).id),
                    refusal,
                });
            }
        }
        Ok(())
    }

    fn refuses(&self, job: JobNo) -> bool {
        self.refused.contains_key(&job)
    }

    fn ended(&mut self, desk: &Desk, job: JobNo) {
        if let Some(id) = self.attempts[job.at()] {
            self.report(id, desk.job(job).tasks, &Observation::Exited(TaskExit::Code { code: 0 }));
        }
    }

    fn lost(&mut self, desk: &Desk, node: NodeId, device: Option<usize>, tasks: &[(JobNo, u32)]) {
        match device {
            None => {
                let node = desk.pool().node(node).spec.name.clone();
                self.engine.apply(self.now, &Event::NodeLost { node, reason: "it broke".into() });
            }
            Some(_) => {
                self.set_broken(desk, node);
                for (job, rank) in tasks {
                    let Some(id) = self.attempts[job.at()] else { continue };
                    self.report_task(id, *rank, Observation::Exited(TaskExit::Code { code: 1 }));
                }
            }
        }
    }

    fn mended(&mut self, desk: &Desk, node: NodeId, device: Option<usize>) {
        if device.is_none() {
            let spec = &desk.pool().node(node).spec;
            self.engine.apply(self.now, &Event::NodeJoined(Box::new(NodeSpec::clone(spec))));
        }
        if device.is_some() || desk.pool().node(node).broken != DeviceSet::EMPTY {
            self.set_broken(desk, node);
        }
    }

    fn next_wake(&mut self, _now: Time) -> Option<Time> {
        let gone = self.stopping.first().map(|(at, _)| *at);
        [self.engine.next_wake(), gone].into_iter().flatten().min()
    }

    fn decide(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        while let Some((_, id)) = self.stopping.first().copied().filter(|(at, _)| *at <= self.now) {
            self.stopping.pop_first();
            let job = job_no(id);
            desk.evict(job);
            self.report(id, desk.job(job).tasks, &Observation::Exited(TaskExit::Stopped));
        }
        for event in self.engine.overdue(self.now) {
            self.engine.apply(self.now, &event);
        }
        while self.pass(desk)? {}
        Ok(())
    }

    fn why(&mut self, _desk: &Desk, job: JobNo) -> String {
        let reason = match self.refused.get(&job) {
            Some(reason) => Some(reason.clone()),
            None => {
                let job = JobId(u64::from(job.0) + 1);
                self.engine.job(self.now, job).and_then(|view| view.waiting_for)
            }
        };
        reason.map_or_else(String::new, |reason| {
            muster_report::reason::short(&reason, self.now, &Style::plain())
        })
    }
}

/// The job's number here; the engine counts from 1.
fn job_no(id: AttemptId) -> JobNo {
    JobNo(id.element.job.0 as u32 - 1)
}

/// Of nobody and nothing: it restarts when a node is lost.
fn plain() -> JobSpec {
    JobSpec {
        restart: Restart { on_failure: true, max_restarts: u32::MAX, ..Restart::NEVER },
        ..JobSpec::plain("", "", Vec::new())
    }
}
