//! Jobs and their elements as the engine remembers them. An array is lazy: an element has a record
//! only once it started or was acted on individually, so a large array costs the same as one job
//! while it waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::outcome::{Outcome, TaskExit};
use muster_model::view::TaskStage;
use muster_model::{
    Array, Dependency, IndexRange, JobSpec, NodeId, Rank, Span, StopCause, TaskCheckpoint,
    TaskPlacement, Time,
};
use muster_policy::{LeafId, ModelId, UserId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::claim::{Claim, Leaving};
use super::ends::End;
use super::hold::AdminHold;
use super::pool::HoldKey;
use super::shape::ClassId;

/// A job in memory: what is durable, and what is derived from it.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) record: JobRecord,
    pub(crate) user: UserId,
    pub(crate) class: ClassId,
    /// The leaf in which it is counted as a job that waits.
    pub(crate) waits_in: Option<LeafId>,
}

/// The durable part of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    pub(crate) spec: Arc<JobSpec>,
    /// Where it waits: the queue of the spec, or the default one after that was removed.
    pub(crate) leaf: LeafId,
    pub(crate) submitted: Time,
    /// Elements without a record are on hold.
    pub(crate) held: bool,
    /// An administrator holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) admin_hold: Option<Box<AdminHold>>,
    /// When its first element first ran.
    pub(crate) started: Option<Time>,
    /// Dependencies that are not satisfied yet.
    pub(crate) waits_for: Vec<Dependency>,
    /// How many elements there are.
    pub(crate) total: u32,
    /// Every element before this ordinal has a record or ended with `rest`; the one at it has none.
    pub(crate) next: u32,
    /// Elements with a record, by ordinal.
    /// Boxed: a leaf of the map has room for eleven, and most jobs have one.
    pub(crate) elements: BTreeMap<u32, Box<Element>>,
    /// How all elements ended that had no record when the job was cancelled or its dependency
    /// failed.
    pub(crate) rest: Option<Box<Rest>>,
    /// Elements that have run or ended at least once.
    pub(crate) begun: u32,
    /// Elements holding resources.
    pub(crate) active: u32,
    /// Elements with a claim that hold nothing: what goes on with another size still counts as
    /// active.
    #[serde(default)]
    pub(crate) claims: u32,
    pub(crate) succeeded: u32,
    pub(crate) failed: u32,
}

/// The end of many elements at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rest {
    /// First ordinal that it covers.
    pub(crate) from: u32,
    /// How many ended so.
    pub(crate) count: u32,
    pub(crate) outcome: Outcome,
    pub(crate) at: Time,
}

/// An element that started or was acted on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Element {
    pub(crate) phase: Phase,
    /// It has run or ended at least once.
    pub(crate) begun: bool,
    /// Number of the current or last attempt; 0 before the first.
    pub(crate) attempt: u32,
    /// Restarts used up, for failures and failed starts.
    pub(crate) restarts: u32,
    /// Nodes on which a start failed, avoided while the cluster stays as it was at `avoid_epoch`.
    pub(crate) avoid: SmallVec<[NodeId; 1]>,
    pub(crate) avoid_epoch: u64,
    /// Current or last attempt.
    pub(crate) run: Option<Run>,
    /// How its last attempt ended after which it was to run again. Boxed: most elements run once.
    #[serde(default)]
    pub(crate) last_end: Option<Box<Outcome>>,
    /// Its last checkpoint, in whichever attempt.
    #[serde(default)]
    pub(crate) saved: Option<Box<Saved>>,
    /// Places that it was promised, and that others are leaving for it.
    #[serde(default)]
    pub(crate) claim: Option<Box<Claim>>,
}

