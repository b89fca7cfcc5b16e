//! Jobs and their elements as the engine stores them. An array is lazy: an element has a record
//! only once it started or was changed individually, so a large array costs the same as one job
//! while it waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::outcome::{Outcome, TaskExit};
use muster_model::view::TaskStage;
use muster_model::{
    Array, AttemptId, Dependency, ElementId, EvictionCause, IndexRange, JobSpec, NodeId, Rank,
    Span, StopCause, TaskCheckpoint, TaskPlacement, Time, UserName,
};
use muster_policy::{LeafId, ModelId, UserId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::place::classes::ClassId;
use crate::pool::HoldKey;
use crate::pool::ends::HoldingEnd;

/// A job in memory: its durable record, and what is derived from it.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) record: JobRecord,
    pub(crate) user: UserId,
    pub(crate) class: ClassId,
    /// Leaf in which the job counts as waiting; `None` if it does not wait.
    pub(crate) waits_in: Option<LeafId>,
}

/// Durable part of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    pub(crate) spec: Arc<JobSpec>,
    /// Queue in which it waits: that of the spec, or the default one after that was removed.
    pub(crate) leaf: LeafId,
    pub(crate) submitted: Time,
    /// True when elements without a record are on hold.
    pub(crate) held: bool,
    /// Hold of an administrator on elements without a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) admin_hold: Option<Box<AdminHold>>,
    /// Instant at which its first element first ran.
    pub(crate) started: Option<Time>,
    /// Dependencies that are not satisfied yet.
    pub(crate) waits_for: Vec<Dependency>,
    /// Number of elements of the job.
    pub(crate) total: u32,
    /// Every element before this ordinal has a record or ended with `rest`; the one at it has none.
    pub(crate) next: u32,
    /// Elements with a record, by ordinal. Boxed: a leaf of the map has room for eleven, and most
    /// jobs have one.
    pub(crate) elements: BTreeMap<u32, Box<Element>>,
    /// Common end of the elements that had no record when the job was cancelled or its dependency
    /// failed.
    pub(crate) rest: Option<Box<CommonEnd>>,
    /// Number of elements that have run or ended at least once.
    pub(crate) begun: u32,
    /// Number of elements holding resources.
    pub(crate) active: u32,
    /// Number of elements with a pending allocation that hold nothing: an element that is being
    /// resized still counts as active.
    #[serde(default, rename = "claims")]
    pub(crate) pending_allocations: u32,
    pub(crate) succeeded: u32,
    pub(crate) failed: u32,
}

/// Common end of many elements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CommonEnd {
    /// First ordinal that ended so.
    pub(crate) from: u32,
    /// Number of elements that ended so.
    pub(crate) count: u32,
    pub(crate) outcome: Outcome,
    pub(crate) at: Time,
}

/// Record of an element that started or was changed individually.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Element {
    pub(crate) phase: Phase,
    /// True once it has run or ended.
    pub(crate) begun: bool,
    /// Number of the current or last attempt; 0 before the first.
    pub(crate) attempt: u32,
    /// Restarts used up, by failures and failed starts.
    pub(crate) restarts: u32,
    /// Nodes on which a start failed, avoided while the cluster stays as it was at `avoid_epoch`.
    pub(crate) avoid: SmallVec<[NodeId; 1]>,
    pub(crate) avoid_epoch: u64,
    /// Current or last attempt.
    pub(crate) run: Option<Run>,
    /// Outcome of its last attempt that was followed by another. Boxed: most elements run once.
    #[serde(default)]
    pub(crate) last_end: Option<Box<Outcome>>,
    /// Its last checkpoint, of any attempt.
    #[serde(default)]
    pub(crate) saved: Option<Box<SavedProgress>>,
    /// Places allocated to it that jobs being evicted still hold.
    #[serde(default, rename = "claim")]
    pub(crate) pending_allocation: Option<Box<PendingAllocation>>,
}

