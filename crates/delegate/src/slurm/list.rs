//! Lists of jobs and one job in full, from the controller and the accounting together: the
//! controller says what is, the accounting what was.

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

use super::named::Meant;
use super::queue::{Accounting, Whose};
use super::reconcile::Fate;
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
        let asked: Vec<JobId> = asked.filter_map(|id| id.trim().parse().ok().map(JobId)).collect();
        let mut meant = Vec::new();
        for job in asked {
            meant.push(self.meant(job).await?);
        }
        let ids: Vec<u64> = meant.iter().map(|one| one.present).collect();
        let whose = match filter.user.as_deref() {
            Some(EVERYBODY) => Whose::All,
            Some(user) => Whose::User(user),
            None if !ids.is_empty() => Whose::Jobs(&ids),
            None => Whose::User(self.settings.user.as_str()),
        };
        let is_own = matches!(whose, Whose::User(user) if user == self.settings.user.as_str());
        self.watches_everybody.store(!is_own, Ordering::Relaxed);
        // Open jobs first: what was acknowledged before the queue is read must be in it.
        let open = if is_own { self.records().await?.open() } else { Vec::new() };
        let mut rows = match meant.is_empty() {
            true => self.seen_or_queue(whose).await?,
            false => self.rows_of_all(&mut meant).await?,
        };
        // 2. What has ended: where that is asked for, and of arrays that go on, how many.
        let is_final =
            |word: &str| ["done", "failed", "cancelled", "preempted", "unknown"].contains(&word);
        let wants_ended = filter.all || filter.state.as_deref().is_some_and(is_final);
        let (revision, now) = (revision(&rows), self.now());
        if meant.is_empty() {
            let arrays =
                if wants_ended { Vec::new() } else { self.incomplete_arrays(&rows).await? };
            if wants_ended || !arrays.is_empty() {
                merge(&mut rows, self.history(whose, &arrays).await, now);
            }
        }
        // 3. Views.
        let shows_ended = wants_ended || !meant.is_empty();
        if self.watches() {
            self.fill_devices(&mut rows).await;
        }
        self.complete(&mut rows, shows_ended).await?;
        let mut jobs = view::jobs(&rows, None);
        self.timeline.lock().expect("nobody panics with this lock").look(
            &jobs,
            meant.is_empty(),
            now,
        );
        match meant.is_empty() {
            true => jobs.extend(self.forgotten(open, &rows, &jobs).await?),
            false => jobs = self.of_meant(&meant, &rows, jobs).await?,
        }
        let matches = |job: &JobView| {
            (shows_ended || !job.state.is_final())
                && filter.state.as_deref().is_none_or(|state| job.state.word() == state)
                && filter.names(&job.name)
                && filter
                    .queue
                    .as_deref()
                    .is_none_or(|queue| queue.rsplit('/').next() == Some(job.queue.as_str()))
        };
        jobs.retain(matches);
        newest(&mut jobs, filter.limit.unwrap_or(ENDED));
        let matched = filter.first.map(|first| bound(&mut jobs, first as usize));
        Ok(JobList { now, revision, jobs, matched })
    }

    /// The views of jobs that were named, each under the number that it was named by.
    async fn of_meant(
        &self,
        meant: &[Meant],
        rows: &[NativeJob],
        mut jobs: Vec<JobView>,
    ) -> Result<Vec<JobView>> {
        let mut named = Vec::new();
        for one in meant {
            match jobs.iter().position(|job| job.job.0 == one.present) {
                Some(at) => named.push(JobView { job: one.asked, ..jobs.swap_remove(at) }),
                None => {
                    let record = one.record.clone();
                    let Some(record) = record else { continue };
                    named.push(self.absent(one.asked, &record, rows).await?);
                }
            }
        }
        Ok(named)
    }

    /// A job that was handed on, and that neither the controller nor, where it answers, the
    /// accounting knows.
    async fn absent(&self, asked: JobId, record: &Record, rows: &[NativeJob]) -> Result<JobView> {
        let records = self.records().await?;
        if records.noted_end(record).is_none()
            && let Some(number) = record.number
            && let Accounting::Silent(why) = self.accounted(&[number]).await
        {
            debug_assert!(
                !rows.iter().any(|row| row.muster_id() == Some(record.id.as_str())),
                "the controller knows it"
            );
            return Err(Refusal::unavailable(format!(
                "Slurm's controller does not know job {asked} any more, and the accounting does not answer: {why}"
            ))
            .hint("slurmdbd may be down: `sacctmgr ping` says; once it answers it says how the job ended"));
        }
        Ok(self.lost(&records, asked.0, record))
    }

    /// Arrays of which elements are not in the rows: the controller forgets those that ended a
    /// while ago.
    async fn incomplete_arrays(&self, rows: &[NativeJob]) -> Result<Vec<u64>> {
        let mut present: BTreeMap<u64, (u32, Option<&str>)> = BTreeMap::new();
        for row in rows {
            if let Some(array) = row.array {
                let (count, id) = present.entry(array).or_default();
                *count += view::elements_of(row);
                *id = id.or(row.muster_id());
            }
        }
        let records = if present.is_empty() { None } else { Some(self.records().await?) };
        let is_whole = |(count, id): &(u32, Option<&str>)| {
            let record = id.and_then(|id| records.as_ref()?.get(id));
            record.is_some_and(|record| *count >= record.elements)
        };
        Ok(present
            .into_iter()
            .filter(|(_, seen)| !is_whole(seen))
            .map(|(array, _)| array)
            .collect())
    }

    /// What was acknowledged and is known to no part of Slurm. That some of it was lost before it
    /// started is said.
    async fn forgotten(
        &self,
        open: Vec<Record>,
        rows: &[NativeJob],
        known: &[JobView],
    ) -> Result<Vec<JobView>> {
        let id = |job: &JobView| job.native.as_ref().and_then(|native| native.id.clone());
        let is_known =
            |record: &Record| known.iter().any(|job| id(job).as_ref() == Some(&record.id));
        let records = self.records().await?;
        let fates = self.fates(open, rows).await?;
        let lost: Vec<String> = fates
            .iter()
            .filter(|(_, fate)| *fate == Fate::Lost)
            .map(|(record, _)| format!("{} (muster:{})", record.name, record.id))
            .collect();
        if !lost.is_empty() && !self.watches() {
            (self.settings.warn)(&format!(
                "Slurm lost what it had accepted, before it started: {}; `muster requeue muster:ID` hands it on again, `muster cancel muster:ID` forgets it",
                lost.join(", ")
            ));
        }
        let unknown = fates.into_iter().filter(|(record, fate)| {
            matches!(fate, Fate::Lost | Fate::Started | Fate::Ended) && !is_known(record)
        });
        Ok(unknown
            .filter_map(|(record, _)| Some(self.lost(&records, record.number?, &record)))
            .collect())
    }

    /// What a watcher was just told of, else the queue.
    async fn seen_or_queue(&self, whose: Whose<'_>) -> Result<Vec<NativeJob>> {
        match self.just_seen() {
            Some(rows) => Ok(rows),
            None => self.queue(whose).await,
        }
    }

    /// Every row of the jobs that were named. For a client that waits for them, what Slurm lost is
    /// handed on again.
    async fn rows_of_all(&self, meant: &mut [Meant]) -> Result<Vec<NativeJob>> {
        let ids = |meant: &[Meant]| meant.iter().map(|one| one.present).collect::<Vec<u64>>();
        let mut rows = self.queue(Whose::Jobs(&ids(meant))).await?;
        if self.waits() {
            let records = self.records().await?;
            let open = meant
                .iter()
                .filter_map(|one| one.record.clone())
                .filter(|record| records.is_open(record));
            if self.keep_promises(open.collect(), &rows).await? {
                for one in meant.iter_mut() {
                    let id = one.record.as_ref().map(|record| record.id.clone());
                    one.record = id.and_then(|id| records.get(&id));
                    one.present =
                        one.record.as_ref().and_then(|record| record.number).unwrap_or(one.present);
                }
                rows = self.queue(Whose::Jobs(&ids(meant))).await?;
            }
        }
        let (mut found, now) = (Vec::new(), self.now());
        for one in meant.iter() {
            let mut own: Vec<NativeJob> = rows
                .iter()
                .filter(|row| row.job() == one.present || row.id == one.present)
                .cloned()
                .collect();
            self.own_rows(one, &mut own, false).await?;
            if self.needs_history(one, &own).await? {
                let history = self.history(Whose::All, &[one.present]).await;
                merge(&mut own, self.own_history(one, history).await?, now);
            }
            found.extend(own);
        }
        Ok(found)
    }

    /// True when the accounting has something to say of a job: the controller does not know all of
    /// it, or not by whom it was cancelled.
    async fn needs_history(&self, meant: &Meant, own: &[NativeJob]) -> Result<bool> {
        let is_cancelled =
            |row: &NativeJob| row.state.text() == "CANCELLED" && row.cancelled_by.is_none();
        Ok(own.is_empty()
            || own.iter().any(is_cancelled)
            || meant.record.as_ref().is_some_and(|record| record.elements > 1)
                && !self.incomplete_arrays(own).await?.is_empty()
            || meant.record.is_none() && own.iter().any(|row| row.array.is_some()))
    }

    /// What a watcher was just told of, for the list that it asks for then: no second question to
    /// Slurm.
    fn just_seen(&self) -> Option<Vec<NativeJob>> {
        let seen = self.seen.lock().expect("nobody panics with this lock").take();
        seen.filter(|(at, _)| at.elapsed() < self.settings.look_again).map(|(_, rows)| rows)
    }

    /// Every row of one job, and the record of it.
    pub(super) async fn rows_of(&self, job: JobId) -> Result<(Vec<NativeJob>, Option<Record>)> {
        let mut meant = [self.meant(job).await?];
        let mut rows = self.rows_of_all(&mut meant).await?;
        self.fill_devices(&mut rows).await;
        self.complete(&mut rows, true).await?;
        let record = self.record_of(&meant[0], &rows).await?;
        Ok((rows, record))
    }

    /// What Slurm's programs leave out: names of users that they give as numbers, and where tasks
    /// lie that are not spread evenly.
    async fn complete(&self, rows: &mut [NativeJob], shows_ended: bool) -> Result<()> {
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for row in rows.iter_mut() {
            if let Some(by) =
                row.cancelled_by.as_mut().filter(|by| by.bytes().all(|c| c.is_ascii_digit()))
            {
                if !names.contains_key(by) {
                    let name = self.tools().output("id", &["-nu", by]).await;
                    names.insert(
                        by.clone(),
                        name.map_or_else(|_| by.clone(), |name| name.trim().to_owned()),
                    );
                }
                by.clone_from(&names[by]);
            }
            let is_uneven = row.node_count > 0 && row.tasks % row.node_count != 0;
            if let Some(id) = row.muster_id().filter(|_| is_uneven && !row.nodes.is_empty()) {
                let dir = self.records().await?.dir(id);
                row.tasks_by_node = output::tasks_by_node(&dir, view::index(row));
            }
        }
        self.complete_codes(rows).await?;
        match shows_ended {
            true => self.look_at_steps(rows).await,
            false => Ok(()),
        }
    }

    /// Restores exit codes from 128 on: sacct takes 128 from them, so that 137 becomes 9. The
    /// script noted what it was.
    async fn complete_codes(&self, rows: &mut [NativeJob]) -> Result<()> {
        for row in
            rows.iter_mut().filter(|row| row.exit.signal == 0 && (1..128).contains(&row.exit.code))
        {
            let Some(id) = row.muster_id().map(str::to_owned) else { continue };
            let noted = self.records().await?.noted_code(&id, view::index(row));
            if let Some(noted) = noted.filter(|noted| noted - 128 == row.exit.code) {
                row.exit.code = noted;
            }
        }
        Ok(())
    }

    /// Slurm calls a job failed whose ranks ran out of memory: its steps say so.
    async fn look_at_steps(&self, rows: &mut [NativeJob]) -> Result<()> {
        let failed =
            rows.iter().filter(|row| row.state.text() == "FAILED" && row.muster_id().is_some());
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
        let ((rows, record), records) = (self.rows_of(job).await?, self.records().await?);
        if let Some(index) = index.filter(|_| !rows.is_empty()) {
            view::row_of(&rows, job, index)?;
        }
        let shown = view::jobs(&rows, Some(self.cluster().await?)).into_iter().next();
        let shown = match index {
            Some(index) => shown.map(|view| view::with_element(view, &rows, index)),
            None => shown,
        };
        let view = match (shown, &record) {
            (Some(mut view), Some(record)) => {
                saved::fill(&records, record, &mut view);
                view::with_roles(JobView { job, ..view }, &record.roles)
            }
            (Some(view), None) => JobView { job, ..view },
            (None, Some(record)) => self.absent(job, record, &rows).await?,
            (None, None) => return Err(self.unknown(job).await),
        };
        let element = index
            .unwrap_or_else(|| view.elements.first().map_or(0, |element| element.element.index));
        let logs = record
            .as_ref()
            .map(|record| output::files(&records.dir(&record.id), element))
            .unwrap_or_default();
        Ok(JobDetail {
            job: view,
            now: self.now(),
            commands: record.as_ref().map(|record| record.commands.clone()),
            files: record
                .as_ref()
                .map(|record| record.files.clone())
                .filter(|files| !files.is_empty()),
            workdir: record
                .map(|record| record.workdir)
                .or_else(|| Some(rows.first()?.workdir.clone())),
            logs: logs.iter().map(|path| path.display().to_string()).collect(),
            missing_output: Vec::new(),
            enforcement: Vec::new(),
        })
    }

    /// Why nothing is said of a number: there is no such job, or who would know does not answer.
    pub(super) async fn unknown(&self, job: JobId) -> Refusal {
        match self.accounted(&[job.0]).await {
            Accounting::Silent(why) => Refusal::unavailable(format!(
                "Slurm's controller knows no job {job}, and the accounting, which would know one that has ended, does not answer: {why}"
            ))
            .hint("slurmdbd may be down: `sacctmgr ping` says"),
            Accounting::Knows(_) | Accounting::Absent => Refusal::not_found(format!("Slurm knows no job {job}"))
                .hint("`muster ps -a` lists yours of the last days, `muster ps -u all` everybody's"),
        }
    }

    /// A job that was handed on, and that neither the controller nor the accounting knows.
    fn lost(&self, records: &Records, number: u64, record: &Record) -> JobView {
        let end = records.noted_end(record);
        let says = match records.has_started(&record.id) {
            true => "handed on to Slurm, which does not know it any more".to_owned(),
            false => format!(
                "lost by Slurm before it started; `muster requeue muster:{}` hands it on again",
                record.id
            ),
        };
        let (state, outcome) = match end {
            Some(0) => (State::Done, Outcome::Succeeded),
            Some(code) => {
                let says = format!(
                    "ended with {code}, as its script noted; Slurm does not know it any more"
                );
                (State::Failed, Outcome::Native { state: "".into(), says: says.into(), code })
            }
            None => (
                State::Unknown,
                Outcome::Native { state: "".into(), says: says.as_str().into(), code: 125 },
            ),
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
        let deadline =
            Instant::now() + Duration::from_secs(query.timeout_secs.unwrap_or(30).min(60));
        loop {
            let whose = match self.watches_everybody.load(Ordering::Relaxed) {
                true => Whose::All,
                false => Whose::User(self.settings.user.as_str()),
            };
            let rows = self.watched(whose).await?;
            let revision = revision(&rows);
            if query.after != Some(revision) || Instant::now() >= deadline || self.is_answered() {
                // The list that follows is of these rows.
                *self.seen.lock().expect("nobody panics with this lock") =
                    Some((Instant::now(), rows));
                return Ok(Changes { revision, now: self.now() });
            }
            tokio::time::sleep(self.settings.look_again).await;
        }
    }
}

