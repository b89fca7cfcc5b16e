//! The runtime's store on SQLite: append, load, snapshot, receipts, probe.

use muster_model::unit::Time;
use muster_model::{Event, UserName};
use muster_runtime::{JournalBatch, JournalRecord, Loaded, Receipt, SavedState, Store, StoreError};
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use super::fault::{corrupt, store_error};
use super::{SqliteStore, encode, instant, notices, project, schema, sql, unsigned};

impl Store for SqliteStore {
    fn append(&mut self, batch: &JournalBatch) -> Result<(), StoreError> {
        self.sync_commits(batch.must_be_synced())?;
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(store_error)?;
        let revision = write_records(&transaction, batch)?;
        write_payloads(&transaction, batch)?;
        notices::write_rules(&transaction, batch)?;
        for fact in &batch.facts {
            project::fact(&transaction, fact)?;
            notices::fact(&transaction, fact)?;
        }
        transaction.commit().map_err(store_error)?;
        if let (Some(marks), Some(revision)) = (&mut self.marks, revision) {
            marks.raise(unsigned(revision), next_job(batch));
        }
        Ok(())
    }

    fn load(&mut self) -> Result<Loaded, StoreError> {
        schema::migrate(&self.connection)?;
        let row: Option<(i64, String)> = self
            .connection
            .query_row("SELECT seq, body FROM snapshots WHERE id = 1", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
            .map_err(store_error)?;
        let (since, saved) = match row {
            Some((seq, body)) => {
                let saved =
                    serde_json::from_str(&body).map_err(|error| corrupt("the snapshot", &error))?;
                (seq, Some(saved))
            }
            None => (0, None),
        };
        Ok(Loaded { saved, records: self.records_after(since)? })
    }

    fn save(&mut self, state: &SavedState) -> Result<(), StoreError> {
        self.sync_commits(true)?;
        let body = encode(state)?;
        let transaction = self.connection.transaction().map_err(store_error)?;
        let seq: i64 = transaction
            .query_row("SELECT coalesce(max(seq), 0) FROM journal", [], |row| row.get(0))
            .map_err(store_error)?;
        transaction
            .execute(
                "INSERT INTO snapshots (id, seq, at, body) VALUES (1, ?1, ?2, ?3)
                 ON CONFLICT (id) DO UPDATE SET seq = ?1, at = ?2, body = ?3",
                params![seq, sql(state.at.0), body],
            )
            .map_err(store_error)?;
        transaction.execute("DELETE FROM journal WHERE seq <= ?1", [seq]).map_err(store_error)?;
        transaction.commit().map_err(store_error)
    }

    fn receipt(&self, user: &UserName, key: &str) -> Result<Option<Receipt>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT body FROM keys WHERE user = ?1 AND key = ?2")
            .map_err(store_error)?;
        let body: Option<String> = query
            .query_row([user.as_str(), key], |row| row.get(0))
            .optional()
            .map_err(store_error)?;
        body.map(|body| serde_json::from_str(&body).map_err(|error| corrupt("a receipt", &error)))
            .transpose()
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        self.sync_commits(true)?;
        // As large as a batch may be: a disk with space for one small row only is full.
        let ballast = "x".repeat(64 * 1024);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(store_error)?;
        schema::set_meta(&transaction, "probe", Some(&ballast))?;
        schema::set_meta(&transaction, "probe", None)?;
        transaction.commit().map_err(store_error)
    }
}

impl SqliteStore {
    /// Sets whether the next commits are synced. An unsynced commit survives a power loss once a
    /// later synced one has returned, since the log is written in order.
    pub(super) fn sync_commits(&mut self, sync: bool) -> Result<(), StoreError> {
        if self.syncs != sync {
            let level = if sync { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level).map_err(store_error)?;
            self.syncs = sync;
        }
        Ok(())
    }

    fn records_after(&self, seq: i64) -> Result<Vec<(Time, JournalRecord)>, StoreError> {
        let mut query = self
            .connection
            .prepare("SELECT seq, at, body FROM journal WHERE seq > ?1 ORDER BY seq")
            .map_err(store_error)?;
        let rows = query
            .query_map([seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .map_err(store_error)?;
        rows.map(|row| {
            let (seq, at, body): (i64, i64, String) = row.map_err(store_error)?;
            let record = serde_json::from_str(&body)
                .map_err(|error| corrupt(&format!("journal record {seq}"), &error))?;
            Ok((instant(at), record))
        })
        .collect()
    }
}

/// Returns the number after the highest one that a batch assigns; 0 when it assigns none.
fn next_job(batch: &JournalBatch) -> u64 {
    let submitted = batch.records.iter().filter_map(|record| match record {
        JournalRecord::Event(Event::Submitted { job, .. }) => Some(job.0 + 1),
        JournalRecord::Event(_) | JournalRecord::Plan(_) => None,
    });
    submitted.max().unwrap_or(0)
}

/// Writes the records; returns the number of the last one.
fn write_records(
    transaction: &Transaction<'_>,
    batch: &JournalBatch,
) -> Result<Option<i64>, StoreError> {
    let mut insert = transaction
        .prepare_cached("INSERT INTO journal (at, kind, body) VALUES (?1, ?2, ?3)")
        .map_err(store_error)?;
    for record in &batch.records {
        insert
            .execute(params![sql(batch.at.0), record.kind(), encode(record)?])
            .map_err(store_error)?;
    }
    Ok((!batch.records.is_empty()).then(|| transaction.last_insert_rowid()))
}

fn write_payloads(transaction: &Transaction<'_>, batch: &JournalBatch) -> Result<(), StoreError> {
    for (id, payload) in &batch.payloads {
        transaction
            .prepare_cached("INSERT INTO payloads (id, body) VALUES (?1, ?2)")
            .and_then(|mut insert| insert.execute(params![sql(id.0), encode_sql(payload)?]))
            .map_err(store_error)?;
    }
    for (user, key, receipt) in &batch.receipts {
        transaction
            .prepare_cached("INSERT INTO keys (user, key, at, body) VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut insert| {
                insert.execute(params![user.as_str(), key, sql(batch.at.0), encode_sql(receipt)?])
            })
            .map_err(store_error)?;
    }
    Ok(())
}

fn encode_sql<T: serde::Serialize>(value: &T) -> Result<String, rusqlite::Error> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}
