//! The state of a job, from what its controller says of the object and what kubelets say of the pods.

use muster_model::view::{JobState, TaskStage};
use muster_model::{Outcome, Rank, Reason, TaskExit, Time};
use serde_json::Value;

use super::disruption::{self, Disruption};
use super::{JobObject, JobRole, JobTask, condition, is_true, kueue, native, number_at, volcano};
use crate::group::{SUCCESS, workload};
use crate::names;

/// Reasons of containers that do not start, with the next step. A kubelet goes on trying.
const START_ERRORS: [(&str, &str); 7] = [
    ("ErrImagePull", "check the name of the image, and `pull-secrets` for a private registry"),
    ("ImagePullBackOff", "check the name of the image, and `pull-secrets` for a private registry"),
    ("InvalidImageName", "the name of the image is malformed"),
    ("CreateContainerConfigError", "a secret or config map that it names may not exist"),
    ("CreateContainerError", "the command or the working directory may not exist in the image"),
    ("RunContainerError", "the command may not exist in the image"),
    ("CrashLoopBackOff", "it ended and is started again after a pause"),
];

/// State of a job, as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// State of the job.
    pub state: JobState,
    /// State in the words of its controller, such as `Suspended`.
    pub word: String,
    /// Reason for which it does not run; `None` if it runs or has ended.
    pub reason: Option<Reason>,
    /// Outcome; `None` before the end.
    pub outcome: Option<Outcome>,
}

/// Returns the state of a job with these tasks.
#[must_use]
pub fn status(job: JobObject<'_>, roles: &[JobRole], tasks: &[JobTask<'_>]) -> JobStatus {
    let object = job.object;
    let plain = |state: JobState, word: &str| JobStatus {
        state,
        word: word.to_owned(),
        reason: None,
        outcome: None,
    };
    let are_active = tasks.iter().any(|task| holds(task.pod));
    let cancelled = job.annotation(names::CANCELLED);
    if let Some((is_success, said)) = end_of(object) {
        let (state, outcome) = match cancelled {
            _ if is_success => (JobState::Done, Outcome::Succeeded),
            Some(by) => (JobState::Cancelled, Outcome::Cancelled { by: by.into() }),
            None => failed(failure(tasks, said)),
        };
        return JobStatus { outcome: Some(outcome), ..plain(state, said.0) };
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        return plain(JobState::Stopping, "Deleting");
    }
    if let Some(by) = cancelled {
        let outcome = Outcome::Cancelled { by: by.into() };
        return if are_active || !job.is_suspended() {
            plain(JobState::Stopping, "Cancelled")
        } else {
            JobStatus { outcome: Some(outcome), ..plain(JobState::Cancelled, "Cancelled") }
        };
    }
    if number_at(object, "/spec/parallelism") == Some(0) && !are_active {
        let text = "its parallelism is 0; `kubectl patch job NAME --patch '{\"spec\":{\"parallelism\":1}}'` starts it";
        let reason = Some(native("NoParallelism", text));
        return JobStatus { reason, ..plain(JobState::Held, "Active") };
    }
    if job.is_stopped_service() && !are_active {
        let text = format!("the annotation {} keeps it without replicas", names::KSERVE_STOP);
        let reason = Some(native("Stopped", &text));
        return JobStatus { reason, ..plain(JobState::Held, "Stopped") };
    }
    if let Some((state, reason)) = volcano::passing(phase(object), are_active) {
        return JobStatus { reason, ..plain(state, phase(object)) };
    }
    if job.is_suspended() && are_active {
        return plain(JobState::Stopping, "Suspended");
    }
    if job.is_suspended() {
        let (state, reason) = suspension(job);
        return JobStatus { reason: Some(reason), ..plain(state, "Suspended") };
    }
    of_pods(job, roles, tasks)
}

/// Returns the state of a job that its controller runs.
fn of_pods(job: JobObject<'_>, roles: &[JobRole], tasks: &[JobTask<'_>]) -> JobStatus {
    let stages: Vec<TaskStage> = tasks.iter().map(|task| task.view().stage).collect();
    let at = |stage| stages.iter().filter(|one| **one == stage).count();
    let expected = super::expected(roles);
    let runs = at(TaskStage::Running) + at(TaskStage::Ended);
    let is_whole = runs >= expected as usize || job.has_elements();
    let state = match () {
        () if at(TaskStage::Running) > 0 && is_whole => JobState::Running,
        // All have ended, and the controller counts them.
        () if is_ending(job.object) || has_succeeded(job, roles, tasks) => JobState::Stopping,
        () if tasks.iter().any(|task| holds(task.pod)) => JobState::Starting,
        () => JobState::Pending,
    };
    let reason = match state {
        JobState::Pending | JobState::Starting => {
            Some(refused_replicas(job, tasks).unwrap_or_else(|| waiting_reason(tasks)))
        }
        _ => None,
    };
    JobStatus { state, word: phase(job.object).to_owned(), reason, outcome: None }
}

