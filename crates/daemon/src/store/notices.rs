//! Notices to users: the rules of jobs that have not ended and of queues, and the notices that are to be sent or
//! were. Notices are written in the transaction of the event that they are about, so that a crash
//! neither loses nor invents one. A notice may be sent twice if the daemon ends in between.

use muster_model::NoticeOrder;
use muster_model::notice::{
    Notice, NoticeAddress, NoticeEvent, NoticeRule, NoticeState, NoticeView,
};
use muster_model::unit::{Span, Time};
use muster_model::view::{JobState, JobView};
use muster_model::{ElementId, Event, EvictionCause, Identity, JobId, QueueName};
use muster_runtime::engine::AccountingFact;
use muster_runtime::{JournalBatch, JournalRecord, StoreError};
use muster_spec::QueueNotices;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

use super::fault::{corrupt, store_error};
use super::{encode, instant, run, sql, unsigned};

/// Waits before the second and later tries to send a notice. After the last one it is given up, about a
/// day after its event.
const WAITS: [Span; 10] = [
    Span::from_secs(10),
    Span::from_secs(30),
    Span::from_secs(120),
    Span::from_secs(300),
    Span::from_secs(900),
    Span::from_secs(1800),
    Span::from_secs(3600),
    Span::from_secs(10_800),
    Span::from_secs(21_600),
    Span::from_secs(43_200),
];

/// Index of the first rule of a queue; those of jobs come before.
const QUEUE_RULES: u32 = 1000;

/// Error of a queue's address, as users see it.
const HIDDEN_ERROR: &str = "the log of the daemon says why";

/// Longest error that is stored, in characters.
const ERROR_CHARS: usize = 300;

/// Rules of one job, with what its notices say of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct JobNotices {
    /// Rules in the order of the job file.
    rules: Vec<NoticeRule>,
    name: String,
    queue: QueueName,
    identity: Identity,
}

/// Notice that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNotice {
    /// Key of the notice.
    pub id: i64,
    /// Order to the process that sends it, with the user of the job as the sender; without a sender if it is a rule of
    /// the queue that sends it.
    pub order: NoticeOrder,
}

impl DueNotice {
    /// Returns the user or the queue that the notice is sent for: a name with a blank is a queue.
    #[must_use]
    pub fn sent_for(&self) -> String {
        match &self.order.sender {
            Some(sender) => sender.user.to_string(),
            None => format!("queue {}", self.order.notice.queue),
        }
    }
}

/// Rule with what the outbox knows it by.
struct Addressee {
    index: u32,
    rule: NoticeRule,
    /// User to send it as; `None` for a rule of the queue.
    sender: Option<Identity>,
}

impl Addressee {
    /// Returns the address as users see it.
    fn label(&self, queue: &QueueName) -> String {
        match self.sender {
            Some(_) => self.rule.to.label(),
            None => format!("{} of queue {queue}", self.rule.to.label()),
        }
    }
}

/// Event of a job that the engine does not report as a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedEvent {
    /// Job that it is about.
    pub job: JobId,
    /// Kind of the event.
    pub event: NoticeEvent,
    /// Index of the rule whose time it is; `None` for every rule with the event.
    pub rule: Option<u32>,
    /// Attempt that it is about: each has the event once.
    pub mark: String,
    /// The event in words.
    pub text: String,
}

/// Rules of a job and of its queue, each with its index in the outbox.
pub type NumberedRules = Vec<(u32, NoticeRule)>;

/// Result of a try to send a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeTry {
    /// Notice that was tried.
    pub notice: DueNotice,
    /// Error of the try.
    pub result: Result<(), String>,
}

