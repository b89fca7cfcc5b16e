//! The state of a RayJob, whose controller counts no pods as done: it submits a program to a cluster that it
//! makes, asks the cluster how the program ended, and then removes the pods.

use muster_model::view::{JobState, TaskStage};
use muster_model::{Outcome, Rank, Reason, TaskExit};
use serde_json::Value;

use super::state::{JobStatus, holds, suspension, waiting_reason};
use super::{JobObject, JobTask, native};
use crate::names;

/// Exit code of a job that was stopped, as of one that was cancelled.
const STOPPED_CODE: i32 = 130;

/// Beginning of Ray's message on a program that has failed.
const EXIT_CODE: &str = "failed with exit code ";

impl<'a> JobObject<'a> {
    /// Returns true for a RayJob of KubeRay.
    #[must_use]
    pub fn is_ray(&self) -> bool {
        self.api.group == "ray.io"
    }

    /// Returns the RayCluster of a RayJob; `None` before KubeRay has named it, and for other objects.
    #[must_use]
    pub fn ray_cluster(&self) -> Option<&'a str> {
        self.is_ray().then(|| self.text("/status/rayClusterName")).filter(|name| !name.is_empty())
    }

    /// Returns the state of the object as KubeRay writes it: `Running`, `Complete`; empty at first.
    pub(super) fn ray_state(&self) -> &'a str {
        self.text("/status/jobDeploymentStatus")
    }
}

/// Returns the state of a RayJob with these tasks.
pub(super) fn status(job: JobObject<'_>, tasks: &[JobTask<'_>]) -> JobStatus {
    let word = job.ray_state();
    let of_program = job.text("/status/jobStatus");
    let message = first_line(job.text("/status/message"));
    let state = |state: JobState| JobStatus {
        state,
        word: if word.is_empty() { "New" } else { word }.to_owned(),
        reason: None,
        outcome: None,
    };
    let ended = |end: JobState, outcome| JobStatus { outcome: Some(outcome), ..state(end) };
    let stopped =
        |code| Outcome::Native { state: of_program.into(), message: message.into(), code };
    match (word, of_program) {
        ("Complete", "STOPPED") => return ended(JobState::Cancelled, stopped(STOPPED_CODE)),
        // Older versions of KubeRay have no `Failed`.
        ("Complete", "FAILED") => return ended(JobState::Failed, failure(job, tasks)),
        ("Complete", _) => return ended(JobState::Done, Outcome::Succeeded),
        ("Failed" | "ValidationFailed", _) => return ended(JobState::Failed, failure(job, tasks)),
        _ => {}
    }
    if !job.text("/metadata/deletionTimestamp").is_empty() {
        return JobStatus { word: "Deleting".to_owned(), ..state(JobState::Stopping) };
    }
    match word {
        // KubeRay begins with a suspended one as with any, and makes no pods.
        "Suspended" | "" | "Initializing" | "Suspending"
            if job.is_suspended() && tasks.is_empty() =>
        {
            let (held, reason) = suspension(job);
            return JobStatus { reason: Some(reason), ..state(held) };
        }
        "Initializing" if job.is_suspended() => return state(JobState::Stopping),
        "Suspending" => return state(JobState::Stopping),
        "Running" if of_program == "RUNNING" => return state(JobState::Running),
        // KubeRay is about to remove its pods.
        "Running" if matches!(of_program, "SUCCEEDED" | "FAILED" | "STOPPED") => {
            return state(JobState::Stopping);
        }
        // Its user submits programs, and it holds its nodes meanwhile.
        "Waiting" => return state(JobState::Running),
        _ => {}
    }
    let has_started = tasks.iter().any(|task| holds(task.pod));
    let start = if has_started { JobState::Starting } else { JobState::Pending };
    JobStatus { reason: Some(pending_reason(job, tasks)), ..state(start) }
}

