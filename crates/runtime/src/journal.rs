//! Contents of the journal. Records are inputs and decisions, never computed results: replaying
//! them restores the state, in this version of the engine and in later ones.
//!
//! Changing the meaning of anything here, or of the types that it contains, requires a higher
//! [`JOURNAL_VERSION`].

use muster_engine::AccountingFact;
use muster_model::unit::Time;
use muster_model::{Event, JobId, Observation, Payload, PayloadId, Plan, TaskReport, UserName};
use serde::{Deserialize, Serialize};

/// Version of the format of journal and snapshot. A store with a higher one is refused: an older
/// binary must not guess the meaning.
pub const JOURNAL_VERSION: u32 = 1;

/// One record of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalRecord {
    /// Observation of the cluster, or request.
    Event(Event),
    /// Decisions of the engine.
    Plan(Plan),
}

impl JournalRecord {
    /// Returns a short name of its contents, for reading the journal with SQL.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            JournalRecord::Plan(_) => "plan",
            JournalRecord::Event(event) => match event {
                Event::NodeJoined(_) => "node_joined",
                Event::NodeLost { .. } => "node_lost",
                Event::NodeDrained { .. } => "node_drained",
                Event::DrainSet { .. } => "drain_set",
                Event::ForeignUse { .. } => "foreign_use",
                Event::QueuesSet(_) => "queues_set",
                Event::LevelsSet(_) => "levels_set",
                Event::Submitted { .. } => "submitted",
                Event::Hold(_) => "hold",
                Event::Release(_) => "release",
                Event::AdminHold { .. } => "admin_hold",
                Event::AdminRelease { .. } => "admin_release",
                Event::Cancel { .. } => "cancel",
                Event::Requeue(_) => "requeue",
                Event::Checkpoint(_) => "checkpoint",
                Event::Task(_) => "task",
                Event::RunningSince { .. } => "running_since",
                Event::StartOverdue { .. } => "start_overdue",
                Event::EvictionDue { .. } => "eviction_due",
                Event::StopEarly { .. } => "stop_early",
                Event::GpusIdle { .. } => "gpus_idle",
                Event::Scaled { .. } => "scaled",
                Event::AdvanceReservationSet(_) => "window_set",
                Event::AdvanceReservationPlaced { .. } => "window_placed",
                Event::AdvanceReservationRemoved { .. } => "window_dropped",
            },
        }
    }
}

/// Everything that one step makes durable, atomically.
#[derive(Clone, Debug)]
pub struct JournalBatch {
    /// Instant of the step.
    pub at: Time,
    /// Records in the order in which they were applied. Never empty.
    pub records: Vec<JournalRecord>,
    /// Facts that follow from the records, for accounting and history.
    pub facts: Vec<AccountingFact>,
    /// Commands and environments of jobs submitted in this step.
    pub payloads: Vec<(PayloadId, Payload)>,
    /// Answers to submissions, by user and idempotency key.
    pub receipts: Vec<(UserName, String, Receipt)>,
}

impl JournalBatch {
    /// Returns an empty batch of this instant.
    pub(crate) fn at(at: Time) -> Self {
        Self {
            at,
            records: Vec::new(),
            facts: Vec::new(),
            payloads: Vec::new(),
            receipts: Vec::new(),
        }
    }

    /// Returns true when the batch must survive a power loss, not only the end of the process. A
    /// batch that only reports started tasks need not: nothing was decided, answered or sent
    /// because of it, and a power loss ends these tasks.
    #[must_use]
    pub fn must_be_synced(&self) -> bool {
        let is_start = |record: &JournalRecord| {
            matches!(
                record,
                JournalRecord::Event(Event::Task(TaskReport {
                    observation: Observation::Started,
                    ..
                }))
            )
        };
        !self.receipts.is_empty() || !self.payloads.is_empty() || !self.records.iter().all(is_start)
    }
}

/// Answer to an accepted submission, stored so that the same key gets the same answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Accepted jobs in document order.
    pub jobs: Vec<ReceiptJob>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// One job of an accepted submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptJob {
    /// Number of the job.
    pub job: JobId,
    /// Name of the job.
    pub name: String,
    /// Number of its elements.
    pub elements: u32,
}

#[cfg(test)]
mod tests {
    use muster_model::{Attempt, AttemptId, ElementId, Rank, TaskExit};

    use super::*;

    #[test]
    fn only_a_batch_of_nothing_but_starts_need_not_survive_a_power_loss() {
        let id = AttemptId { element: ElementId::single(JobId(1)), attempt: Attempt(1) };
        let task = |what| {
            JournalRecord::Event(Event::Task(TaskReport { id, rank: Rank(0), observation: what }))
        };
        let started = || task(Observation::Started);
        let exited = task(Observation::Exited(TaskExit::Code { code: 0 }));
        let plan = JournalRecord::Plan(Plan::default());
        for (records, expected) in [
            (vec![started(), started()], false),
            (vec![task(Observation::Prepared)], true),
            (vec![started(), exited], true),
            (vec![started(), plan], true),
        ] {
            let batch = JournalBatch { records, ..JournalBatch::at(Time(0)) };
            assert_eq!(batch.must_be_synced(), expected, "{:?}", batch.records);
        }
        let user = UserName::from("ada");
        let receipts = vec![(user, "key".to_owned(), Receipt::default())];
        assert!(
            JournalBatch { records: vec![started()], receipts, ..JournalBatch::at(Time(0)) }
                .must_be_synced()
        );
    }
}