/// Writes the rules of submitted jobs.
pub(super) fn write_rules(
    transaction: &Transaction<'_>,
    batch: &JournalBatch,
) -> Result<(), StoreError> {
    for (id, payload) in &batch.payloads {
        let spec = batch.records.iter().find_map(|record| match record {
            JournalRecord::Event(Event::Submitted { job, spec }) if job.0 == id.0 => Some(spec),
            JournalRecord::Event(_) | JournalRecord::Plan(_) => None,
        });
        let Some(spec) = spec else { continue };
        if payload.notices.is_empty() && queue_rules(transaction, &spec.queue)?.is_empty() {
            continue;
        }
        let rules = JobNotices {
            rules: payload.notices.clone(),
            name: spec.name.to_string(),
            queue: spec.queue.clone(),
            identity: payload.identity.clone(),
        };
        run(
            transaction,
            "INSERT INTO notify (job, body) VALUES (?1, ?2)",
            params![sql(id.0), encode(&rules)?],
        )?;
    }
    Ok(())
}

/// Replaces the rules of all queues.
pub(super) fn write_queue_rules(
    connection: &mut Connection,
    notices: &QueueNotices,
) -> Result<(), StoreError> {
    let transaction = connection.transaction().map_err(store_error)?;
    run(&transaction, "DELETE FROM queue_rules", [])?;
    for (queue, rules) in notices {
        run(
            &transaction,
            "INSERT INTO queue_rules (queue, body) VALUES (?1, ?2)",
            params![queue.as_str(), encode(rules)?],
        )?;
    }
    transaction.commit().map_err(store_error)
}

fn queue_rules(connection: &Connection, queue: &QueueName) -> Result<Vec<NoticeRule>, StoreError> {
    let body: Option<String> = connection
        .prepare_cached("SELECT body FROM queue_rules WHERE queue = ?1")
        .and_then(|mut query| query.query_row([queue.as_str()], |row| row.get(0)).optional())
        .map_err(store_error)?;
    body.map_or(Ok(Vec::new()), |body| parse(&body))
}

impl JobNotices {
    /// Returns the rules of the job, and those that its queue has now.
    fn addressees(&self, connection: &Connection) -> Result<Vec<Addressee>, StoreError> {
        let own = (0..).zip(&self.rules).map(|(index, rule)| Addressee {
            index,
            rule: rule.clone(),
            sender: Some(self.identity.clone()),
        });
        let of_queue = queue_rules(connection, &self.queue)?;
        let of_queue = (QUEUE_RULES..).zip(of_queue);
        let of_queue = of_queue.map(|(index, rule)| Addressee { index, rule, sender: None });
        Ok(own.chain(of_queue).collect())
    }
}

/// Writes the notices of one fact, if its job has rules for it.
pub(super) fn fact(transaction: &Transaction<'_>, fact: &AccountingFact) -> Result<(), StoreError> {
    match fact {
        AccountingFact::Running { id, at } => {
            let Some(rules) = rules(transaction, id.element.job)? else { return Ok(()) };
            let event = NewNotice {
                job: id.element.job,
                event: NoticeEvent::Start,
                at: *at,
                text: "runs".to_owned(),
            };
            // Later attempts and elements have none.
            event.write(transaction, &rules, (None, Some("")))
        }
        // Its own size changes.
        AccountingFact::Evicted { cause: EvictionCause::Shrunk | EvictionCause::Grown, .. } => {
            Ok(())
        }
        AccountingFact::Evicted { id, by, cause, at } => {
            let Some(rules) = rules(transaction, id.element.job)? else { return Ok(()) };
            let event = NewNotice {
                job: id.element.job,
                event: NoticeEvent::Preemption,
                at: *at,
                text: preempted(id.element, *by, *cause),
            };
            event.write(transaction, &rules, (None, None))
        }
        AccountingFact::JobEnded { job, at, view, .. } => {
            let Some(rules) = rules(transaction, *job)? else { return Ok(()) };
            let event =
                if view.state == JobState::Done { NoticeEvent::End } else { NoticeEvent::Failure };
            let event = NewNotice { job: *job, event, at: *at, text: ended(view, *at) };
            event.write(transaction, &rules, (None, Some("")))?;
            run(transaction, "DELETE FROM notify WHERE job = ?1", [sql(job.0)])
        }
        AccountingFact::Queued { .. }
        | AccountingFact::Started { .. }
        | AccountingFact::AttemptEnded { .. }
        | AccountingFact::ElementEnded { .. }
        | AccountingFact::RestEnded { .. } => Ok(()),
    }
}

