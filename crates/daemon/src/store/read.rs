//! Reads of history and accounting, on a connection of their own that cannot write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_model::payload::Command;
use muster_model::unit::Time;
use muster_model::view::JobView;
use muster_model::{
    Attempt, AttemptId, ElementId, JobId, Outcome, OutputFiles, Payload, QueueName, TaskPlacement,
    UserName,
};
use muster_runtime::StoreError;
use rusqlite::types::ToSql;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::fault::{damaged, refused};
use super::{BUSY, instant, sql, unsigned};

/// A read-only view of the store's projections. Cheap to clone; clones share a connection.
#[derive(Clone, Debug)]
pub struct Reader {
    connection: Arc<Mutex<Connection>>,
}

/// What a job ran, without its environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct What {
    /// Per task group.
    pub commands: BTreeMap<Arc<str>, Command>,
    /// Working directory.
    pub workdir: PathBuf,
    /// Files that its user names for its output.
    #[serde(default)]
    pub files: OutputFiles,
}

impl From<Payload> for What {
    fn from(payload: Payload) -> Self {
        Self { commands: payload.commands, workdir: payload.workdir, files: payload.files }
    }
}

/// A job that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its last view.
    pub view: JobView,
    /// What it ran.
    pub what: Option<What>,
}

/// Which ended jobs.
#[derive(Clone, Debug, Default)]
pub struct HistoryFilter {
    /// Of this user.
    pub user: Option<String>,
    /// Of this queue or its subtree.
    pub queue: Option<String>,
    /// In this final state, as it is written in JSON.
    pub state: Option<String>,
    /// With a name that this pattern matches, as `JobFilter` has it.
    pub name: Option<String>,
    /// At most this many, newest first.
    pub limit: u32,
}

/// One start of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRow {
    /// Which.
    pub id: AttemptId,
    /// From when its resources were held.
    pub held_from: Time,
    /// Until when; `None` while they are.
    pub ended: Option<Time>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// What it held, by rank.
    pub placement: Vec<TaskPlacement>,
}

