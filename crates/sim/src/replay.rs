//! A trace driven through the production engine: jobs arrive when they did, run as long as they did, and everything between
//! is decided by the code that runs jobs.
//!
//! At one instant what ends does so first, then jobs arrive, then there is one planning pass, as in the daemon. Tasks are
//! ready and run as soon as they are placed. Nothing here chooses.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;
use std::sync::Arc;

use muster_engine::{Engine, Refusal, Violation};
use muster_model::{
    AttemptId, Effect, Event, JobId, JobSpec, NodeSpec, Observation, QueueTree, Rank, Span, TaskExit,
    TaskReport, Time,
};

/// A job that arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub submit: Time,
    /// How long it runs; who ends it at its limit has said so here.
    pub runtime: Span,
    /// What it asks for.
    pub spec: Arc<JobSpec>,
}

/// When a job ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// From when.
    pub start: Time,
    /// Until when.
    pub end: Time,
}

/// Why a replay ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The engine does not accept what the replay begins with, or what arrived.
    #[error("{what}: {refusal}")]
    Refused {
        /// What that is.
        what: String,
        /// Why not.
        refusal: Refusal,
    },
    /// The engine's own judge does not accept the engine's plan: a defect of the engine.
    #[error("the engine made a plan that its judge refuses: {0:?}")]
    BadPlan(Vec<Violation>),
}

/// What ends next: when, which attempt, and of how many tasks.
type Ending = Reverse<(Time, AttemptId, u32)>;

/// A replay under way.
#[derive(Clone, Debug)]
pub struct Replay<I: Iterator<Item = Arrival>> {
    engine: Engine,
    arrivals: Peekable<I>,
    now: Time,
    /// Runtime of every job that arrived, by number from 1.
    runtimes: Vec<Span>,
    /// When each of them ran last; `None` for one that has not begun.
    ran: Vec<Option<Ran>>,
    endings: BinaryHeap<Ending>,
}

impl<I: Iterator<Item = Arrival>> Replay<I> {
    /// Idle nodes under a tree of queues. Arrivals come in order of time; one that is out of order is taken when the one
    /// before it is.
    ///
    /// # Errors
    /// The tree or a node is not accepted.
    pub fn new(
        tree: QueueTree,
        nodes: impl IntoIterator<Item = NodeSpec>,
        arrivals: impl IntoIterator<IntoIter = I>,
    ) -> Result<Self, ReplayError> {
        let refused = |what: String| move |refusal| ReplayError::Refused { what, refusal };
        let engine = Engine::new(tree).map_err(Refusal::from).map_err(refused("the queues".to_owned()))?;
        let mut replay = Self {
            engine,
            arrivals: arrivals.into_iter().peekable(),
            now: Time(0),
            runtimes: Vec::new(),
            ran: Vec::new(),
            endings: BinaryHeap::new(),
        };
        for node in nodes {
            let name = node.name.clone();
            let event = Event::NodeJoined(Box::new(node));
            replay.engine.judge(&event).map_err(refused(format!("node {name}")))?;
            replay.engine.apply(replay.now, &event);
        }
        Ok(replay)
    }

    /// Goes on to the next instant at which something happens, and takes it whole. False when nothing will.
    ///
    /// # Errors
    /// What the engine did not accept, or a defect of it.
    pub fn step(&mut self) -> Result<bool, ReplayError> {
        let arrival = self.arrivals.peek().map(|arrival| arrival.submit);
        let ending = self.endings.peek().map(|Reverse((at, ..))| *at);
        let wake = self.engine.next_wake().map(|wake| wake.max(self.now + Span(1)));
        let Some(next) = [arrival, ending, wake].into_iter().flatten().min() else { return Ok(false) };
        self.now = next.max(self.now);
        self.engine.turn(self.now);
        // 1. Ends, then what is due, then arrivals.
        self.end_what_ends();
        for event in self.engine.overdue(self.now) {
            self.engine.apply(self.now, &event);
        }
        while let Some(arrival) = self.arrivals.next_if(|arrival| arrival.submit <= self.now) {
            self.arrive(arrival)?;
        }
        // 2. One pass, and what comes of it.
        self.pass()?;
        Ok(true)
    }

    /// The present instant.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// How many jobs have arrived.
    #[must_use]
    pub fn arrived(&self) -> usize {
        self.runtimes.len()
    }

    /// When each job ran that has arrived by now, in order of arrival; its end may lie ahead. `None` for one that waits.
    #[must_use]
    pub fn into_ran(self) -> Vec<Option<Ran>> {
        self.ran
    }

    fn arrive(&mut self, arrival: Arrival) -> Result<(), ReplayError> {
        self.runtimes.push(arrival.runtime);
        self.ran.push(None);
        let name = Arc::clone(&arrival.spec.name);
        let event = Event::Submitted { job: JobId(self.runtimes.len() as u64), spec: arrival.spec };
        self.engine
            .judge(&event)
            .map_err(|refusal| ReplayError::Refused { what: format!("job {name}"), refusal })?;
        self.engine.apply(self.now, &event);
        Ok(())
    }

    fn end_what_ends(&mut self) {
        while let Some(&Reverse((at, id, tasks))) = self.endings.peek()
            && at <= self.now
        {
            self.endings.pop();
            self.report(id, tasks, &Observation::Exited(TaskExit::Code { code: 0 }));
        }
    }

    fn pass(&mut self) -> Result<(), ReplayError> {
        let plan = self.engine.plan(self.now);
        self.engine.check(self.now, &plan).map_err(ReplayError::BadPlan)?;
        self.engine.commit(self.now, &plan);
        for effect in self.engine.take_effects() {
            match effect {
                Effect::Prepare { id, placement, .. } => self.start(id, placement.len() as u32),
                // That they run was said with the order to prepare them. Nobody is ever told to go or to save.
                Effect::Go { .. }
                | Effect::Stop { .. }
                | Effect::Checkpoint { .. }
                | Effect::Forget { .. } => {}
            }
        }
        self.engine.take_facts();
        Ok(())
    }

    fn start(&mut self, id: AttemptId, tasks: u32) {
        let job = id.element.job.0 as usize - 1;
        let end = self.now + self.runtimes[job];
        self.ran[job] = Some(Ran { start: self.now, end });
        self.endings.push(Reverse((end, id, tasks)));
        self.report(id, tasks, &Observation::Started);
    }

    fn report(&mut self, id: AttemptId, tasks: u32, what: &Observation) {
        for rank in 0..tasks {
            let report = TaskReport { id, rank: Rank(rank), what: what.clone() };
            self.engine.apply(self.now, &Event::Task(report));
        }
    }
}