/// What tells two looks at the queue apart. Rows in another order are the same queue: squeue sorts
/// them, slurmrestd does not.
fn revision(rows: &[NativeJob]) -> u64 {
    let mut rows: Vec<&NativeJob> = rows.iter().collect();
    rows.sort_by_key(|row| row.id);
    // The hasher has fixed keys: the same rows have the same number in every process.
    let mut hasher = DefaultHasher::new();
    for row in rows {
        (row.id, row.state.text(), row.restarts, &row.array_tasks, &row.reason, &row.nodes)
            .hash(&mut hasher);
    }
    hasher.finish()
}

/// Adds what the accounting knows: rows that the controller has forgotten, and who cancelled a job.
fn merge(rows: &mut Vec<NativeJob>, history: Vec<NativeJob>, now: Time) {
    let known: BTreeMap<u64, usize> =
        rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
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

/// Keeps the first rows: active jobs before waiting ones, and those before the newest that have
/// ended. Returns how many there were.
fn bound(jobs: &mut Vec<JobView>, first: usize) -> u64 {
    let matched = jobs.len();
    let rank = |place: usize| match jobs[place].state {
        State::Starting | State::Running | State::Stopping => (0, place),
        state if state.is_final() => (2, matched - place),
        _ => (1, place),
    };
    let mut kept: Vec<usize> = (0..matched).collect();
    kept.sort_by_key(|place| rank(*place));
    kept.truncate(first);
    kept.sort_unstable();
    let mut place = 0;
    jobs.retain(|_| {
        place += 1;
        kept.binary_search(&(place - 1)).is_ok()
    });
    matched as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_of_the_jobs_and_not_of_their_order() {
        let job = |id: u64, nodes: &str| NativeJob {
            id,
            nodes: nodes.to_owned(),
            ..NativeJob::default()
        };
        let rows = [job(7, "node1"), job(8, ""), job(9, "node2")];
        let [first, second, third] = rows.clone();
        assert_eq!(revision(&rows), revision(&[third.clone(), first.clone(), second]));
        assert_ne!(revision(&rows), revision(&[first, job(8, "node3"), third]));
    }
}
