//! Store of the scenario's daemon: in memory, with facts for the transcript, and faults on request.
//! It does not decide what a failure means.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{AttemptId, Event, JobId, Time, UserName};
use muster_runtime::engine::AccountingFact;
use muster_runtime::{JournalBatch, JournalRecord, Loaded, Receipt, SavedState, Store, StoreError};

use crate::MemStore;

/// Fault of the next append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum JournalFault {
    #[default]
    None,
    /// The daemon dies before the batch is durable.
    BeforeWrite,
    /// The daemon dies after the batch is durable.
    AfterWrite,
    /// No space is left.
    Full,
}

/// A store in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    durable: MemStore,
    pub(crate) fault: JournalFault,
    /// A fault has ended the daemon.
    pub(crate) died: bool,
    /// Facts that are not reported yet.
    facts: Vec<AccountingFact>,
    /// Accepted jobs with their names, until they are taken.
    accepted: Vec<(JobId, Arc<str>)>,
    /// Starts that passed a blocked job.
    backfilled: BTreeSet<AttemptId>,
}

impl Journal {
    /// Returns the facts since the last call.
    pub(crate) fn take_facts(&mut self) -> Vec<AccountingFact> {
        std::mem::take(&mut self.facts)
    }

    /// Returns numbers and names of jobs accepted since the last call.
    pub(crate) fn take_accepted(&mut self) -> Vec<(JobId, Arc<str>)> {
        std::mem::take(&mut self.accepted)
    }

    /// Returns whether this start passed a blocked job.
    pub(crate) fn is_backfilled(&self, id: AttemptId) -> bool {
        self.backfilled.contains(&id)
    }

    /// Returns a second store with the same contents.
    pub(crate) fn copy(&self) -> MemStore {
        self.durable.clone()
    }

    fn die(&mut self) -> StoreError {
        (self.fault, self.died) = (JournalFault::None, true);
        StoreError::Io("the daemon dies here".to_owned())
    }
}

impl Store for Journal {
    fn append(&mut self, batch: &JournalBatch) -> Result<(), StoreError> {
        match self.fault {
            JournalFault::BeforeWrite => return Err(self.die()),
            JournalFault::Full => {
                return Err(StoreError::Full("the disk of the scenario".to_owned()));
            }
            JournalFault::None | JournalFault::AfterWrite => self.durable.append(batch)?,
        }
        self.facts.extend(batch.facts.iter().cloned());
        for record in &batch.records {
            match record {
                JournalRecord::Event(Event::Submitted { job, spec }) => {
                    self.accepted.push((*job, Arc::clone(&spec.name)));
                }
                JournalRecord::Event(_) => {}
                JournalRecord::Plan(plan) => {
                    for (id, _, backfilled) in plan.starts() {
                        self.backfilled.extend(backfilled.then_some(id));
                    }
                }
            }
        }
        if self.fault == JournalFault::AfterWrite { Err(self.die()) } else { Ok(()) }
    }

    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.durable.load()
    }

    fn save(&mut self, state: &SavedState) -> Result<(), StoreError> {
        self.durable.save(state)
    }

    fn receipt(&self, user: &UserName, key: &str) -> Result<Option<Receipt>, StoreError> {
        self.durable.receipt(user, key)
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        match self.fault {
            JournalFault::Full => Err(StoreError::Full("the disk of the scenario".to_owned())),
            JournalFault::None | JournalFault::BeforeWrite | JournalFault::AfterWrite => Ok(()),
        }
    }
}

/// Start of every scenario: noon of 20 November 2026, UTC.
pub(crate) const NOON: Time = Time(1_795_176_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_begins_at_noon() {
        assert_eq!(muster_spec::quantity::parse_instant("2026-11-20T12:00:00Z"), Ok(NOON));
    }
}
