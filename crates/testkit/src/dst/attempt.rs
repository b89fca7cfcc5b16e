//! One attempt, rebuilt from the reports in the journal: an independent model of the two-phase
//! start and of what the engine must remember of an attempt. It shares no code with the engine.

use std::sync::Arc;

use muster_model::{
    AttemptId, CheckpointBy, NodeId, Observation, Outcome, Rank, Span, TaskCheckpoint, TaskExit,
    TaskPlacement, TaskSignalled, Time, UserName,
};

/// Progress of a task through the two-phase start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LedgerTaskStage {
    Ordered,
    Prepared,
    Running,
    Over,
}

/// Fate of the element once the attempt is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LedgerFate {
    Failed(Outcome),
    Refused { rank: Rank, reason: Arc<str> },
    Preempted,
    Requeued,
    Cancelled(UserName),
}

impl LedgerFate {
    fn weight(&self) -> u8 {
        match self {
            LedgerFate::Failed(_) | LedgerFate::Refused { .. } => 0,
            LedgerFate::Preempted => 1,
            LedgerFate::Requeued => 2,
            LedgerFate::Cancelled(_) => 3,
        }
    }
}

/// An attempt that holds resources.
#[derive(Clone, Debug)]
pub(crate) struct LedgerAttempt {
    pub(crate) id: AttemptId,
    pub(crate) placement: Arc<[TaskPlacement]>,
    /// True while the attempt counts in its queue: until it is evicted.
    pub(crate) counts: bool,
    pub(crate) held_from: Time,
    /// True if it started from a pending allocation.
    pub(crate) nominated: bool,
    stages: Vec<LedgerTaskStage>,
    /// Tasks whose program has begun, by rank.
    began: Vec<bool>,
    /// True once every task was ready before anything failed, so that user processes may run.
    is_going: bool,
    /// True once every user process has begun.
    pub(crate) has_run: bool,
    /// Time since which every user process runs.
    pub(crate) ran_from: Option<Time>,
    pub(crate) fate: Option<LedgerFate>,
    /// Latest time at which an evicted attempt is stopped, with or without a checkpoint.
    pub(crate) leaving: Option<Time>,
    /// Checkpoint request that came with the eviction; 0 if it was stopped at once.
    left_by: u32,
    /// Newest request that has reached each task, and whether the warning before the time limit
    /// has.
    reached: Vec<(u32, bool)>,
    /// Number of checkpoint requests so far, and the last acknowledgement of each task.
    asked: u32,
    acknowledged: Vec<Option<TaskCheckpoint>>,
    /// Time of the last checkpoint.
    saved_at: Option<Time>,
}

impl LedgerAttempt {
    pub(crate) fn new(
        id: AttemptId,
        placement: Arc<[TaskPlacement]>,
        held_from: Time,
        nominated: bool,
    ) -> Self {
        let stages = vec![LedgerTaskStage::Ordered; placement.len()];
        let began = vec![false; placement.len()];
        let acknowledged = vec![None; placement.len()];
        let reached = vec![(0, false); placement.len()];
        Self {
            id,
            counts: true,
            placement,
            held_from,
            nominated,
            stages,
            began,
            is_going: false,
            has_run: false,
            ran_from: None,
            fate: None,
            leaving: None,
            left_by: 0,
            reached,
            asked: 0,
            acknowledged,
            saved_at: None,
        }
    }

    /// Returns the time since which work would be lost; `None` while no user process runs.
    pub(crate) fn unsaved_since(&self) -> Option<Time> {
        self.ran_from.map(|from| self.saved_at.map_or(from, |saved| saved.max(from)))
    }

    /// Returns whether every user process runs and no stop was requested.
    pub(crate) fn is_running(&self) -> bool {
        self.has_run && self.fate.is_none()
    }

    pub(crate) fn request_checkpoint(&mut self) {
        self.asked += 1;
    }

