//! The tasks of a job: the newest pod of each place in the gang, by rank.

use std::collections::BTreeMap;

use muster_model::view::{TaskStage, TaskView};
use muster_model::{GpuMilli, Rank, TaskExit, Time};
use serde_json::Value;

use super::{JobObject, JobRole, roles};
use crate::instant;
use crate::names;

/// Labels with the index of a pod within its role.
const INDEX_LABELS: [&str; 3] =
    [names::COMPLETION_INDEX, "volcano.sh/task-index", "training.kubeflow.org/replica-index"];

/// Label by which a JobSet counts the equal Jobs of a role.
const JOB_INDEX_LABEL: &str = "jobset.sigs.k8s.io/job-index";

/// Reason of a container that was killed because of memory, as kubelets name it.
const OUT_OF_MEMORY: &str = "OOMKilled";

/// Task of a job that has a pod.
#[derive(Clone, Copy, Debug)]
pub struct JobTask<'a> {
    /// Rank in the gang; 0 in an element of an array or service.
    pub rank: u32,
    /// Position of the pod among those of its role; the element's position in an array or service.
    pub ordinal: u32,
    /// Name of its role.
    pub role: &'a str,
    /// Pod as the API server prints it.
    pub pod: &'a Value,
    /// Name of its container.
    pub container: &'a str,
    /// Number of pods that its place has had, and that still exist.
    pub attempt: u32,
}

/// Returns the tasks that have a pod, in the order of ranks; of an array in that of its elements.
#[must_use]
pub fn tasks<'a>(job: JobObject<'_>, roles: &'a [JobRole], pods: &[&'a Value]) -> Vec<JobTask<'a>> {
    let has_elements = job.has_elements();
    let mut tasks = Vec::new();
    let mut first_rank = 0;
    for role in roles {
        let own: Vec<&Value> = pods
            .iter()
            .copied()
            .filter(|pod| role_of(pod, roles) == Some(role.name.as_str()))
            .collect();
        let own = if job.is_ray() { without_leaving(own) } else { own };
        let containers = u32::try_from(role.containers.len()).unwrap_or(u32::MAX);
        for (ordinal, (pod, attempt)) in newest(&own, role, has_elements) {
            for (nth, container) in (0..).zip(&role.containers) {
                let in_role = ordinal.saturating_mul(containers).saturating_add(nth);
                let rank =
                    if has_elements { nth } else { u32::saturating_add(first_rank, in_role) };
                tasks.push(JobTask {
                    rank,
                    ordinal,
                    role: &role.name,
                    pod,
                    container: if container.is_empty() { first_container(pod) } else { container },
                    attempt,
                });
            }
        }
        first_rank = first_rank.saturating_add(role.tasks());
    }
    tasks
}

/// Returns the roles of a job that has these pods: a Ray cluster may have grown beyond its fewest.
#[must_use]
pub fn present_roles(job: JobObject<'_>, pods: &[&Value]) -> Vec<JobRole> {
    let declared = roles(job);
    if !job.is_ray() {
        return declared;
    }
    let live = |name: &str| {
        let of_role = |pod: &&&Value| role_of(pod, &declared) == Some(name);
        pods.iter().filter(of_role).filter(|pod| !has_ended(pod) && !is_stopped(pod)).count()
    };
    let grown = |role: &JobRole| {
        let live = u32::try_from(live(&role.name)).unwrap_or(u32::MAX);
        JobRole { pods: role.pods.max(live), ..role.clone() }
    };
    declared.iter().map(grown).collect()
}

/// Returns the role of a pod; `None` for pods beside the tasks, such as those that prepare data.
fn role_of<'a>(pod: &'a Value, roles: &'a [JobRole]) -> Option<&'a str> {
    let labels = &pod["metadata"]["labels"];
    let mut named = names::ROLE_LABELS.iter().filter_map(|key| labels[*key].as_str()).peekable();
    if named.peek().is_none() {
        return roles.first().map(|role| role.name.as_str());
    }
    named.find(|name| roles.iter().any(|role| role.name == *name))
}

/// Leaves out pods that are being deleted beside others: a cluster that shrinks has fewer tasks.
fn without_leaving(pods: Vec<&Value>) -> Vec<&Value> {
    let (leaving, staying): (Vec<&Value>, Vec<&Value>) =
        pods.into_iter().partition(|pod| is_stopped(pod));
    if staying.is_empty() { leaving } else { staying }
}

