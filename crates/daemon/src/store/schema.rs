//! Tables of `muster.db`. Journal, snapshot, payloads and receipts are the state; `history`,
//! `elements`, `unstarted`, `live`, `attempts` and `usage` are projections of it, which users may
//! read with SQL in their own daemon.
//!
//! Changing a table needs a higher [`SCHEMA_VERSION`] and a step in [`migrate`]; a newer file is
//! rejected.

use muster_runtime::{JOURNAL_VERSION, StoreError};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::fault::store_error;
use super::owners;

/// Version of the tables. Version 3 has the tables of version 2, and task directories in epochs: an
/// older binary would look for them elsewhere and count running tasks as lost. Version 4 has owners
/// with user ids, of which an older binary would use only the name, and `unstarted` in place of
/// `rests`: an array may be a list of ranges. Version 5 has `reports` and `marks`, version 6 `notify`
/// and `outbox`, version 7 `queue_rules`, and the use of GPUs in
/// `attempts`.
pub(super) const SCHEMA_VERSION: u32 = 7;

/// SQL of the tables. Instants are milliseconds since the epoch; texts named `body`, `view`,
/// `what`, `outcome` and `placement` are JSON.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- inputs and decisions since the last snapshot, oldest first
CREATE TABLE IF NOT EXISTS journal (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL
) STRICT;
-- the state after record `seq`; one row
CREATE TABLE IF NOT EXISTS snapshots (
    id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL
) STRICT;
-- commands and environments of jobs that have not ended; they may hold secrets
CREATE TABLE IF NOT EXISTS payloads (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
-- answers given to submissions, by idempotency key
CREATE TABLE IF NOT EXISTS keys (
    user TEXT NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (user, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS keys_by_age ON keys (at);

-- jobs that have ended: their last view, and what they ran (no environment)
CREATE TABLE IF NOT EXISTS history (
    job INTEGER PRIMARY KEY, name TEXT NOT NULL, user TEXT NOT NULL, queue TEXT NOT NULL, state TEXT NOT NULL,
    submitted INTEGER NOT NULL, ended INTEGER NOT NULL, view TEXT NOT NULL, what TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS history_by_age ON history (ended);
-- how the elements of arrays ended, each after so many attempts; kept as long as the job
CREATE TABLE IF NOT EXISTS elements (
    job INTEGER NOT NULL, element INTEGER NOT NULL, attempt INTEGER NOT NULL, ended INTEGER NOT NULL,
    outcome TEXT NOT NULL, PRIMARY KEY (job, element)
) STRICT, WITHOUT ROWID;
-- elements of an array that ended together, never started: those from first to last without a row in `elements`
CREATE TABLE IF NOT EXISTS unstarted (
    job INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, step INTEGER NOT NULL,
    ended INTEGER NOT NULL, outcome TEXT NOT NULL, PRIMARY KEY (job, first)
) STRICT, WITHOUT ROWID;
-- the newest report of each element of a sweep; with early stops also the number, sum and best of its reports, and
-- the last step at which it was compared
CREATE TABLE IF NOT EXISTS reports (
    job INTEGER NOT NULL, element INTEGER NOT NULL, step INTEGER NOT NULL, value REAL NOT NULL,
    reports INTEGER, sum REAL, best REAL, mark INTEGER,
    PRIMARY KEY (job, element)
) STRICT, WITHOUT ROWID;
-- values of elements of sweeps that early stops compared, each at the step `mark`
CREATE TABLE IF NOT EXISTS marks (
    job INTEGER NOT NULL, element INTEGER NOT NULL, mark INTEGER NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (job, element, mark)
) STRICT, WITHOUT ROWID;
-- rules of the notices of jobs that have not ended; they may hold secrets
CREATE TABLE IF NOT EXISTS notify (job INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
-- rules of the notices about all jobs of a queue, as the queue file has them; they may hold secrets
CREATE TABLE IF NOT EXISTS queue_rules (queue TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
-- notices about jobs: `address` (with its sender) only until it is sent or given up, `place` without its secrets;
-- an event with a `mark` has one notice for each rule and mark
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL, rule INTEGER NOT NULL, event TEXT NOT NULL, mark TEXT,
    count INTEGER NOT NULL DEFAULT 1, notice TEXT NOT NULL, place TEXT NOT NULL, address TEXT,
    tries INTEGER NOT NULL DEFAULT 0, next INTEGER NOT NULL, error TEXT, sent INTEGER,
    UNIQUE (job, rule, event, mark)
) STRICT;
CREATE INDEX IF NOT EXISTS outbox_due ON outbox (next) WHERE address IS NOT NULL;
-- owner and queue of jobs that have not ended
CREATE TABLE IF NOT EXISTS live (job INTEGER PRIMARY KEY, user TEXT NOT NULL, queue TEXT NOT NULL) STRICT;
-- every start of every element: what it held, from when to when, and how the element ended after its last one; for how
-- much of that the loads of its GPUs were measured, and in how much of it they were busy (NULL: never measured)
CREATE TABLE IF NOT EXISTS attempts (
    job INTEGER NOT NULL, element INTEGER NOT NULL, attempt INTEGER NOT NULL,
    user TEXT NOT NULL, queue TEXT NOT NULL,
    held_from INTEGER NOT NULL, running_from INTEGER, ended INTEGER,
    gpu_milli INTEGER NOT NULL, gpu_milli_ms INTEGER, outcome TEXT, placement TEXT NOT NULL,
    measured_milli_ms INTEGER, busy_milli_ms INTEGER,
    PRIMARY KEY (job, element, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS attempts_by_end ON attempts (ended);
-- sums over all elements and attempts that have ended, pruned ones included
CREATE TABLE IF NOT EXISTS usage (
    user TEXT NOT NULL, queue TEXT NOT NULL, elements INTEGER NOT NULL, gpu_milli_ms INTEGER NOT NULL,
    PRIMARY KEY (user, queue)
) STRICT, WITHOUT ROWID;
";

/// Migration from version 1, which had no `elements`: fills it from the attempts. The last one of
/// an element wins.
const ELEMENTS_FROM_ATTEMPTS: &str = "
INSERT OR REPLACE INTO elements (job, element, attempt, ended, outcome)
    SELECT job, element, attempt, ended, outcome FROM attempts
    WHERE outcome IS NOT NULL AND ended IS NOT NULL
        AND job IN (SELECT job FROM history UNION SELECT job FROM live)
    ORDER BY job, element, attempt;
";

/// Migration from version 3, whose arrays had one range each. A new file never had its table.
const UNSTARTED_FROM_RESTS: &str = "
CREATE TABLE IF NOT EXISTS rests (job, first, last, step, ended, outcome);
INSERT OR REPLACE INTO unstarted SELECT job, first, last, step, ended, outcome FROM rests;
DROP TABLE rests;
";

/// Checks the file's versions and creates missing tables.
pub(super) fn migrate(connection: &Connection) -> Result<(), StoreError> {
    let version: u32 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(store_error)?;
    if version > SCHEMA_VERSION {
        return Err(StoreError::NewerVersion { found: version });
    }
    if version == SCHEMA_VERSION {
        return check_journal_version(connection);
    }
    let script = format!(
        "{TABLES} {ELEMENTS_FROM_ATTEMPTS} {UNSTARTED_FROM_RESTS}
         INSERT OR IGNORE INTO meta (name, value) VALUES ('journal_version', '{JOURNAL_VERSION}');
         PRAGMA user_version = {SCHEMA_VERSION};"
    );
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
        .map_err(store_error)?;
    transaction.execute_batch(&script).map_err(store_error)?;
    add_gpu_use(&transaction)?;
    owners::add_user_ids(&transaction)?;
    transaction.commit().map_err(store_error)?;
    check_journal_version(connection)
}

/// Migration from version 6, whose attempts had no use of GPUs. A new file has the columns.
fn add_gpu_use(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let has_columns: bool = transaction
        .query_row(
            "SELECT count(*) > 0 FROM pragma_table_info('attempts') WHERE name = 'busy_milli_ms'",
            [],
            |row| row.get(0),
        )
        .map_err(store_error)?;
    if has_columns {
        return Ok(());
    }
    transaction
        .execute_batch(
            "ALTER TABLE attempts ADD COLUMN measured_milli_ms INTEGER;
             ALTER TABLE attempts ADD COLUMN busy_milli_ms INTEGER;",
        )
        .map_err(store_error)
}

fn check_journal_version(connection: &Connection) -> Result<(), StoreError> {
    let text = meta(connection, "journal_version")?.unwrap_or_default();
    match text.parse::<u32>() {
        Ok(found) if found > JOURNAL_VERSION => Err(StoreError::NewerVersion { found }),
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::Corrupt(format!("its journal version reads `{text}`"))),
    }
}

/// Returns a value of the `meta` table.
pub(super) fn meta(connection: &Connection, name: &str) -> Result<Option<String>, StoreError> {
    connection
        .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
        .optional()
        .map_err(store_error)
}

/// Sets or removes a value of the `meta` table.
pub(super) fn set_meta(
    connection: &Connection,
    name: &str,
    value: Option<&str>,
) -> Result<(), StoreError> {
    let done = match value {
        Some(value) => connection.execute(
            "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
            [name, value],
        ),
        None => connection.execute("DELETE FROM meta WHERE name = ?1", [name]),
    };
    done.map(|_| ()).map_err(store_error)
}
