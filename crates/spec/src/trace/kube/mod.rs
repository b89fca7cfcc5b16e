//! Pods and Jobs as listed by `kubectl get pods,jobs -o json`. Pods of one group, by any of the
//! usual labels, are one job with as many tasks; every other pod is a job. The user of a job is its
//! namespace.

mod object;
mod resources;

use std::collections::BTreeMap;

use muster_model::{Span, Time};

use self::object::{Metadata, Object, Spec};
use super::value::{ended, instant};
use super::{JobEnd, TraceJob};

/// Labels and annotations that name a pod's group: scheduler-plugins, Kueue, Volcano, KAI,
/// Kubeflow's trainer, JobSet.
const GROUPS: [&str; 7] = [
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "kueue.x-k8s.io/pod-group-name",
    "scheduling.k8s.io/group-name",
    "pod-group-name",
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
];
/// Labels and annotations that name a queue.
const QUEUES: [&str; 3] =
    ["kueue.x-k8s.io/queue-name", "scheduling.volcano.sh/queue-name", "kai.scheduler/queue"];

/// Pods of groups, collected until the end of the list.
#[derive(Clone, Debug, Default)]
pub(super) struct PodGroups {
    waiting: BTreeMap<String, TraceJob>,
}

impl PodGroups {
    /// Reads an object of the list; `None` for a pod of a group, which is collected.
    pub(super) fn object(&mut self, text: &str) -> Result<Option<TraceJob>, String> {
        let object: Object = super::json::parse(text)?;
        match object.kind.as_deref() {
            Some("Job") => job(&object).map(Some),
            Some("Pod") | None => {
                let one = pod(&object)?;
                Ok(match group(&object) {
                    None => Some(one),
                    Some(name) => {
                        self.join(name, one);
                        None
                    }
                })
            }
            Some(other) => Err(format!("a {}, neither a Pod nor a Job", super::csv::shown(other))),
        }
    }

    /// Returns the jobs of all groups, by name.
    pub(super) fn finish(&mut self) -> impl Iterator<Item = TraceJob> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }

    /// Adds a pod to its group. A group was submitted with its first pod and ran as long as the
    /// longest. Its tasks are the pods with the most GPUs: a launcher without GPUs is not counted.
    fn join(&mut self, name: String, pod: TraceJob) {
        let Some(job) = self.waiting.get_mut(&name) else {
            self.waiting.insert(name.clone(), TraceJob { id: name.into(), ..pod });
            return;
        };
        let has = job.task.gpu.devices;
        let gets = pod.task.gpu.devices;
        job.submit = job.submit.min(pod.submit);
        // The group works from when the last of its pods does.
        job.started = job.started.zip(pod.started).map(|(one, other)| one.max(other));
        job.runtime = job.runtime.zip(pod.runtime).map(|(one, other)| one.max(other));
        if (job.ended, pod.ended) != (JobEnd::Completed, JobEnd::Completed) {
            job.ended = if pod.ended == JobEnd::Completed { job.ended } else { pod.ended };
        }
        if gets > has {
            (job.tasks, job.task) = (1, pod.task);
        } else if gets == has {
            job.tasks = job.tasks.saturating_add(1);
            job.task.cpus = job.task.cpus.max(pod.task.cpus);
            job.task.memory = job.task.memory.max(pod.task.memory);
        }
    }
}

fn group(object: &Object) -> Option<String> {
    let native =
        object.spec.scheduling_group.as_ref().and_then(|group| group.pod_group_name.as_deref());
    let name = native.or_else(|| marked(object, &GROUPS))?;
    Some(format!("{}/{name}", object.metadata.namespace.as_deref().unwrap_or("default")))
}

/// Returns the first of these labels or annotations.
fn marked<'a>(object: &'a Object, names: &[&str]) -> Option<&'a str> {
    let Metadata { labels, annotations, .. } = &object.metadata;
    names
        .iter()
        .find_map(|name| labels.get(*name).or_else(|| annotations.get(*name)))
        .map(String::as_str)
}

/// Converts a pod. It ran from the start of its first container to the end of its last.
fn pod(object: &Object) -> Result<TraceJob, String> {
    let ends = object.status.container_statuses.iter().map(|status| {
        let ran = status.state.terminated.as_ref()?;
        time(&ran.started_at).zip(time(&ran.finished_at))
    });
    let ends: Option<Vec<(Time, Time)>> = ends.collect();
    let first = ends.iter().flatten().map(|(start, _)| *start).min();
    let last = ends.iter().flatten().map(|(_, end)| *end).max();
    let runtime = first.zip(last).map(|(first, last)| last.since(first));
    let state = ended(object.status.phase.as_deref().unwrap_or_default());
    let job = from(object, &object.spec, 1, runtime.filter(|_| state != JobEnd::Unknown), state)?;
    Ok(TraceJob { started: first, ..job })
}