fn first_container(pod: &Value) -> &str {
    pod.pointer("/spec/containers/0/name").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the newest pod of each index, with the number of pods of that index. Pods without one are
/// counted by their names.
fn newest<'a>(
    pods: &[&'a Value],
    role: &JobRole,
    has_elements: bool,
) -> BTreeMap<u32, (&'a Value, u32)> {
    let mut pods = pods.to_vec();
    pods.sort_by_key(|pod| pod["metadata"]["name"].as_str());
    let mut newest: BTreeMap<u32, (&Value, u32)> = BTreeMap::new();
    for (nth, pod) in (0..).zip(pods) {
        // Pods of a role of one pod are attempts of the same place; replicas have no places.
        let without = if role.pods == 1 && !has_elements { 0 } else { nth };
        let index = index(pod, role).unwrap_or(without);
        let created = |pod: &'a Value| pod["metadata"]["creationTimestamp"].as_str();
        let entry = newest.entry(index).or_insert((pod, 0));
        entry.1 += 1;
        if created(pod) > created(entry.0) {
            entry.0 = pod;
        }
    }
    newest
}

/// Returns the index that controllers have given the pod; in a JobSet after the pods of earlier Jobs.
fn index(pod: &Value, role: &JobRole) -> Option<u32> {
    let metadata = &pod["metadata"];
    let value = |key: &str| -> Option<u32> {
        let text =
            metadata["labels"][key].as_str().or_else(|| metadata["annotations"][key].as_str());
        text?.parse().ok()
    };
    let index = INDEX_LABELS.iter().find_map(|key| value(key))?;
    let job = value(JOB_INDEX_LABEL).unwrap_or(0);
    Some(job.saturating_mul(role.pods_per_job).saturating_add(index))
}

impl JobTask<'_> {
    /// Returns the view of the task. Kubernetes does not tell which devices a pod has.
    #[must_use]
    pub fn view(&self) -> TaskView {
        let state = self.container_state();
        let stage = match () {
            () if state["terminated"].is_object() => TaskStage::Ended,
            () if has_ended(self.pod) => TaskStage::Ended,
            () if state["running"].is_object() => TaskStage::Running,
            // A kubelet does not tell a prepared container from one that is being prepared.
            () => TaskStage::Ordered,
        };
        TaskView {
            rank: Rank(self.rank),
            group: self.role.to_owned(),
            node: self.pod["spec"]["nodeName"].as_str().unwrap_or_default().into(),
            devices: Vec::new(),
            share: GpuMilli(0),
            stage,
            ready: false,
            exit: (stage == TaskStage::Ended).then(|| self.exit()),
        }
    }

    /// Returns the resources that its container is limited to, such as `nvidia.com/gpu`.
    pub fn limits(&self) -> impl Iterator<Item = &str> {
        let containers = self.pod["spec"]["containers"].as_array().into_iter().flatten();
        let own = containers.filter(|one| one["name"] == self.container);
        own.filter_map(|one| one["resources"]["limits"].as_object())
            .flat_map(|limits| limits.keys().map(String::as_str))
    }

    /// Returns the state of its container: `waiting`, `running` or `terminated`.
    #[must_use]
    pub fn container_state(&self) -> &Value {
        let own = self.statuses("containerStatuses").find(|one| one["name"] == self.container);
        own.map_or(&Value::Null, |own| &own["state"])
    }

    /// Returns true once its process has started, so that there may be output.
    #[must_use]
    pub fn has_started(&self) -> bool {
        let state = self.container_state();
        state["running"].is_object() || state["terminated"].is_object()
    }

    /// Returns the states of the containers that run before it.
    pub(super) fn init_states(&self) -> impl Iterator<Item = &Value> {
        self.statuses("initContainerStatuses").map(|one| &one["state"])
    }

    /// Returns the name of the container before it that has failed; `None` without one.
    #[must_use]
    pub fn failed_before(&self) -> Option<&str> {
        self.failure_before()?["name"].as_str()
    }

    /// Returns the status of the container before it that has failed.
    fn failure_before(&self) -> Option<&Value> {
        let mut before = self.statuses("initContainerStatuses");
        before.find(|one| {
            let code = one["state"]["terminated"]["exitCode"].as_i64();
            code.is_some_and(|code| code != 0)
        })
    }

    fn statuses(&self, field: &str) -> impl Iterator<Item = &Value> {
        self.pod["status"][field].as_array().into_iter().flatten()
    }

    fn exit(&self) -> TaskExit {
        if self.pod["status"]["reason"] == "DeadlineExceeded" {
            return TaskExit::TimedOut;
        }
        let own = &self.container_state()["terminated"];
        let failed_before = self.failure_before().map(|one| &one["state"]["terminated"]);
        let ended = if own.is_object() { own } else { failed_before.unwrap_or(own) };
        let code = ended["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
        match (code, ended["reason"].as_str()) {
            (_, Some(OUT_OF_MEMORY)) => TaskExit::OutOfMemory,
            (Some(code), _) if code > 128 && is_stopped(self.pod) => TaskExit::Stopped,
            (Some(code), _) => TaskExit::Code { code },
            (None, _) => TaskExit::Stopped,
        }
    }

    /// Returns when its process started.
    #[must_use]
    pub fn started(&self) -> Option<Time> {
        let state = self.container_state();
        let at = |stage: &str| state[stage]["startedAt"].as_str();
        let started = instant::parse(at("running").or_else(|| at("terminated"))?);
        // A container that could not start has the beginning of 1970.
        started.filter(|at| at.0 > 0)
    }

    /// Returns when its process ended.
    #[must_use]
    pub fn ended(&self) -> Option<Time> {
        instant::parse(self.container_state()["terminated"]["finishedAt"].as_str()?)
    }
}

fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Returns true if the pod is being deleted: its processes were ended, and did not end by themselves.
fn is_stopped(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}
