//! Lists of jobs and one job in full, from the controller and the accounting together: the controller says what is, the
//! accounting what was.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use muster_api::query::{ChangesQuery, JobFilter};
use muster_api::types::{Changes, JobDetail, JobList};
use muster_backends::slurm::job::{self, NativeJob};
use muster_backends::slurm::state::NativeState;
use muster_model::view::{ElementView, JobView, NativeView, State};
use muster_model::{ElementId, JobId, Outcome, Span, Time};

use super::queue::Whose;
use super::record::{Record, Records};
use super::{Refusal, Result, Slurm, output, saved, view};

/// Whose jobs are listed where nobody is named: one's own. This word lists everybody's.
const EVERYBODY: &str = "all";

/// Ended jobs of a list where no number is said; as the daemon's.
const ENDED: u32 = 1000;

/// Between two questions to Slurm, jobs come that only the second knows.
const JUST_NOW: Span = Span::from_secs(60);

impl Slurm {
    /// Jobs as a filter wants them.
    pub(super) async fn list(&self, filter: &JobFilter) -> Result<JobList> {
        // 1. Which rows.
        let asked = filter.ids.iter().flat_map(|ids| ids.split(','));
        let asked: Vec<u64> = asked.filter_map(|id| id.trim().parse().ok()).collect();
        let ids = self.present(&asked).await?;
        let whose = match filter.user.as_deref() {
            Some(EVERYBODY) => Whose::All,
            Some(user) => Whose::User(user),
            None if !ids.is_empty() => Whose::Jobs(&ids),
            None => Whose::User(self.settings.user.as_str()),
        };
        let asks_everybody = !matches!(whose, Whose::User(user) if user == self.settings.user.as_str());
        self.watches_everybody.store(asks_everybody, Ordering::Relaxed);
        let mut rows = self.reconciled(whose, &ids).await?;
        if !ids.is_empty() {
            rows.retain(|row| ids.contains(&row.job()));
        }
        // 2. What has ended: where that is asked for, and of arrays that go on, how many.
        let is_final = |word: &str| ["done", "failed", "cancelled", "preempted", "unknown"].contains(&word);
        let wants_ended = filter.all || filter.state.as_deref().is_some_and(is_final);
        let arrays: Vec<u64> = rows.iter().filter_map(|row| row.array).collect();
        let (revision, now) = (revision(&rows), self.now());
        match (wants_ended, ids.is_empty(), arrays.is_empty()) {
            (_, false, _) => merge(&mut rows, self.history(whose, &ids).await, now),
            (true, true, _) => merge(&mut rows, self.history(whose, &[]).await, now),
            (false, true, false) => merge(&mut rows, self.history(whose, &arrays).await, now),
            (false, true, true) => {}
        }
        // 3. Views.
        self.complete(&mut rows).await?;
        let shows_ended = wants_ended || !ids.is_empty();
        let matches = |job: &JobView| {
            (shows_ended || !job.state.is_final())
                && filter.state.as_deref().is_none_or(|state| job.state.word() == state)
                && filter
                    .queue
                    .as_deref()
                    .is_none_or(|queue| queue.rsplit('/').next() == Some(job.queue.as_str()))
        };
        let mut jobs = view::jobs(&rows, None);
        self.timeline.lock().expect("nobody panics with this lock").look(&jobs, ids.is_empty(), now);
        for (id, asked) in ids.iter().zip(&asked) {
            match jobs.iter_mut().find(|job| job.job.0 == *id) {
                // Who asks by the number that was acknowledged is answered by it.
                Some(job) => job.job = JobId(*asked),
                None => {
                    let records = self.records().await?;
                    jobs.extend(records.of_number(*asked).map(|record| self.lost(&records, *asked, &record)));
                }
            }
        }
        if ids.is_empty() && whose == Whose::User(self.settings.user.as_str()) {
            jobs.extend(self.forgotten(&jobs).await?);
        }
        jobs.retain(matches);
        newest(&mut jobs, filter.limit.unwrap_or(ENDED));
        Ok(JobList { now, revision, jobs })
    }

    /// What was handed on, has started and is known to nobody.
    async fn forgotten(&self, known: &[JobView]) -> Result<Vec<JobView>> {
        let records = self.records().await?;
        let id = |job: &JobView| job.native.as_ref().and_then(|native| native.id.clone());
        let is_known = |record: &Record| known.iter().any(|job| id(job).as_ref() == Some(&record.id));
        let forgotten = records.open().into_iter().filter(|record| !is_known(record));
        let forgotten = forgotten.filter(|record| records.has_started(&record.id) || !record.is_plain);
        Ok(forgotten.filter_map(|record| Some(self.lost(&records, record.number?, &record))).collect())
    }

    /// The present numbers of jobs that were acknowledged under these.
    pub(super) async fn present(&self, numbers: &[u64]) -> Result<Vec<u64>> {
        let mut present = Vec::new();
        for number in numbers {
            let record = self.records().await?.of_number(*number);
            present.push(record.and_then(|record| record.number).unwrap_or(*number));
        }
        Ok(present)
    }

