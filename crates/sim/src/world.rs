//! A world of nodes and tasks around the production engine: submissions pass through it as in the
//! runtime (validate, apply, plan, check, commit), and tasks carry out orders at
//! once. It makes no scheduling
//! decisions.

use std::sync::Arc;

use muster_engine::{Engine, EventRefusal, Violation};
use muster_model::{
    CommandTarget, Decision, Effect, Event, JobId, JobSpec, NodeSpec, Observation, QueueTree, Rank,
    TaskReport, Time,
};

/// One engine, and the tasks that it starts.
#[derive(Clone, Debug)]
pub struct World {
    engine: Engine,
    now: Time,
    jobs: u64,
}

/// Failure of a step, which then has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// The engine rejects the event.
    #[error(transparent)]
    Refused(#[from] EventRefusal),
    /// The engine's check rejects the engine's own plan: a defect of the engine.
    #[error("the engine made a plan that its check rejects: {0:?}")]
    BadPlan(Vec<Violation>),
}

impl World {
    /// Creates a world of nodes with one queue without limits and no job.
    ///
    /// # Errors
    /// The engine rejects a node.
    pub fn new(nodes: impl IntoIterator<Item = NodeSpec>) -> Result<Self, WorldError> {
        Self::with_queues(QueueTree::single(), nodes)
    }

    /// Creates a world of nodes and queues without jobs.
    ///
    /// # Errors
    /// The engine rejects a node or the tree.
    pub fn with_queues(
        tree: QueueTree,
        nodes: impl IntoIterator<Item = NodeSpec>,
    ) -> Result<Self, WorldError> {
        let engine = Engine::new(tree).map_err(EventRefusal::from)?;
        let mut world = Self { engine, now: Time(0), jobs: 0 };
        for node in nodes {
            world.step(Event::NodeJoined(Box::new(node)))?;
        }
        Ok(world)
    }

    /// Submits a job and returns its number with the decisions that follow.
    ///
    /// # Errors
    /// The engine rejects it, and nothing changes.
    pub fn submit(&mut self, spec: JobSpec) -> Result<(JobId, Vec<Decision>), WorldError> {
        let job = JobId(self.jobs + 1);
        let decisions = self.step(Event::Submitted { job, spec: Arc::new(spec) })?;
        self.jobs += 1;
        Ok((job, decisions))
    }

    /// Cancels a pending job.
    ///
    /// # Errors
    /// The job does not exist.
    pub fn withdraw(&mut self, job: JobId) -> Result<(), WorldError> {
        let target = CommandTarget { job, index: None };
        self.step(Event::Cancel { target, by: "anyone".into() }).map(drop)
    }

    /// Returns the engine, read-only.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Applies an event and everything that follows from it at this instant.
    fn step(&mut self, event: Event) -> Result<Vec<Decision>, WorldError> {
        self.engine.validate(&event)?;
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

    /// Returns the reports of tasks to an order: prepared at once, running at once. No task ends,
    /// so none is stopped or forgotten.
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
            .map(|rank| Event::Task(TaskReport { id, rank: Rank(rank), observation: what.clone() }))
            .collect()
    }
}
