//! What can be done to a job, with the program that Slurm has for it.

use muster_api::Answer;
use muster_api::query::AttachQuery;
use muster_api::types::{ActionRequest, ActionResponse};
use muster_backends::slurm::job::NativeJob;
use muster_backends::slurm::tool::ToolError;
use muster_model::view::{State, TaskView};
use muster_model::{JobId, Span};

use super::queue::Whose;
use super::record::Record;
use super::{Refusal, Result, Slurm, named, view};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Cancel,
    Hold,
    Release,
    Requeue,
    Checkpoint,
}

/// What something is done to.
#[derive(Clone, Copy, Debug)]
struct Aim<'a> {
    /// The number that people use.
    job: JobId,
    /// The one that it has now.
    present: u64,
    /// One element, or all.
    index: Option<u32>,
    /// What is kept of it.
    record: Option<&'a Record>,
    /// What the controller knows of it.
    rows: &'a [NativeJob],
}

/// How long Slurm's credentials last where `AuthInfo` says nothing (slurm.conf(5), `cred_expire`).
const CREDENTIAL_LIFE: Span = Span::from_secs(120);

impl Slurm {
    /// Does it to a job, or to one element.
    pub(super) async fn act(
        &self,
        job: JobId,
        request: ActionRequest,
        verb: Verb,
    ) -> Result<ActionResponse> {
        // Slurm gives numbers away: what is done is done to the job that was meant, or not at all.
        let meant = self.meant(job).await?;
        let rows = self.present_rows(&meant).await?;
        let record = self.record_of(&meant, &rows).await?;
        let present = meant.present;
        if let Some(index) = request.index {
            self.has_element(job, &rows, index).await?;
        }
        let aim = Aim { job, present, index: request.index, record: record.as_ref(), rows: &rows };
        match verb {
            Verb::Hold | Verb::Release => self.hold(aim, verb).await,
            Verb::Checkpoint => self.checkpoint(job, request.index, record.as_ref()).await,
            Verb::Cancel => self.cancel(aim).await,
            Verb::Requeue => self.requeue(aim).await,
        }
    }

    async fn cancel(&self, aim: Aim<'_>) -> Result<ActionResponse> {
        let Aim { job, present, index, record, rows } = aim;
        if rows.is_empty() || named::is_over(rows) {
            return self.cancel_absent(aim).await;
        }
        self.told(job, Verb::Cancel, "scancel", &[&element(present, index)]).await?;
        // What was cancelled is not looked for any more: nobody hands it on again.
        if let (None, Some(record)) = (index, record) {
            self.records().await?.close(&record.id);
        }
        Ok(ActionResponse { message: "cancelled".to_owned() })
    }

