//! Stage of an object, read from its status: for workloads that wait for its start or end.

use muster_model::DependencyKind;
use serde_json::Value;

use crate::names;
use crate::object::Metadata;

/// Stage in the life of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No pod of it has run yet.
    Pending,
    /// Pods of it run, or have run.
    Started,
    /// Ended, and complete as its controller counts.
    Succeeded,
    /// Ended without success, or cancelled.
    Failed,
    /// Deleted before an end was seen.
    Deleted,
}

/// States that KubeRay writes to the status of a RayJob, which has no conditions.
const RAY_JOB_STARTED: &str = "Running";
const RAY_JOB_COMPLETE: &str = "Complete";
const RAY_JOB_FAILED: [&str; 2] = ["Failed", "ValidationFailed"];

/// Types of the conditions with which the controllers of Jobs, JobSets, TrainJobs, PyTorchJobs and MPIJobs
/// report success.
pub const SUCCESS: [&str; 3] = ["Complete", "Completed", "Succeeded"];
/// Type of the condition with which they report a failure.
const FAILURE: &str = "Failed";

impl Progress {
    /// Stages that are written down, with their words.
    const WORDS: [(Self, &'static str); 4] = [
        (Self::Started, "started"),
        (Self::Succeeded, "succeeded"),
        (Self::Failed, "failed"),
        (Self::Deleted, "deleted"),
    ];

    /// Reads an object. One that is cancelled has ended if it is suspended or being deleted.
    pub(super) fn of(metadata: &Metadata, spec: &Value, status: &Value) -> Self {
        let conditions = status.pointer("/conditions").and_then(Value::as_array);
        let is_true = |kind: &str| {
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|one| one["type"] == kind && one["status"] == "True")
        };
        let is_stopped = spec.pointer("/suspend") == Some(&Value::Bool(true))
            || metadata.deletion_timestamp.is_some();
        let is_cancelled = metadata.annotations.contains_key(names::CANCELLED) && is_stopped;
        let of_ray_job = status["jobDeploymentStatus"].as_str().unwrap_or_default();
        let is_complete = of_ray_job == RAY_JOB_COMPLETE;
        let is_done =
            is_complete && !matches!(status["jobStatus"].as_str(), Some("FAILED" | "STOPPED"));
        if SUCCESS.iter().any(|kind| is_true(kind)) || is_done {
            Self::Succeeded
        } else if is_true(FAILURE)
            || is_complete
            || RAY_JOB_FAILED.contains(&of_ray_job)
            || is_cancelled
        {
            Self::Failed
        } else if has_started(status) || of_ray_job == RAY_JOB_STARTED {
            Self::Started
        } else {
            Self::Pending
        }
    }

    /// Returns true once the object has ended.
    #[must_use]
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Deleted)
    }

    /// Returns true if this satisfies a dependency, false if it never will; `None` while that is open.
    /// A deleted object has ended with an unknown outcome.
    #[must_use]
    pub fn satisfies(self, kind: DependencyKind) -> Option<bool> {
        match (kind, self) {
            (_, Self::Pending) => None,
            (DependencyKind::After, _) => Some(true),
            (_, Self::Started) => None,
            (DependencyKind::AfterAny, _) => Some(true),
            (DependencyKind::AfterOk, _) => Some(self == Self::Succeeded),
            (DependencyKind::AfterNotOk, _) => Some(self == Self::Failed),
        }
    }

    /// Returns the word by which it is written down; `None` before the start.
    #[must_use]
    pub fn word(self) -> Option<&'static str> {
        Self::WORDS.iter().find(|(stage, _)| *stage == self).map(|(_, word)| *word)
    }

    /// Reads the word of a stage.
    pub(super) fn of_word(text: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, word)| *word == text).map(|(stage, _)| *stage)
    }
}

