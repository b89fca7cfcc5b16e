//! Checkpoint requests to the containers of a job: a script in each of them, by `kubectl exec`, sends the
//! signal and waits for the acknowledgement. Its results are in memory until this process ends; nothing
//! is stored in the cluster.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use muster_api::types::ActionResponse;
use muster_kubernetes::checkpoint::{self, CheckpointLine};
use muster_kubernetes::job::{self, JobObject, JobTask};
use muster_model::job::CheckpointBy;
use muster_model::view::{CheckpointAskedView, CheckpointView, ElementView, JobState, JobView};
use muster_model::{Checkpoint, JobId, Time};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Notify;

use super::list::FoundJob;
use super::logs::ordinal_of;
use super::{KubernetesScheduler, RequestError, Result};
use crate::route::now;

/// Longest label in bytes, as on one machine.
const LABEL_BYTES: usize = 128;

/// Requests of this process.
#[derive(Debug, Default)]
pub(super) struct CheckpointRequests {
    ranks: Arc<Mutex<Vec<RankRequest>>>,
    /// Notified of each line of a script.
    changed: Arc<Notify>,
}

/// Request to one task.
#[derive(Clone, Debug)]
struct RankRequest {
    job: JobId,
    /// Index of the element; 0 of a job without elements.
    index: u32,
    attempt: u32,
    rank: u32,
    checkpoint: Checkpoint,
    at: Time,
    /// Number of processes that have got the signal.
    sent: u32,
    saved: Option<(Time, String)>,
}

/// A script that has begun in the container of a task.
struct BegunScript {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl CheckpointRequests {
    /// Waits until a script has written a line since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Fills the last request and its acknowledgement into the view of a job's elements.
    pub(super) fn fill(&self, view: &mut JobView) {
        let ranks = self.ranks.lock().expect("no thread panics while holding this lock");
        let job = view.job;
        for element in &mut view.elements {
            let is_its = |one: &&RankRequest| {
                one.job == job
                    && one.index == element.element.index
                    && one.attempt == element.attempt
            };
            let own: Vec<&RankRequest> = ranks.iter().filter(is_its).collect();
            fill_element(element, &own);
        }
    }

    /// Follows a script until it ends. It is not waited for when this process ends.
    fn follow(&self, request: RankRequest, mut script: BegunScript) {
        let ranks = Arc::clone(&self.ranks);
        let changed = Arc::clone(&self.changed);
        let at = {
            let mut ranks = ranks.lock().expect("no thread panics while holding this lock");
            ranks.push(request);
            ranks.len() - 1
        };
        tokio::spawn(async move {
            while let Ok(Some(line)) = script.lines.next_line().await {
                let Some(line) = CheckpointLine::parse(&line) else { continue };
                let mut ranks = ranks.lock().expect("no thread panics while holding this lock");
                match line {
                    CheckpointLine::Sent(count) => ranks[at].sent = count,
                    CheckpointLine::Saved(label) => ranks[at].saved = Some((now(), cut(&label))),
                    CheckpointLine::Failed(_) => {}
                }
                drop(ranks);
                changed.notify_one();
            }
            drop(script.child);
        });
    }
}

/// Fills the requests to the tasks of an element into its view.
fn fill_element(element: &mut ElementView, ranks: &[&RankRequest]) {
    let Some(last) = ranks.iter().map(|one| one.at).max() else { return };
    let ranks: Vec<&&RankRequest> = ranks.iter().filter(|one| one.at == last).collect();
    let Checkpoint { signal, lead, by, .. } = ranks[0].checkpoint;
    let mut required = ranks.iter().filter(|one| by == CheckpointBy::All || one.rank == 0);
    // The oldest counts: what was saved by all ranks.
    let saved: Option<Vec<&(Time, String)>> =
        required.clone().map(|one| one.saved.as_ref()).collect();
    let oldest = saved.and_then(|saved| saved.into_iter().min_by_key(|(at, _)| *at));
    match oldest.filter(|_| required.next().is_some()) {
        Some((at, label)) => {
            let attempt = element.attempt;
            element.checkpoint = Some(CheckpointView { at: *at, label: label.clone(), attempt });
        }
        None => {
            let undelivered = ranks.iter().filter(|one| one.sent == 0).count() as u32;
            let until = last + lead;
            element.checkpoint_asked =
                Some(CheckpointAskedView { at: last, until, signal, undelivered });
        }
    }
}

/// Returns a label of at most [`LABEL_BYTES`].
fn cut(label: &str) -> String {
    label[..label.floor_char_boundary(LABEL_BYTES)].to_owned()
}

impl KubernetesScheduler {
    /// Sends a checkpoint request to the running tasks of a job, or of one of its elements.
    ///
    /// # Errors
    /// When the job has no checkpoint signal, when none of its tasks runs, and when one of them cannot
    /// be signalled; the error then says how many others have got the signal.
    pub(super) async fn checkpoint(
        &self,
        job: JobId,
        index: Option<u32>,
    ) -> Result<ActionResponse> {
        // 1. Check that the job takes requests, and that it runs.
        let found = self.find(job).await?;
        let name = &found.key.name;
        let checkpoint = settings(&found)?;
        let pods = found.pods();
        let roles = job::present_roles(found.job(), &pods);
        let ordinal = index.map(|index| ordinal_of(&found, index)).transpose()?;
        let all = job::tasks(found.job(), &roles, &pods);
        // A gang runs once all of its tasks do, and until the last one has ended.
        let shown = job::view(found.job(), &pods, "");
        let running = shown.elements.iter().filter(|element| element.state == JobState::Running);
        let running: BTreeSet<u32> = running.map(|element| element.element.index).collect();
        let is_asked = |task: &&JobTask<'_>| {
            ordinal.is_none_or(|ordinal| task.ordinal == ordinal)
                && running.contains(&index_of(found.job(), task))
                && task.container_state()["running"].is_object()
        };
        let tasks: Vec<&JobTask<'_>> = all.iter().filter(is_asked).collect();
        if tasks.is_empty() {
            let state = shown.state;
            let text = if state.is_final() {
                format!("{name} has ended: {}", state.word())
            } else {
                format!("{name} is not running")
            };
            return Err(RequestError::refused(text)
                .hint("only running jobs can save a checkpoint; `muster ps` lists them"));
        }