/// Writes the notices of events that depend on the time. A job that has ended meanwhile has none.
pub(super) fn write_timed(
    connection: &mut Connection,
    at: Time,
    events: &[TimedEvent],
) -> Result<(), StoreError> {
    let transaction = connection.transaction().map_err(store_error)?;
    for event in events {
        let Some(rules) = rules(&transaction, event.job)? else { continue };
        let notice = NewNotice { job: event.job, event: event.event, at, text: event.text.clone() };
        notice.write(&transaction, &rules, (event.rule, Some(&event.mark)))?;
    }
    transaction.commit().map_err(store_error)
}

/// Writes the results of tries.
pub(super) fn write_tries(
    connection: &mut Connection,
    at: Time,
    tries: &[NoticeTry],
) -> Result<(), StoreError> {
    let transaction = connection.transaction().map_err(store_error)?;
    for one in tries {
        let id = one.notice.id;
        let Err(error) = &one.result else {
            // Events that came while it was sent are still to be told.
            run(
                &transaction,
                "UPDATE outbox SET sent = ?2, address = NULL, error = NULL WHERE id = ?1 AND count = ?3",
                params![id, sql(at.0), one.notice.order.notice.count],
            )?;
            continue;
        };
        let tries: i64 = transaction
            .query_row("SELECT tries FROM outbox WHERE id = ?1", [id], |row| row.get(0))
            .optional()
            .map_err(store_error)?
            .unwrap_or(0);
        let error: String = error.chars().take(ERROR_CHARS).collect();
        let wait = usize::try_from(tries).ok().and_then(|tries| WAITS.get(tries));
        run(
            &transaction,
            "UPDATE outbox SET tries = tries + 1, error = ?2, next = ?3,
                 address = CASE WHEN ?4 THEN address END
             WHERE id = ?1",
            params![id, error, sql((at + wait.copied().unwrap_or(Span(0))).0), wait.is_some()],
        )?;
    }
    transaction.commit().map_err(store_error)
}

/// Returns the notices that are due, oldest first and so many of each user or queue, and the instant at which the next one
/// will be.
pub(super) fn due(
    connection: &Connection,
    now: Time,
    of_each_user: u32,
) -> Result<(Vec<DueNotice>, Option<Time>), StoreError> {
    // Those of one user, however many, keep no place of another's.
    let mut query = connection
        .prepare_cached(
            "SELECT id, notice, address, count FROM (
                 SELECT *, row_number() OVER (
                     PARTITION BY coalesce(json_extract(address, '$[1].user'), 'queue ' || json_extract(notice, '$.queue'))
                     ORDER BY next, id
                 ) AS turn
                 FROM outbox WHERE address IS NOT NULL AND next <= ?1
             ) WHERE turn <= ?2 ORDER BY next, id",
        )
        .map_err(store_error)?;
    let rows = query
        .query_map(params![sql(now.0), of_each_user], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .map_err(store_error)?;
    let mut found = Vec::new();
    for row in rows {
        let (id, notice, address, count): (i64, String, String, u32) = row.map_err(store_error)?;
        let mut notice: Notice = parse(&notice)?;
        notice.count = count;
        let (to, sender): (NoticeAddress, Option<Identity>) = parse(&address)?;
        let order = NoticeOrder { notice, to, host: String::new(), sender };
        found.push(DueNotice { id, order });
    }
    let next: Option<i64> = connection
        .prepare_cached("SELECT min(next) FROM outbox WHERE address IS NOT NULL AND next > ?1")
        .and_then(|mut query| query.query_row([sql(now.0)], |row| row.get(0)))
        .map_err(store_error)?;
    Ok((found, next.map(instant)))
}

/// Returns the jobs that hold resources and have rules, with the indices of these: at most as many as fit on the nodes.
pub(super) fn running_with_rules(
    connection: &Connection,
) -> Result<Vec<(JobId, NumberedRules)>, StoreError> {
    let mut query = connection
        .prepare_cached(
            "SELECT job, body FROM notify WHERE job IN (SELECT job FROM attempts WHERE ended IS NULL)
             ORDER BY job",
        )
        .map_err(store_error)?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(store_error)?;
    rows.map(|row| {
        let (job, body): (i64, String) = row.map_err(store_error)?;
        let job_notices: JobNotices = parse(&body)?;
        let rules = job_notices.addressees(connection)?.into_iter();
        Ok((JobId(unsigned(job)), rules.map(|one| (one.index, one.rule)).collect()))
    })
    .collect()
}

