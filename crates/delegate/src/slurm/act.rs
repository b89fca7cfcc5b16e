//! Actions on jobs (cancel, hold, release, requeue, attach), each through the Slurm command for it.

use crate::slurm::tool::ToolError;
use muster_api::RouteResponse;
use muster_api::query::AttachQuery;
use muster_api::types::{ActionRequest, ActionResponse};
use muster_model::view::{JobState, TaskView};
use muster_model::{JobId, Span};
use muster_slurm::job::NativeJob;

use super::queue::JobSelection;
use super::record::SubmissionRecord;
use super::{RequestError, Result, SlurmScheduler, reconcile, view};

/// Action on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlurmAction {
    Cancel,
    Hold,
    Release,
    Requeue,
    Checkpoint,
}

/// Target of an action.
#[derive(Clone, Copy, Debug)]
struct ActionTarget<'a> {
    /// Job number as the user gave it.
    job: JobId,
    /// Job number that the job has now.
    present: u64,
    /// Array element; `None` means the whole job.
    index: Option<u32>,
    /// Muster's record of the submission, if any.
    record: Option<&'a SubmissionRecord>,
    /// Rows of the controller for the job.
    rows: &'a [NativeJob],
}

/// Lifetime of Slurm's credentials where `AuthInfo` sets none (slurm.conf(5), `cred_expire`).
const CREDENTIAL_LIFE: Span = Span::from_secs(120);

impl SlurmScheduler {
    /// Performs an action on a job, or on one of its elements.
    pub(super) async fn act(
        &self,
        job: JobId,
        request: ActionRequest,
        verb: SlurmAction,
    ) -> Result<ActionResponse> {
        // Slurm reuses job numbers: the action is done to the job that the user meant, or not at
        // all.
        let resolved = self.resolve(job).await?;
        let rows = self.present_rows(&resolved).await?;
        let record = self.record_of(&resolved, &rows).await?;
        let present = resolved.present;
        if let Some(index) = request.index {
            self.has_element(job, &rows, index).await?;
        }
        let aim = ActionTarget {
            job,
            present,
            index: request.index,
            record: record.as_ref(),
            rows: &rows,
        };
        match verb {
            SlurmAction::Hold | SlurmAction::Release => self.hold(aim, verb).await,
            SlurmAction::Checkpoint => self.checkpoint(job, request.index, record.as_ref()).await,
            SlurmAction::Cancel => self.cancel(aim).await,
            SlurmAction::Requeue => self.requeue(aim).await,
        }
    }

    async fn cancel(&self, aim: ActionTarget<'_>) -> Result<ActionResponse> {
        let ActionTarget { job, present, index, record, rows } = aim;
        if rows.is_empty() || reconcile::have_ended(rows) {
            return self.cancel_absent(aim).await;
        }
        self.run_on_job(job, SlurmAction::Cancel, "scancel", &[&element(present, index)]).await?;
        // A cancelled job must not be resubmitted by the reconciliation.
        if let (None, Some(record)) = (index, record) {
            self.records().await?.close(&record.id);
        }
        Ok(ActionResponse { message: "cancelled".to_owned() })
    }

    /// Cancels a job that the controller has forgotten or that has ended: scancel would report
    /// nothing.
    async fn cancel_absent(&self, aim: ActionTarget<'_>) -> Result<ActionResponse> {
        let ActionTarget { job, record, rows, .. } = aim;
        let known = if rows.is_empty() { self.rows_of(job).await?.0 } else { rows.to_vec() };
        if let Some(state) =
            view::jobs(&known, None).first().map(|view| view.state).filter(|state| state.is_final())
        {
            if let Some(record) = record {
                self.records().await?.close(&record.id);
            }
            return Ok(ActionResponse {
                message: format!("job {job} had already ended: {}", state.word()),
            });
        }
        let Some(record) = record else { return Err(self.unknown(job).await) };
        self.records().await?.close(&record.id);
        Ok(ActionResponse {
            message: "Slurm no longer has the job; it will not be resubmitted".to_owned(),
        })
    }

    async fn requeue(&self, aim: ActionTarget<'_>) -> Result<ActionResponse> {
        let ActionTarget { job, present, index, record, rows } = aim;
        if let (Some(record), true) = (record, rows.is_empty()) {
            let number = self.resubmit_on_request(record).await?;
            return Ok(ActionResponse {
                message: format!("Slurm had lost the job; resubmitted as job {number}"),
            });
        }
        self.run_on_job(
            job,
            SlurmAction::Requeue,
            "scontrol",
            &["requeue", &element(present, index)],
        )
        .await?;
        if let Some(record) = record {
            self.records().await?.permit_restart(record, index);
        }
        let wait = self.tools().output("scontrol", &["show", "config"]).await.ok();
        let wait = wait.map_or(String::new(), |config| {
            format!("; Slurm waits {} before it starts again", credential_life(&config))
        });
        Ok(ActionResponse { message: format!("queued again{wait}") })
    }

