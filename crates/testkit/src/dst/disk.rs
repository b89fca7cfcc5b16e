//! Fault-injecting store: in memory, and append, load and snapshot fail as configured. It keeps
//! every durable batch for the reference ledger, and does not decide what a failure means.

use muster_model::{Time, UserName};
use muster_runtime::{JournalBatch, Loaded, Receipt, SavedState, Store, StoreError};

use crate::MemStore;

/// Fault of the next append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DiskFault {
    #[default]
    None,
    /// Nothing is written, and the append reports a failure.
    FailBefore,
    /// Everything is written, and the append reports a failure.
    FailAfter,
    /// The daemon dies before anything is written.
    DieBefore,
    /// The daemon dies after everything is written, before any order leaves.
    DieAfter,
}

/// In-memory store with injected faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultyDisk {
    durable: MemStore,
    pub(crate) fault: DiskFault,
    /// True if appends and probes fail for lack of space.
    pub(crate) is_full: bool,
    /// Number of loads that fail next.
    pub(crate) unreadable: u32,
    /// True if the next snapshot fails.
    pub(crate) save_fails: bool,
    /// True once a fault has ended the daemon.
    pub(crate) died: bool,
    batches: Vec<JournalBatch>,
    /// Faults injected, loads failed and snapshots kept so far.
    pub(crate) injected: Vec<DiskFault>,
    pub(crate) failed_loads: u64,
    pub(crate) snapshots: u64,
}

impl FaultyDisk {
    /// Returns the batches that became durable since the last call.
    pub(crate) fn take_batches(&mut self) -> Vec<JournalBatch> {
        std::mem::take(&mut self.batches)
    }

    /// Returns a second store with the same contents.
    pub(crate) fn copy(&self) -> MemStore {
        self.durable.clone()
    }

    /// Returns whether the store works.
    pub(crate) fn works(&self) -> bool {
        !self.is_full && self.unreadable == 0
    }
}

impl Store for FaultyDisk {
    fn append(&mut self, batch: &JournalBatch) -> Result<(), StoreError> {
        if self.is_full {
            return Err(StoreError::Full("the simulated disk is full".to_owned()));
        }
        let fault = std::mem::take(&mut self.fault);
        self.died = matches!(fault, DiskFault::DieBefore | DiskFault::DieAfter);
        if !matches!(fault, DiskFault::FailBefore | DiskFault::DieBefore) {
            self.durable.append(batch)?;
            self.batches.push(batch.clone());
        }
        self.injected.push(fault);
        match fault {
            DiskFault::None => Ok(()),
            _ => Err(StoreError::Io("injected fault".to_owned())),
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
        if self.is_full {
            Err(StoreError::Full("the simulated disk is full".to_owned()))
        } else {
            Ok(())
        }
    }
}

/// Start of every run, an arbitrary instant.
pub(crate) const RUN_START: Time = Time(1_000_000_000);