/// Returns why KServe has made no replicas of an InferenceService; `None` for others, and if it has not said.
fn refused_replicas(job: JobObject<'_>, tasks: &[JobTask<'_>]) -> Option<Reason> {
    let is_without = job.api.is_of_kserve() && tasks.is_empty();
    let said = condition(job.object, "PredictorReady").filter(|_| is_without)?;
    let word = |field: &str| said[field].as_str().filter(|text| !text.is_empty());
    Some(native(word("reason").unwrap_or("NotReady"), word("message")?))
}

/// Returns true if the controller has decided on the end, and pods may still be running.
fn is_ending(object: &Value) -> bool {
    is_true(object, "FailureTarget") || is_true(object, "SuccessCriteriaMet")
}

/// Returns true if all tasks of a job have ended with success, which its controller has yet to count.
fn has_succeeded(job: JobObject<'_>, roles: &[JobRole], tasks: &[JobTask<'_>]) -> bool {
    let succeeded =
        tasks.iter().filter(|task| task.view().exit.is_some_and(|exit| exit.is_success()));
    let is_one_run = !job.has_elements() && !job.api.is_service();
    is_one_run && !tasks.is_empty() && succeeded.count() >= super::ranks(job, roles) as usize
}

/// Returns the state of one element of an array, whose pods these are.
pub(super) fn of_element(tasks: &[JobTask<'_>]) -> JobStatus {
    let stage = tasks.iter().map(|task| task.view().stage).min();
    let is_bound = tasks.iter().any(|task| holds(task.pod));
    let mut exits = tasks.iter().filter_map(|task| task.view().exit);
    let has_failed = exits.any(|exit| !exit.is_success());
    let (state, outcome) = match stage {
        Some(TaskStage::Running) => (JobState::Running, None),
        Some(TaskStage::Ordered | TaskStage::Prepared) if is_bound => (JobState::Starting, None),
        Some(TaskStage::Ended) if has_failed => {
            let (state, outcome) = failed(failure(tasks, ("Failed", "")));
            (state, Some(outcome))
        }
        Some(TaskStage::Ended) => (JobState::Done, Some(Outcome::Succeeded)),
        Some(TaskStage::Ordered | TaskStage::Prepared) | None => (JobState::Pending, None),
    };
    let reason =
        matches!(state, JobState::Pending | JobState::Starting).then(|| waiting_reason(tasks));
    JobStatus { state, word: state.word().to_owned(), reason, outcome }
}

/// Returns the phase that some controllers name.
fn phase(object: &Value) -> &str {
    object.pointer("/status/state/phase").and_then(Value::as_str).unwrap_or("Active")
}

/// Returns true while a pod holds resources of a node.
pub(super) fn holds(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
        && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Returns whether the controller says that the job has ended with success, and the reason and message
/// of the end.
pub(super) fn end_of(object: &Value) -> Option<(bool, (&str, &str))> {
    for kind in SUCCESS {
        if is_true(object, kind) {
            return Some((true, (kind, "")));
        }
    }
    if let Some(said) = condition(object, "Failed").filter(|said| said["status"] == "True") {
        let text = |field: &str| said[field].as_str().unwrap_or_default();
        return Some((false, (text("reason"), text("message"))));
    }
    // Volcano names a phase.
    match phase(object) {
        "Completed" => Some((true, ("Completed", ""))),
        word @ ("Failed" | "Aborted" | "Terminated") => {
            let message = object.pointer("/status/state/message").and_then(Value::as_str);
            Some((false, (word, message.unwrap_or_default())))
        }
        _ => None,
    }
}

/// Returns the state of a job that ended without success.
fn failed(outcome: Outcome) -> (JobState, Outcome) {
    let is_preempted = disruption::is_preempted(&outcome);
    (if is_preempted { JobState::Preempted } else { JobState::Failed }, outcome)
}

/// Returns how a job failed: as the task that failed first did, else in the words of its controller.
fn failure(tasks: &[JobTask<'_>], (reason, message): (&str, &str)) -> Outcome {
    let ended = tasks.iter().filter_map(|task| Some((task, task.view().exit?)));
    let failed = ended.filter(|(task, exit)| {
        let is_of_cluster =
            task.pod["status"]["reason"].is_string() || Disruption::of(task).is_some();
        !exit.is_success() && (*exit != TaskExit::Stopped || is_of_cluster)
    });
    // The others of a gang may fail while a disrupted one still has its grace period.
    let end = |task: &JobTask<'_>| Disruption::of(task).and_then(|one| one.at).or(task.ended());
    let first = failed.min_by_key(|(task, _)| end(task).unwrap_or(Time(u64::MAX)));
    let Some((task, exit)) = first else { return unseen_failure(reason, message) };
    if let Some(disruption) = Disruption::of(task)
        && !matches!(exit, TaskExit::TimedOut | TaskExit::OutOfMemory)
    {
        return disruption.outcome(task.rank);
    }
    let rank = Rank(task.rank);
    let of_pod = &task.pod["status"]["reason"];
    match exit {
        TaskExit::TimedOut => Outcome::TimedOut,
        TaskExit::OutOfMemory => Outcome::OutOfMemory { rank },
        // The node ended the pod: evicted, or shut down.
        TaskExit::Code { .. } | TaskExit::Stopped if of_pod.is_string() => {
            let said = task.pod["status"]["message"].as_str().unwrap_or_default();
            let word = of_pod.as_str().unwrap_or_default();
            Outcome::Lost { rank, reason: format!("{word}: {said}").into() }
        }
        TaskExit::Code { code } => Outcome::Failed { rank, code },
        TaskExit::Signal { signal } => Outcome::Signaled { rank, signal },
        TaskExit::Stopped | TaskExit::Idle { .. } => {
            Outcome::Native { state: reason.into(), message: message.into(), code: 1 }
        }
    }
}

/// Returns how a job failed of which no failed task is left.
fn unseen_failure(reason: &str, message: &str) -> Outcome {
    let more = match reason {
        "DeadlineExceeded" => return Outcome::TimedOut,
        // Preempted and evicted pods are deleted.
        "BackoffLimitExceeded" => {
            "the pod that failed is gone, as one that was preempted or evicted: `kubectl get events` shows which"
        }
        "Aborted" => volcano::ABORTED,
        "Terminated" => volcano::TERMINATED,
        _ => "",
    };
    let parts = [message, more].into_iter().filter(|part| !part.is_empty());
    let message = parts.collect::<Vec<_>>().join("; ");
    Outcome::Native { state: reason.into(), message: message.into(), code: 1 }
}

/// Returns why a suspended job waits.
pub(super) fn suspension(job: JobObject<'_>) -> (JobState, Reason) {
    if job.annotation(names::HELD) == Some("true") {
        return (JobState::Held, Reason::Held);
    }
    if let Some(said) = workload::admission(job.object) {
        let word = |field: &str| said[field].as_str().unwrap_or_default();
        return (JobState::Pending, native(word("reason"), word("message")));
    }
    if job.label(names::QUEUE).is_some() {
        return (
            JobState::Pending,
            native("Suspended", "Muster's scheduler has not said why it waits yet"),
        );
    }
    if let Some(queue) = job.label(names::KUEUE_QUEUE) {
        return (JobState::Pending, kueue::not_admitted(queue));
    }
    (
        JobState::Held,
        native("Suspended", "it is suspended, and no scheduler starts it; `muster release` does"),
    )
}

/// Returns why a job that has no pods, or not all, does not run yet.
pub(super) fn waiting_reason(tasks: &[JobTask<'_>]) -> Reason {
    let states = tasks.iter().flat_map(|task| task.init_states().chain([task.container_state()]));
    for state in states {
        let waiting = &state["waiting"];
        let word = waiting["reason"].as_str().unwrap_or_default();
        if let Some((word, hint)) = START_ERRORS.iter().find(|(one, _)| *one == word) {
            let said = waiting["message"].as_str().unwrap_or_default();
            return native(word, &format!("{said}; {hint}"));
        }
    }
    let unscheduled = || tasks.iter().filter(|task| !task.pod["spec"]["nodeName"].is_string());
    for task in unscheduled() {
        let conditions = task.pod["status"]["conditions"].as_array().into_iter().flatten();
        let said = conditions.into_iter().find(|one| one["type"] == "PodScheduled");
        if let Some(said) = said.filter(|said| said["message"].is_string()) {
            let word = |field: &str| said[field].as_str().unwrap_or_default();
            return native(word("reason"), word("message"));
        }
    }
    match tasks {
        [] => native(
            "NoPods",
            "its pods are not created yet; `kubectl describe` of the object shows whether they are refused",
        ),
        _ if tasks.iter().all(|task| task.view().stage == TaskStage::Ended) => {
            let next = "its controller has not created the next pods yet";
            match tasks.iter().find_map(Disruption::of) {
                Some(disruption) => {
                    native("Restarting", &format!("{}; {next}", disruption.cause()))
                }
                None => native("Restarting", next),
            }
        }
        _ if unscheduled().next().is_some() => {
            native("NotScheduled", "its scheduler has not said why yet")
        }
        _ => native("Starting", "its containers are being created"),
    }
}