/// Returns why a RayJob does not run its program yet.
fn pending_reason(job: JobObject<'_>, tasks: &[JobTask<'_>]) -> Reason {
    let message = first_line(job.text("/status/message"));
    match (job.ray_state(), job.text("/status/jobStatus")) {
        ("Running", "PENDING") => {
            return native("JobPending", &format!("Ray has not started the program: {message}"));
        }
        ("Running", _) => {
            return native("NotSubmitted", "the cluster is up, and its program is being submitted");
        }
        ("Retrying", _) => {
            let text =
                format!("its cluster is replaced for the next attempt; the last one: {message}");
            return native("Retrying", &text);
        }
        _ => {}
    }
    if !message.is_empty() {
        return native(job.text("/status/reason"), message);
    }
    if let Some((reason, message)) = replica_failure(job.object) {
        return native(reason, message);
    }
    if let Some(code) = tasks.iter().find_map(submitter_exit) {
        let text = format!(
            "the program ended (`ray job submit` exited with {code}), but KubeRay still waits for pods to be ready and holds the GPUs; `muster cancel` frees them"
        );
        return native("EndedUnnoticed", &text);
    }
    match (tasks, job.ray_cluster()) {
        ([], None) => native(
            "NoCluster",
            "KubeRay has not made its cluster yet; `kubectl describe rayjob` shows events, and without any KubeRay's operator may not run",
        ),
        ([], Some(cluster)) => {
            let text = format!(
                "RayCluster {cluster} has no pods yet; `kubectl describe raycluster {cluster}` shows why"
            );
            native("NoPods", &text)
        }
        _ if tasks.iter().all(|task| task.view().stage == TaskStage::Running) => native(
            "NodesJoining",
            "all its pods run, and KubeRay waits until every one of them is ready",
        ),
        _ => waiting_reason(tasks),
    }
}

/// Returns the exit code of the container beside the head that submits the program; `None` while it runs.
fn submitter_exit(task: &JobTask<'_>) -> Option<i64> {
    let mut containers = task.pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let submitter = containers.find(|one| one["name"] == names::RAY_SUBMITTER)?;
    submitter["state"]["terminated"]["exitCode"].as_i64()
}

/// Returns why the cluster could not create a pod, such as a quota: reason and message.
fn replica_failure(object: &Value) -> Option<(&str, &str)> {
    let conditions = object.pointer("/status/rayClusterStatus/conditions")?.as_array()?;
    let failed = |one: &&Value| one["type"] == "ReplicaFailure" && one["status"] == "True";
    let said = conditions.iter().find(failed)?;
    Some((said["reason"].as_str()?, said["message"].as_str()?))
}

/// Returns how a RayJob failed. Ray's message has the exit code of the program.
fn failure(job: JobObject<'_>, tasks: &[JobTask<'_>]) -> Outcome {
    let reason = job.text("/status/reason");
    let message = job.text("/status/message");
    let rank = Rank(0);
    let code = message.split_once(EXIT_CODE).and_then(|(_, rest)| {
        let end = rest.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<i32>().ok()
    });
    let killed = tasks.iter().find(|task| task.view().exit == Some(TaskExit::OutOfMemory));
    match (reason, code, killed) {
        ("DeadlineExceeded", _, _) => Outcome::TimedOut,
        ("AppFailed" | "", Some(code), _) if code < 0 => {
            Outcome::Signaled { rank, signal: code.saturating_neg() }
        }
        ("AppFailed" | "", Some(code), _) => Outcome::Failed { rank, code },
        (_, _, Some(task)) => Outcome::OutOfMemory { rank: Rank(task.rank) },
        _ => {
            let word = if reason.is_empty() { job.ray_state() } else { reason };
            // KubeRay says so as well of a program that failed before it looked.
            let hint = if word == "SubmissionFailed" {
                "the program failed, or could not be submitted: "
            } else {
                ""
            };
            let message = format!("{hint}{}", first_line(message));
            Outcome::Native { state: word.into(), message: message.into(), code: 1 }
        }
    }
}