    /// Of a job that the controller does not know, or that has ended: scancel would say nothing.
    async fn cancel_absent(&self, aim: Aim<'_>) -> Result<ActionResponse> {
        let Aim { job, record, rows, .. } = aim;
        let known = match rows.is_empty() {
            false => rows.to_vec(),
            true => self.rows_of(job).await?.0,
        };
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
            message: "Slurm does not know it any more; it is not handed on again".to_owned(),
        })
    }

    async fn requeue(&self, aim: Aim<'_>) -> Result<ActionResponse> {
        let Aim { job, present, index, record, rows } = aim;
        if let (Some(record), true) = (record, rows.is_empty()) {
            let number = self.hand_on_again(record).await?;
            return Ok(ActionResponse {
                message: format!("Slurm had lost it; handed on again as job {number}"),
            });
        }
        self.told(job, Verb::Requeue, "scontrol", &["requeue", &element(present, index)]).await?;
        if let Some(record) = record {
            self.records().await?.run_again(record, index);
        }
        let wait = self.tools().output("scontrol", &["show", "config"]).await.ok();
        let wait = wait.map_or(String::new(), |config| {
            format!("; Slurm waits {} before it starts again", credential_life(&config))
        });
        Ok(ActionResponse { message: format!("queued again{wait}") })
    }

    /// Holds or releases what waits, and nothing else: Slurm would take a running job's eligible
    /// time away, without which its accounting does not list it.
    async fn hold(&self, aim: Aim<'_>, verb: Verb) -> Result<ActionResponse> {
        let Aim { job, present, index, .. } = aim;
        // 1. What of it waits.
        let mut rows = aim.rows.to_vec();
        if index.is_none() && rows.iter().any(is_cut) {
            rows = self.in_full(Whose::Jobs(&[present])).await?;
        }
        rows.retain(|row| index.is_none_or(|index| view::stands_for(row, index)));
        let state = |row: &NativeJob| row.state.state(row.is_held());
        let waits = |row: &&NativeJob| matches!(state(row), State::Pending | State::Held);
        let mut targets: Vec<String> = match index {
            Some(index) => {
                rows.iter().filter(waits).map(|_| element(present, Some(index))).collect()
            }
            None => rows.iter().filter(waits).map(|row| waiting(present, row)).collect(),
        };
        targets.dedup();
        if targets.is_empty() {
            let named =
                index.map_or_else(|| format!("job {job}"), |index| format!("{job}[{index}]"));
            return match rows.iter().find(|row| !state(row).is_final()) {
                Some(_) => Err(Refusal::refused(format!(
                    "{named} holds resources; only what waits can be held"
                ))
                .hint("cancel or requeue it instead")),
                None if rows.is_empty() => match self.rows_of(job).await?.0.is_empty() {
                    false => Err(over(&named)),
                    true => Err(self.unknown(job).await),
                },
                None => Err(over(&named)),
            };
        }
        // 2. That.
        let (word, said) =
            if verb == Verb::Hold { ("hold", "held") } else { ("release", "released") };
        for target in &targets {
            self.told(job, verb, "scontrol", &[word, target]).await?;
        }
        Ok(ActionResponse { message: said.to_owned() })
    }

    /// Runs one of Slurm's programs on a job.
    pub(super) async fn told(
        &self,
        job: JobId,
        verb: Verb,
        program: &str,
        args: &[&str],
    ) -> Result<()> {
        match self.tools().output(program, args).await {
            Ok(_) => Ok(()),
            Err(ToolError::Failed { message, .. }) => Err(refusal(job, verb, &message)),
            Err(error) => Err(error.into()),
        }
    }

    /// Slurm's programs take an element that is not there for done.
    async fn has_element(&self, job: JobId, rows: &[NativeJob], index: u32) -> Result<()> {
        if rows.iter().any(|row| view::stands_for(row, index)) {
            return Ok(());
        }
        // It may have ended a while ago.
        let (rows, _) = self.rows_of(job).await?;
        if !rows.is_empty() {
            view::row_of(&rows, job, index)?;
        }
        Ok(())
    }

    /// A terminal beside a rank: a step of its own on the rank's node, in the job's allocation. The
    /// program follows.
    pub(super) async fn terminal(&self, job: JobId, query: AttachQuery) -> Result<Answer> {
        let rows = self.running(job, query.index).await?;
        let mut tasks = tasks(&rows).into_iter();
        let rank = query.rank.unwrap_or(0);
        let Some(task) = tasks.find(|task| task.rank.0 == rank) else {
            return Err(Refusal::not_found(format!(
                "job {job} has no rank {rank}, or Slurm does not say where it is"
            )));
        };
        let (number, node) = (allocation(&rows[0]), format!("--nodelist={}", task.node));
        let mut args = vec![number.as_str(), "--overlap", "--nodes=1", "--ntasks=1", &node];
        let group = task.group.strip_prefix("part-").map(|at| format!("--het-group={at}"));
        args.extend(group.as_deref());
        args.push("--pty");
        Ok(Answer::Terminal(self.tools().command("srun", &args)))
    }

    /// Steps beside the ranks, with one task on each node of the job: one step for each component.
    pub(super) async fn everywhere(
        &self,
        job: JobId,
        index: Option<u32>,
        program: &[String],
    ) -> Result<Vec<Vec<String>>> {
        let rows = self.running(job, index).await?;
        let step = |row: &NativeJob| {
            let (number, nodes) = (allocation(row), format!("--nodes={}", row.node_count.max(1)));
            let group = row.component.map(|(_, at)| format!("--het-group={at}"));
            let mut args = vec![number.as_str(), "--overlap", "--ntasks-per-node=1", &nodes];
            args.extend(group.as_deref());
            args.extend(program.iter().map(String::as_str));
            self.tools().command("srun", &args)
        };
        Ok(rows.iter().map(step).collect())
    }

    /// The rows of an element that runs: one, or those of a heterogeneous job's components.
    async fn running(&self, job: JobId, index: Option<u32>) -> Result<Vec<NativeJob>> {
        let runs = |row: &NativeJob| row.state.state(false) == State::Running;
        let wanted = |row: &NativeJob| index.is_none_or(|index| view::index(row) == index);
        let (mut rows, _) = self.rows_of(job).await?;
        rows.retain(|row| runs(row) && wanted(row));
        match rows.first() {
            None => Err(Refusal::refused(format!("job {job} does not run"))
                .hint(format!("`muster explain {job}` says why"))),
            Some(row) if row.component.is_none() => {
                rows.truncate(1);
                Ok(rows)
            }
            Some(_) => Ok(rows),
        }
    }
}