/// Phase of an element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Starts once it is not held and `not_before` has come.
    Waiting {
        held: bool,
        not_before: Time,
        /// Hold of an administrator. Boxed: most elements never have one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        admin: Option<Box<AdminHold>>,
    },
    /// Holds resources; details are in its run.
    Active,
    /// Ended, until it is requeued.
    Ended { outcome: Outcome, at: Time },
}

/// One attempt of an element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) placement: Arc<[TaskPlacement]>,
    /// Thousandths of GPUs by model, as counted when it started.
    pub(crate) gpus: SmallVec<[(ModelId, u64); 1]>,
    pub(crate) held_from: Time,
    /// Instant at which the last of its tasks began to run.
    pub(crate) started: Option<Time>,
    pub(crate) ended: Option<Time>,
    pub(crate) backfilled: bool,
    pub(crate) stage: RunStage,
    pub(crate) tasks: SmallVec<[TaskState; 1]>,
    /// Tasks that are at least prepared, at least running, ended.
    pub(crate) prepared: u32,
    pub(crate) running: u32,
    pub(crate) over: u32,
    /// Reason why it will not succeed.
    pub(crate) fate: Option<AttemptFate>,
    /// Latest end of the attempt.
    pub(crate) end: RunEnd,
    /// Time for which it is expected to hold resources once its processes run; `None` if planning
    /// goes by `end`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expected: Option<Span>,
    /// Checkpoint requests to the attempt.
    #[serde(default)]
    pub(crate) asked: CheckpointRequests,
    /// Set while it is being evicted.
    #[serde(default, rename = "leaving")]
    pub(crate) eviction: Option<PendingEviction>,
    #[serde(skip)]
    pub(crate) key: HoldKey,
    /// Start of the wait for a report of the backend, as registered in `start_waits.rs`.
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

impl From<RunEnd> for HoldingEnd {
    fn from(end: RunEnd) -> HoldingEnd {
        match end {
            RunEnd::At(time) => HoldingEnd::At(time),
            RunEnd::After(span) => HoldingEnd::After(span),
            RunEnd::Never => HoldingEnd::Never,
        }
    }
}

/// Stage of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunStage {
    /// Its tasks are being prepared.
    Preparing,
    /// All tasks are prepared and were ordered to run.
    Going,
    /// All tasks run, or ran.
    Running,
    /// Its remaining tasks are being stopped.
    Stopping(StopCause),
}

/// Reason why an attempt will not succeed; a later variant overrides an earlier one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum AttemptFate {
    /// A task ended with a failure.
    Failed(Outcome),
    /// A task could not be prepared.
    Refused { rank: Rank, reason: Arc<str>, node: NodeId },
    /// Other jobs get its places; it waits again.
    Preempted,
    /// To run again from the start.
    Requeued,
    /// A user cancelled it, or an early stop of its sweep, or its queue since its GPUs were idle.
    Cancelled(Outcome),
    /// Its queue stopped it, since its GPUs were idle; it starts again at the earliest after this time.
    IdleRequeued { outcome: Outcome, wait: Span },
}

impl AttemptFate {
    /// Returns the fate of an attempt that failed while it was being evicted: preempted. Ending
    /// because it was idle is not a failure.
    pub(super) fn while_evicted(self) -> Self {
        match self {
            AttemptFate::Failed(Outcome::Idle { .. }) => self,
            AttemptFate::Failed(_) => AttemptFate::Preempted,
            AttemptFate::Refused { .. }
            | AttemptFate::Preempted
            | AttemptFate::Requeued
            | AttemptFate::IdleRequeued { .. }
            | AttemptFate::Cancelled(_) => self,
        }
    }
}

