//! Reader of history and accounting, on a connection that cannot write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_model::notice::NoticeView;
use muster_model::payload::TaskCommand;
use muster_model::sweep::Sweep;
use muster_model::unit::Time;
use muster_model::view::{HeldGpus, HoldingEnd, JobView, MeasuredUse};
use muster_model::{
    Attempt, AttemptId, ElementId, JobId, Outcome, OutputFiles, Payload, QueueName,
    TaskEnvironment, TaskPlacement, UserName,
};
use muster_runtime::StoreError;
use rusqlite::types::ToSql;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::fault::{corrupt, store_error};
use super::notices::{self, DueNotice, NumberedRules};
use super::{BUSY_TIMEOUT, instant, sql, unsigned};

/// Read-only access to the store's projections. Cheap to clone; clones share a connection.
#[derive(Clone, Debug)]
pub struct HistoryReader {
    connection: Arc<Mutex<Connection>>,
}

/// Commands of a job, without its environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCommands {
    /// Command of each task group, by name.
    pub commands: BTreeMap<Arc<str>, TaskCommand>,
    /// Working directory of the job.
    pub workdir: PathBuf,
    /// Files for its output, when the user names them.
    #[serde(default)]
    pub files: OutputFiles,
    /// Parameters of a sweep; `None` for other jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Box<Sweep>>,
    /// Environment that is activated before the program.
    #[serde(default, skip_serializing_if = "TaskEnvironment::is_empty")]
    pub environment: TaskEnvironment,
}

impl From<Payload> for StoredCommands {
    fn from(payload: Payload) -> Self {
        let Payload { commands, workdir, files, sweep, environment, .. } = payload;
        Self { commands, workdir, files, sweep, environment }
    }
}

/// Job that has ended.
#[derive(Clone, Debug)]
pub struct EndedJob {
    /// Last view of the job.
    pub view: JobView,
    /// Commands of the job; `None` when they were not stored.
    pub stored: Option<StoredCommands>,
}

/// Filter for ended jobs.
#[derive(Clone, Debug, Default)]
pub struct HistoryFilter {
    /// Login name of the jobs' user.
    pub user: Option<String>,
    /// Queue of the jobs, or a queue whose subtree contains it.
    pub queue: Option<String>,
    /// Final state of the jobs, as in JSON.
    pub state: Option<String>,
    /// Pattern of the name, as in `JobFilter`.
    pub name: Option<String>,
    /// Highest number of jobs, newest first.
    pub limit: u32,
}

/// Start of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRow {
    /// Id of the attempt.
    pub id: AttemptId,
    /// Instant from which its resources were held.
    pub held_from: Time,
    /// Instant at which they were released; `None` while they are held.
    pub ended: Option<Time>,
    /// Outcome of the attempt; `None` while it runs.
    pub outcome: Option<Outcome>,
    /// Resources that it held, by rank.
    pub placement: Vec<TaskPlacement>,
}

/// Period in which an element held resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldingPeriod {
    /// Id of the element.
    pub element: ElementId,
    /// Instant from which its first attempt held resources.
    pub began: Time,
    /// Instant from which the processes of its last attempt ran; `None` before that.
    pub running_from: Option<Time>,
    /// Instant at which the last attempt released them; `None` while it holds them.
    pub ended: Option<Time>,
    /// True when no attempt follows.
    pub is_over: bool,
    /// Number of tasks of the last attempt.
    pub tasks: u32,
}

impl HistoryReader {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(store_error)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Opens another connection to the same file, so that long reads on it do not block others.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn reopen(&self) -> Result<Self, StoreError> {
        let path = self.lock().path().map(PathBuf::from);
        Self::open(&path.ok_or_else(|| StoreError::Io("the store has no file".to_owned()))?)
    }