/// Returns the number of notices that are to be sent.
pub(super) fn waiting(connection: &Connection) -> Result<u64, StoreError> {
    connection
        .prepare_cached("SELECT count(*) FROM outbox WHERE address IS NOT NULL")
        .and_then(|mut query| query.query_row([], |row| row.get(0)))
        .map(unsigned)
        .map_err(store_error)
}

/// Returns the notices of a job, oldest first.
pub(super) fn of_job(connection: &Connection, job: JobId) -> Result<Vec<NoticeView>, StoreError> {
    let mut query = connection
        .prepare_cached(
            "SELECT notice, place, count, tries, next, error, sent, address IS NULL, rule FROM outbox
             WHERE job = ?1 ORDER BY id",
        )
        .map_err(store_error)?;
    let rows = query
        .query_map([sql(job.0)], |row| {
            // The error of a queue's address may have words of it, which belong to the administrator.
            let is_shown = row.get::<_, u32>(8)? < QUEUE_RULES;
            let error = row.get::<_, Option<String>>(5)?;
            let error = error.map(|error| if is_shown { error } else { HIDDEN_ERROR.to_owned() });
            let state = match (row.get::<_, Option<i64>>(6)?, row.get(7)?) {
                (Some(sent), _) => NoticeState::Sent { at: instant(sent) },
                (None, true) => {
                    NoticeState::GivenUp { tries: row.get(3)?, error: error.unwrap_or_default() }
                }
                (None, false) => {
                    NoticeState::Waiting { tries: row.get(3)?, next: instant(row.get(4)?), error }
                }
            };
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, state))
        })
        .map_err(store_error)?;
    rows.map(|row| {
        let (notice, to, count, state): (String, String, u32, NoticeState) =
            row.map_err(store_error)?;
        let notice: Notice = parse(&notice)?;
        Ok(NoticeView { event: notice.event, at: notice.at, to, count, state })
    })
    .collect()
}

/// Deletes the notices of a job that is deleted.
pub(super) fn forget(transaction: &Transaction<'_>, job: JobId) -> Result<(), StoreError> {
    run(transaction, "DELETE FROM outbox WHERE job = ?1", [sql(job.0)])
}

fn rules(transaction: &Transaction<'_>, job: JobId) -> Result<Option<JobNotices>, StoreError> {
    let body: Option<String> = transaction
        .prepare_cached("SELECT body FROM notify WHERE job = ?1")
        .and_then(|mut query| query.query_row([sql(job.0)], |row| row.get(0)).optional())
        .map_err(store_error)?;
    body.map(|body| parse(&body)).transpose()
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| corrupt("a notice", &error))
}

/// Event of a job, before it is known who is told.
struct NewNotice {
    job: JobId,
    event: NoticeEvent,
    at: Time,
    text: String,
}