        // 2. Start the script beside each task, and wait until it has sent the signal.
        let at = now();
        let begun = tasks.iter().map(|task| self.begin(&found, task, checkpoint));
        let begun = all_begun(futures_util::future::join_all(begun).await)?;
        for (task, (script, sent)) in tasks.iter().zip(begun) {
            let index = index_of(found.job(), task);
            let mut elements = shown.elements.iter();
            let element = elements.find(|element| element.element.index == index);
            let attempt = element.map_or(task.attempt, |element| element.attempt);
            let rank = task.rank;
            let request =
                RankRequest { job, index, attempt, rank, checkpoint, at, sent, saved: None };
            self.checkpoints.follow(request, script);
        }
        Ok(ActionResponse { message: "checkpoint requested".to_owned() })
    }

    /// Starts the script in the container of a task; returns it with the number of processes that have
    /// got the signal at once.
    async fn begin(
        &self,
        found: &FoundJob,
        task: &JobTask<'_>,
        checkpoint: Checkpoint,
    ) -> Result<(BegunScript, u32)> {
        let pod = task.pod["metadata"]["name"].as_str().unwrap_or_default();
        let containers = task.pod["spec"]["containers"].as_array().into_iter().flatten();
        let nth = containers.into_iter().position(|one| one["name"] == task.container);
        let mut words = self.exec(found, &[], pod, task.container);
        words.extend(["/bin/sh", "-c", checkpoint::SCRIPT, "muster"].map(str::to_owned));
        words.extend(checkpoint::arguments(checkpoint, nth.unwrap_or(0) as u32));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            RequestError::refused(format!("cannot run kubectl: {error}"))
                .hint("`checkpoint` signals programs through `kubectl exec`")
        })?;
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            match CheckpointLine::parse(&line) {
                Some(CheckpointLine::Sent(count)) => {
                    return Ok((BegunScript { child, lines }, count));
                }
                Some(CheckpointLine::Failed(why)) => {
                    let text = format!("rank {} cannot be signalled: {why}", task.rank);
                    return Err(RequestError::refused(text)
                        .hint("the image needs a shell and the usual small programs (readlink, sed, tail)"));
                }
                Some(CheckpointLine::Saved(_)) | None => {}
            }
        }
        let mut said = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            // Where it cannot be read, the error has no reason.
            let _ = stderr.read_to_string(&mut said).await;
        }
        Err(not_begun(task.rank, &said))
    }
}

/// Returns what began for each task; else the first error, which says how many tasks got the signal.
fn all_begun<T>(begun: Vec<Result<T>>) -> Result<Vec<T>> {
    let signalled = begun.iter().filter(|one| one.is_ok()).count();
    let all: Result<Vec<T>> = begun.into_iter().collect();
    all.map_err(|error| match signalled {
        0 => error,
        1 => error.hint("1 other task has got the signal"),
        count => error.hint(format!("{count} other tasks have got the signal")),
    })
}