    /// Evicts the attempt: at once, or after its checkpoint, at the latest after `lead`.
    pub(crate) fn evict(&mut self, at: Time, lead: Option<Span>) {
        self.counts = false;
        match lead.filter(|_| self.is_running()) {
            Some(lead) => {
                self.leaving = Some(at + lead);
                self.request_checkpoint();
                self.left_by = self.asked;
            }
            None => {
                self.leaving = Some(at);
                self.stop(LedgerFate::Preempted);
            }
        }
    }

    /// Records a task's checkpoint acknowledgement. Returns the new label of the gang's checkpoint,
    /// if it changed.
    pub(crate) fn acknowledge(
        &mut self,
        rank: Rank,
        reported: &TaskCheckpoint,
        by: CheckpointBy,
        now: Time,
    ) -> Option<Arc<str>> {
        let known = self.acknowledged.get_mut(rank.0 as usize)?;
        if known.as_ref().is_some_and(|known| known.count >= reported.count) {
            return None;
        }
        // The timestamp of a task is clamped to what is possible.
        *known = Some(TaskCheckpoint {
            at: reported.at.max(self.held_from).min(now),
            ..reported.clone()
        });
        let counting = match by {
            CheckpointBy::First => 1,
            CheckpointBy::All => self.acknowledged.len(),
        };
        let all: Option<Vec<&TaskCheckpoint>> =
            self.acknowledged[..counting].iter().map(Option::as_ref).collect();
        let all = all?;
        let answers = all.iter().map(|one| one.answers).min()?;
        let label = Arc::clone(&all[0].label);
        self.saved_at = all.iter().map(|one| one.at).min();
        if self.leaving.is_some() && answers >= self.asked && self.is_running() {
            self.stop(LedgerFate::Preempted);
        }
        Some(label)
    }

    /// Records that a checkpoint request, or the warning before the limit, has reached processes of
    /// a task.
    fn record_signal(&mut self, rank: Rank, reported: &TaskSignalled) {
        if let Some((request, warned)) =
            self.reached.get_mut(rank.0 as usize).filter(|_| reported.reached > 0)
        {
            *request = reported.request.max(*request);
            *warned |= reported.warned;
        }
    }

    /// True when one of its tasks was warned of its limit.
    pub(crate) fn was_warned(&self) -> bool {
        self.reached.iter().any(|(_, warned)| *warned)
    }

    /// True when it has saved progress.
    pub(crate) fn has_saved(&self) -> bool {
        self.saved_at.is_some()
    }

    /// Returns the fate of the attempt once all of its tasks are over. After an eviction, exit
    /// codes of 0 do not prove that the work is done.
    pub(crate) fn end(&self) -> Option<LedgerFate> {
        let knew =
            self.left_by > 0 && self.reached.iter().any(|(request, _)| *request >= self.left_by);
        self.fate.clone().or_else(|| knew.then_some(LedgerFate::Preempted))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stages.iter().all(|stage| *stage == LedgerTaskStage::Over)
    }