/// One task of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskState {
    pub(crate) stage: TaskStage,
    pub(crate) exit: Option<TaskExit>,
    /// True once it has answered on its port.
    #[serde(default)]
    pub(crate) ready: bool,
    /// Newest checkpoint that it acknowledged. Boxed: most tasks have none.
    #[serde(default)]
    pub(crate) checkpoint: Option<Box<TaskCheckpoint>>,
    /// Progress of the checkpoint requests in it.
    #[serde(default)]
    pub(crate) signals: Signals,
}

/// Progress of checkpoint requests in a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Signals {
    /// Newest request that reached a process of the task; 0 if none.
    pub(crate) reached: u32,
    /// Newest request whose signal no process of the task handled at first; 0 if none.
    pub(crate) missed: u32,
    /// True once the warning before the time limit reached a process of the task.
    pub(crate) warned: bool,
}

/// Checkpoint requests to an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckpointRequests {
    /// Number of requests so far.
    pub(crate) count: u32,
    /// Instant of the last request while it is not acknowledged.
    pub(crate) unanswered: Option<Time>,
}

/// Saved progress of an element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedProgress {
    pub(crate) at: Time,
    pub(crate) label: Arc<str>,
    /// Number of the attempt that saved it.
    pub(crate) attempt: u32,
}

impl JobRecord {
    pub(crate) fn new(spec: Arc<JobSpec>, leaf: LeafId, submitted: Time) -> Self {
        // Replicas have a record from the start: their places in the queue order differ.
        let replicas = spec.service().map_or(0, |service| service.replicas.max);
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
            pending_allocations: 0,
            succeeded: 0,
            failed: 0,
            spec,
        }
    }

    /// Returns the array index of an ordinal.
    pub(crate) fn index_of(&self, ordinal: u32) -> u32 {
        self.spec.array.as_ref().map_or(ordinal, |array| array.index_of(ordinal))
    }

    /// Returns the ordinal of an array index, if the job has that element.
    pub(crate) fn ordinal_of(&self, index: u32) -> Option<u32> {
        let ordinal = match &self.spec.array {
            None => index,
            Some(array) => array.ordinal_of(index)?,
        };
        (ordinal < self.total).then_some(ordinal)
    }

    /// Returns the number of elements that wait and have no record.
    pub(crate) fn unrecorded(&self) -> u32 {
        self.total.saturating_sub(self.next + self.elements.range(self.next..).count() as u32)
    }

    /// Returns the index ranges of elements that wait and have no record, each with their number.
    pub(crate) fn unrecorded_ranges(&self) -> Vec<(u32, IndexRange)> {
        let one = Array::range(0, self.total - 1, 1, None);
        let array = self.spec.array.as_ref().unwrap_or(&one);
        let unrecorded = |(from, range): (u32, IndexRange)| {
            let recorded = self.elements.range(from..from + range.count()).count() as u32;
            (range.count() - recorded, range)
        };
        array.behind(self.next).map(unrecorded).filter(|(count, _)| *count > 0).collect()
    }

    /// Returns the `nth` waiting ordinal without a record, from 0.
    pub(crate) fn nth_unrecorded(&self, nth: u32) -> Option<u32> {
        let mut ordinal = self.next.checked_add(nth)?;
        // Elements with a record do not count, so each one before the result moves it one further.
        for at in self.elements.range(self.next..).map(|(at, _)| *at) {
            if at > ordinal {
                break;
            }
            ordinal += 1;
        }
        (ordinal < self.total).then_some(ordinal)
    }

    /// Advances `next` past elements that have a record.
    pub(crate) fn advance(&mut self) {
        while self.next < self.total && self.elements.contains_key(&self.next) {
            self.next += 1;
        }
    }

    /// True when every element has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.succeeded + self.failed == self.total
    }

    /// Returns how many more elements may start before the array's own limit on running elements.
    pub(crate) fn cap_remaining(&self) -> u32 {
        self.cap_remaining_without_pending().saturating_sub(self.pending_allocations)
    }

    /// Returns the same without counting pending allocations, which their elements may give up to
    /// others.
    pub(crate) fn cap_remaining_without_pending(&self) -> u32 {
        let cap = self.spec.array.as_ref().and_then(|array| array.max_running);
        cap.map_or(u32::MAX, |cap| cap.saturating_sub(self.active))
    }

    /// Returns the number of elements that hold nothing and have not ended.
    pub(crate) fn waiting(&self) -> u32 {
        self.total.saturating_sub(self.active + self.succeeded + self.failed)
    }

    /// Returns the number of elements that wait and are not held.
    pub(crate) fn waiting_unheld(&self) -> u32 {
        let most = self.spec.service().map_or(self.total, |service| service.replicas.max);
        let known = self.elements.range(..most);
        let waits = |element: &Element| matches!(element.phase, Phase::Waiting { held: false, .. });
        let known = known.filter(|(_, element)| waits(element)).count() as u32;
        known + if self.held { 0 } else { self.unrecorded() }
    }

    /// Returns the longest time for which an element holds resources: time limit plus grace; `None`
    /// without a limit.
    pub(crate) fn duration(&self) -> Option<Span> {
        self.spec.time_limit.map(|limit| limit + self.spec.grace)
    }

    /// Returns the time for which planning expects an element to hold resources, at most its
    /// [`JobRecord::duration`]; `None` if nothing is expected, or not less.
    pub(crate) fn expected_duration(&self) -> Option<Span> {
        self.spec
            .expected_runtime
            .filter(|expected| self.duration().is_none_or(|limit| *expected < limit))
    }

    /// Returns the shortest time for which planning may take an element to hold resources.
    pub(crate) fn shortest_duration(&self) -> Option<Span> {
        self.expected_duration().or_else(|| self.duration())
    }

    /// Returns the time of an element's submission, or of the end of its last attempt.
    pub(crate) fn waits_since(&self, ordinal: u32) -> Time {
        let run = self.elements.get(&ordinal).and_then(|element| element.run.as_ref());
        run.and_then(|run| run.ended).unwrap_or(self.submitted)
    }

    /// Returns the latest end of an element while its processes do not run yet.
    pub(crate) fn end_from_start(&self) -> RunEnd {
        self.duration().map_or(RunEnd::Never, RunEnd::After)
    }
}