/// Returns the first line of a message: the others are output of the program.
fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{APIS, view};
    use super::*;

    /// Returns a RayJob with a head and two workers of 8 GPUs, and this status.
    fn object(status: Value) -> Value {
        let template = |gpus: u32| {
            let limits = json!({"nvidia.com/gpu": gpus});
            json!({"spec": {"containers": [{"name": "ray", "resources": {"limits": limits}}]}})
        };
        let workers = json!([{"groupName": "gpu", "replicas": 2, "template": template(8)}]);
        json!({
            "metadata": {"name": "tune", "namespace": "team", "uid": "u"},
            "spec": {
                "activeDeadlineSeconds": 60,
                "rayClusterSpec": {"headGroupSpec": {"template": template(0)}, "workerGroupSpecs": workers},
            },
            "status": status,
        })
    }

    fn job(object: &Value) -> JobObject<'_> {
        let api = APIS.iter().find(|api| api.kind == "RayJob").unwrap();
        JobObject { api, object }
    }

    fn pod(group: &str, name: &str, phase: &str) -> Value {
        let container = match phase {
            "Running" => json!({"running": {"startedAt": "2026-11-20T12:00:00Z"}}),
            _ => json!({"waiting": {"reason": "ContainerCreating"}}),
        };
        json!({
            "metadata": {"name": name, "labels": {"ray.io/cluster": "tune-x7k2p", "ray.io/group": group}},
            "spec": {"nodeName": "n1", "containers": [{"name": "ray"}]},
            "status": {"phase": phase, "containerStatuses": [{"name": "ray", "state": container}]},
        })
    }

    /// Checks state and reason of a RayJob with these pods; a reason by its code.
    fn check(status: Value, pods: &[Value], state: JobState, reason: Option<&str>) {
        let object = object(status.clone());
        let shown = view(job(&object), &pods.iter().collect::<Vec<_>>(), "team");
        assert_eq!(shown.state, state, "{status}");
        let code = match &shown.waiting_for {
            Some(Reason::Native { code, .. }) => Some(code.as_str()),
            _ => None,
        };
        assert_eq!(code, reason, "{status}");
    }

    #[test]
    fn the_words_of_kuberay_are_states_of_a_job() {
        use JobState::{Cancelled, Done, Failed, Pending, Running, Starting, Stopping};
        check(json!({}), &[], Pending, Some("NoCluster"));
        let initializing = |more: Value| {
            let mut status =
                json!({"jobDeploymentStatus": "Initializing", "rayClusterName": "tune-x7k2p"});
            status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            status
        };
        check(initializing(json!({})), &[], Pending, Some("NoPods"));
        let quota = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreateHeadPod", "message": "exceeded quota"}]);
        check(
            initializing(json!({"rayClusterStatus": {"conditions": quota}})),
            &[],
            Pending,
            Some("FailedCreateHeadPod"),
        );
        let pods = [pod("headgroup", "h", "Running"), pod("gpu", "w1", "Pending")];
        check(initializing(json!({})), &pods, Starting, Some("Starting"));
        check(initializing(json!({})), &pods[..1], Starting, Some("NodesJoining"));
        let running =
            |of_program: &str| json!({"jobDeploymentStatus": "Running", "jobStatus": of_program});
        check(running("RUNNING"), &pods, Running, None);
        check(running(""), &pods, Starting, Some("NotSubmitted"));
        check(running("PENDING"), &pods, Starting, Some("JobPending"));
        check(running("SUCCEEDED"), &pods, Stopping, None);
        check(running("FAILED"), &[], Stopping, None);
        let mut ended = pod("headgroup", "h", "Running");
        let submitter =
            json!({"name": names::RAY_SUBMITTER, "state": {"terminated": {"exitCode": 2}}});
        ended["status"]["containerStatuses"].as_array_mut().unwrap().push(submitter);
        check(initializing(json!({})), &[ended], Starting, Some("EndedUnnoticed"));
        let word = |word: &str| json!({"jobDeploymentStatus": word});
        check(word("Waiting"), &pods, Running, None);
        check(word("Suspending"), &pods, Stopping, None);
        check(word("Retrying"), &[], Pending, Some("Retrying"));
        check(word("ValidationFailed"), &[], Failed, None);
        check(
            json!({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}),
            &[],
            Done,
            None,
        );
        check(json!({"jobDeploymentStatus": "Complete", "jobStatus": "FAILED"}), &[], Failed, None);
        check(
            json!({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}),
            &[],
            Cancelled,
            None,
        );
    }

    #[test]
    fn a_suspended_ray_job_waits_for_its_scheduler_or_its_user() {
        let mut object = object(json!({}));
        object["spec"]["suspend"] = json!(true);
        // KubeRay passes through these states, without a pod in the beginning.
        for state in ["Initializing", "Suspending", "Suspended"] {
            object["status"]["jobDeploymentStatus"] = json!(state);
            assert_eq!(view(job(&object), &[], "team").state, JobState::Held);
        }
        let head = pod("headgroup", "h", "Running");
        for state in ["Initializing", "Suspending"] {
            object["status"]["jobDeploymentStatus"] = json!(state);
            assert_eq!(view(job(&object), &[&head], "team").state, JobState::Stopping);
        }
        object["status"]["jobDeploymentStatus"] = json!("Suspended");
        let said = json!({"reason": "Waiting", "message": "needs 8 GPUs"}).to_string();
        object["metadata"]["annotations"] = json!({names::ADMITTED_CONDITION: said});
        let shown = view(job(&object), &[], "team");
        assert_eq!(shown.waiting_for, Some(native("Waiting", "needs 8 GPUs")));
        object["metadata"]["annotations"] = json!({});
        object["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "vision"});
        let shown = view(job(&object), &[], "team");
        assert_eq!((shown.state, shown.queue.as_str()), (JobState::Pending, "vision"));
    }

    #[test]
    fn a_failed_program_has_its_exit_code() {
        let failed = |reason: &str, message: &str| {
            let status = json!({"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": reason, "message": message});
            let object = object(status);
            view(job(&object), &[], "team").elements[0].outcome.clone().unwrap()
        };
        let message = |code: i32| {
            format!(
                "Job entrypoint command failed with exit code {code}, last available logs (truncated to 20,000 chars):\nTraceback"
            )
        };
        let rank = Rank(0);
        assert_eq!(failed("AppFailed", &message(7)), Outcome::Failed { rank, code: 7 });
        assert_eq!(failed("AppFailed", &message(-9)), Outcome::Signaled { rank, signal: 9 });
        assert_eq!(failed("DeadlineExceeded", "too long"), Outcome::TimedOut);
        let native = Outcome::Native {
            state: "SubmissionFailed".into(),
            message: "the program failed, or could not be submitted: no head".into(),
            code: 1,
        };
        assert_eq!(failed("SubmissionFailed", "no head\nmore"), native);
    }

    #[test]
    fn head_and_workers_are_roles() {
        let object =
            object(json!({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "failed": 1}));
        let pods = [
            pod("gpu", "w2", "Running"),
            pod("gpu", "w1", "Running"),
            pod("headgroup", "h", "Running"),
        ];
        let shown = view(job(&object), &pods.iter().collect::<Vec<_>>(), "team");
        assert_eq!((shown.tasks, shown.gpus.0), (3, 16_000));
        assert_eq!(shown.time_limit, Some(muster_model::Span::from_secs(60)));
        let tasks: Vec<(u32, &str)> =
            shown.elements[0].tasks.iter().map(|task| (task.rank.0, task.group.as_str())).collect();
        assert_eq!(tasks, [(0, "headgroup"), (1, "gpu"), (2, "gpu")]);
        // One more than it has at least, and one that leaves.
        let mut leaves = pod("gpu", "w4", "Running");
        leaves["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:10:00Z");
        let grown = [&pods[..], &[pod("gpu", "w3", "Running"), leaves]].concat();
        let grown = view(job(&object), &grown.iter().collect::<Vec<_>>(), "team");
        assert_eq!((grown.tasks, grown.gpus.0), (4, 24_000));
        assert_eq!((grown.elements[0].tasks.len(), grown.elements[0].attempt), (4, 1));
        assert_eq!(shown.native.unwrap().restarts, 1);
    }
}