    /// Returns the notices that are due, oldest first and at most `of_each_user` of a user, and the instant at which
    /// the next one will be.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn due_notices(
        &self,
        now: Time,
        of_each_user: u32,
    ) -> Result<(Vec<DueNotice>, Option<Time>), StoreError> {
        notices::due(&self.lock(), now, of_each_user)
    }

    /// Returns the jobs that hold resources and have rules of notices, with the indices of the rules.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn running_with_notices(&self) -> Result<Vec<(JobId, NumberedRules)>, StoreError> {
        notices::running_with_rules(&self.lock())
    }

    /// Returns the number of notices that are to be sent.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn waiting_notices(&self) -> Result<u64, StoreError> {
        notices::waiting(&self.lock())
    }

    /// Returns the notices of a job, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn notices(&self, job: JobId) -> Result<Vec<NoticeView>, StoreError> {
        notices::of_job(&self.lock(), job)
    }

    /// Returns one ended job; `None` when there is none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn ended(&self, job: JobId) -> Result<Option<EndedJob>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached("SELECT view, what FROM history WHERE job = ?1")
            .map_err(store_error)?;
        let row: Option<(String, Option<String>)> = query
            .query_row([sql(job.0)], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(store_error)?;
        let Some((view, what)) = row else { return Ok(None) };
        let what = what.map(|text| parse(&text, "a history row")).transpose()?;
        Ok(Some(EndedJob { view: parse(&view, "a history row")?, stored: what }))
    }

    /// Returns ended jobs that match a filter, newest first.
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
                    query.query_map(values, |row| row.get::<_, String>(0)).map_err(store_error)?;
                rows.map(|row| parse(&row.map_err(store_error)?, "a history row")).collect()
            },
        )
    }

    /// Counts the ended jobs that match a filter, ignoring its limit.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn history_count(&self, filter: &HistoryFilter) -> Result<u64, StoreError> {
        self.matching("COUNT(*)", filter, "", &[], |query, values| {
            query.query_row(values, |row| row.get::<_, i64>(0)).map(unsigned).map_err(store_error)
        })
    }

    /// Runs a query for `what` over the ended jobs that match a filter.
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
        // GLOB also supports brackets, which patterns of names do not.
        let name = filter.name.as_ref().map(|name| name.replace('[', "[[]"));
        if let Some(name) = &name {
            conditions.push("name GLOB ?");
            values.push(name);
        }
        values.extend(end_values);
        let text = format!("SELECT {what} FROM history WHERE {} {end}", conditions.join(" AND "));
        let connection = self.lock();
        let mut query = connection.prepare_cached(&text).map_err(store_error)?;
        ask(&mut query, values.as_slice())
    }

    /// Returns every start of an element, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn attempts(&self, element: ElementId) -> Result<Vec<AttemptRow>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached(&format!("{ATTEMPT} WHERE job = ?1 AND element = ?2 ORDER BY attempt"))
            .map_err(store_error)?;
        let rows = query
            .query_map(params![sql(element.job.0), element.index], attempt)
            .map_err(store_error)?;
        rows.map(|row| row.map_err(store_error)).collect()
    }

    /// Returns every start of every element of a job.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn job_attempts(&self, job: JobId) -> Result<Vec<AttemptRow>, StoreError> {
        let connection = self.lock();
        let mut query =
            connection.prepare_cached(&format!("{ATTEMPT} WHERE job = ?1")).map_err(store_error)?;
        let rows = query.query_map([sql(job.0)], attempt).map_err(store_error)?;
        rows.map(|row| row.map_err(store_error)).collect()
    }

    /// Returns the lowest element of a job that has ever started.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn first_started(&self, job: JobId) -> Result<Option<u32>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached("SELECT min(element) FROM attempts WHERE job = ?1")
            .map_err(store_error)?;
        query.query_row([sql(job.0)], |row| row.get(0)).map_err(store_error)
    }

    /// Returns the starts that held resources after `since`, newest first, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn attempts_since(&self, since: Time, limit: u32) -> Result<Vec<AttemptRow>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached(&format!(
                "{ATTEMPT} WHERE ended IS NULL OR ended > ?1 ORDER BY held_from DESC LIMIT ?2"
            ))
            .map_err(store_error)?;
        let rows = query.query_map(params![sql(since.0), limit], attempt).map_err(store_error)?;
        rows.map(|row| row.map_err(store_error)).collect()
    }

    /// Calls `keep` for every ended job that was submitted since an instant, by number. Only one
    /// view is in memory at a time.
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
            .map_err(store_error)?;
        let mut rows = query.query([sql(since.0)]).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            let view: String = row.get(0).map_err(store_error)?;
            keep(parse(&view, "a history row")?);
        }
        Ok(())
    }

    /// Returns every element that held resources after `since`, by number.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn holding_periods(&self, since: Time) -> Result<Vec<HoldingPeriod>, StoreError> {
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
            .map_err(store_error)?;
        let stint = |row: &Row<'_>| {
            Ok(HoldingPeriod {
                element: ElementId { job: JobId(unsigned(row.get(0)?)), index: row.get(1)? },
                began: instant(row.get(7)?),
                is_over: row.get(6)?,
                running_from: row.get::<_, Option<i64>>(2)?.map(instant),
                ended: row.get::<_, Option<i64>>(3)?.map(instant),
                tasks: row.get(4)?,
            })
        };
        let rows = query.query_map([sql(since.0)], stint).map_err(store_error)?;
        rows.map(|row| row.map_err(store_error)).collect()
    }

    /// Returns the usage per user and queue: number of elements that ended or run, and thousandths
    /// of GPUs × milliseconds held until `now`.
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
            .map_err(store_error)?;
        let rows = query
            .query_map([sql(now.0)], |row| {
                let user: String = row.get(0)?;
                let queue: String = row.get(1)?;
                Ok((user.into(), queue.into(), unsigned(row.get(2)?), unsigned(row.get(3)?)))
            })
            .map_err(store_error)?;
        rows.map(|row| row.map_err(store_error)).collect()
    }

    /// Calls `take` for every attempt that held resources between `since` and `until`. An attempt that has not ended
    /// counts as held until `now`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn each_held(
        &self,
        since: Time,
        until: Time,
        now: Time,
        mut take: impl FnMut(HeldGpus),
    ) -> Result<(), StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached(
                "SELECT attempts.user, attempts.queue, job, name, held_from, attempts.ended, gpu_milli,
                     gpu_milli_ms, outcome, measured_milli_ms, busy_milli_ms
                 FROM attempts LEFT JOIN history USING (job)
                 WHERE (attempts.ended IS NULL OR attempts.ended > ?1) AND held_from < ?2",
            )
            .map_err(store_error)?;
        let held = |row: &Row<'_>| {
            let from = instant(row.get(4)?);
            let ended = row.get::<_, Option<i64>>(5)?.map(instant);
            let to = ended.unwrap_or(now);
            let constant = unsigned(row.get(6)?).saturating_mul(to.since(from).0);
            let outcome: Option<String> = row.get(8)?;
            let outcome: Option<Outcome> = outcome.map(|text| column(8, &text)).transpose()?;
            Ok(HeldGpus {
                user: row.get::<_, String>(0)?.into(),
                queue: row.get::<_, String>(1)?.into(),
                job: JobId(unsigned(row.get(2)?)),
                name: row.get(3)?,
                from,
                to,
                gpu_milli_ms: row.get::<_, Option<i64>>(7)?.map_or(constant, unsigned),
                measured: measured(row)?,
                end: HoldingEnd::of(ended.is_some(), outcome.as_ref()),
            })
        };
        let rows =
            query.query_map(params![sql(since.0), sql(until.0)], held).map_err(store_error)?;
        for row in rows {
            take(row.map_err(store_error)?);
        }
        Ok(())
    }

    /// Locks the connection; a panicked reader leaves no partial write.
    pub(super) fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the last two columns of [`HistoryReader::each_held`].
fn measured(row: &Row<'_>) -> rusqlite::Result<Option<MeasuredUse>> {
    let measured = row.get::<_, Option<i64>>(9)?.map(unsigned);
    let busy = row.get::<_, Option<i64>>(10)?.map(unsigned);
    Ok(measured.map(|measured| MeasuredUse { measured, busy: busy.unwrap_or(0) }))
}

/// Query for the columns that [`attempt`] reads.
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
    serde_json::from_str(text).map_err(|error| corrupt(what, &error))
}
