//! Reference ledger: a second account of every job, kept from the journal alone: what was accepted,
//! requested, started and reported. It computes how each element must end and reports where the
//! engine differs. It shares no code with the engine and never plans.

pub(crate) mod budget;
pub(crate) mod continuation;
mod decisions;
mod ends;
mod events;
mod facts;
pub(crate) mod holdings;
pub(crate) mod nodes;
mod nominations;
pub(crate) mod queue_path;
mod quota;
pub(crate) mod reclaimable;
mod requests;
pub(crate) mod reservations;
pub(crate) mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::{
    AttemptId, Dependency, ElementId, JobId, JobSpec, NodeName, Outcome, QueueName, QueueTree,
    TaskPlacement, Time,
};
use muster_runtime::{JournalBatch, JournalRecord};

use super::attempt::LedgerAttempt;
use super::coverage::Coverage;
use budget::Spent;
use continuation::MoveCosts;
use nodes::LedgerNode;
use nominations::Nominations;
use reservations::Reservations;

/// State of an element.
#[derive(Clone, Debug)]
pub(crate) enum ElementPhase {
    Pending { held: bool, not_before: Time },
    Active(Box<LedgerAttempt>),
    Ended(Outcome),
}

/// An element of a job.
#[derive(Clone, Debug)]
pub(crate) struct LedgerElement {
    pub(crate) phase: ElementPhase,
    /// Label of its saved checkpoint.
    pub(crate) saved: Option<Arc<str>>,
    attempts: u32,
    restarts: u32,
    begun: bool,
}

impl LedgerElement {
    fn new(held: bool) -> Self {
        let phase = ElementPhase::Pending { held, not_before: Time(0) };
        Self { phase, saved: None, attempts: 0, restarts: 0, begun: false }
    }

    /// Makes an ended element pending again.
    fn wait_again(&mut self, held: bool) {
        (self.phase, self.restarts) = (ElementPhase::Pending { held, not_before: Time(0) }, 0);
    }

    /// Returns whether the element has never started.
    pub(crate) fn is_new(&self) -> bool {
        self.attempts == 0
    }
}

/// A job that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct LedgerJob {
    pub(crate) spec: Arc<JobSpec>,
    /// Leaf queue of the job.
    pub(crate) leaf: QueueName,
    held: bool,
    /// Dependencies of kind `after` that have begun. A service may have to begin anew when it is
    /// scaled up.
    met: BTreeSet<JobId>,
    pub(crate) elements: BTreeMap<u32, LedgerElement>,
}

impl LedgerJob {
    /// Returns whether pending elements of the job are held.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Returns whether all elements have begun; of a service, the guaranteed replicas, at least
    /// one.
    fn has_begun(&self) -> bool {
        let floor = self.spec.service().map(|service| service.replicas.guaranteed.max(1));
        let counts = |index: u32| floor.is_none_or(|floor| index < floor);
        self.elements.iter().all(|(index, element)| element.begun || !counts(*index))
    }
}

/// The reference ledger: all state that follows from the journal.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) jobs: BTreeMap<JobId, LedgerJob>,
    /// Ended jobs, and whether all of their elements succeeded.
    pub(crate) over: BTreeMap<JobId, bool>,
    /// Dependencies of jobs that end in the current batch because one cannot be satisfied.
    waited_for: BTreeMap<JobId, Vec<Dependency>>,
    pub(crate) nodes: Vec<LedgerNode>,
    pub(crate) queues: QueueTree,
    /// Levels of the topology, widest first.
    pub(crate) levels: Vec<Arc<str>>,
    pub(crate) nominations: Nominations,
    pub(crate) reservations: Reservations,
    /// GPU time of ended attempts, since the queues last changed.
    pub(crate) spent: Vec<Spent>,
    pub(crate) moves: MoveCosts,
    /// Attempts that the engine has reported as evicted.
    evicted: BTreeSet<AttemptId>,
    /// Ends of elements and of jobs that the engine must report for this batch.
    ends: Vec<(ElementId, Outcome)>,
    job_ends: Vec<(JobId, bool)>,
    running: Vec<AttemptId>,
    /// Attempts that the current plan starts above their minimum size. The engine adds the extra
    /// tasks after all other decisions, so they are counted and checked at the end of the plan.
    larger: Vec<AttemptId>,
    /// Jobs that the current plan gives more tasks, with the added places.
    grown: Vec<(JobId, Vec<TaskPlacement>)>,
    /// Names of all jobs ever accepted.
    names: BTreeMap<Arc<str>, JobId>,
}