/// Where an element stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// It may start once it is not held and the time has come.
    Waiting {
        held: bool,
        not_before: Time,
        /// An administrator holds it. Boxed: most elements never are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        admin: Option<Box<AdminHold>>,
    },
    /// It holds resources; details are in its run.
    Active,
    /// Over.
    Ended { outcome: Outcome, at: Time },
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) placement: Arc<[TaskPlacement]>,
    /// Thousandths of GPUs by model, as counted when it started.
    pub(crate) gpus: SmallVec<[(ModelId, u64); 1]>,
    pub(crate) held_from: Time,
    /// When the last of its tasks began to run.
    pub(crate) started: Option<Time>,
    pub(crate) ended: Option<Time>,
    pub(crate) backfilled: bool,
    pub(crate) stage: RunStage,
    pub(crate) tasks: SmallVec<[TaskState; 1]>,
    /// Tasks that are at least prepared, at least running, over.
    pub(crate) prepared: u32,
    pub(crate) running: u32,
    pub(crate) over: u32,
    /// Why it will not succeed.
    pub(crate) fate: Option<Fate>,
    /// When it ends at the latest.
    pub(crate) end: RunEnd,
    /// Requests for a checkpoint.
    #[serde(default)]
    pub(crate) asked: Asked,
    /// Set once it was told to go for another.
    #[serde(default)]
    pub(crate) leaving: Option<Leaving>,
    #[serde(skip)]
    pub(crate) key: HoldKey,
    /// Since when a word of the backend is missing, as it stands in `overdue.rs`.
    #[serde(skip)]
    pub(crate) watched: Option<Time>,
}

/// Durable form of [`End`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunEnd {
    At(Time),
    After(Span),
    Never,
}

impl From<RunEnd> for End {
    fn from(end: RunEnd) -> End {
        match end {
            RunEnd::At(time) => End::At(time),
            RunEnd::After(span) => End::After(span),
            RunEnd::Never => End::Never,
        }
    }
}

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunStage {
    /// Tasks are being made ready.
    Preparing,
    /// All are ready and were told to run.
    Going,
    /// All run, or ran.
    Running,
    /// The rest is being stopped.
    Stopping(StopCause),
}

/// Why an attempt will not succeed, in rising order of what overrides what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Fate {
    /// A task ended badly.
    Failed(Outcome),
    /// A task could not be made ready.
    Refused { rank: Rank, reason: Arc<str>, node: NodeId },
    /// Others take its place; it waits again.
    Preempted,
    /// It is to run again from the start.
    Requeued,
    /// Somebody cancelled it.
    Cancelled(Outcome),
}

impl Fate {
    /// The fate of an attempt that was asked to make room and then ended badly: it is preempted. To
    /// have been idle is no bad end.
    pub(super) fn while_leaving(self) -> Self {
        match self {
            Fate::Failed(Outcome::Idle { .. }) => self,
            Fate::Failed(_) => Fate::Preempted,
            Fate::Refused { .. } | Fate::Preempted | Fate::Requeued | Fate::Cancelled(_) => self,
        }
    }
}

/// One task of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskState {
    pub(crate) stage: TaskStage,
    pub(crate) exit: Option<TaskExit>,
    /// It has answered on its port.
    #[serde(default)]
    pub(crate) ready: bool,
    /// The newest checkpoint that it acknowledged. Boxed: most tasks have none.
    #[serde(default)]
    pub(crate) checkpoint: Option<Box<TaskCheckpoint>>,
    /// How far the requests for a checkpoint got in it.
    #[serde(default)]
    pub(crate) signals: Signals,
}

/// How far requests for a checkpoint got in a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Signals {
    /// The newest request that a process of it was told of; 0 is none.
    pub(crate) reached: u32,
    /// The newest request whose signal no process of it handled at first; 0 is none.
    pub(crate) missed: u32,
    /// A process of it was told of the warning before the limit.
    pub(crate) warned: bool,
}

/// Requests for a checkpoint of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// How many so far.
    pub(crate) count: u32,
    /// When the last one was made, until it is answered.
    pub(crate) unanswered: Option<Time>,
}

/// Saved progress of an element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) at: Time,
    pub(crate) label: Arc<str>,
    /// In which attempt.
    pub(crate) attempt: u32,
}

impl JobRecord {
    pub(crate) fn new(spec: Arc<JobSpec>, leaf: LeafId, submitted: Time) -> Self {
        // Replicas have a record from the start: they do not stand at one place of the order.
        let replicas = spec.service().map_or(0, |service| service.replicas.ceiling);
        let element = |ordinal| (ordinal, Box::new(Element::waiting(spec.held, Time(0))));
        Self {
            leaf,
            submitted,
            held: spec.held,
            admin_hold: None,
            started: None,
            waits_for: spec.after.clone(),
            total: spec.element_count(),
            next: replicas,
            elements: (0..replicas).map(element).collect(),
            rest: None,
            begun: 0,
            active: 0,
            claims: 0,
            succeeded: 0,
            failed: 0,
            spec,
        }
    }