/// Returns true if pods run or have run, as the controllers count them: in the status itself, for each
/// Job of a JobSet or TrainJob, or for each role.
fn has_started(status: &Value) -> bool {
    let counts = |one: &Value, names: &[&str]| {
        names.iter().any(|name| one[*name].as_u64().is_some_and(|count| count > 0))
    };
    let ready = ["ready", "succeeded", "failed"];
    let lists = ["replicatedJobsStatus", "jobsStatus"].iter();
    let mut jobs = lists.filter_map(|list| status[*list].as_array()).flatten();
    let mut roles = status["replicaStatuses"].as_object().into_iter().flatten();
    counts(status, &ready)
        || jobs.any(|job| counts(job, &ready))
        // Of a role `active` are the pods that run.
        || roles.any(|(_, role)| counts(role, &["active", "succeeded", "failed"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(object: Value, expected: Progress) {
        let metadata = serde_json::from_value(object["metadata"].clone()).unwrap_or_default();
        assert_eq!(
            Progress::of(&metadata, &object["spec"], &object["status"]),
            expected,
            "{object}"
        );
    }

    #[test]
    fn the_status_says_how_far_an_object_is() {
        let status = |status: Value| json!({"status": status});
        let ended = |kind: &str| {
            status(json!({"ready": 1, "conditions": [{"type": kind, "status": "True"}]}))
        };
        check(json!({}), Progress::Pending);
        check(status(json!({"active": 1})), Progress::Pending);
        check(status(json!({"ready": 1})), Progress::Started);
        check(
            status(json!({"replicatedJobsStatus": [{"ready": 0}, {"succeeded": 1}]})),
            Progress::Started,
        );
        check(status(json!({"jobsStatus": [{"ready": 1}]})), Progress::Started);
        check(status(json!({"replicaStatuses": {"Worker": {"active": 2}}})), Progress::Started);
        for kind in ["Complete", "Completed", "Succeeded"] {
            check(ended(kind), Progress::Succeeded);
        }
        check(ended("Failed"), Progress::Failed);
        for (state, program, expected) in [
            ("Initializing", "PENDING", Progress::Pending),
            ("Running", "RUNNING", Progress::Started),
            ("Complete", "SUCCEEDED", Progress::Succeeded),
            ("Complete", "STOPPED", Progress::Failed),
            ("Failed", "FAILED", Progress::Failed),
            ("ValidationFailed", "", Progress::Failed),
        ] {
            check(status(json!({"jobDeploymentStatus": state, "jobStatus": program})), expected);
        }
        let open = json!([{"type": "Failed", "status": "False"}, {"type": "FailureTarget", "status": "True"}]);
        check(status(json!({"conditions": open})), Progress::Pending);
    }

    #[test]
    fn a_cancelled_object_has_ended_once_it_is_stopped() {
        let cancelled = |suspend: bool, deleted: Value| {
            json!({
                "metadata": {"annotations": {"muster.run/cancelled": "ann"}, "deletionTimestamp": deleted},
                "spec": {"suspend": suspend},
                "status": {"ready": 1},
            })
        };
        check(cancelled(true, Value::Null), Progress::Failed);
        check(cancelled(false, json!("x")), Progress::Failed);
        check(cancelled(false, Value::Null), Progress::Started);
    }

    #[test]
    fn dependencies_are_met_lost_or_open() {
        use DependencyKind::{After, AfterAny, AfterNotOk, AfterOk};
        use Progress::{Deleted, Failed, Pending, Started, Succeeded};
        let stages = [Pending, Started, Succeeded, Failed, Deleted];
        for (kind, expected) in [
            (After, [None, Some(true), Some(true), Some(true), Some(true)]),
            (AfterAny, [None, None, Some(true), Some(true), Some(true)]),
            (AfterOk, [None, None, Some(true), Some(false), Some(false)]),
            (AfterNotOk, [None, None, Some(false), Some(true), Some(false)]),
        ] {
            assert_eq!(stages.map(|stage| stage.satisfies(kind)), expected, "{kind:?}");
        }
        for stage in stages {
            assert_eq!(stage.word().and_then(Progress::of_word), stage.word().map(|_| stage));
            assert_eq!(stage.has_ended(), stage.satisfies(AfterAny).is_some());
        }
    }
}