/// Converts a Job, which has as many tasks as its parallelism. If it has more completions than
/// that, they run in waves, of which this is one.
fn job(object: &Object) -> Result<TraceJob, String> {
    let template = object.spec.template.as_ref().ok_or("a Job without a template")?;
    let holds = |kinds: &[&str]| {
        let conditions = &object.status.conditions;
        conditions
            .iter()
            .find(|found| kinds.contains(&found.kind.as_str()) && found.status == "True")
    };
    let completed = holds(&["Complete", "SuccessCriteriaMet"]);
    let failed = holds(&["Failed", "FailureTarget"]);
    let (state, end) = match (completed, failed) {
        (Some(condition), _) => (
            JobEnd::Completed,
            time(&object.status.completion_time).or(time(&condition.last_transition_time)),
        ),
        (None, Some(condition)) => (JobEnd::Failed, time(&condition.last_transition_time)),
        (None, None) => (JobEnd::Unknown, None),
    };
    let runtime = time(&object.status.start_time).zip(end).map(|(start, end)| end.since(start));
    let parallelism = object.spec.parallelism.unwrap_or(1);
    let tasks = parallelism.min(object.spec.completions.unwrap_or(parallelism)).max(1);
    from(object, &template.spec, tasks, runtime, state)
}

fn from(
    object: &Object,
    pod: &Spec,
    tasks: u32,
    runtime: Option<Span>,
    state: JobEnd,
) -> Result<TraceJob, String> {
    let Metadata { name, namespace, .. } = &object.metadata;
    let namespace = namespace.as_deref().unwrap_or("default");
    Ok(TraceJob {
        id: format!("{namespace}/{name}").into(),
        submit: time(&object.metadata.creation_timestamp)
            .ok_or("`creationTimestamp` is no date")?,
        runtime,
        started: None,
        requested: object
            .spec
            .active_deadline_seconds
            .or(pod.active_deadline_seconds)
            .map(Span::from_secs),
        tasks,
        task: resources::of(pod)?,
        user: Some(namespace.into()),
        queue: marked(object, &QUEUES).map(Into::into),
        priority: pod.priority.unwrap_or(0),
        ended: state,
    })
}

fn time(text: &Option<String>) -> Option<Time> {
    text.as_deref().and_then(instant)
}

#[cfg(test)]
mod tests {
    use super::super::{TraceFormat, tests::jobs};
    use super::*;

    const PODS: &str = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"kind": "Pod", "metadata": {"name": "w-0", "namespace": "nlp", "creationTimestamp": "2026-03-01T10:00:00Z",
          "labels": {"training.kubeflow.org/job-name": "w", "kueue.x-k8s.io/queue-name": "team"}},
         "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "7500m", "memory": "2Gi"}}},
                                 {"resources": {"requests": {"cpu": "500m"}}}],
                  "initContainers": [{"resources": {"requests": {"memory": "3Gi"}}}]},
         "status": {"phase": "Succeeded", "containerStatuses": [
            {"state": {"terminated": {"startedAt": "2026-03-01T10:01:00Z", "finishedAt": "2026-03-01T11:01:00Z"}}}]}},
        {"kind": "Pod", "metadata": {"name": "lone", "creationTimestamp": "2026-03-01T10:00:00Z"},
         "spec": {"activeDeadlineSeconds": 60, "containers": [{}]}, "status": {"phase": "Running"}},
        {"kind": "Pod", "metadata": {"name": "launcher", "namespace": "nlp", "creationTimestamp": "2026-03-01T09:59:00Z",
          "labels": {"training.kubeflow.org/job-name": "w"}}, "spec": {"containers": [{}]}, "status": {"phase": "Failed"}},
        {"kind": "Pod", "metadata": {"name": "w-1", "namespace": "nlp", "creationTimestamp": "2026-03-01T10:00:00Z",
          "annotations": {"training.kubeflow.org/job-name": "w"}},
         "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}, "status": {"phase": "Succeeded"}},
        {"kind": "Node", "metadata": {"name": "n"}, "spec": {}},
        {"kind": "Job", "metadata": {"name": "j", "creationTimestamp": "2026-03-01T10:00:00Z"},
         "spec": {"parallelism": 4, "completions": 2, "activeDeadlineSeconds": 3600,
                  "template": {"spec": {"containers": [{"resources": {"requests": {"amd.com/gpu": "1"}}}]}}},
         "status": {"startTime": "2026-03-01T10:00:10Z",
                    "conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-03-01T10:01:10Z"}]}}
    ]}"#;

    #[test]
    fn pods_of_a_group_are_one_job_and_jobs_hold_their_parallelism() {
        let (jobs, bad) = jobs(TraceFormat::Kubernetes, PODS);
        assert_eq!(bad, ["line 16: a Node, neither a Pod nor a Job"]);
        let [lone, job, gang] = jobs.as_slice() else { panic!("{jobs:?}") };
        assert_eq!(
            (&*lone.id, lone.runtime, lone.requested),
            ("default/lone", None, Some(Span(60_000)))
        );
        assert_eq!((job.tasks, job.runtime, job.ended), (2, Some(Span(60_000)), JobEnd::Failed));
        assert_eq!(job.task.gpu.devices, 1);
        assert_eq!((&*gang.id, gang.tasks, gang.task.gpu.devices), ("nlp/w", 2, 8));
        assert_eq!((gang.task.cpus.0, gang.task.memory.0), (8000, 3 << 30));
        assert_eq!((gang.submit.0 % 3_600_000, gang.ended), (59 * 60_000, JobEnd::Failed));
        assert_eq!(
            (gang.user.as_deref(), gang.runtime),
            (Some("nlp"), None),
            "not all runtimes are known"
        );
    }
}