/// When an element held something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stint {
    /// Which.
    pub element: ElementId,
    /// From when its first attempt held its resources.
    pub began: Time,
    /// From when the processes of its last attempt ran.
    pub running_from: Option<Time>,
    /// Until when that held them; `None` while it does.
    pub ended: Option<Time>,
    /// No attempt follows it.
    pub is_over: bool,
    /// Tasks of that attempt.
    pub tasks: u32,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(refused)?;
        connection.busy_timeout(BUSY).map_err(refused)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Opens another connection to the same file: long reads on it keep nobody else waiting.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn apart(&self) -> Result<Self, StoreError> {
        let path = self.lock().path().map(PathBuf::from);
        Self::open(&path.ok_or_else(|| StoreError::Io("the store has no file".to_owned()))?)
    }

    /// One ended job.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn ended(&self, job: JobId) -> Result<Option<Ended>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached("SELECT view, what FROM history WHERE job = ?1")
            .map_err(refused)?;
        let row: Option<(String, Option<String>)> = query
            .query_row([sql(job.0)], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(refused)?;
        let Some((view, what)) = row else { return Ok(None) };
        let what = what.map(|text| parse(&text, "a history row")).transpose()?;
        Ok(Some(Ended { view: parse(&view, "a history row")?, what }))
    }

    /// Ended jobs, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn history(&self, filter: &HistoryFilter) -> Result<Vec<JobView>, StoreError> {
        self.matching(
            "view",
            filter,
            "ORDER BY job DESC LIMIT ?",
            &[&filter.limit],
            |query, values| {
                let rows =
                    query.query_map(values, |row| row.get::<_, String>(0)).map_err(refused)?;
                rows.map(|row| parse(&row.map_err(refused)?, "a history row")).collect()
            },
        )
    }

    /// Counts the ended jobs that match a filter, whatever its limit.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn history_count(&self, filter: &HistoryFilter) -> Result<u64, StoreError> {
        self.matching("COUNT(*)", filter, "", &[], |query, values| {
            query.query_row(values, |row| row.get::<_, i64>(0)).map(unsigned).map_err(refused)
        })
    }

    /// Asks for `what` of the ended jobs that match a filter.
    fn matching<T>(
        &self,
        what: &str,
        filter: &HistoryFilter,
        end: &str,
        end_values: &[&dyn ToSql],
        ask: impl FnOnce(&mut rusqlite::CachedStatement<'_>, &[&dyn ToSql]) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut conditions = vec!["1 = 1"];
        let mut values: Vec<&dyn ToSql> = Vec::new();
        if let Some(user) = &filter.user {
            conditions.push("user = ?");
            values.push(user);
        }
        let subtree = filter.queue.as_ref().map(|queue| format!("{queue}/"));
        if let (Some(queue), Some(subtree)) = (&filter.queue, &subtree) {
            conditions.push("(queue = ? OR substr(queue, 1, length(?)) = ?)");
            values.extend([queue as &dyn ToSql, subtree, subtree]);
        }
        if let Some(state) = &filter.state {
            conditions.push("state = ?");
            values.push(state);
        }
        // GLOB has brackets besides, which patterns of names have not.
        let name = filter.name.as_ref().map(|name| name.replace('[', "[[]"));
        if let Some(name) = &name {
            conditions.push("name GLOB ?");
            values.push(name);
        }
        values.extend(end_values);
        let text = format!("SELECT {what} FROM history WHERE {} {end}", conditions.join(" AND "));
        let connection = self.lock();
        let mut query = connection.prepare_cached(&text).map_err(refused)?;
        ask(&mut query, values.as_slice())
    }

    /// Every start of an element, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn attempts(&self, element: ElementId) -> Result<Vec<AttemptRow>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached(&format!("{ATTEMPT} WHERE job = ?1 AND element = ?2 ORDER BY attempt"))
            .map_err(refused)?;
        let rows = query
            .query_map(params![sql(element.job.0), element.index], attempt)
            .map_err(refused)?;
        rows.map(|row| row.map_err(refused)).collect()
    }

    /// Every start of every element of a job.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn job_attempts(&self, job: JobId) -> Result<Vec<AttemptRow>, StoreError> {
        let connection = self.lock();
        let mut query =
            connection.prepare_cached(&format!("{ATTEMPT} WHERE job = ?1")).map_err(refused)?;
        let rows = query.query_map([sql(job.0)], attempt).map_err(refused)?;
        rows.map(|row| row.map_err(refused)).collect()
    }

    /// The lowest element of a job that has ever started.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn first_started(&self, job: JobId) -> Result<Option<u32>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached("SELECT min(element) FROM attempts WHERE job = ?1")
            .map_err(refused)?;
        query.query_row([sql(job.0)], |row| row.get(0)).map_err(refused)
    }

    /// Starts that held something after `since`, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn attempts_since(&self, since: Time, limit: u32) -> Result<Vec<AttemptRow>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached(&format!(
                "{ATTEMPT} WHERE ended IS NULL OR ended > ?1 ORDER BY held_from DESC LIMIT ?2"
            ))
            .map_err(refused)?;
        let rows = query.query_map(params![sql(since.0), limit], attempt).map_err(refused)?;
        rows.map(|row| row.map_err(refused)).collect()
    }

    /// Calls `keep` for every job that has ended of those submitted since an instant, by number.
    /// Only one view is in memory at a time.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn each_ended_of(
        &self,
        since: Time,
        mut keep: impl FnMut(JobView),
    ) -> Result<(), StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached("SELECT view FROM history WHERE submitted >= ?1 ORDER BY job")
            .map_err(refused)?;
        let mut rows = query.query([sql(since.0)]).map_err(refused)?;
        while let Some(row) = rows.next().map_err(refused)? {
            let view: String = row.get(0).map_err(refused)?;
            keep(parse(&view, "a history row")?);
        }
        Ok(())
    }

    /// Every element that held something after `since`, by number.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn stints(&self, since: Time) -> Result<Vec<Stint>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached(
                // The other columns are those of the row with the highest attempt.
                "SELECT job, element, running_from, ended, json_array_length(placement), max(attempt),
                     outcome IS NOT NULL,
                     (SELECT min(held_from) FROM attempts AS first
                      WHERE first.job = last.job AND first.element = last.element)
                 FROM attempts AS last WHERE ended IS NULL OR ended > ?1
                 GROUP BY job, element ORDER BY job, element",
            )
            .map_err(refused)?;
        let stint = |row: &Row<'_>| {
            Ok(Stint {
                element: ElementId { job: JobId(unsigned(row.get(0)?)), index: row.get(1)? },
                began: instant(row.get(7)?),
                is_over: row.get(6)?,
                running_from: row.get::<_, Option<i64>>(2)?.map(instant),
                ended: row.get::<_, Option<i64>>(3)?.map(instant),
                tasks: row.get(4)?,
            })
        };
        let rows = query.query_map([sql(since.0)], stint).map_err(refused)?;
        rows.map(|row| row.map_err(refused)).collect()
    }

    /// Per user and queue: elements that ended or run, and thousandths of GPUs × milliseconds held
    /// until `now`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn usage(&self, now: Time) -> Result<Vec<(UserName, QueueName, u64, u64)>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached(
                "SELECT user, queue, sum(elements), sum(gpu_milli_ms) FROM (
                     SELECT user, queue, elements, gpu_milli_ms FROM usage
                     UNION ALL
                     SELECT user, queue, 1, gpu_milli * max(0, ?1 - held_from) FROM attempts WHERE ended IS NULL)
                 GROUP BY user, queue ORDER BY user, queue",
            )
            .map_err(refused)?;
        let rows = query
            .query_map([sql(now.0)], |row| {
                let (user, queue): (String, String) = (row.get(0)?, row.get(1)?);
                Ok((user.into(), queue.into(), unsigned(row.get(2)?), unsigned(row.get(3)?)))
            })
            .map_err(refused)?;
        rows.map(|row| row.map_err(refused)).collect()
    }

    /// A reader that panicked held no half-done write.
    pub(super) fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Columns that [`attempt`] reads.
const ATTEMPT: &str =
    "SELECT job, element, attempt, held_from, ended, outcome, placement FROM attempts";

fn attempt(row: &Row<'_>) -> rusqlite::Result<AttemptRow> {
    let element = ElementId { job: JobId(unsigned(row.get(0)?)), index: row.get(1)? };
    Ok(AttemptRow {
        id: AttemptId { element, attempt: Attempt(row.get(2)?) },
        held_from: instant(row.get(3)?),
        ended: row.get::<_, Option<i64>>(4)?.map(instant),
        outcome: row.get::<_, Option<String>>(5)?.map(|text| column(5, &text)).transpose()?,
        placement: column(6, &row.get::<_, String>(6)?)?,
    })
}

pub(super) fn column<T: serde::de::DeserializeOwned>(
    index: usize,
    text: &str,
) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(index, rusqlite::types::Type::Text, error.into())
    })
}

fn parse<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| damaged(what, &error))
}
