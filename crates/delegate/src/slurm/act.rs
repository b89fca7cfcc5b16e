//! What can be done to a job, with the program that Slurm has for it.

use muster_api::Answer;
use muster_api::query::AttachQuery;
use muster_api::types::{ActionRequest, ActionResponse};
use muster_backends::slurm::job::NativeJob;
use muster_backends::slurm::state::NativeState;
use muster_backends::slurm::tool::ToolError;
use muster_model::JobId;
use muster_model::view::{State, TaskView};

use super::queue::Whose;
use super::record::Record;
use super::{Refusal, Result, Slurm, view};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Cancel,
    Hold,
    Release,
    Requeue,
    Checkpoint,
}

/// The signal that asks for a checkpoint where a job says none.
const USR1: i32 = 10;

impl Slurm {
    /// Does it to a job, or to one element.
    pub(super) async fn act(&self, job: JobId, request: ActionRequest, verb: Verb) -> Result<ActionResponse> {
        // A number that Slurm gave away again stands for the job that it was acknowledged for.
        let present = self.present(&[job.0]).await?[0];
        let record = self.records().await?.of_number(job.0);
        if let Some(record) = &record {
            self.is_the_same(job, present, record).await?;
        }
        let target = match request.index {
            Some(index) => format!("{present}_{index}"),
            None => present.to_string(),
        };
        let (program, args, said) = match verb {
            Verb::Cancel => ("scancel", vec![target], "cancelled"),
            Verb::Hold => ("scontrol", vec!["hold".to_owned(), target], "held"),
            Verb::Release => ("scontrol", vec!["release".to_owned(), target], "released"),
            Verb::Requeue => (
                "scontrol",
                vec!["requeue".to_owned(), target],
                "queued again; Slurm waits some minutes before it starts",
            ),
            Verb::Checkpoint => {
                let signal = record.as_ref().and_then(|record| record.checkpoint_signal).unwrap_or(USR1);
                ("scancel", vec![format!("--signal={signal}"), target], "asked to save its progress")
            }
        };
        // scancel says nothing of a job that nobody knows.
        if matches!(verb, Verb::Cancel | Verb::Checkpoint)
            && let Some(state) = self.ended(JobId(present)).await?
        {
            return match verb {
                Verb::Cancel => {
                    Ok(ActionResponse { message: format!("job {job} had already ended: {}", state.word()) })
                }
                _ => Err(Refusal::refused(format!("job {job} has ended: {}", state.word()))
                    .hint("only what runs can save its progress")),
            };
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        match self.tools().output(program, &args).await {
            Ok(_) => {
                if let (Verb::Requeue, Some(record)) = (verb, &record) {
                    self.records().await?.run_again(record, request.index);
                }
                // What was cancelled is not looked for any more: nobody hands it on again.
                if let (Verb::Cancel, None, Some(record)) = (verb, request.index, &record) {
                    self.records().await?.close(&record.id);
                }
                Ok(ActionResponse { message: said.to_owned() })
            }
            Err(ToolError::Failed { message, .. }) => Err(refusal(job, verb, &message)),
            Err(error) => Err(error.into()),
        }
    }

    /// A shell beside a rank: a step of its own on the rank's node, in the job's allocation.
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
        args.extend(["--pty", "bash", "-l"]);
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
        let mut rows = self.rows_of(job).await?;
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

    /// The controller has this very job under the number, and not another.
    async fn is_the_same(&self, job: JobId, present: u64, record: &Record) -> Result<()> {
        let rows = self.queue(Whose::Jobs(&[present])).await?;
        let others = rows.iter().any(|row| row.muster_id() != Some(record.id.as_str()));
        match others {
            false => Ok(()),
            true => Err(Refusal::refused(format!("Slurm lost job {job} and gave its number to another"))
                .hint(format!("`muster show {job}` says what is known; `scancel {present}` ends the other"))),
        }
    }

    /// How the job ended, when it has; what the controller has forgotten the accounting may know.
    async fn ended(&self, job: JobId) -> Result<Option<State>> {
        let asked =
            ["--noheader", "--states=all", "--format=%T", "--jobs", &job.to_string()].map(str::to_owned);
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let is_forgotten = match self.tools().output("squeue", &asked).await {
            Ok(states) => {
                let state = |word: &str| NativeState::new([word]).state(false);
                let states: Vec<State> = states.lines().map(|line| state(line.trim())).collect();
                if states.iter().any(|state| !state.is_final()) {
                    return Ok(None);
                }
                states.is_empty()
            }
            Err(ToolError::Failed { message, .. }) if message.contains("Invalid job id") => true,
            Err(ToolError::Failed { message, .. }) => return Err(refusal(job, Verb::Cancel, &message)),
            Err(error) => return Err(error.into()),
        };
        let rows = self.rows_of(job).await;
        let known = rows.ok().and_then(|rows| view::jobs(&rows, None).into_iter().next());
        match known.map(|job| job.state) {
            Some(state) if state.is_final() => Ok(Some(state)),
            _ if is_forgotten => Err(refusal(job, Verb::Cancel, "Invalid job id")),
            _ => Ok(None),
        }
    }
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
fn refusal(job: JobId, verb: Verb, message: &str) -> Refusal {
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
        _ if message.contains("Requested operation is presently disabled") && verb == Verb::Requeue => {
            Refusal::refused(format!("job {job} was submitted so that it is not queued again"))
                .hint("`slurm: {requeue: true}` in the job allows it")
        }
        _ if message.contains("Job is no longer pending") => {
            Refusal::refused(format!("job {job} waits no longer"))
                .hint("a job that runs cannot be held; `muster requeue` stops it and queues it again")
        }
        _ => Refusal::refused(message),
    }
}