    /// The rows of the queue, once everything that was handed on has been looked for in it.
    async fn reconciled(&self, whose: Whose<'_>, ids: &[u64]) -> Result<Vec<NativeJob>> {
        // Open jobs first: what was acknowledged before the queue is read must be in it.
        let mut open = match whose {
            Whose::User(user) if user != self.settings.user.as_str() => Vec::new(),
            _ => self.records().await?.open(),
        };
        if let Whose::Jobs(_) = whose {
            open.retain(|record| record.number.is_some_and(|number| ids.contains(&number)));
        }
        if let (Whose::User(_) | Whose::All, Some(rows)) = (whose, self.just_seen()) {
            return Ok(rows);
        }
        let rows = self.queue(whose).await?;
        match self.reconcile(&open, &rows).await? {
            true => self.queue(whose).await,
            false => Ok(rows),
        }
    }

    /// What a watcher was just told of, for the list that it asks for then: no second question to Slurm.
    fn just_seen(&self) -> Option<Vec<NativeJob>> {
        let seen = self.seen.lock().expect("nobody panics with this lock").take();
        seen.filter(|(at, _)| at.elapsed() < self.settings.look_again).map(|(_, rows)| rows)
    }

    /// Every row of one job.
    pub(super) async fn rows_of(&self, job: JobId) -> Result<Vec<NativeJob>> {
        let before = self.present(&[job.0]).await?[0];
        let mut rows = self.reconciled(Whose::Jobs(&[before]), &[before]).await?;
        let job = JobId(self.present(&[job.0]).await?[0]);
        if job.0 != before {
            // It was handed on again just now.
            rows = self.queue(Whose::Jobs(&[job.0])).await?;
        }
        rows.retain(|row| row.job() == job.0 || row.id == job.0);
        merge(&mut rows, self.history(Whose::All, &[job.0]).await, self.now());
        self.complete(&mut rows).await?;
        Ok(rows)
    }

    /// What Slurm's programs leave out: names of users that they give as numbers, and where tasks lie that are not spread evenly.
    async fn complete(&self, rows: &mut [NativeJob]) -> Result<()> {
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for row in rows.iter_mut() {
            if let Some(by) = row.cancelled_by.as_mut().filter(|by| by.bytes().all(|c| c.is_ascii_digit())) {
                if !names.contains_key(by) {
                    let name = self.tools().output("id", &["-nu", by]).await;
                    names.insert(by.clone(), name.map_or_else(|_| by.clone(), |name| name.trim().to_owned()));
                }
                by.clone_from(&names[by]);
            }
            let is_uneven = row.node_count > 0 && row.tasks % row.node_count != 0;
            if let Some(id) = row.muster_id().filter(|_| is_uneven && !row.nodes.is_empty()) {
                let dir = self.records().await?.dir(id);
                row.tasks_by_node = output::tasks_by_node(&dir, view::index(row));
            }
        }
        self.look_at_steps(rows).await
    }

    /// Slurm calls a job failed whose ranks ran out of memory: its steps say so.
    async fn look_at_steps(&self, rows: &mut [NativeJob]) -> Result<()> {
        let failed = rows.iter().filter(|row| row.state.text() == "FAILED" && row.muster_id().is_some());
        let failed: Vec<String> = failed.map(|row| row.id.to_string()).collect();
        if failed.is_empty() {
            return Ok(());
        }
        let numbers = failed.join(",");
        let format = format!("--format={}", job::STEP_FIELDS);
        let asked = ["--parsable2", "--noheader", "--jobs", &numbers, &format];
        // Without accounting nobody knows of steps.
        let said = self.tools().output("sacct", &asked).await.unwrap_or_default();
        let steps: BTreeMap<u64, NativeState> = job::steps(&said).into_iter().collect();
        for row in rows.iter_mut() {
            if let Some(step) = steps.get(&row.id) {
                row.step = step.clone();
            }
        }
        Ok(())
    }