    /// Applies a report; outdated ones change nothing. Returns true if every user process runs from
    /// here on.
    pub(crate) fn observe(&mut self, rank: Rank, what: &Observation) -> bool {
        let (stage, fate) = match what {
            Observation::Checkpointed(_) | Observation::Ready => return false,
            Observation::Signalled(reported) => {
                self.record_signal(rank, reported);
                return false;
            }
            Observation::Prepared => (LedgerTaskStage::Prepared, None),
            Observation::Started => (LedgerTaskStage::Running, None),
            Observation::Exited(exit) => (LedgerTaskStage::Over, failure(rank, exit)),
            Observation::Refused { reason } => (
                LedgerTaskStage::Over,
                Some(LedgerFate::Refused { rank, reason: Arc::clone(reason) }),
            ),
            Observation::Impossible { reason } => (
                LedgerTaskStage::Over,
                Some(LedgerFate::Failed(Outcome::StartFailed { rank, reason: Arc::clone(reason) })),
            ),
            Observation::Lost { reason } => (
                LedgerTaskStage::Over,
                Some(LedgerFate::Failed(Outcome::Lost { rank, reason: Arc::clone(reason) })),
            ),
        };
        let Some(known) = self.stages.get_mut(rank.0 as usize).filter(|known| **known < stage)
        else {
            return false;
        };
        *known = stage;
        let began = stage == LedgerTaskStage::Running || matches!(what, Observation::Exited(_));
        self.began[rank.0 as usize] |= began;
        let is_stopping = self.fate.is_some();
        // An evicted job has not failed, whatever the exit status of its tasks; nor has a notebook
        // that was stopped because it was idle.
        let fate = fate.map(|fate| match fate {
            LedgerFate::Failed(Outcome::Idle { .. }) => fate,
            LedgerFate::Failed(_) if self.leaving.is_some() => LedgerFate::Preempted,
            _ => fate,
        });
        self.fate = self.fate.take().or(fate);
        let all = |least: LedgerTaskStage| self.stages.iter().all(|stage| *stage >= least);
        self.is_going |= self.fate.is_none() && all(LedgerTaskStage::Prepared);
        let runs = self.is_going && !is_stopping && self.began.iter().all(|began| *began);
        let is_new = runs && !self.has_run;
        self.has_run |= runs;
        is_new
    }

    /// Marks the tasks on a node as lost.
    pub(crate) fn lose_node(&mut self, node: NodeId, reason: &Arc<str>) {
        let here: Vec<u32> = (0..)
            .zip(self.placement.iter())
            .filter(|(_, place)| place.node == node)
            .map(|(at, _)| at)
            .collect();
        for rank in here {
            self.observe(Rank(rank), &Observation::Lost { reason: Arc::clone(reason) });
        }
    }

    /// Requests the end of the attempt.
    pub(crate) fn stop(&mut self, fate: LedgerFate) {
        if self.fate.as_ref().is_none_or(|old| old.weight() < fate.weight()) {
            self.fate = Some(fate);
        }
    }

    /// Turns a cancellation into a requeue: the attempt still ends, and its element is pending
    /// again.
    pub(crate) fn resume(&mut self) {
        if matches!(self.fate, Some(LedgerFate::Cancelled(_))) {
            self.fate = Some(LedgerFate::Requeued);
        }
    }

    /// Gives up waiting for the attempt to be ready.
    ///
    /// # Errors
    /// Every task had reported, or was ready.
    pub(crate) fn overdue(&mut self, after: Span) -> Result<(), String> {
        let mute: Vec<u32> = (0..)
            .zip(&self.stages)
            .filter(|(_, stage)| **stage == LedgerTaskStage::Ordered)
            .map(|(at, _)| at)
            .collect();
        let Some(first) = mute.first() else {
            return Err(format!("{} is given up though every task has reported", self.id));
        };
        if self.is_going {
            return Err(format!("{} is given up though it was ready", self.id));
        }
        if self.fate.is_none() {
            let reason = format!("it was not prepared within {after}").into();
            self.fate = Some(LedgerFate::Refused { rank: Rank(*first), reason });
            return Ok(());
        }
        for rank in mute {
            self.observe(Rank(rank), &Observation::Lost { reason: "it never reported".into() });
        }
        Ok(())
    }
}

/// Converts an unsuccessful exit into a fate.
fn failure(rank: Rank, exit: &TaskExit) -> Option<LedgerFate> {
    Some(LedgerFate::Failed(match *exit {
        TaskExit::Code { code: 0 } => return None,
        TaskExit::Code { code } => Outcome::Failed { rank, code },
        TaskExit::Signal { signal } => Outcome::Signaled { rank, signal },
        TaskExit::OutOfMemory => Outcome::OutOfMemory { rank },
        TaskExit::TimedOut => Outcome::TimedOut,
        TaskExit::Idle { after } => Outcome::Idle { after },
        TaskExit::Stopped => Outcome::Signaled { rank, signal: 15 },
    }))
}
