//! Durable state in one SQLite file: journal, snapshot, payloads and receipts, with accounting and
//! history as projections, all written in one transaction per batch. It knows no request and makes
//! no decision.

mod access;
mod element;
mod fault;
mod high_water;
mod journal;
mod lock;
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
use rusqlite::{Connection, OpenFlags, OptionalExtension};

pub use access::StateStore;
pub use high_water::HighWater;
pub use lock::{DirLock, holder};
pub use read::{AttemptRow, Ended, HistoryFilter, Reader, Stint, What};
pub use retain::Retention;

use fault::{damaged, refused, refused_io};
use high_water::Marks;

/// Name of the database in the state directory.
const FILE: &str = "muster.db";

/// How long a write waits for a reader that holds the file (a person with an SQL shell).
const BUSY: Duration = Duration::from_secs(5);

/// The daemon's store: the only writer of its file.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    path: PathBuf,
    marks: Option<Marks>,
    /// Commits are synced (`synchronous = FULL`).
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
        let connection = Connection::open_with_flags(&path, flags).map_err(refused)?;
        connection.busy_timeout(BUSY).map_err(refused)?;
        // FULL: a batch that was acknowledged survives a power cut. Deleted secrets are
        // overwritten.
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = FAST;
                 PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;",
            )
            .map_err(refused)?;
        schema::migrate(&connection)?;
        Ok(Self { connection, path, marks: None, syncs: true, _lock: lock })
    }

    /// A second, read-only connection for history and accounting.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn reader(&self) -> Result<Reader, StoreError> {
        Reader::open(&self.path)
    }

    /// A value kept beside the journal.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn meta(&self, name: &str) -> Result<Option<String>, StoreError> {
        schema::meta(&self.connection, name)
    }

    /// Keeps a value beside the journal, or removes it.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn set_meta(&self, name: &str, value: Option<&str>) -> Result<(), StoreError> {
        schema::set_meta(&self.connection, name, value)
    }

    /// Writes how far the state has come to these files, now and after every batch.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn keep_marks(&mut self, paths: &[PathBuf], mark: HighWater) -> Result<(), StoreError> {
        let marks =
            Marks::open(paths, mark).map_err(|error| refused_io("a high-water mark", &error))?;
        self.marks = Some(marks);
        Ok(())
    }

    fn read_payload(&self, id: PayloadId) -> Result<Option<Payload>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT body FROM payloads WHERE id = ?1")
            .map_err(refused)?;
        let body: Option<String> =
            query.query_row([sql(id.0)], |row| row.get(0)).optional().map_err(refused)?;
        body.map(|body| serde_json::from_str(&body).map_err(|error| damaged("a payload", &error)))
            .transpose()
    }

    /// Number of the last record; it grows with every batch, also across snapshots and restarts.
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
            .map_err(refused)?;
        Ok(found.map_or(0, unsigned))
    }

    /// Caps the file's size in pages, to see what a full disk does.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub fn cap_pages(&self, pages: u32) -> Result<(), StoreError> {
        self.connection
            .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
            .map_err(refused)
    }
}

impl Drop for SqliteStore {
    /// Leaves one file behind instead of three. What is in the log is durable either way.
    fn drop(&mut self) {
        if let Err(error) =
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        {
            tracing::debug!(%error, "the database's log stays beside it");
        }
    }
}

/// Makes the file before SQLite does, with a mode that no umask widens; its companions get the same
/// one.
fn create_private(path: &Path) -> Result<(), StoreError> {
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(refused_io(&path.display().to_string(), &error)),
    }
}

/// SQLite's integers are signed. Instants, numbers and sums of ours stay below 2^63; a value that
/// does not is stored as the largest one.
fn sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// And back.
fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn instant(value: i64) -> Time {
    Time(unsigned(value))
}
