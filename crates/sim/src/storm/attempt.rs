//! One attempt as the reports in the journal tell it: a second, plain account of the two-phase
//! start and of what an attempt is remembered for. It shares no code with the engine.

use std::sync::Arc;

use muster_model::{
    AttemptId, CheckpointBy, NodeId, Observation, Outcome, Rank, Span, TaskCheckpoint, TaskExit,
    TaskPlacement, TaskSignalled, Time, UserName,
};

/// How far a task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Ordered,
    Prepared,
    Running,
    Over,
}

/// What becomes of the element when the attempt is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Failed(Outcome),
    Refused { rank: Rank, reason: Arc<str> },
    Preempted,
    Requeued,
    Cancelled(UserName),
}

impl Fate {
    fn weight(&self) -> u8 {
        match self {
            Fate::Failed(_) | Fate::Refused { .. } => 0,
            Fate::Preempted => 1,
            Fate::Requeued => 2,
            Fate::Cancelled(_) => 3,
        }
    }
}

/// An attempt that holds something.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    pub(crate) placement: Arc<[TaskPlacement]>,
    /// It counts in its queue: until it is told to go.
    pub(crate) counts: bool,
    pub(crate) held_from: Time,
    /// It started where it had been promised to.
    pub(crate) promised: bool,
    stages: Vec<Stage>,
    /// Tasks whose program has begun, by rank.
    began: Vec<bool>,
    /// Every task was ready before anything went wrong: the user's processes may run.
    is_going: bool,
    /// Every one of them has begun.
    pub(crate) has_run: bool,
    /// Since when they do.
    pub(crate) ran_from: Option<Time>,
    pub(crate) fate: Option<Fate>,
    /// Once it was told to go for another: when it is stopped at the latest, saved or not.
    pub(crate) leaving: Option<Time>,
    /// The request that told it so; 0 where it was stopped at once.
    left_by: u32,
    /// The newest request that has reached each task, and whether the warning before its limit has.
    reached: Vec<(u32, bool)>,
    /// Requests for a checkpoint so far, and what each task has acknowledged last.
    asked: u32,
    acknowledged: Vec<Option<TaskCheckpoint>>,
    /// When it saved its progress last.
    saved_at: Option<Time>,
}

