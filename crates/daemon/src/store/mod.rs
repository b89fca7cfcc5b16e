//! Durable state in one SQLite file: journal, snapshot, payloads and receipts, with accounting and
//! history as projections, all written in one transaction per batch. Independent of requests; makes
//! no decisions.

mod access;
mod element;
mod fault;
mod gpu_use;
mod high_water;
mod journal;
mod lock;
mod metrics;
mod notices;
mod owners;
mod project;
mod read;
mod retain;
mod schema;

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_model::unit::Time;
use muster_model::{Payload, PayloadId};
use muster_runtime::StoreError;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Transaction};

pub use access::StateStore;
pub use high_water::HighWater;
pub use lock::{DirLock, holder};
pub use metrics::{StoredMark, StoredReport};
pub use notices::{DueNotice, NoticeTry, NumberedRules, TimedEvent};
pub use read::{AttemptRow, EndedJob, HistoryFilter, HistoryReader, HoldingPeriod, StoredCommands};
pub use retain::Retention;

use fault::{corrupt, io_error, store_error};
use high_water::MarkFiles;

/// File name of the database in the state directory.
const FILE: &str = "muster.db";

/// Longest time that a write waits for a reader that holds the file (an SQL shell of a user).
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Store of the daemon, the only writer of its file.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    path: PathBuf,
    marks: Option<MarkFiles>,
    /// True when commits are synced (`synchronous = FULL`).
    syncs: bool,
    _lock: DirLock,
}

impl SqliteStore {
    /// Opens the state in `dir`, creating it when there is none.
    ///
    /// # Errors
    /// When another daemon holds it, when a newer binary wrote it, or when it cannot be read and
    /// written.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let lock = DirLock::acquire(dir)?;
        let path = dir.join(FILE);
        create_private(&path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).map_err(store_error)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(store_error)?;
        // FULL: an acknowledged batch survives a power loss. Deleted secrets are overwritten.
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = FAST;
                 PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;",
            )
            .map_err(store_error)?;
        schema::migrate(&connection)?;
        Ok(Self { connection, path, marks: None, syncs: true, _lock: lock })
    }

    /// Opens a second, read-only connection for history and accounting.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn reader(&self) -> Result<HistoryReader, StoreError> {
        HistoryReader::open(&self.path)
    }

    /// Returns a value of the `meta` table; `None` when it is not set.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn meta(&self, name: &str) -> Result<Option<String>, StoreError> {
        schema::meta(&self.connection, name)
    }

    /// Sets a value of the `meta` table, or removes it.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn set_meta(&self, name: &str, value: Option<&str>) -> Result<(), StoreError> {
        schema::set_meta(&self.connection, name, value)
    }

    /// Writes the progress of the state to these files, now and after every batch.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn keep_marks(&mut self, paths: &[PathBuf], mark: HighWater) -> Result<(), StoreError> {
        let marks =
            MarkFiles::open(paths, mark).map_err(|error| io_error("a high-water mark", &error))?;
        self.marks = Some(marks);
        Ok(())
    }

    fn read_payload(&self, id: PayloadId) -> Result<Option<Payload>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT body FROM payloads WHERE id = ?1")
            .map_err(store_error)?;
        let body: Option<String> =
            query.query_row([sql(id.0)], |row| row.get(0)).optional().map_err(store_error)?;
        body.map(|body| serde_json::from_str(&body).map_err(|error| corrupt("a payload", &error)))
            .transpose()
    }

    /// Returns the number of the last record, which grows with every batch, also across snapshots
    /// and restarts.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn revision(&self) -> Result<u64, StoreError> {
        let found = self
            .connection
            .query_row("SELECT seq FROM sqlite_sequence WHERE name = 'journal'", [], |row| {
                row.get(0)
            })
            .optional()
            .map_err(store_error)?;
        Ok(found.map_or(0, unsigned))
    }

    /// Limits the file's size in pages, to simulate a full disk.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub fn cap_pages(&self, pages: u32) -> Result<(), StoreError> {
        self.connection
            .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
            .map_err(store_error)
    }
}

impl Drop for SqliteStore {
    /// Merges the write-ahead log, so that one file is left instead of three. The log is durable in
    /// any case.
    fn drop(&mut self) {
        if let Err(error) =
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        {
            tracing::debug!(%error, "the write-ahead log could not be merged");
        }
    }
}

/// Creates the file before SQLite does, with a mode that no umask widens; SQLite's additional files
/// get the same mode.
fn create_private(path: &Path) -> Result<(), StoreError> {
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(io_error(&path.display().to_string(), &error)),
    }
}

/// Returns the JSON of a value, as stored in a column.
fn encode<T: serde::Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Io(error.to_string()))
}

/// Runs a statement, which is prepared once per connection.
fn run(transaction: &Transaction<'_>, text: &str, values: impl Params) -> Result<(), StoreError> {
    transaction
        .prepare_cached(text)
        .and_then(|mut query| query.execute(values))
        .map(|_| ())
        .map_err(store_error)
}

/// Converts to SQLite's signed integers. Instants, numbers and sums stay below 2^63; a larger value
/// is stored as the largest one.
fn sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Converts from SQLite's signed integers; negative values become 0.
fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn instant(value: i64) -> Time {
    Time(unsigned(value))
}
