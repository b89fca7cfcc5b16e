//! Lists of jobs and details of one job, from the controller (current jobs) and the accounting
//! (ended jobs).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use muster_api::query::{ChangesQuery, JobFilter};
use muster_api::types::{ChangesResponse, JobDetail, JobList};
use muster_model::view::{ElementView, JobState, JobView, NativeView};
use muster_model::{ElementId, JobId, Outcome, Span, Time};
use muster_slurm::job::{self, NativeJob};
use muster_slurm::state::NativeState;

use super::queue::{AccountingReply, JobSelection};
use super::reconcile::JobOutcome;
use super::record::{SubmissionRecord, SubmissionRecords};
use super::resolve::ResolvedJob;
use super::{RequestError, Result, SlurmScheduler, checkpoint, output, view};
use crate::route::now;

/// Value of the user filter that lists the jobs of all users; the default is the caller's own.
const ALL_USERS: &str = "all";

/// Default number of ended jobs in a list, as in the daemon.
const DEFAULT_ENDED_JOBS: u32 = 1000;

/// Age below which a job may be missing in an earlier answer: it can arrive between two queries.
const ARRIVAL_TOLERANCE: Span = Span::from_secs(60);

impl SlurmScheduler {
    /// Lists the jobs that a filter selects.
    pub(super) async fn list(&self, filter: &JobFilter) -> Result<JobList> {
        // 1. Select the rows.
        let asked = filter.ids.iter().flat_map(|ids| ids.split(','));
        let asked: Vec<JobId> = asked.filter_map(|id| id.trim().parse().ok().map(JobId)).collect();
        let mut resolved = Vec::new();
        for job in asked {
            resolved.push(self.resolve(job).await?);
        }
        let ids: Vec<u64> = resolved.iter().map(|one| one.present).collect();
        let selection = match filter.user.as_deref() {
            Some(ALL_USERS) => JobSelection::All,
            Some(user) => JobSelection::User(user),
            None if !ids.is_empty() => JobSelection::Jobs(&ids),
            None => JobSelection::User(self.settings.user.as_str()),
        };
        let is_own =
            matches!(selection, JobSelection::User(user) if user == self.settings.user.as_str());
        self.watches_all_users.store(!is_own, Ordering::Relaxed);
        // Records are read first: a job acknowledged before the queue is read must be in the queue.
        let open = if is_own { self.records().await?.open_jobs() } else { Vec::new() };
        let mut rows = if resolved.is_empty() {
            self.reported_or_queried(selection).await?
        } else {
            self.rows_of_all(&mut resolved).await?
        };
        // 2. Add ended jobs where they are requested, and counts of ended elements of open arrays.
        let is_final =
            |word: &str| ["done", "failed", "cancelled", "preempted", "unknown"].contains(&word);
        let wants_ended = filter.all || filter.state.as_deref().is_some_and(is_final);
        let revision = revision(&rows);
        let now = now();
        if resolved.is_empty() {
            let arrays =
                if wants_ended { Vec::new() } else { self.incomplete_arrays(&rows).await? };
            if wants_ended || !arrays.is_empty() {
                merge(&mut rows, self.history(selection, &arrays).await, now);
            }
        }
        // 3. Build the views.
        let shows_ended = wants_ended || !resolved.is_empty();
        if self.watches() {
            self.fill_devices(&mut rows).await;
        }
        self.complete(&mut rows, shows_ended).await?;
        let mut jobs = view::jobs(&rows, None);
        self.timeline.lock().expect("no thread panics while holding this lock").add_list(
            &jobs,
            resolved.is_empty(),
            now,
        );
        if resolved.is_empty() {
            jobs.extend(self.unknown_to_slurm(open, &rows, &jobs).await?)
        } else {
            jobs = self.named_views(&resolved, &rows, jobs).await?
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
        newest(&mut jobs, filter.limit.unwrap_or(DEFAULT_ENDED_JOBS));
        let matched = filter.first.map(|first| truncate(&mut jobs, first as usize));
        Ok(JobList { now, revision, jobs, matched })
    }

    /// Returns the views of jobs that were named, each under the number by which it was named.
    async fn named_views(
        &self,
        resolved: &[ResolvedJob],
        rows: &[NativeJob],
        mut jobs: Vec<JobView>,
    ) -> Result<Vec<JobView>> {
        let mut named = Vec::new();
        for one in resolved {
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

    /// Returns a submitted job that the controller does not have and, where it answers, the
    /// accounting neither.
    async fn absent(
        &self,
        asked: JobId,
        record: &SubmissionRecord,
        rows: &[NativeJob],
    ) -> Result<JobView> {
        let records = self.records().await?;
        if records.recorded_end(record).is_none()
            && let Some(number) = record.number
            && let AccountingReply::Silent(why) = self.accounted(&[number]).await
        {
            debug_assert!(
                !rows.iter().any(|row| row.muster_id() == Some(record.id.as_str())),
                "the controller has it"
            );
            return Err(RequestError::unavailable(format!(
                "Slurm's controller no longer has job {asked}, and the accounting does not answer: {why}"
            ))
            .hint("slurmdbd may be down: check with `sacctmgr ping`; the accounting has how the job ended"));
        }
        Ok(self.lost_view(&records, asked.0, record))
    }

    /// Returns arrays with elements missing in the rows: the controller forgets elements some
    /// minutes after their end.
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

    /// Returns acknowledged jobs that no part of Slurm has, and warns about those that were lost
    /// before they started.
    async fn unknown_to_slurm(
        &self,
        open: Vec<SubmissionRecord>,
        rows: &[NativeJob],
        known: &[JobView],
    ) -> Result<Vec<JobView>> {
        let id = |job: &JobView| job.native.as_ref().and_then(|native| native.id.clone());
        let is_known = |record: &SubmissionRecord| {
            known.iter().any(|job| id(job).as_ref() == Some(&record.id))
        };
        let records = self.records().await?;
        let fates = self.outcomes(open, rows).await?;
        let lost: Vec<String> = fates
            .iter()
            .filter(|(_, fate)| *fate == JobOutcome::Lost)
            .map(|(record, _)| format!("{} (muster:{})", record.name, record.id))
            .collect();
        if !lost.is_empty() && !self.watches() {
            (self.settings.warn)(&format!(
                "Slurm lost accepted jobs before they started: {}; `muster requeue muster:ID` resubmits one, `muster cancel muster:ID` drops it",
                lost.join(", ")
            ));
        }
        let unknown = fates.into_iter().filter(|(record, fate)| {
            matches!(fate, JobOutcome::Lost | JobOutcome::Started | JobOutcome::Ended)
                && !is_known(record)
        });
        Ok(unknown
            .filter_map(|(record, _)| Some(self.lost_view(&records, record.number?, &record)))
            .collect())
    }

    /// Returns the rows last reported to a watcher if there are any, else queries the queue.
    async fn reported_or_queried(&self, selection: JobSelection<'_>) -> Result<Vec<NativeJob>> {
        match self.take_last_reported() {
            Some(rows) => Ok(rows),
            None => self.queue(selection).await,
        }
    }

    /// Returns every row of the jobs that were named. For a client that waits for them, jobs that
    /// Slurm lost are resubmitted.
    async fn rows_of_all(&self, resolved: &mut [ResolvedJob]) -> Result<Vec<NativeJob>> {
        let ids =
            |resolved: &[ResolvedJob]| resolved.iter().map(|one| one.present).collect::<Vec<u64>>();
        let mut rows = self.queue(JobSelection::Jobs(&ids(resolved))).await?;
        if self.waits_for_jobs() {
            let records = self.records().await?;
            let open = resolved
                .iter()
                .filter_map(|one| one.record.clone())
                .filter(|record| records.is_open(record));
            if self.reconcile(open.collect(), &rows).await? {
                for one in resolved.iter_mut() {
                    let id = one.record.as_ref().map(|record| record.id.clone());
                    one.record = id.and_then(|id| records.get(&id));
                    one.present =
                        one.record.as_ref().and_then(|record| record.number).unwrap_or(one.present);
                }
                rows = self.queue(JobSelection::Jobs(&ids(resolved))).await?;
            }
        }
        let mut found = Vec::new();
        let now = now();
        for one in resolved.iter() {
            let mut own: Vec<NativeJob> = rows
                .iter()
                .filter(|row| row.job() == one.present || row.id == one.present)
                .cloned()
                .collect();
            self.retain_own_rows(one, &mut own, false).await?;
            if self.needs_history(one, &own).await? {
                let history = self.history(JobSelection::All, &[one.present]).await;
                merge(&mut own, self.own_history(one, history).await?, now);
            }
            found.extend(own);
        }
        Ok(found)
    }

    /// Returns whether the accounting is needed for a job: the controller does not have all of it,
    /// or not the user who cancelled it.
    async fn needs_history(&self, resolved: &ResolvedJob, own: &[NativeJob]) -> Result<bool> {
        let is_cancelled =
            |row: &NativeJob| row.state.text() == "CANCELLED" && row.cancelled_by.is_none();
        Ok(own.is_empty()
            || own.iter().any(is_cancelled)
            || resolved.record.as_ref().is_some_and(|record| record.elements > 1)
                && !self.incomplete_arrays(own).await?.is_empty()
            || resolved.record.is_none() && own.iter().any(|row| row.array.is_some()))
    }

    /// Takes the rows last reported to a watcher, for the list that it requests next, which saves a
    /// query.
    fn take_last_reported(&self) -> Option<Vec<NativeJob>> {
        let seen =
            self.last_reported.lock().expect("no thread panics while holding this lock").take();
        seen.filter(|(at, _)| at.elapsed() < self.settings.poll_interval).map(|(_, rows)| rows)
    }

    /// Returns every row of one job, and its record.
    pub(super) async fn rows_of(
        &self,
        job: JobId,
    ) -> Result<(Vec<NativeJob>, Option<SubmissionRecord>)> {
        let mut resolved = [self.resolve(job).await?];
        let mut rows = self.rows_of_all(&mut resolved).await?;
        self.fill_devices(&mut rows).await;
        self.complete(&mut rows, true).await?;
        let record = self.record_of(&resolved[0], &rows).await?;
        Ok((rows, record))
    }

    /// Fills in what Slurm's programs leave out: names of users given as numbers, and the nodes of
    /// tasks that are not spread evenly.
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
        if shows_ended { self.complete_from_steps(rows).await } else { Ok(()) }
    }

    /// Restores exit codes from 128 on from the script's own record: sacct subtracts 128, so that
    /// 137 becomes 9.
    async fn complete_codes(&self, rows: &mut [NativeJob]) -> Result<()> {
        for row in
            rows.iter_mut().filter(|row| row.exit.signal == 0 && (1..128).contains(&row.exit.code))
        {
            let Some(id) = row.muster_id().map(str::to_owned) else { continue };
            let noted = self.records().await?.recorded_code(&id, view::index(row));
            if let Some(noted) = noted.filter(|noted| noted - 128 == row.exit.code) {
                row.exit.code = noted;
            }
        }
        Ok(())
    }

    /// Marks jobs whose ranks ran out of memory: Slurm reports them as failed, and only the steps
    /// have the reason.
    async fn complete_from_steps(&self, rows: &mut [NativeJob]) -> Result<()> {
        let failed =
            rows.iter().filter(|row| row.state.text() == "FAILED" && row.muster_id().is_some());
        let failed: Vec<String> = failed.map(|row| row.id.to_string()).collect();
        if failed.is_empty() {
            return Ok(());
        }
        let numbers = failed.join(",");
        let format = format!("--format={}", job::STEP_FIELDS);
        let asked = ["--parsable2", "--noheader", "--jobs", &numbers, &format];
        // Without accounting there are no steps.
        let said = self.tools().output("sacct", &asked).await.unwrap_or_default();
        let steps: BTreeMap<u64, NativeState> = job::steps(&said).into_iter().collect();
        for row in rows.iter_mut() {
            if let Some(step) = steps.get(&row.id) {
                row.step = step.clone();
            }
        }
        Ok(())
    }

    /// Returns the details of one job.
    pub(super) async fn detail(&self, job: JobId, index: Option<u32>) -> Result<JobDetail> {
        let (rows, record) = self.rows_of(job).await?;
        let records = self.records().await?;
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
                checkpoint::fill(&records, record, &mut view);
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
        let has_ray = record.as_ref().is_some_and(|record| record.has_ray);
        let is_sweep = record.as_ref().is_some_and(|record| record.sweep.is_some());
        Ok(JobDetail {
            job: view,
            now: now(),
            commands: record.as_ref().map(|record| record.commands.clone()),
            files: record
                .as_ref()
                .map(|record| record.files.clone())
                .filter(|files| !files.is_empty()),
            environment: record
                .as_ref()
                .map(|record| record.environment.clone())
                .filter(|environment| !environment.is_empty()),
            workdir: record
                .map(|record| record.workdir)
                .or_else(|| Some(rows.first()?.workdir.clone())),
            logs: logs.iter().map(|path| path.display().to_string()).collect(),
            missing_output: Vec::new(),
            has_ray,
            is_sweep,
            idle_since: None,
            gpu_use: None,
            notices: Vec::new(),
            enforcement: Vec::new(),
        })
    }

    /// Returns the error for a job number without rows: there is no such job, or the accounting
    /// does not answer.
    pub(super) async fn unknown(&self, job: JobId) -> RequestError {
        match self.accounted(&[job.0]).await {
            AccountingReply::Silent(why) => RequestError::unavailable(format!(
                "Slurm's controller has no job {job}, and the accounting, which has ended jobs, does not answer: {why}"
            ))
            .hint("slurmdbd may be down: check with `sacctmgr ping`"),
            AccountingReply::Rows(_) | AccountingReply::Absent => RequestError::not_found(format!("Slurm has no job {job}"))
                .hint("`muster ps -a` lists your jobs of the last days, `muster ps -u all` those of all users"),
        }
    }

    /// Returns the view of a submitted job that neither the controller nor the accounting has.
    fn lost_view(
        &self,
        records: &SubmissionRecords,
        number: u64,
        record: &SubmissionRecord,
    ) -> JobView {
        let end = records.recorded_end(record);
        let says = if records.has_started(&record.id) {
            "submitted, but Slurm no longer has it".to_owned()
        } else {
            format!(
                "lost by Slurm before it started; `muster requeue muster:{}` resubmits it",
                record.id
            )
        };
        let (state, outcome) = match end {
            Some(0) => (JobState::Done, Outcome::Succeeded),
            Some(code) => {
                let says =
                    format!("ended with {code}, as its script recorded; Slurm no longer has it");
                (JobState::Failed, Outcome::Native { state: "".into(), message: says.into(), code })
            }
            None => (
                JobState::Unknown,
                Outcome::Native { state: "".into(), message: says.as_str().into(), code: 125 },
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
            name: None,
        };
        let user = self.settings.user.clone();
        JobView {
            elements: vec![element],
            native: Some(native),
            ..JobView::blank(JobId(number), record.name.clone(), user, state, record.submitted)
        }
    }

    /// Waits until the queue has changed.
    pub(super) async fn changes(&self, query: ChangesQuery) -> Result<ChangesResponse> {
        let deadline =
            Instant::now() + Duration::from_secs(query.timeout_secs.unwrap_or(30).min(60));
        loop {
            let selection = if self.watches_all_users.load(Ordering::Relaxed) {
                JobSelection::All
            } else {
                JobSelection::User(self.settings.user.as_str())
            };
            let rows = self.queue_for_watcher(selection).await?;
            let revision = revision(&rows);
            if query.after != Some(revision) || Instant::now() >= deadline || self.is_acknowledged()
            {
                // The list that the watcher requests next uses these rows.
                *self.last_reported.lock().expect("no thread panics while holding this lock") =
                    Some((Instant::now(), rows));
                return Ok(ChangesResponse { revision, now: now() });
            }
            tokio::time::sleep(self.settings.poll_interval).await;
        }
    }
}

/// Returns a hash that identifies the state of the queue, independent of the order of rows: squeue
/// sorts them, slurmrestd does not.
fn revision(rows: &[NativeJob]) -> u64 {
    let mut rows: Vec<&NativeJob> = rows.iter().collect();
    rows.sort_by_key(|row| row.id);
    // The hasher has fixed keys: the same rows have the same hash in every process.
    let mut hasher = DefaultHasher::new();
    for row in rows {
        (row.id, row.state.text(), row.restarts, &row.array_tasks, &row.reason, &row.nodes)
            .hash(&mut hasher);
    }
    hasher.finish()
}

/// Adds rows of the accounting: jobs that the controller has forgotten, and who cancelled a job.
fn merge(rows: &mut Vec<NativeJob>, history: Vec<NativeJob>, now: Time) {
    let known: BTreeMap<u64, usize> =
        rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
    for mut old in history {
        // A job that arrived after the query of the controller is not a lost one.
        let is_settled =
            old.submitted.is_some_and(|submitted| now.since(submitted) > ARRIVAL_TOLERANCE);
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

/// Keeps all jobs that have not ended, and the newest of the rest.
fn newest(jobs: &mut Vec<JobView>, limit: u32) {
    let ended = jobs.iter().filter(|job| job.state.is_final()).count();
    let mut over = ended.saturating_sub(limit as usize);
    jobs.retain(|job| {
        let is_dropped = over > 0 && job.state.is_final();
        over -= usize::from(is_dropped);
        !is_dropped
    });
}

/// Truncates the list to the first rows: running jobs, then pending ones, then the newest ended
/// ones. Returns the number of rows before.
fn truncate(jobs: &mut Vec<JobView>, first: usize) -> u64 {
    let matched = jobs.len();
    let rank = |place: usize| match jobs[place].state {
        JobState::Starting | JobState::Running | JobState::Stopping => (0, place),
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
