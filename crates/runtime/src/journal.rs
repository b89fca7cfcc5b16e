//! What is journalled. Records are inputs and decisions, never outcomes of computation: folding
//! them gives the state back, in this version of the engine and in later ones.
//!
//! Changing the meaning of anything in here, or in the types that it holds, needs a higher
//! [`JOURNAL_VERSION`].

use muster_engine::Fact;
use muster_model::unit::Time;
use muster_model::{Event, JobId, Observation, Payload, PayloadId, Plan, TaskReport, UserName};
use serde::{Deserialize, Serialize};

/// Version of the journal's and the snapshot's form. A store with a higher one is refused: an older
/// binary must not guess what a newer one meant.
pub const JOURNAL_VERSION: u32 = 1;

/// One row of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// Something happened or was asked for.
    Event(Event),
    /// The engine decided.
    Plan(Plan),
}

impl Record {
    /// A word for what it is about, for people who read the journal with SQL.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Record::Plan(_) => "plan",
            Record::Event(event) => match event {
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
                Event::StartOverdue { .. } => "start_overdue",
                Event::EvictionDue { .. } => "eviction_due",
                Event::Scaled { .. } => "scaled",
                Event::WindowSet(_) => "window_set",
                Event::WindowPlaced { .. } => "window_placed",
                Event::WindowDropped { .. } => "window_dropped",
            },
        }
    }
}

/// Everything that one step makes durable: all of it or none of it.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The instant of the step.
    pub at: Time,
    /// For the journal, in the order in which they were applied. Never empty.
    pub records: Vec<Record>,
    /// What the records came to, for the accounting and history projections.
    pub facts: Vec<Fact>,
    /// Commands and environments of jobs submitted in this step.
    pub payloads: Vec<(PayloadId, Payload)>,
    /// Answers given to submissions, by user and idempotency key.
    pub receipts: Vec<(UserName, String, Receipt)>,
}

impl Batch {
    /// An empty batch of this instant.
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
    /// batch that says just that tasks have started need not: nothing was decided, promised or sent
    /// because of it, and a power loss ends these tasks.
    #[must_use]
    pub fn must_be_synced(&self) -> bool {
        let is_start = |record: &Record| {
            matches!(
                record,
                Record::Event(Event::Task(TaskReport { what: Observation::Started, .. }))
            )
        };
        !self.receipts.is_empty() || !self.payloads.is_empty() || !self.records.iter().all(is_start)
    }
}

/// The answer to an accepted submission, kept so that the same key gets the same answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// In document order.
    pub jobs: Vec<ReceiptJob>,
    /// Things the user was told.
    pub warnings: Vec<String>,
}

/// One accepted job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptJob {
    /// Its number.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Its elements.
    pub elements: u32,
}

#[cfg(test)]
mod tests {
    use muster_model::{Attempt, AttemptId, ElementId, Rank, TaskExit};

    use super::*;

    #[test]
    fn only_a_batch_of_nothing_but_starts_need_not_survive_a_power_loss() {
        let id = AttemptId { element: ElementId::single(JobId(1)), attempt: Attempt(1) };
        let task = |what| Record::Event(Event::Task(TaskReport { id, rank: Rank(0), what }));
        let started = || task(Observation::Started);
        let exited = task(Observation::Exited(TaskExit::Code { code: 0 }));
        let plan = Record::Plan(Plan::default());
        for (records, expected) in [
            (vec![started(), started()], false),
            (vec![task(Observation::Prepared)], true),
            (vec![started(), exited], true),
            (vec![started(), plan], true),
        ] {
            let batch = Batch { records, ..Batch::at(Time(0)) };
            assert_eq!(batch.must_be_synced(), expected, "{:?}", batch.records);
        }
        let user = UserName::from("ada");
        let receipts = vec![(user, "key".to_owned(), Receipt::default())];
        assert!(
            Batch { records: vec![started()], receipts, ..Batch::at(Time(0)) }.must_be_synced()
        );
    }
}