impl NewNotice {
    /// Writes the notice for each rule that sends it, or for one of them. With a mark, each rule sends it once;
    /// without, it is counted to a notice of its kind that no try was made for.
    fn write(
        self,
        transaction: &Transaction<'_>,
        job: &JobNotices,
        (only, mark): (Option<u32>, Option<&str>),
    ) -> Result<(), StoreError> {
        for one in job.addressees(transaction)? {
            let index = one.index;
            if only.is_some_and(|only| only != index) || !is_sent(&one.rule, self.event) {
                continue;
            }
            if mark.is_none() && self.count_to_earlier(transaction, index)? {
                continue;
            }
            let notice = Notice {
                event: self.event,
                at: self.at,
                job: self.job,
                name: job.name.clone(),
                user: job.identity.user.clone(),
                queue: job.queue.clone(),
                count: 1,
                text: self.text.clone(),
            };
            run(
                transaction,
                "INSERT OR IGNORE INTO outbox (job, rule, event, mark, notice, place, address, next)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    sql(self.job.0),
                    index,
                    self.event.word(),
                    mark,
                    encode(&notice)?,
                    one.label(&job.queue),
                    encode(&(&one.rule.to, &one.sender))?,
                    sql(self.at.0)
                ],
            )?;
        }
        Ok(())
    }

    /// Returns false if there is no such notice.
    fn count_to_earlier(
        &self,
        transaction: &Transaction<'_>,
        rule: u32,
    ) -> Result<bool, StoreError> {
        transaction
            .prepare_cached(
                "UPDATE outbox SET count = count + 1
                 WHERE job = ?1 AND rule = ?2 AND event = ?3 AND address IS NOT NULL AND tries = 0",
            )
            .and_then(|mut query| query.execute(params![sql(self.job.0), rule, self.event.word()]))
            .map(|changed| changed > 0)
            .map_err(store_error)
    }
}

/// A rule that sends ends sends failures, too.
fn is_sent(rule: &NoticeRule, event: NoticeEvent) -> bool {
    rule.sends(event) || event == NoticeEvent::Failure && rule.sends(NoticeEvent::End)
}

fn preempted(element: ElementId, by: ElementId, cause: EvictionCause) -> String {
    let place =
        if element.index == 0 { String::new() } else { format!("element {}: ", element.index) };
    let text = match cause {
        EvictionCause::Shrunk | EvictionCause::Grown => "restarts with another size".to_owned(),
        EvictionCause::Moved => format!("restarts elsewhere, to make room for job {}", by.job),
        EvictionCause::Opportunistic => format!("gives up idle GPUs to job {}", by.job),
        EvictionCause::Reclaimed => {
            format!("gives back borrowed quota, which job {} needs", by.job)
        }
        EvictionCause::Outranked => {
            format!("preempted by job {}, which has a higher priority", by.job)
        }
    };
    format!("{place}{text}")
}

