//! What the dispatcher asks of a store beyond the journal. A trait, so that tests can put a failing
//! store around the real one.

use muster_model::unit::Time;
use muster_model::{JobId, Payload, PayloadId};
use muster_runtime::{Store, StoreError};

use super::{Retention, SqliteStore, retain};

/// A runtime's store with payloads and retention.
pub trait StateStore: Store + Send + 'static {
    /// Command and environment of a job that has not ended.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn payload(&self, id: PayloadId) -> Result<Option<Payload>, StoreError>;

    /// Ended jobs that retention no longer asks for; a bounded number per call. Their logs go
    /// first, then [`StateStore::prune`], so that a crash in between leaves nothing behind.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn expired(&self, now: Time, retention: &Retention) -> Result<Vec<JobId>, StoreError>;

    /// Lets go of these jobs, and of keys and accounting that are old enough.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn prune(&mut self, now: Time, retention: &Retention, jobs: &[JobId])
    -> Result<(), StoreError>;
}

impl StateStore for SqliteStore {
    fn payload(&self, id: PayloadId) -> Result<Option<Payload>, StoreError> {
        self.read_payload(id)
    }

    fn expired(&self, now: Time, retention: &Retention) -> Result<Vec<JobId>, StoreError> {
        retain::expired(&self.connection, now, retention)
    }

    fn prune(
        &mut self,
        now: Time,
        retention: &Retention,
        jobs: &[JobId],
    ) -> Result<(), StoreError> {
        self.sync_commits(true)?;
        retain::prune(&mut self.connection, now, retention, jobs)
    }
}
