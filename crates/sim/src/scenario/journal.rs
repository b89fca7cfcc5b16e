//! The store of the scenario's daemon: one in memory that also keeps what happened for the
//! transcript, and fails when it is told to. It must not decide what a failure means.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{AttemptId, Event, JobId, Time, UserName};
use muster_runtime::engine::Fact;
use muster_runtime::{Batch, Loaded, MemStore, Receipt, Record, SavedState, Store, StoreError};

/// How appending goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Well.
    #[default]
    None,
    /// The daemon dies before the batch is durable.
    BeforeWrite,
    /// The daemon dies after it is.
    AfterWrite,
    /// There is no space.
    Full,
}

/// A store in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    durable: MemStore,
    pub(crate) fault: Fault,
    /// A fault has ended the daemon.
    pub(crate) died: bool,
    /// What happened and was not told yet.
    facts: Vec<Fact>,
    /// Jobs that were accepted and not asked for yet, with their names.
    accepted: Vec<(JobId, Arc<str>)>,
    /// Starts that passed somebody.
    backfilled: BTreeSet<AttemptId>,
}

impl Journal {
    /// What happened since the last call.
    pub(crate) fn take_facts(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.facts)
    }

    /// Numbers and names of jobs accepted since the last call.
    pub(crate) fn take_accepted(&mut self) -> Vec<(JobId, Arc<str>)> {
        std::mem::take(&mut self.accepted)
    }

    /// Did this start pass somebody?
    pub(crate) fn is_backfilled(&self, id: AttemptId) -> bool {
        self.backfilled.contains(&id)
    }

    /// A second store that holds the same.
    pub(crate) fn copy(&self) -> MemStore {
        self.durable.clone()
    }

    fn die(&mut self) -> StoreError {
        (self.fault, self.died) = (Fault::None, true);
        StoreError::Io("the daemon dies here".to_owned())
    }
}

impl Store for Journal {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        match self.fault {
            Fault::BeforeWrite => return Err(self.die()),
            Fault::Full => return Err(StoreError::Full("the disk of the scenario".to_owned())),
            Fault::None | Fault::AfterWrite => self.durable.append(batch)?,
        }
        self.facts.extend(batch.facts.iter().cloned());
        for record in &batch.records {
            match record {
                Record::Event(Event::Submitted { job, spec }) => {
                    self.accepted.push((*job, Arc::clone(&spec.name)));
                }
                Record::Event(_) => {}
                Record::Plan(plan) => {
                    for (id, _, backfilled) in plan.starts() {
                        self.backfilled.extend(backfilled.then_some(id));
                    }
                }
            }
        }
        if self.fault == Fault::AfterWrite { Err(self.die()) } else { Ok(()) }
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
            Fault::Full => Err(StoreError::Full("the disk of the scenario".to_owned())),
            Fault::None | Fault::BeforeWrite | Fault::AfterWrite => Ok(()),
        }
    }
}

/// The instant at which every scenario begins: noon of 20 November 2026, UTC.
pub(crate) const NOON: Time = Time(1_795_176_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_begins_at_noon() {
        assert_eq!(muster_spec::quantity::parse_instant("2026-11-20T12:00:00Z"), Ok(NOON));
    }
}