    /// Holds or releases only pending parts of a job: holding a running job would clear its
    /// eligible time, and without that the accounting does not list it.
    async fn hold(&self, aim: ActionTarget<'_>, verb: SlurmAction) -> Result<ActionResponse> {
        let ActionTarget { job, present, index, .. } = aim;
        // 1. Select the pending rows.
        let mut rows = aim.rows.to_vec();
        if index.is_none() && rows.iter().any(is_truncated) {
            rows = self.queue_with_all_indices(JobSelection::Jobs(&[present])).await?;
        }
        rows.retain(|row| index.is_none_or(|index| view::includes_element(row, index)));
        let state = |row: &NativeJob| row.state.state(row.is_held());
        let waits = |row: &&NativeJob| matches!(state(row), JobState::Pending | JobState::Held);
        let mut targets: Vec<String> = match index {
            Some(index) => {
                rows.iter().filter(waits).map(|_| element(present, Some(index))).collect()
            }
            None => rows.iter().filter(waits).map(|row| pending_elements(present, row)).collect(),
        };
        targets.dedup();
        if targets.is_empty() {
            let named =
                index.map_or_else(|| format!("job {job}"), |index| format!("{job}[{index}]"));
            return match rows.iter().find(|row| !state(row).is_final()) {
                Some(_) => Err(RequestError::refused(format!(
                    "{named} holds resources; only pending jobs can be held"
                ))
                .hint("cancel or requeue it instead")),
                None if rows.is_empty() => {
                    if self.rows_of(job).await?.0.is_empty() {
                        Err(self.unknown(job).await)
                    } else {
                        Err(has_ended_error(&named))
                    }
                }
                None => Err(has_ended_error(&named)),
            };
        }
        // 2. Hold or release them.
        let (word, said) =
            if verb == SlurmAction::Hold { ("hold", "held") } else { ("release", "released") };
        for target in &targets {
            self.run_on_job(job, verb, "scontrol", &[word, target]).await?;
        }
        Ok(ActionResponse { message: said.to_owned() })
    }

