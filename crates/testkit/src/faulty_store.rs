//! A store in memory whose appends, loads and snapshots fail as configured. It keeps every durable
//! batch, for reference ledgers and transcripts, and does not decide what a failure means.

use std::collections::BTreeMap;

use muster_model::UserName;
use muster_runtime::{JournalBatch, Loaded, Receipt, SavedState, Store, StoreError};

use crate::MemStore;

/// Fault of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// Nothing is written, and the append reports a failure.
    FailBefore,
    /// Everything is written, and the append reports a failure.
    FailAfter,
    /// The daemon dies before anything is written.
    DieBefore,
    /// The daemon dies after everything is written, before any effect is released.
    DieAfter,
}

/// Store in memory with injected faults.
#[derive(Clone, Debug, Default)]
pub struct FaultyStore {
    /// Contents that survive the daemon.
    pub durable: MemStore,
    /// Faults by number of append, from 0.
    pub faults: BTreeMap<usize, StoreFault>,
    /// Number of appends so far; those on a full disk do not count.
    pub appends: usize,
    /// True if appends and probes fail for lack of space.
    pub is_full: bool,
    /// Number of loads that fail next.
    pub unreadable: u32,
    /// True if the next snapshot fails.
    pub save_fails: bool,
    /// True once a fault has ended the daemon.
    pub died: bool,
    /// Faults injected so far.
    pub injected: Vec<StoreFault>,
    /// Number of loads that failed.
    pub failed_loads: u64,
    /// Number of snapshots saved.
    pub snapshots: u64,
    batches: Vec<JournalBatch>,
}

impl FaultyStore {
    /// Returns an empty store with these faults, by number of append from 0.
    #[must_use]
    pub fn with_faults(faults: BTreeMap<usize, StoreFault>) -> Self {
        Self { faults, ..Self::default() }
    }

    /// Sets the fault of the next append; `None` removes it.
    pub fn set_fault(&mut self, fault: Option<StoreFault>) {
        match fault {
            Some(fault) => _ = self.faults.insert(self.appends, fault),
            None => _ = self.faults.remove(&self.appends),
        }
    }

    /// Returns the batches that became durable since the last call.
    pub fn take_batches(&mut self) -> Vec<JournalBatch> {
        std::mem::take(&mut self.batches)
    }

    /// Returns true while nothing that is tried now fails for lack of space or of reading.
    #[must_use]
    pub fn works(&self) -> bool {
        !self.is_full && self.unreadable == 0
    }

    fn check_space(&self) -> Result<(), StoreError> {
        if self.is_full {
            return Err(StoreError::Full("the simulated disk is full".to_owned()));
        }
        Ok(())
    }
}

impl Store for FaultyStore {
    fn append(&mut self, batch: &JournalBatch) -> Result<(), StoreError> {
        self.check_space()?;
        let fault = self.faults.remove(&self.appends);
        self.appends += 1;
        self.died = matches!(fault, Some(StoreFault::DieBefore | StoreFault::DieAfter));
        if !matches!(fault, Some(StoreFault::FailBefore | StoreFault::DieBefore)) {
            self.durable.append(batch)?;
            self.batches.push(batch.clone());
        }
        self.injected.extend(fault);
        match fault {
            None => Ok(()),
            Some(_) => Err(StoreError::Io("injected fault".to_owned())),
        }
    }

    fn load(&mut self) -> Result<Loaded, StoreError> {
        if self.unreadable > 0 {
            self.unreadable -= 1;
            self.failed_loads += 1;
            return Err(StoreError::Io("cannot be read now".to_owned()));
        }
        self.durable.load()
    }

    fn save(&mut self, state: &SavedState) -> Result<(), StoreError> {
        if std::mem::take(&mut self.save_fails) {
            return Err(StoreError::Full("no space for a snapshot".to_owned()));
        }
        self.snapshots += 1;
        self.durable.save(state)
    }

    fn receipt(&self, user: &UserName, key: &str) -> Result<Option<Receipt>, StoreError> {
        self.durable.receipt(user, key)
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        self.check_space()
    }
}