fn ended(view: &JobView, at: Time) -> String {
    let ran =
        view.started.map(|started| format!(" after {}", at.since(started))).unwrap_or_default();
    let state = view.state.word();
    if let Some(array) = &view.array {
        return format!(
            "{state}{ran}: {} done, {} not, of {}",
            array.succeeded, array.failed, array.total
        );
    }
    let outcome = view.elements.first().and_then(|element| element.outcome.as_ref());
    match outcome.map(ToString::to_string) {
        Some(text) if text != state => format!("{state}{ran}: {text}"),
        Some(_) | None => format!("{state}{ran}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    /// Returns a store without a file, and rules with one address for preemptions and ends.
    fn store() -> (Connection, JobNotices) {
        let connection = Connection::open_in_memory().unwrap();
        schema::migrate(&connection).unwrap();
        let rule = NoticeRule {
            on: vec![NoticeEvent::End, NoticeEvent::Preemption],
            to: NoticeAddress::Mail("ann@example.org".to_owned()),
            before_limit: NoticeRule::BEFORE_LIMIT,
        };
        let identity = Identity { user: "ann".into(), uid: 1, gid: 1 };
        let rules =
            JobNotices { rules: vec![rule], name: "a".to_owned(), queue: "q".into(), identity };
        (connection, rules)
    }

    fn write(
        connection: &mut Connection,
        rules: &JobNotices,
        event: NoticeEvent,
        mark: Option<&str>,
    ) {
        let transaction = connection.transaction().unwrap();
        NewNotice { job: JobId(1), event, at: Time(0), text: "x".to_owned() }
            .write(&transaction, rules, (None, mark))
            .unwrap();
        transaction.commit().unwrap();
    }

    fn due_now(connection: &Connection, now: Time) -> Vec<DueNotice> {
        due(connection, now, 100).unwrap().0
    }

    #[test]
    fn a_notice_is_given_up_after_about_a_day() {
        let (mut connection, rules) = store();
        write(&mut connection, &rules, NoticeEvent::End, Some(""));
        let mut now = Time(0);
        for _ in 0..WAITS.len() {
            let notice = due_now(&connection, now).remove(0);
            let tried = NoticeTry { notice, result: Err("no route".to_owned()) };
            write_tries(&mut connection, now, &[tried]).unwrap();
            assert!(due_now(&connection, now).is_empty(), "it waits before the next try");
            now = due(&connection, now, 100).unwrap().1.expect("there is a next try");
        }
        assert!((20..=30).contains(&(now.0 / 3_600_000)), "{now:?}");
        let notice = due_now(&connection, now).remove(0);
        let tried = NoticeTry { notice, result: Err("no route".to_owned()) };
        write_tries(&mut connection, now, &[tried]).unwrap();
        assert_eq!(due(&connection, Time(u64::MAX / 4), 100).unwrap(), (Vec::new(), None));
        let told = of_job(&connection, JobId(1)).unwrap();
        let expected = NoticeState::GivenUp { tries: 11, error: "no route".to_owned() };
        assert_eq!(told[0].state, expected);
        let address: Option<String> =
            connection.query_row("SELECT address FROM outbox", [], |row| row.get(0)).unwrap();
        assert_eq!(address, None, "an address that is not needed any more is forgotten");
    }

    #[test]
    fn events_of_a_kind_are_counted_until_they_are_told() {
        let (mut connection, rules) = store();
        for _ in 0..3 {
            write(&mut connection, &rules, NoticeEvent::Preemption, None);
        }
        let sent = due_now(&connection, Time(0));
        assert_eq!(sent.iter().map(|one| one.order.notice.count).collect::<Vec<_>>(), [3]);
        // A fourth comes while the notice of three is on its way: it is told again, with four.
        write(&mut connection, &rules, NoticeEvent::Preemption, None);
        let done = |notice| NoticeTry { notice, result: Ok(()) };
        write_tries(&mut connection, Time(1), &[done(sent[0].clone())]).unwrap();
        let again = due_now(&connection, Time(1));
        assert_eq!(again[0].order.notice.count, 4);
        write_tries(&mut connection, Time(2), &[done(again[0].clone())]).unwrap();
        assert!(due_now(&connection, Time(3)).is_empty());
        // The next one is a notice of its own; an event with a mark is told once.
        write(&mut connection, &rules, NoticeEvent::Preemption, None);
        for _ in 0..2 {
            write(&mut connection, &rules, NoticeEvent::End, Some(""));
        }
        let counts: Vec<u32> =
            due_now(&connection, Time(3)).iter().map(|one| one.order.notice.count).collect();
        assert_eq!(counts, [1, 1]);
    }

    #[test]
    fn many_notices_of_one_user_keep_no_place_of_anothers() {
        let (mut connection, of_ann) = store();
        for mark in 0..300 {
            write(&mut connection, &of_ann, NoticeEvent::End, Some(&mark.to_string()));
        }
        let mut of_bob = of_ann.clone();
        of_bob.identity.user = "bob".into();
        write(&mut connection, &of_bob, NoticeEvent::End, Some("bob"));
        let (due, _) = due(&connection, Time(0), 2).unwrap();
        let users: Vec<&str> = due.iter().map(|one| one.order.notice.user.as_str()).collect();
        assert_eq!(users, ["ann", "ann", "bob"]);
    }

    #[test]
    fn only_jobs_that_hold_resources_are_looked_at() {
        let (connection, rules) = store();
        let body = serde_json::to_string(&rules).unwrap();
        for job in [1, 2, 3] {
            connection.execute("INSERT INTO notify VALUES (?1, ?2)", params![job, body]).unwrap();
        }
        let attempt = "INSERT INTO attempts (job, element, attempt, user, queue, held_from, ended, gpu_milli, placement)
             VALUES (?1, 0, 1, 'ann', 'q', 0, ?2, 0, '[]')";
        connection.execute(attempt, params![1, None::<i64>]).unwrap();
        connection.execute(attempt, params![2, Some(5)]).unwrap();
        let jobs: Vec<u64> =
            running_with_rules(&connection).unwrap().iter().map(|(job, _)| job.0).collect();
        assert_eq!(jobs, [1]);
    }
}