impl Ledger {
    pub(crate) fn new(queues: QueueTree) -> Self {
        let mut moves = MoveCosts::default();
        moves.queues_set(&queues);
        Self {
            jobs: BTreeMap::new(),
            over: BTreeMap::new(),
            waited_for: BTreeMap::new(),
            nodes: Vec::new(),
            queues,
            levels: Vec::new(),
            nominations: Nominations::default(),
            reservations: Reservations::new(),
            spent: Vec::new(),
            moves,
            evicted: BTreeSet::new(),
            ends: Vec::new(),
            job_ends: Vec::new(),
            running: Vec::new(),
            larger: Vec::new(),
            grown: Vec::new(),
            names: BTreeMap::new(),
        }
    }

    /// Returns whether the job was accepted.
    pub(crate) fn has_job(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job) || self.over.contains_key(&job)
    }

    /// Returns the job with this name.
    pub(crate) fn named(&self, name: &str) -> Option<JobId> {
        self.names.get(name).copied()
    }

    /// Returns the attempts that hold resources.
    pub(crate) fn active(&self) -> impl Iterator<Item = (&LedgerJob, &LedgerAttempt)> {
        self.jobs.values().flat_map(|job| {
            job.elements.values().filter_map(move |element| match &element.phase {
                ElementPhase::Active(attempt) => Some((job, &**attempt)),
                ElementPhase::Pending { .. } | ElementPhase::Ended(_) => None,
            })
        })
    }

    /// Returns what counts in quotas and limits: placements that are held and not being evicted,
    /// and nominated ones.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&LedgerJob, &[TaskPlacement])> {
        self.counted_without(&[])
    }

    /// As [`Ledger::counted`], as if the attempts in `gone` had been evicted.
    pub(crate) fn counted_without(
        &self,
        gone: &[AttemptId],
    ) -> impl Iterator<Item = (&LedgerJob, &[TaskPlacement])> {
        let stays = move |attempt: &LedgerAttempt| attempt.counts && !gone.contains(&attempt.id);
        let holds = self.active().filter(move |(_, attempt)| stays(attempt));
        let holds = holds.map(|(job, attempt)| (job, &*attempt.placement));
        let nominated = self.nominations.of.iter();
        holds.chain(
            nominated.filter_map(|(id, nomination)| {
                Some((self.jobs.get(&id.job)?, &*nomination.placement))
            }),
        )
    }

    /// Returns the attempts that start above their minimum size and do not count yet.
    pub(crate) fn uncounted_growth(&self) -> impl Iterator<Item = (&LedgerJob, &[TaskPlacement])> {
        let attempts = self.larger.iter().filter_map(|id| self.attempt(id.element));
        attempts.filter_map(|attempt| {
            Some((self.jobs.get(&attempt.id.element.job)?, &*attempt.placement))
        })
    }

    /// As [`Ledger::counted`], with the time since which each counts.
    pub(crate) fn counted_since(
        &self,
    ) -> impl Iterator<Item = (&LedgerJob, &[TaskPlacement], Time)> {
        let holds = self.active().filter(|(_, attempt)| attempt.counts);
        let holds = holds.map(|(job, attempt)| (job, &*attempt.placement, attempt.held_from));
        let nominated = self.nominations.of.iter();
        holds.chain(nominated.filter_map(|(id, nomination)| {
            Some((self.jobs.get(&id.job)?, &*nomination.placement, nomination.since))
        }))
    }

    /// Returns the leaf queue in which a job is counted.
    pub(crate) fn leaf_of<'a>(&'a self, job: &'a LedgerJob) -> &'a str {
        job.leaf.as_str()
    }

    /// Returns the active attempt of an element.
    pub(crate) fn attempt(&self, id: ElementId) -> Option<&LedgerAttempt> {
        match &self.jobs.get(&id.job)?.elements.get(&id.index)?.phase {
            ElementPhase::Active(attempt) => Some(attempt),
            ElementPhase::Pending { .. } | ElementPhase::Ended(_) => None,
        }
    }

    /// Applies a durable batch, and compares the result with the engine's facts.
    ///
    /// # Errors
    /// The first difference, or a decision that is not allowed.
    pub(crate) fn enter(
        &mut self,
        batch: &JournalBatch,
        coverage: &mut Coverage,
    ) -> Result<(), String> {
        for record in &batch.records {
            match record {
                JournalRecord::Event(event) => self.event(batch.at, event, coverage)?,
                JournalRecord::Plan(plan) => self.plan(batch.at, plan, coverage)?,
            }
            self.dependencies();
        }
        self.compare(&batch.facts, coverage)
    }

    fn host_mut(&mut self, name: &NodeName) -> Option<&mut LedgerNode> {
        self.nodes.iter_mut().find(|host| host.spec.name == *name)
    }

    fn attempt_mut(&mut self, id: ElementId) -> Option<&mut LedgerAttempt> {
        match &mut self.jobs.get_mut(&id.job)?.elements.get_mut(&id.index)?.phase {
            ElementPhase::Active(attempt) => Some(attempt),
            ElementPhase::Pending { .. } | ElementPhase::Ended(_) => None,
        }
    }
}