    /// Array index of an ordinal.
    pub(crate) fn index_of(&self, ordinal: u32) -> u32 {
        self.spec.array.as_ref().map_or(ordinal, |array| array.index_of(ordinal))
    }

    /// Ordinal of an array index, when the job has that element.
    pub(crate) fn ordinal_of(&self, index: u32) -> Option<u32> {
        let ordinal = match &self.spec.array {
            None => index,
            Some(array) => array.ordinal_of(index)?,
        };
        (ordinal < self.total).then_some(ordinal)
    }

    /// Elements that wait and have no record.
    pub(crate) fn fresh(&self) -> u32 {
        self.total.saturating_sub(self.next + self.elements.range(self.next..).count() as u32)
    }

    /// The ranges of indices in which elements wait that have no record, each with how many.
    pub(crate) fn fresh_ranges(&self) -> Vec<(u32, IndexRange)> {
        let one = Array::range(0, self.total - 1, 1, None);
        let array = self.spec.array.as_ref().unwrap_or(&one);
        let fresh = |(from, range): (u32, IndexRange)| {
            let recorded = self.elements.range(from..from + range.count()).count() as u32;
            (range.count() - recorded, range)
        };
        array.behind(self.next).map(fresh).filter(|(count, _)| *count > 0).collect()
    }

    /// The `nth` waiting ordinal without a record, from 0.
    pub(crate) fn nth_fresh(&self, nth: u32) -> Option<u32> {
        let mut ordinal = self.next.checked_add(nth)?;
        // Each record that lies before the answer shifts it by one.
        for at in self.elements.range(self.next..).map(|(at, _)| *at) {
            if at > ordinal {
                break;
            }
            ordinal += 1;
        }
        (ordinal < self.total).then_some(ordinal)
    }

    /// Moves `next` past elements that have a record.
    pub(crate) fn advance(&mut self) {
        while self.next < self.total && self.elements.contains_key(&self.next) {
            self.next += 1;
        }
    }

    /// True when every element has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.succeeded + self.failed == self.total
    }

    /// Elements that may still start before the array's own cap.
    pub(crate) fn cap_room(&self) -> u32 {
        self.cap_left().saturating_sub(self.claims)
    }

    /// The same with those that are promised places: what they give up others can have.
    pub(crate) fn cap_left(&self) -> u32 {
        let cap = self.spec.array.as_ref().and_then(|array| array.max_running);
        cap.map_or(u32::MAX, |cap| cap.saturating_sub(self.active))
    }

    /// Elements that hold nothing and have not ended.
    pub(crate) fn waiting(&self) -> u32 {
        self.total.saturating_sub(self.active + self.succeeded + self.failed)
    }

    /// Elements that wait for something else than a person.
    pub(crate) fn waiting_unheld(&self) -> u32 {
        let most = self.spec.service().map_or(self.total, |service| service.replicas.ceiling);
        let known = self.elements.range(..most);
        let waits = |element: &Element| matches!(element.phase, Phase::Waiting { held: false, .. });
        let known = known.filter(|(_, element)| waits(element)).count() as u32;
        known + if self.held { 0 } else { self.fresh() }
    }

    /// What an element holds at the longest: limit and grace; `None` is endless.
    pub(crate) fn duration(&self) -> Option<Span> {
        self.spec.time_limit.map(|limit| limit + self.spec.grace)
    }

    /// The end of an element as long as its processes do not run.
    pub(crate) fn end_from_start(&self) -> RunEnd {
        self.duration().map_or(RunEnd::Never, RunEnd::After)
    }
}

impl Run {
    /// Thousandths of GPUs that it holds, over all models.
    pub(crate) fn milli(&self) -> u64 {
        self.gpus.iter().map(|(_, milli)| milli).sum()
    }
}

impl Element {
    /// A record for an element that waits.
    pub(crate) fn waiting(held: bool, not_before: Time) -> Self {
        Self {
            phase: Phase::Waiting { held, not_before, admin: None },
            begun: false,
            attempt: 0,
            restarts: 0,
            avoid: SmallVec::new(),
            avoid_epoch: 0,
            run: None,
            last_end: None,
            saved: None,
            claim: None,
        }
    }
}
