//! Store operations of the dispatcher beyond the journal; a trait, so that tests can wrap the real
//! store with a failing one.

use muster_model::unit::Time;
use muster_model::{JobId, Payload, PayloadId};
use muster_runtime::{Store, StoreError};

use super::{Retention, SqliteStore, StoredReport, metrics, retain};

/// Store of the runtime with payloads and retention.
pub trait StateStore: Store + Send + 'static {
    /// Returns command and environment of a job that has not ended.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn payload(&self, id: PayloadId) -> Result<Option<Payload>, StoreError>;

    /// Writes reports of elements of sweeps.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn write_reports(&mut self, reports: &[StoredReport]) -> Result<(), StoreError>;

    /// Returns ended jobs beyond their retention time; a bounded number per call. Their logs are
    /// deleted before [`StateStore::prune`], so that a crash in between leaves nothing behind.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn expired(&self, now: Time, retention: &Retention) -> Result<Vec<JobId>, StoreError>;

    /// Deletes these jobs, and keys and accounting beyond their retention time.
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

    fn write_reports(&mut self, reports: &[StoredReport]) -> Result<(), StoreError> {
        metrics::write(&mut self.connection, reports)
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
