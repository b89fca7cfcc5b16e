//! A world of nodes and tasks around the production engine: what is submitted goes the way of the
//! runtime (judge, apply, plan, check, commit), and tasks do at once as they are told. Nothing here
//! decides where or when something starts.

use std::sync::Arc;

use muster_engine::{Engine, Refusal, Violation};
use muster_model::{
    Decision, Effect, Event, JobId, JobSpec, NodeSpec, Observation, QueueTree, Rank, Target,
    TaskReport, Time,
};

/// One engine with one queue, and the tasks that it starts.
#[derive(Clone, Debug)]
pub struct World {
    engine: Engine,
    now: Time,
    jobs: u64,
}

/// A step that the world did not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// The engine does not accept what was submitted.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The engine's own judge does not accept the engine's plan: a defect of the engine.
    #[error("the engine made a plan that its judge refuses: {0:?}")]
    BadPlan(Vec<Violation>),
}

impl World {
    /// Nodes, one queue without limits, no job.
    ///
    /// # Errors
    /// A node that the engine does not accept.
    pub fn new(nodes: impl IntoIterator<Item = NodeSpec>) -> Result<Self, WorldError> {
        Self::with_queues(QueueTree::single(), nodes)
    }

    /// Nodes and queues, no job.
    ///
    /// # Errors
    /// A node or a tree that the engine does not accept.
    pub fn with_queues(
        tree: QueueTree,
        nodes: impl IntoIterator<Item = NodeSpec>,
    ) -> Result<Self, WorldError> {
        let engine = Engine::new(tree).map_err(Refusal::from)?;
        let mut world = Self { engine, now: Time(0), jobs: 0 };
        for node in nodes {
            world.step(Event::NodeJoined(Box::new(node)))?;
        }
        Ok(world)
    }

    /// Submits a job and answers its number with everything that the engine decided upon it.
    ///
    /// # Errors
    /// The engine refuses it, and nothing changed.
    pub fn submit(&mut self, spec: JobSpec) -> Result<(JobId, Vec<Decision>), WorldError> {
        let job = JobId(self.jobs + 1);
        let decisions = self.step(Event::Submitted { job, spec: Arc::new(spec) })?;
        self.jobs += 1;
        Ok((job, decisions))
    }

    /// Ends a job that still waits.
    ///
    /// # Errors
    /// There is no such job.
    pub fn withdraw(&mut self, job: JobId) -> Result<(), WorldError> {
        let target = Target { job, index: None };
        self.step(Event::Cancel { target, by: "anyone".into() }).map(drop)
    }

    /// The engine, to read.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The present instant.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// One event and all that follows from it at this instant.
    fn step(&mut self, event: Event) -> Result<Vec<Decision>, WorldError> {
        self.engine.judge(&event)?;
        let mut decisions = Vec::new();
        let mut events = vec![event];
        while !events.is_empty() {
            for event in &events {
                self.engine.apply(self.now, event);
            }
            let plan = self.engine.plan(self.now);
            self.engine.check(self.now, &plan).map_err(WorldError::BadPlan)?;
            self.engine.commit(self.now, &plan);
            decisions.extend(plan.decisions);
            events =
                self.engine.take_effects().iter().flat_map(|effect| self.answers(effect)).collect();
            self.engine.take_facts();
        }
        Ok(decisions)
    }

    /// What tasks say to an order: prepared as soon as asked, running as soon as let go. Nobody
    /// ends, so nobody is ever stopped or forgotten.
    fn answers(&self, effect: &Effect) -> Vec<Event> {
        let what = match effect {
            Effect::Prepare { .. } => Observation::Prepared,
            Effect::Go { .. } => Observation::Started,
            Effect::Checkpoint { .. } | Effect::Stop { .. } | Effect::Forget { .. } => {
                return Vec::new();
            }
        };
        let id = effect.id();
        let tasks =
            self.engine.placement(id.element).map_or(0, |(_, placement)| placement.len() as u32);
        (0..tasks)
            .map(|rank| Event::Task(TaskReport { id, rank: Rank(rank), what: what.clone() }))
            .collect()
    }
}
