//! A trace driven through the production engine: jobs arrive when they did, run as long as they did, and everything between
//! is decided by the code that runs jobs.
//!
//! * `mod.rs`: the loop over instants
//! * `jobs.rs`: what a row of a trace becomes
//!
//! At one instant what ends does so first, then jobs arrive, then there is one planning pass, as in the daemon.

mod jobs;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use muster_engine::{Engine, Fact, Refusal, Violation};
use muster_model::{
    AttemptId, Effect, Event, JobId, JobSpec, NodeSpec, Observation, QueueTree, Rank, Span, TaskExit,
    TaskReport, Time,
};

pub use jobs::{Estimates, FlatPool};

/// A job that arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub submit: Time,
    /// How long it runs unless it is ended before.
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
    /// The engine does not accept what arrived.
    #[error("{what}: {refusal}")]
    Refused {
        /// What arrived.
        what: String,
        /// Why not.
        refusal: Refusal,
    },
    /// The engine's own judge does not accept the engine's plan: a defect of the engine.
    #[error("the engine made a plan that its judge refuses: {0:?}")]
    BadPlan(Vec<Violation>),
}

/// What ends next: when, and which attempt, with how many tasks.
type Ending = Reverse<(Time, AttemptId, u32)>;

/// A replay under way.
#[derive(Clone, Debug)]
pub struct Replay {
    engine: Engine,
    now: Time,
    /// Runtime of every job that arrived, by number from 1.
    runtimes: Vec<Span>,
    /// When each of them ran last.
    ran: Vec<Option<Ran>>,
    endings: BinaryHeap<Ending>,
    /// Tasks of what was prepared and does not run yet.
    prepared: Vec<(AttemptId, u32)>,
    passes: u64,
}

impl Replay {
    /// Idle nodes under a tree of queues.
    ///
    /// # Errors
    /// The tree or a node is not accepted.
    pub fn new(tree: QueueTree, nodes: impl IntoIterator<Item = NodeSpec>) -> Result<Self, ReplayError> {
        let engine = Engine::new(tree).map_err(|error| ReplayError::Refused {
            what: "the tree of queues".to_owned(),
            refusal: Refusal::from(error),
        })?;
        let mut replay = Self {
            engine,
            now: Time(0),
            runtimes: Vec::new(),
            ran: Vec::new(),
            endings: BinaryHeap::new(),
            prepared: Vec::new(),
            passes: 0,
        };
        for node in nodes {
            replay.take(&Event::NodeJoined(Box::new(node)))?;
        }
        Ok(replay)
    }

    /// Everything that arrives, in order, and all that follows, to the end. `None` for a job that never ran.
    ///
    /// # Errors
    /// What the engine did not accept. Arrivals out of order are taken when the one before them is.
    pub fn run(
        mut self,
        arrivals: impl IntoIterator<Item = Arrival>,
    ) -> Result<Vec<Option<Ran>>, ReplayError> {
        let mut arrivals = arrivals.into_iter().peekable();
        while let Some(next) = self.next_instant(arrivals.peek().map(|arrival| arrival.submit)) {
            self.now = next.max(self.now);
            // 1. Ends, then what is due, then arrivals.
            self.end_what_ends()?;
            for event in self.engine.overdue(self.now) {
                self.take(&event)?;
            }
            while let Some(arrival) = arrivals.next_if(|arrival| arrival.submit <= self.now) {
                self.arrive(arrival)?;
            }
            // 2. One pass, and what the world makes of it.
            self.pass()?;
        }
        Ok(self.ran)
    }

    /// How many planning passes there were.
    #[must_use]
    pub fn passes(&self) -> u64 {
        self.passes
    }

    fn next_instant(&self, arrival: Option<Time>) -> Option<Time> {
        let ending = self.endings.peek().map(|Reverse((at, ..))| *at);
        let wake = self.engine.next_wake().map(|wake| wake.max(self.now + Span(1)));
        [arrival, ending, wake].into_iter().flatten().min()
    }

    fn arrive(&mut self, arrival: Arrival) -> Result<(), ReplayError> {
        self.runtimes.push(arrival.runtime);
        self.ran.push(None);
        let job = JobId(self.runtimes.len() as u64);
        self.take(&Event::Submitted { job, spec: arrival.spec })
    }

    fn end_what_ends(&mut self) -> Result<(), ReplayError> {
        while let Some(&Reverse((at, id, tasks))) = self.endings.peek()
            && at <= self.now
        {
            self.endings.pop();
            let exit = TaskExit::Code { code: 0 };
            self.report(id, tasks, &Observation::Exited(exit))?;
        }
        Ok(())
    }

    fn pass(&mut self) -> Result<(), ReplayError> {
        self.passes += 1;
        let plan = self.engine.plan(self.now);
        self.engine.check(self.now, &plan).map_err(ReplayError::BadPlan)?;
        self.engine.commit(self.now, &plan);
        loop {
            let effects = self.engine.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in &effects {
                self.obey(effect)?;
            }
        }
        Ok(())
    }

    /// Tasks are ready as soon as they are asked for, and run as soon as they are let go.
    fn obey(&mut self, effect: &Effect) -> Result<(), ReplayError> {
        match effect {
            Effect::Prepare { id, placement, .. } => {
                let tasks = placement.len() as u32;
                self.prepared.push((*id, tasks));
                self.report(*id, tasks, &Observation::Prepared)
            }
            Effect::Go { id } => {
                let at = self.prepared.iter().position(|(prepared, _)| prepared == id);
                let (_, tasks) =
                    self.prepared.swap_remove(at.expect("who is let go was prepared in this instant"));
                let job = id.element.job.0 as usize - 1;
                let end = self.now + self.runtimes[job];
                self.ran[job] = Some(Ran { start: self.now, end });
                self.endings.push(Reverse((end, *id, tasks)));
                self.report(*id, tasks, &Observation::Started)
            }
            Effect::Stop { .. } | Effect::Checkpoint { .. } | Effect::Forget { .. } => Ok(()),
        }
    }

    fn report(&mut self, id: AttemptId, tasks: u32, what: &Observation) -> Result<(), ReplayError> {
        (0..tasks).try_for_each(|rank| {
            self.take(&Event::Task(TaskReport { id, rank: Rank(rank), what: what.clone() }))
        })
    }

    fn take(&mut self, event: &Event) -> Result<(), ReplayError> {
        self.engine.judge(event).map_err(|refusal| {
            let what = match event {
                Event::Submitted { spec, .. } => format!("job {}", spec.name),
                Event::NodeJoined(node) => format!("node {}", node.name),
                _ => "an event of the replay".to_owned(),
            };
            ReplayError::Refused { what, refusal }
        })?;
        self.engine.apply(self.now, event);
        let _: Vec<Fact> = self.engine.take_facts();
        Ok(())
    }
}
