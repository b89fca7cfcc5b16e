//! A second account of every job, kept from the journal alone: what was accepted, asked for,
//! started and reported. It says how each element must end and finds what the engine says
//! otherwise. It shares no code with the engine and never plans.

mod asked;
mod decided;
mod ends;
mod events;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::{
    AttemptId, Dependency, ElementId, JobId, JobSpec, NodeName, Outcome, QueueName, QueueTree,
    TaskPlacement, Time,
};
use muster_runtime::{Batch, Record};

use super::attempt::Attempt;
use super::budget::Spent;
use super::claims::Claims;
use super::cover::Cover;
use super::holdings;
use super::onward::Moves;
use super::windows::Windows;

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
    /// Jobs whose start it waited for, and that have begun. A service may have to begin anew when
    /// it is given more.
    met: BTreeSet<JobId>,
    pub(crate) elements: BTreeMap<u32, Element>,
}

impl Job {
    /// What of it waits, or comes to wait, does not start.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

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
    pub(crate) moves: Moves,
    /// Attempts that were asked to make room, as the engine told of it.
    asked_to_go: BTreeSet<AttemptId>,
    /// Ends of elements and of jobs that this batch must tell.
    ends: Vec<(ElementId, Outcome)>,
    job_ends: Vec<(JobId, bool)>,
    running: Vec<AttemptId>,
    /// What the plan at hand starts with more than its fewest tasks. It got those when all others
    /// had had their turn, so it counts, and is judged, when the whole plan is known.
    larger: Vec<AttemptId>,
    /// Whose gang gets larger by the plan at hand, and on which places.
    grown: Vec<(JobId, Vec<TaskPlacement>)>,
    /// The name of every job ever accepted.
    names: BTreeMap<Arc<str>, JobId>,
}

impl Book {
    pub(crate) fn new(queues: QueueTree) -> Self {
        let mut moves = Moves::default();
        moves.queues_set(&queues);
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
            moves,
            asked_to_go: BTreeSet::new(),
            ends: Vec::new(),
            job_ends: Vec::new(),
            running: Vec::new(),
            larger: Vec::new(),
            grown: Vec::new(),
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

    /// What counts in quota and limits: what holds its places and was not told to go, and what was
    /// promised places.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&Job, &[TaskPlacement])> {
        self.counted_without(&[])
    }

    /// As [`Book::counted`], as if some attempts had been told to go.
    pub(crate) fn counted_without(
        &self,
        gone: &[AttemptId],
    ) -> impl Iterator<Item = (&Job, &[TaskPlacement])> {
        let stays = move |attempt: &Attempt| attempt.counts && !gone.contains(&attempt.id);
        let holds = self.active().filter(move |(_, attempt)| stays(attempt));
        let holds = holds.map(|(job, attempt)| (job, &*attempt.placement));
        let promised = self.claims.of.iter();
        holds.chain(
            promised.filter_map(|(id, claim)| Some((self.jobs.get(&id.job)?, &*claim.placement))),
        )
    }

    /// What starts larger than it must, and does not count yet.
    pub(crate) fn uncounted(&self) -> impl Iterator<Item = (&Job, &[TaskPlacement])> {
        let attempts = self.larger.iter().filter_map(|id| self.attempt(id.element));
        attempts.filter_map(|attempt| {
            Some((self.jobs.get(&attempt.id.element.job)?, &*attempt.placement))
        })
    }

    /// As [`Book::counted`], and from when on.
    pub(crate) fn counted_since(&self) -> impl Iterator<Item = (&Job, &[TaskPlacement], Time)> {
        let holds = self.active().filter(|(_, attempt)| attempt.counts);
        let holds = holds.map(|(job, attempt)| (job, &*attempt.placement, attempt.held_from));
        let promised = self.claims.of.iter();
        holds.chain(promised.filter_map(|(id, claim)| {
            Some((self.jobs.get(&id.job)?, &*claim.placement, claim.since))
        }))
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
                Record::Plan(plan) => self.plan(batch.at, plan, cover)?,
            }
            self.dependencies();
        }
        self.compare(&batch.facts, cover)
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
}