/// Returns the error of a script that did not begin, from the messages of kubectl.
fn not_begun(rank: u32, said: &str) -> RequestError {
    let last =
        said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("kubectl gives no reason");
    let has_no_shell = said.contains("/bin/sh") && said.contains("no such file");
    if has_no_shell {
        return RequestError::refused(format!(
            "the image of rank {rank} has no shell, through which its program would be signalled"
        ))
        .hint("use an image with /bin/sh");
    }
    let refusal =
        RequestError::refused(format!("rank {rank} cannot be signalled: {}", last.trim()));
    if said.contains("pods/exec") {
        return refusal.hint("you need the right to create pods/exec in the namespace of the job");
    }
    refusal
}

/// Returns the checkpoint settings of a job, or the error of one without any.
fn settings(found: &FoundJob) -> Result<Checkpoint> {
    found.job().checkpoint().ok_or_else(|| {
        RequestError::refused(format!("{} has no checkpoint signal", found.key.name)).hint(
            "add `checkpoint: {signal: USR1, grace: 60s}` to its spec; docs/jobs.md explains the signal",
        )
    })
}

/// Returns the index of the element that a task belongs to.
fn index_of(job: JobObject<'_>, task: &JobTask<'_>) -> u32 {
    match job.array() {
        Some(array) => array.index_of(task.ordinal),
        None if job.has_elements() => task.ordinal,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use muster_model::{AfterCheckpoint, CheckpointTo, ElementId, Span};

    use super::*;

    fn request(rank: u32, by: CheckpointBy, sent: u32, saved: Option<(u64, &str)>) -> RankRequest {
        let checkpoint = Checkpoint {
            signal: 10,
            lead: Span::from_secs(60),
            by,
            then: AfterCheckpoint::Continue,
            to: CheckpointTo::Handlers,
        };
        let saved = saved.map(|(at, label)| (Time(at), label.to_owned()));
        RankRequest {
            job: JobId(1),
            index: 0,
            attempt: 1,
            rank,
            checkpoint,
            at: Time(5),
            sent,
            saved,
        }
    }

    /// Checks the acknowledgement, and the tasks that were not signalled while it is open.
    fn check(ranks: &[RankRequest], saved: Option<(u64, &str)>, undelivered: Option<u32>) {
        let mut element = ElementView::blank(ElementId::single(JobId(1)), JobState::Running);
        let ranks: Vec<&RankRequest> = ranks.iter().collect();
        fill_element(&mut element, &ranks);
        let shown = element.checkpoint.as_ref().map(|one| (one.at.0, one.label.as_str()));
        assert_eq!(shown, saved);
        assert_eq!(element.checkpoint_asked.map(|asked| asked.undelivered), undelivered);
    }

    #[test]
    fn rank_0_or_all_ranks_acknowledge() {
        use CheckpointBy::{All, First};
        check(&[], None, None);
        check(&[request(0, First, 1, None), request(1, First, 0, None)], None, Some(1));
        let one = |by| [request(0, by, 1, Some((9, "a"))), request(1, by, 1, None)];
        check(&one(First), Some((9, "a")), None);
        check(&one(All), None, Some(0));
        // The oldest counts.
        let both = [request(0, All, 1, Some((9, "a"))), request(1, All, 1, Some((8, "b")))];
        check(&both, Some((8, "b")), None);
        // Rank 1 alone does not save for its gang.
        check(&[request(1, First, 1, Some((9, "a")))], None, Some(0));
    }

    #[test]
    fn an_image_without_a_shell_and_a_missing_right_are_told() {
        for (said, expected) in [
            (
                "error: exec failed: unable to start container process: exec: \"/bin/sh\": stat /bin/sh: no such file or directory",
                "has no shell",
            ),
            (
                "Error from server (Forbidden): pods \"a\" is forbidden: User \"u\" cannot create resource \"pods/exec\"",
                "cannot create resource",
            ),
            ("", "kubectl gives no reason"),
        ] {
            let text = not_begun(3, said).to_string();
            assert!(text.contains("rank 3") && text.contains(expected), "{text}");
        }
    }

    #[test]
    fn an_error_says_how_many_other_tasks_were_signalled() {
        let failed = || Err(not_begun(3, ""));
        let hint = |begun: Vec<Result<()>>| format!("{:?}", all_begun(begun).unwrap_err());
        assert!(!hint(vec![failed()]).contains("other task"));
        assert!(hint(vec![Ok(()), failed()]).contains("1 other task has"));
        assert!(hint(vec![Ok(()), failed(), Ok(())]).contains("2 other tasks have"));
        assert_eq!(all_begun(vec![Ok(1), Ok(2)]).unwrap(), [1, 2]);
    }
}