/// A job, or one of its elements, as Slurm's programs take it.
pub(super) fn element(job: u64, index: Option<u32>) -> String {
    index.map_or_else(|| job.to_string(), |index| format!("{job}_{index}"))
}

/// Not every index is named of what a row stands for: nothing can be told by such a list.
fn is_cut(row: &NativeJob) -> bool {
    row.array_tasks.contains("...")
}

/// What a row stands for that waits: by the number of its array alone, all of that would be meant.
fn waiting(present: u64, row: &NativeJob) -> String {
    let ranges = row.array_tasks.split('%').next().unwrap_or_default();
    match row.array {
        Some(_) if !ranges.is_empty() => format!("{present}_[{ranges}]"),
        _ => present.to_string(),
    }
}

/// What is queued again starts only when the credentials of its last start are void: until then a
/// node that did not hear of its end could take it for that.
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

fn over(named: &str) -> Refusal {
    Refusal::refused(format!("{named} has ended")).hint("requeue it to run it again")
}

fn tasks(rows: &[NativeJob]) -> Vec<TaskView> {
    let views = view::jobs(rows, None);
    views.into_iter().flat_map(|job| job.elements).flat_map(|element| element.tasks).collect()
}

/// The allocation of an element, as srun is told; of a heterogeneous job its first component's.
fn allocation(row: &NativeJob) -> String {
    format!("--jobid={}", row.component.map_or(row.id, |(first, _)| first))
}

/// What Slurm says, with what to do.
pub(super) fn refusal(job: JobId, verb: Verb, message: &str) -> Refusal {
    match message {
        _ if message.contains("Invalid job id") => {
            Refusal::not_found(format!("Slurm's controller knows no job {job}"))
                .hint("it forgets jobs some minutes after their end; `muster ps -a` lists them")
        }
        _ if message.contains("already completing or completed") => {
            Refusal::refused(format!("job {job} has ended already"))
        }
        _ if message.contains("Access/permission denied") => {
            Refusal::refused(format!("job {job} is not yours"))
        }
        _ if message.contains("Requested operation is presently disabled")
            && verb == Verb::Requeue =>
        {
            Refusal::refused(format!("job {job} was submitted so that it is not queued again"))
                .hint("`slurm: {requeue: true}` in the job allows it")
        }
        _ if message.contains("Job is no longer pending") => {
            Refusal::refused(format!("job {job} waits no longer"))
                .hint("cancel or requeue it instead")
        }
        _ => Refusal::refused(message),
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
                view::stands_for(&row(tasks), inside) && !view::stands_for(&row(tasks), outside),
                "{tasks}"
            );
        }
        assert_eq!(waiting(7, &row("4-199%32")), "7_[4-199]");
        assert_eq!(waiting(7, &NativeJob::default()), "7");
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