    /// Runs one of Slurm's programs on a job.
    pub(super) async fn run_on_job(
        &self,
        job: JobId,
        verb: SlurmAction,
        program: &str,
        args: &[&str],
    ) -> Result<()> {
        match self.tools().output(program, args).await {
            Ok(_) => Ok(()),
            Err(ToolError::Failed { message, .. }) => Err(action_error(job, verb, &message)),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks that the element exists: Slurm's programs report success for one that does not.
    async fn has_element(&self, job: JobId, rows: &[NativeJob], index: u32) -> Result<()> {
        if rows.iter().any(|row| view::includes_element(row, index)) {
            return Ok(());
        }
        // The element may have ended and been forgotten by the controller.
        let (rows, _) = self.rows_of(job).await?;
        if !rows.is_empty() {
            view::row_of(&rows, job, index)?;
        }
        Ok(())
    }

    /// Opens a terminal beside a rank: a step on the rank's node, inside the job's allocation. The
    /// program follows as the last arguments.
    pub(super) async fn terminal(&self, job: JobId, query: AttachQuery) -> Result<RouteResponse> {
        let rows = self.running(job, query.index).await?;
        let mut tasks = tasks(&rows).into_iter();
        let rank = query.rank.unwrap_or(0);
        let Some(task) = tasks.find(|task| task.rank.0 == rank) else {
            return Err(RequestError::not_found(format!(
                "job {job} has no rank {rank}, or Slurm does not say where it is"
            )));
        };
        let number = allocation(&rows[0]);
        let node = format!("--nodelist={}", task.node);
        let mut args = vec![number.as_str(), "--overlap", "--nodes=1", "--ntasks=1", &node];
        let group = task.group.strip_prefix("part-").map(|at| format!("--het-group={at}"));
        args.extend(group.as_deref());
        args.push("--pty");
        Ok(RouteResponse::Terminal(self.tools().command("srun", &args)))
    }

    /// Runs a program beside the ranks, one task per node: one step for each component of the job.
    pub(super) async fn run_on_each_node(
        &self,
        job: JobId,
        index: Option<u32>,
        program: &[String],
    ) -> Result<Vec<Vec<String>>> {
        let rows = self.running(job, index).await?;
        let step = |row: &NativeJob| {
            let number = allocation(row);
            let nodes = format!("--nodes={}", row.node_count.max(1));
            let group = row.component.map(|(_, at)| format!("--het-group={at}"));
            let mut args = vec![number.as_str(), "--overlap", "--ntasks-per-node=1", &nodes];
            args.extend(group.as_deref());
            args.extend(program.iter().map(String::as_str));
            self.tools().command("srun", &args)
        };
        Ok(rows.iter().map(step).collect())
    }

    /// Returns the rows of a running element: one, or one for each component of a heterogeneous
    /// job.
    async fn running(&self, job: JobId, index: Option<u32>) -> Result<Vec<NativeJob>> {
        let runs = |row: &NativeJob| row.state.state(false) == JobState::Running;
        let wanted = |row: &NativeJob| index.is_none_or(|index| view::index(row) == index);
        let (mut rows, _) = self.rows_of(job).await?;
        rows.retain(|row| runs(row) && wanted(row));
        match rows.first() {
            None => Err(RequestError::refused(format!("job {job} is not running"))
                .hint(format!("see `muster explain {job}`"))),
            Some(row) if row.component.is_none() => {
                rows.truncate(1);
                Ok(rows)
            }
            Some(_) => Ok(rows),
        }
    }
}

/// Formats a job, or one of its elements, as Slurm's programs take it.
pub(super) fn element(job: u64, index: Option<u32>) -> String {
    index.map_or_else(|| job.to_string(), |index| format!("{job}_{index}"))
}

/// Returns whether the index list of a row is truncated: it cannot name the elements then.
fn is_truncated(row: &NativeJob) -> bool {
    row.array_tasks.contains("...")
}

/// Names the pending elements of a row: the array's number alone would name all of its elements.
fn pending_elements(present: u64, row: &NativeJob) -> String {
    let ranges = row.array_tasks.split('%').next().unwrap_or_default();
    match row.array {
        Some(_) if !ranges.is_empty() => format!("{present}_[{ranges}]"),
        _ => present.to_string(),
    }
}

/// Returns how long a requeued job waits: until the credentials of its last start have expired, as
/// a node that missed the end of the job could take the new start for the old one.
fn credential_life(config: &str) -> Span {
    let info = config
        .lines()
        .find_map(|line| line.strip_prefix("AuthInfo")?.split_once('='))
        .map(|(_, info)| info);
    let parts = info.into_iter().flat_map(|info| info.split(','));
    let secs =
        parts.filter_map(|part| part.trim().strip_prefix("cred_expire=")?.parse().ok()).next();
    secs.map_or(CREDENTIAL_LIFE, Span::from_secs)
}

fn has_ended_error(named: &str) -> RequestError {
    RequestError::refused(format!("{named} has ended")).hint("requeue it to run it again")
}

fn tasks(rows: &[NativeJob]) -> Vec<TaskView> {
    let views = view::jobs(rows, None);
    views.into_iter().flat_map(|job| job.elements).flat_map(|element| element.tasks).collect()
}

/// Returns the allocation of an element as srun takes it; of a heterogeneous job that of the first
/// component.
fn allocation(row: &NativeJob) -> String {
    format!("--jobid={}", row.component.map_or(row.id, |(first, _)| first))
}

/// Turns a message of Slurm into an error with a next step.
pub(super) fn action_error(job: JobId, verb: SlurmAction, message: &str) -> RequestError {
    match message {
        _ if message.contains("Invalid job id") => {
            RequestError::not_found(format!("Slurm's controller has no job {job}"))
                .hint("it forgets jobs some minutes after their end; `muster ps -a` lists them")
        }
        _ if message.contains("already completing or completed") => {
            RequestError::refused(format!("job {job} has already ended"))
        }
        _ if message.contains("Access/permission denied") => {
            RequestError::refused(format!("job {job} is not yours"))
        }
        _ if message.contains("Requested operation is presently disabled")
            && verb == SlurmAction::Requeue =>
        {
            RequestError::refused(format!("job {job} was submitted with --no-requeue"))
                .hint("`slurm: {requeue: true}` in the job allows it")
        }
        _ if message.contains("Job is no longer pending") => {
            RequestError::refused(format!("job {job} is no longer pending"))
                .hint("cancel or requeue it instead")
        }
        _ => RequestError::refused(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_row_are_told_by_their_indices() {
        let row = |tasks: &str| NativeJob {
            array: Some(7),
            array_tasks: tasks.to_owned(),
            ..NativeJob::default()
        };
        for (tasks, inside, outside) in
            [("3", 3, 4), ("4-199%32", 199, 200), ("1,3-5", 4, 2), ("1-9:2", 9, 4)]
        {
            assert!(
                view::includes_element(&row(tasks), inside)
                    && !view::includes_element(&row(tasks), outside),
                "{tasks}"
            );
        }
        assert_eq!(pending_elements(7, &row("4-199%32")), "7_[4-199]");
        assert_eq!(pending_elements(7, &NativeJob::default()), "7");
    }

    #[test]
    fn what_is_queued_again_waits_as_long_as_credentials_last() {
        let config = |info: &str| {
            format!("AuthAltTypes = auth/jwt\nAuthInfo                = {info}\nAuthType = x\n")
        };
        for (info, secs) in
            [("(null)", 120), ("socket=/run/m,cred_expire=5", 5), ("cred_expire=300,ttl=9", 300)]
        {
            assert_eq!(credential_life(&config(info)), Span::from_secs(secs), "{info}");
        }
    }
}