impl Attempt {
    pub(crate) fn new(
        id: AttemptId,
        placement: Arc<[TaskPlacement]>,
        held_from: Time,
        promised: bool,
    ) -> Self {
        let stages = vec![Stage::Ordered; placement.len()];
        let began = vec![false; placement.len()];
        let acknowledged = vec![None; placement.len()];
        let reached = vec![(0, false); placement.len()];
        Self {
            id,
            counts: true,
            placement,
            held_from,
            promised,
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

    /// Since when its work would be lost; `None` while no user process runs.
    pub(crate) fn unsaved_since(&self) -> Option<Time> {
        self.ran_from.map(|from| self.saved_at.map_or(from, |saved| saved.max(from)))
    }

    /// Every user process runs, and nobody asked for its end.
    pub(crate) fn is_running(&self) -> bool {
        self.has_run && self.fate.is_none()
    }

    /// It is asked to save its progress.
    pub(crate) fn ask(&mut self) {
        self.asked += 1;
    }

    /// It is told to go for another: at once, or when it has saved its progress or `lead` is over.
    pub(crate) fn evict(&mut self, at: Time, lead: Option<Span>) {
        self.counts = false;
        match lead.filter(|_| self.is_running()) {
            Some(lead) => {
                self.leaving = Some(at + lead);
                self.ask();
                self.left_by = self.asked;
            }
            None => {
                self.leaving = Some(at);
                self.stop(Fate::Preempted);
            }
        }
    }

    /// A task says that its progress is saved. Answers what the progress of the gang is called from
    /// now on, if that is news.
    pub(crate) fn acknowledge(
        &mut self,
        rank: Rank,
        told: &TaskCheckpoint,
        by: CheckpointBy,
        now: Time,
    ) -> Option<Arc<str>> {
        let known = self.acknowledged.get_mut(rank.0 as usize)?;
        if known.as_ref().is_some_and(|known| known.count >= told.count) {
            return None;
        }
        // The clock of a task is believed within what is possible.
        *known = Some(TaskCheckpoint { at: told.at.max(self.held_from).min(now), ..told.clone() });
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
            self.stop(Fate::Preempted);
        }
        Some(label)
    }

    /// A request for a checkpoint, or the warning before the limit, has reached processes of a
    /// task.
    fn reach(&mut self, rank: Rank, told: &TaskSignalled) {
        if let Some((request, warned)) =
            self.reached.get_mut(rank.0 as usize).filter(|_| told.reached > 0)
        {
            *request = told.request.max(*request);
            *warned |= told.warned;
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

    /// What it comes to, all of its tasks being over. Exit codes of 0 are no proof that the work is
    /// done once it was asked to make room.
    pub(crate) fn end(&self) -> Option<Fate> {
        let knew =
            self.left_by > 0 && self.reached.iter().any(|(request, _)| *request >= self.left_by);
        self.fate.clone().or_else(|| knew.then_some(Fate::Preempted))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stages.iter().all(|stage| *stage == Stage::Over)
    }

    /// A report. Old news change nothing. True when every user process runs from here on.
    pub(crate) fn hear(&mut self, rank: Rank, what: &Observation) -> bool {
        let (stage, fate) = match what {
            Observation::Checkpointed(_) | Observation::Ready => return false,
            Observation::Signalled(told) => {
                self.reach(rank, told);
                return false;
            }
            Observation::Prepared => (Stage::Prepared, None),
            Observation::Started => (Stage::Running, None),
            Observation::Exited(exit) => (Stage::Over, failure(rank, exit)),
            Observation::Refused { reason } => {
                (Stage::Over, Some(Fate::Refused { rank, reason: Arc::clone(reason) }))
            }
            Observation::Impossible { reason } => (
                Stage::Over,
                Some(Fate::Failed(Outcome::StartFailed { rank, reason: Arc::clone(reason) })),
            ),
            Observation::Lost { reason } => (
                Stage::Over,
                Some(Fate::Failed(Outcome::Lost { rank, reason: Arc::clone(reason) })),
            ),
        };
        let Some(known) = self.stages.get_mut(rank.0 as usize).filter(|known| **known < stage)
        else {
            return false;
        };
        *known = stage;
        let began = stage == Stage::Running || matches!(what, Observation::Exited(_));
        self.began[rank.0 as usize] |= began;
        let is_stopping = self.fate.is_some();
        // Who was asked to make room has not failed, whatever it died of; to have been idle is no
        // failure.
        let fate = fate.map(|fate| match fate {
            Fate::Failed(Outcome::Idle { .. }) => fate,
            Fate::Failed(_) if self.leaving.is_some() => Fate::Preempted,
            _ => fate,
        });
        self.fate = self.fate.take().or(fate);
        let all = |least: Stage| self.stages.iter().all(|stage| *stage >= least);
        self.is_going |= self.fate.is_none() && all(Stage::Prepared);
        let runs = self.is_going && !is_stopping && self.began.iter().all(|began| *began);
        let is_new = runs && !self.has_run;
        self.has_run |= runs;
        is_new
    }

    /// Its tasks on a node are lost.
    pub(crate) fn lose_node(&mut self, node: NodeId, reason: &Arc<str>) {
        let here: Vec<u32> = (0..)
            .zip(self.placement.iter())
            .filter(|(_, place)| place.node == node)
            .map(|(at, _)| at)
            .collect();
        for rank in here {
            self.hear(Rank(rank), &Observation::Lost { reason: Arc::clone(reason) });
        }
    }

    /// Somebody asks for its end.
    pub(crate) fn stop(&mut self, fate: Fate) {
        if self.fate.as_ref().is_none_or(|old| old.weight() < fate.weight()) {
            self.fate = Some(fate);
        }
    }

    /// Who asked for its end wants it back: it ends, and waits again.
    pub(crate) fn go_on(&mut self) {
        if matches!(self.fate, Some(Fate::Cancelled(_))) {
            self.fate = Some(Fate::Requeued);
        }
    }

    /// Nobody waits for it to be ready any longer.
    ///
    /// # Errors
    /// There was nothing left to wait for.
    pub(crate) fn overdue(&mut self, after: Span) -> Result<(), String> {
        let mute: Vec<u32> = (0..)
            .zip(&self.stages)
            .filter(|(_, stage)| **stage == Stage::Ordered)
            .map(|(at, _)| at)
            .collect();
        let Some(first) = mute.first() else {
            return Err(format!("{} is given up though every task of it was heard of", self.id));
        };
        if self.is_going {
            return Err(format!("{} is given up though it was ready", self.id));
        }
        if self.fate.is_none() {
            let reason = format!("it was not ready after {after}").into();
            self.fate = Some(Fate::Refused { rank: Rank(*first), reason });
            return Ok(());
        }
        for rank in mute {
            self.hear(Rank(rank), &Observation::Lost { reason: "it was never heard of".into() });
        }
        Ok(())
    }
}

/// What an exit that is no success means.
fn failure(rank: Rank, exit: &TaskExit) -> Option<Fate> {
    Some(Fate::Failed(match *exit {
        TaskExit::Code { code: 0 } => return None,
        TaskExit::Code { code } => Outcome::Failed { rank, code },
        TaskExit::Signal { signal } => Outcome::Signaled { rank, signal },
        TaskExit::OutOfMemory => Outcome::OutOfMemory { rank },
        TaskExit::TimedOut => Outcome::TimedOut,
        TaskExit::Idle { after } => Outcome::Idle { after },
        TaskExit::Stopped => Outcome::Signaled { rank, signal: 15 },
    }))
}
