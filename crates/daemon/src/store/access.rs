//! Store operations of the dispatcher beyond the journal; a trait, so that tests can wrap the real
//! store with a failing one.

use muster_model::unit::Time;
use muster_model::view::MeasuredUse;
use muster_model::{AttemptId, JobId, Payload, PayloadId};
use muster_runtime::{Store, StoreError};
use muster_spec::QueueNotices;

use super::{
    NoticeTry, Retention, SqliteStore, StoredReport, TimedEvent, gpu_use, metrics, notices, retain,
};

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

    /// Writes the notices of events that depend on the time. A job that has ended meanwhile has none.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn write_timed_notices(&mut self, at: Time, events: &[TimedEvent]) -> Result<(), StoreError>;

    /// Writes the results of tries to send notices.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn write_notice_tries(&mut self, at: Time, tries: &[NoticeTry]) -> Result<(), StoreError>;

    /// Replaces the rules of the notices of all queues.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn write_queue_notices(&mut self, notices: &QueueNotices) -> Result<(), StoreError>;

    /// Adds the use of GPUs to the accounting of attempts; nothing for those whose accounting is deleted.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn write_gpu_use(&mut self, sums: &[(AttemptId, MeasuredUse)]) -> Result<(), StoreError>;

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

    fn write_timed_notices(&mut self, at: Time, events: &[TimedEvent]) -> Result<(), StoreError> {
        notices::write_timed(&mut self.connection, at, events)
    }

    fn write_notice_tries(&mut self, at: Time, tries: &[NoticeTry]) -> Result<(), StoreError> {
        notices::write_tries(&mut self.connection, at, tries)
    }

    fn write_queue_notices(&mut self, notices: &QueueNotices) -> Result<(), StoreError> {
        self.sync_commits(true)?;
        notices::write_queue_rules(&mut self.connection, notices)
    }

    fn write_gpu_use(&mut self, sums: &[(AttemptId, MeasuredUse)]) -> Result<(), StoreError> {
        self.sync_commits(false)?;
        gpu_use::write(&mut self.connection, sums)
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