impl Run {
    /// Returns the thousandths of GPUs that it holds, of all models.
    pub(crate) fn milli(&self) -> u64 {
        self.gpus.iter().map(|(_, milli)| milli).sum()
    }

    /// Returns the instant since which it has its resources. That is before `held_from`, from which its use
    /// is charged, if it was found running.
    pub(crate) fn since(&self) -> Time {
        self.started.map_or(self.held_from, |started| started.min(self.held_from))
    }
}

impl Element {
    /// Returns a record for an element that waits.
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
            pending_allocation: None,
        }
    }
}

/// Hold of an administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AdminHold {
    pub(crate) by: UserName,
    /// True when the user holds it too; that hold stays when the administrator releases.
    pub(crate) own: bool,
}

/// Pending allocation of an element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingAllocation {
    /// Places of the tasks, by rank.
    pub(crate) placement: Arc<[TaskPlacement]>,
    /// Thousandths of GPUs by model, as counted since `since`.
    pub(crate) gpus: SmallVec<[(ModelId, u64); 1]>,
    pub(crate) since: Time,
    /// Sequence number, in the order of the decisions.
    #[serde(default, rename = "nth")]
    pub(crate) sequence: u64,
    /// Attempts that are evicted for it.
    pub(crate) evicted: Vec<AttemptId>,
}

/// Eviction of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingEviction {
    pub(crate) by: ElementId,
    pub(crate) cause: EvictionCause,
    pub(crate) at: Time,
    /// Deadline: the attempt is stopped then, even without a checkpoint acknowledgement.
    pub(crate) due: Time,
    /// Checkpoint request that announced the eviction; 0 where the attempt had nothing to save.
    #[serde(default)]
    pub(crate) request: u32,
}
