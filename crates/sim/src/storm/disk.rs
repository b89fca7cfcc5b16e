//! The store of a storm: in memory, and it fails as told, at appending, at loading, at snapshots.
//! It keeps every batch that became durable for whoever writes the history. It must not decide what
//! a failure means.

use muster_model::{Time, UserName};
use muster_runtime::{Batch, Loaded, MemStore, Receipt, SavedState, Store, StoreError};

/// How the next append goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Blow {
    /// Well.
    #[default]
    None,
    /// Nothing is written, and the caller is told so.
    FailBefore,
    /// All is written, and the caller is told otherwise.
    FailAfter,
    /// The daemon dies before anything is written.
    DieBefore,
    /// The daemon dies after all is written, before any order leaves.
    DieAfter,
}

/// The store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    durable: MemStore,
    pub(crate) blow: Blow,
    /// No append and no probe works.
    pub(crate) is_full: bool,
    /// So many loads fail.
    pub(crate) unreadable: u32,
    /// The next snapshot is not kept.
    pub(crate) save_fails: bool,
    /// A blow has ended the daemon.
    pub(crate) died: bool,
    batches: Vec<Batch>,
    /// What really happened: blows that struck, loads that failed, snapshots that were kept.
    pub(crate) struck: Vec<Blow>,
    pub(crate) failed_loads: u64,
    pub(crate) snapshots: u64,
}

impl Disk {
    /// Batches that became durable since the last call.
    pub(crate) fn take_batches(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.batches)
    }

    /// A second store that holds the same.
    pub(crate) fn copy(&self) -> MemStore {
        self.durable.clone()
    }

    /// True when nothing is wrong with it.
    pub(crate) fn is_well(&self) -> bool {
        !self.is_full && self.unreadable == 0
    }
}

impl Store for Disk {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if self.is_full {
            return Err(StoreError::Full("the disk of the storm".to_owned()));
        }
        let blow = std::mem::take(&mut self.blow);
        self.died = matches!(blow, Blow::DieBefore | Blow::DieAfter);
        if !matches!(blow, Blow::FailBefore | Blow::DieBefore) {
            self.durable.append(batch)?;
            self.batches.push(batch.clone());
        }
        self.struck.push(blow);
        match blow {
            Blow::None => Ok(()),
            _ => Err(StoreError::Io("as the storm wants it".to_owned())),
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
        match self.is_full {
            true => Err(StoreError::Full("the disk of the storm".to_owned())),
            false => Ok(()),
        }
    }
}

/// When every story begins: an instant like any other.
pub(crate) const DAWN: Time = Time(1_000_000_000);