    /// One job.
    pub(super) async fn detail(&self, job: JobId, index: Option<u32>) -> Result<JobDetail> {
        let (rows, records) = (self.rows_of(job).await?, self.records().await?);
        if let Some(index) = index.filter(|_| !rows.is_empty()) {
            view::row_of(&rows, job, index)?;
        }
        let record = records.of_number(job.0);
        let present = record.as_ref().and_then(|record| record.number).map_or(job, JobId);
        let shown =
            view::jobs(&rows, Some(self.cluster().await?)).into_iter().find(|view| view.job == present);
        let shown = match index {
            Some(index) => shown.map(|view| view::with_element(view, &rows, index)),
            None => shown,
        };
        // Slurm gives a number again after it has lost a job: then this is another.
        let is_other = |view: &JobView, record: &Record| {
            view.native.as_ref().and_then(|native| native.id.as_deref()).is_some_and(|id| id != record.id)
        };
        let record = record.filter(|record| shown.as_ref().is_none_or(|view| !is_other(view, record)));
        let view = match (shown, &record) {
            (Some(mut view), Some(record)) => {
                saved::fill(&records, record, &mut view);
                view::with_roles(JobView { job, ..view }, &record.roles)
            }
            (Some(view), None) => JobView { job, ..view },
            (None, Some(record)) => self.lost(&records, job.0, record),
            (None, None) => {
                return Err(Refusal::not_found(format!("Slurm knows no job {job}"))
                    .hint("`muster ps -a` lists yours of the last days, `muster ps -u all` everybody's"));
            }
        };
        let element =
            index.unwrap_or_else(|| view.elements.first().map_or(0, |element| element.element.index));
        let logs = record
            .as_ref()
            .map(|record| output::files(&records.dir(&record.id), element))
            .unwrap_or_default();
        Ok(JobDetail {
            job: view,
            now: self.now(),
            commands: record.as_ref().map(|record| record.commands.clone()),
            workdir: record.map(|record| record.workdir).or_else(|| Some(rows.first()?.workdir.clone())),
            logs: logs.iter().map(|path| path.display().to_string()).collect(),
            enforcement: Vec::new(),
        })
    }

    /// A job that was handed on, and that neither the controller nor the accounting knows.
    fn lost(&self, records: &Records, number: u64, record: &Record) -> JobView {
        let end = records.noted_end(record);
        let says = "handed on to Slurm, which does not know it any more";
        let (state, outcome) = match end {
            Some(0) => (State::Done, Outcome::Succeeded),
            Some(code) => {
                let says = format!("ended with {code}, as its script noted; Slurm does not know it any more");
                (State::Failed, Outcome::Native { state: "".into(), says: says.into(), code })
            }
            None => (State::Unknown, Outcome::Native { state: "".into(), says: says.into(), code: 125 }),
        };
        let element = ElementView {
            outcome: Some(outcome),
            ..ElementView::blank(ElementId::single(JobId(number)), state)
        };
        let native = NativeView {
            system: "slurm".to_owned(),
            cluster: None,
            state: String::new(),
            reason: None,
            partition: String::new(),
            qos: None,
            restarts: 0,
            id: Some(record.id.clone()),
        };
        let user = self.settings.user.clone();
        JobView {
            elements: vec![element],
            native: Some(native),
            ..JobView::blank(JobId(number), record.name.clone(), user, state, record.submitted)
        }
    }

    /// Answers when the queue has changed.
    pub(super) async fn changes(&self, query: ChangesQuery) -> Result<Changes> {
        let deadline = Instant::now() + Duration::from_secs(query.timeout_secs.unwrap_or(30).min(60));
        loop {
            let whose = match self.watches_everybody.load(Ordering::Relaxed) {
                true => Whose::All,
                false => Whose::User(self.settings.user.as_str()),
            };
            let rows = self.watched(whose).await?;
            let revision = revision(&rows);
            if query.after != Some(revision) || Instant::now() >= deadline || self.is_answered() {
                // The list that follows is of these rows.
                *self.seen.lock().expect("nobody panics with this lock") = Some((Instant::now(), rows));
                return Ok(Changes { revision, now: self.now() });
            }
            tokio::time::sleep(self.settings.look_again).await;
        }
    }
}

/// What tells two looks at the queue apart.
fn revision(rows: &[NativeJob]) -> u64 {
    // The hasher has fixed keys: the same rows have the same number in every process.
    let mut hasher = DefaultHasher::new();
    for row in rows {
        (row.id, row.state.text(), row.restarts, &row.array_tasks, &row.reason, &row.nodes).hash(&mut hasher);
    }
    hasher.finish()
}

/// Adds what the accounting knows: rows that the controller has forgotten, and who cancelled a job.
fn merge(rows: &mut Vec<NativeJob>, history: Vec<NativeJob>, now: Time) {
    let known: BTreeMap<u64, usize> = rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
    for mut old in history {
        // What came after the controller was asked is not one that it has lost.
        let is_settled = old.submitted.is_some_and(|submitted| now.since(submitted) > JUST_NOW);
        match known.get(&old.id) {
            Some(at) => rows[*at].cancelled_by = rows[*at].cancelled_by.take().or(old.cancelled_by),
            None if old.state.state(false).is_final() => rows.push(old),
            None if is_settled => {
                old.state = old.state.runaway();
                rows.push(old);
            }
            None => {}
        }
    }
}

/// All that has not ended, and the newest of the rest.
fn newest(jobs: &mut Vec<JobView>, limit: u32) {
    let ended = jobs.iter().filter(|job| job.state.is_final()).count();
    let mut over = ended.saturating_sub(limit as usize);
    jobs.retain(|job| {
        let is_dropped = over > 0 && job.state.is_final();
        over -= usize::from(is_dropped);
        !is_dropped
    });
}
