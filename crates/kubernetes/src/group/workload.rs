//! Workloads: objects whose controller makes pods as long as `spec.suspend` is false. A workload with
//! a queue label is started and stopped by Muster, from the pods that it will have: those of its pod
//! templates. What cannot be predicted of its pods is an error, never a guess.

mod ray;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::group::{GangRef, GroupKind, Progress, StartTerms};
use crate::names;
use crate::object::Metadata;
use crate::pod::{PodFacts, PodText};

/// Kinds of objects with `spec.suspend`.
pub const KINDS: [GroupKind; 5] = [
    GroupKind::Job,
    GroupKind::JobSet,
    GroupKind::TrainJob,
    GroupKind::RayCluster,
    GroupKind::RayJob,
];

/// Controllers that make the pods of these kinds (`spec.managedBy`). Another one may make them
/// elsewhere.
const MANAGERS: [&str; 4] = [
    "kubernetes.io/job-controller",
    "jobset.sigs.k8s.io/jobset-controller",
    "trainer.kubeflow.org/trainjob-controller",
    "ray.io/kuberay-operator",
];

/// Workload that Muster starts and stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Creation in RFC 3339: its place in the queue, whenever its pods are made.
    pub created: String,
    /// True while it must have no pods; false once Muster has started it.
    pub is_suspended: bool,
    /// True if it names its queue by Kueue's label alone: only where Muster reads Kueue's queues is it
    /// a workload.
    pub is_of_kueue: bool,
    /// Terms of its start beside its queue, or why they cannot be read.
    pub start: Result<StartTerms, String>,
    /// Pods that it has when it runs, or why they are not known.
    pub pods: Result<Vec<ExpectedPods>, String>,
}

/// Equal pods that a controller will make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedPods {
    /// Number of pods that run at once.
    pub count: u32,
    /// Each of them, as far as its template says; name, id and creation are those of the workload.
    pub pod: PodFacts,
    /// Priority class that it asks for; `None` means the default class.
    pub priority_class: Option<Arc<str>>,
}

/// Pod template of an object.
struct Template<'a> {
    count: u32,
    /// Metadata and specification of the pods.
    template: Cow<'a, Value>,
    /// Label with their role, and the role; `None` where all pods have one.
    role: Option<(&'static str, &'a str)>,
}

impl Workload {
    /// Returns the number of pods that it has when it runs; `None` if it is not known.
    #[must_use]
    pub fn size(&self) -> Option<usize> {
        let pods = self.pods.as_ref().ok()?;
        Some(pods.iter().map(|pods| pods.count as usize).sum())
    }

    /// Returns true while a user holds it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.start.as_ref().is_ok_and(|start| start.is_held)
    }

    /// Reads an object; `None` for one that Muster neither starts nor stops: without a queue label,
    /// ended, cancelled, managed by another object, or started by others.
    pub(crate) fn of(
        kind: GroupKind,
        metadata: &Metadata,
        spec: &Value,
        status: &Value,
    ) -> Option<Self> {
        let is_of_kueue = !metadata.labels.contains_key(names::QUEUE);
        let has_queue = !is_of_kueue || metadata.labels.contains_key(names::KUEUE_QUEUE);
        let is_suspended = spec.pointer("/suspend").and_then(Value::as_bool).unwrap_or(false);
        let is_admitted = metadata.annotations.contains_key(names::ADMITTED);
        let ends = metadata.deletion_timestamp.is_some()
            || Progress::of(metadata, spec, status).has_ended();
        if !has_queue || ends || !(is_suspended || is_admitted) || !is_on_top(metadata) {
            return None;
        }
        if !KINDS.contains(&kind) {
            return None;
        }
        let manager = spec["managedBy"].as_str().filter(|manager| !MANAGERS.contains(manager));
        let pods = match (manager, kind) {
            (Some(manager), _) => Err(format!(
                "its pods are made by {manager} (`managedBy`), perhaps in another cluster"
            )),
            (None, GroupKind::TrainJob) => {
                Err(format!("the JobSet {} of this TrainJob does not exist", metadata.name))
            }
            (None, _) => expected(kind, metadata, spec, status),
        };
        Some(Self {
            created: metadata.creation_timestamp.clone().unwrap_or_default(),
            is_suspended,
            is_of_kueue,
            start: StartTerms::of(kind, metadata),
            pods,
        })
    }
}

/// Returns what Muster says of the start of an object that it starts and stops, as a condition.
#[must_use]
pub fn admission(object: &Value) -> Option<Cow<'_, Value>> {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut own = conditions.filter(|one| one["type"] == names::ADMITTED_CONDITION);
    let of_annotation = || {
        let text = object["metadata"]["annotations"][names::ADMITTED_CONDITION].as_str()?;
        serde_json::from_str(text).ok().map(Cow::Owned)
    };
    own.next().map(Cow::Borrowed).or_else(of_annotation)
}

/// Returns true for a kind whose status has no conditions: what is said of it is an annotation.
#[must_use]
pub fn lacks_conditions(kind: GroupKind) -> bool {
    kind == GroupKind::RayJob
}

/// Reads the pods of a JobSet that a TrainJob starts and stops: the Trainer makes it, suspended, from
/// TrainJob and runtime. `None` for other objects.
pub(super) fn pods_of_owner(
    kind: GroupKind,
    metadata: &Metadata,
    spec: &Value,
    status: &Value,
) -> Option<Result<Vec<ExpectedPods>, String>> {
    let owner = metadata.controller()?;
    let is_its = kind == GroupKind::JobSet && owner.kind == "TrainJob";
    is_its.then(|| expected(kind, metadata, spec, status))
}

/// Reads the pods that an object has when it runs.
fn expected(
    kind: GroupKind,
    metadata: &Metadata,
    spec: &Value,
    status: &Value,
) -> Result<Vec<ExpectedPods>, String> {
    let templates = match kind {
        GroupKind::JobSet => job_set(spec, status)?,
        GroupKind::RayCluster => ray::cluster(spec),
        GroupKind::RayJob => ray::job(spec)?,
        _ => vec![job(spec, status)],
    };
    // Collecting results would make room for four, and most objects have one template.
    let mut all = Vec::with_capacity(templates.len());
    for template in &templates {
        all.push(template.expected(kind, metadata)?);
    }
    Ok(all)
}

/// Returns true unless another object makes this one, and would undo a change. CronJobs make Jobs and
/// leave them alone.
fn is_on_top(metadata: &Metadata) -> bool {
    metadata.controller().is_none_or(|owner| owner.kind == "CronJob")
}

fn number(value: &Value, path: &str) -> Option<u32> {
    u32::try_from(value.pointer(path)?.as_u64()?).ok()
}

/// Returns the pods of a Job that run at once: not more than it has completions left.
fn job<'a>(spec: &'a Value, status: &Value) -> Template<'a> {
    let parallelism = number(spec, "/parallelism").unwrap_or(1);
    let left = number(spec, "/completions").map_or(u32::MAX, |completions| {
        completions.saturating_sub(number(status, "/succeeded").unwrap_or(0))
    });
    Template {
        count: parallelism.min(left),
        template: Cow::Borrowed(&spec["template"]),
        role: None,
    }
}

/// Returns the pods of all replicated jobs, which must start at the same time; without the replicas
/// that have succeeded.
fn job_set<'a>(spec: &'a Value, status: &Value) -> Result<Vec<Template<'a>>, String> {
    let order = spec.pointer("/startupPolicy/startupPolicyOrder").and_then(Value::as_str);
    if order == Some("InOrder") {
        return Err("not supported for suspended objects: jobs that start in order".to_owned());
    }
    let jobs = spec["replicatedJobs"].as_array().map_or(&[][..], Vec::as_slice);
    if jobs.iter().any(|job| job["dependsOn"].as_array().is_some_and(|jobs| !jobs.is_empty())) {
        return Err("not supported for suspended objects: jobs that wait for others (`dependsOn`)"
            .to_owned());
    }
    let pods = jobs.iter().map(|one| {
        let replica = job(&one["template"]["spec"], &Value::Null);
        let ended = status["replicatedJobsStatus"].as_array().into_iter().flatten();
        let ended = ended.filter(|status| status["name"] == one["name"]);
        let succeeded: u32 = ended.filter_map(|status| number(status, "/succeeded")).sum();
        let replicas = number(one, "/replicas").unwrap_or(1).saturating_sub(succeeded);
        let count = replica.count.saturating_mul(replicas);
        let role = one["name"].as_str().map(|name| (names::REPLICATED_JOB, name));
        Template { count, role, ..replica }
    });
    Ok(pods.collect())
}

impl Template<'_> {
    /// Reads the pods of the template.
    fn expected(&self, kind: GroupKind, metadata: &Metadata) -> Result<ExpectedPods, String> {
        let spec = &self.template["spec"];
        let unreadable = |error| format!("its pod template cannot be read: {error}");
        let pairs = |of: &Value| match of {
            Value::Null => Ok(BTreeMap::new()),
            pairs => BTreeMap::<String, String>::deserialize(pairs),
        };
        let of_template = &self.template["metadata"];
        let mut labels = pairs(&of_template["labels"]).map_err(unreadable)?;
        // Labels that controllers add, which pods may select each other by.
        let added: &[(&str, &Arc<str>)] = match kind {
            GroupKind::JobSet => &[("jobset.sigs.k8s.io/jobset-name", &metadata.name)],
            GroupKind::RayCluster => &[(names::RAY_CLUSTER, &metadata.name)],
            // KubeRay names the cluster when it makes it.
            GroupKind::RayJob => &[],
            _ => &[
                ("batch.kubernetes.io/job-name", &metadata.name),
                ("job-name", &metadata.name),
                ("batch.kubernetes.io/controller-uid", &metadata.uid),
                ("controller-uid", &metadata.uid),
            ],
        };
        let added = added.iter().map(|(key, value)| (*key, &***value)).chain(self.role);
        labels.extend(added.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let of_pod = Metadata {
            name: Arc::clone(&metadata.name),
            namespace: Arc::clone(&metadata.namespace),
            uid: Arc::clone(&metadata.uid),
            creation_timestamp: metadata.creation_timestamp.clone(),
            labels,
            annotations: pairs(&of_template["annotations"]).map_err(unreadable)?,
            ..Metadata::default()
        };
        let mut pod = PodText::of_template(of_pod, spec).map_err(unreadable)?.facts();
        let own = GangRef::of_object(kind, metadata.key());
        if let Some(gang) = pod.gang.as_ref().filter(|gang| **gang != own) {
            return Err(format!(
                "its pod template names another gang, {gang}; a suspended object is the gang of its own pods"
            ));
        }
        if !pod.is_ours {
            return Err(format!(
                "its pods ask for another scheduler; write `schedulerName: {}` in its pod template",
                names::SCHEDULER
            ));
        }
        let volumes = spec.pointer("/volumes").and_then(Value::as_array).into_iter().flatten();
        if volumes.into_iter().any(|volume| volume.get("ephemeral").is_some()) {
            return Err("not supported for suspended objects: an ephemeral volume".to_owned());
        }
        pod.gang = Some(own);
        Ok(ExpectedPods {
            count: self.count,
            pod,
            priority_class: spec["priorityClassName"].as_str().map(Arc::from),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::group::GroupText;

    fn read(kind: GroupKind, object: Value) -> Option<Workload> {
        serde_json::from_value::<GroupText>(object).unwrap().facts(kind).workload
    }

    fn job_with(change: impl FnOnce(&mut Value)) -> Option<Workload> {
        let mut object = json!({
            "metadata": {
                "name": "train", "namespace": "team", "uid": "u1",
                "creationTimestamp": "2026-11-25T10:00:00Z",
                "labels": {"muster.run/queue": "research.vision"},
            },
            "spec": {
                "suspend": true, "parallelism": 4, "completions": 6,
                "template": {
                    "metadata": {"creationTimestamp": null},
                    "spec": {
                        "schedulerName": "muster",
                        "priorityClassName": "high",
                        "containers": [{"resources": {"limits": {"nvidia.com/gpu": 8}}}],
                    },
                },
            },
        });
        change(&mut object);
        read(GroupKind::Job, object)
    }

    #[test]
    fn a_job_has_as_many_pods_as_run_at_once() {
        let workload = job_with(|_| {}).unwrap();
        assert!(workload.is_suspended);
        assert_eq!(workload.created, "2026-11-25T10:00:00Z");
        let pods = workload.pods.unwrap();
        assert_eq!(pods.len(), 1);
        assert_eq!(pods[0].count, 4);
        assert_eq!(pods[0].pod.requests.get("nvidia.com/gpu"), 8);
        assert_eq!(pods[0].priority_class.as_deref(), Some("high"));
        let gang = pods[0].pod.gang.clone().unwrap();
        assert_eq!(gang.to_string(), "Job train");
        let left =
            |status: Value| job_with(|job| job["status"] = status).unwrap().pods.unwrap()[0].count;
        assert_eq!(left(json!({"succeeded": 3})), 3);
        let workload = job_with(|job| job["spec"]["completions"] = Value::Null).unwrap();
        assert_eq!(workload.pods.unwrap()[0].count, 4);
    }

    #[test]
    fn only_labelled_objects_that_muster_may_start_count() {
        let is_one = |change: fn(&mut Value)| job_with(change).is_some();
        assert!(!is_one(|job| job["metadata"]["labels"] = json!({})));
        assert!(is_one(|job| job["metadata"]["labels"]["muster.run/queue"] = json!("")));
        let of_kueue =
            |labels: Value| job_with(|job| job["metadata"]["labels"] = labels).unwrap().is_of_kueue;
        assert!(of_kueue(json!({"kueue.x-k8s.io/queue-name": "main"})));
        assert!(!of_kueue(json!({"kueue.x-k8s.io/queue-name": "main", "muster.run/queue": "q"})));
        // Started by others, and started by Muster.
        assert!(!is_one(|job| job["spec"]["suspend"] = json!(false)));
        assert!(is_one(|job| {
            job["spec"]["suspend"] = json!(false);
            job["metadata"]["annotations"] = json!({"muster.run/admitted": "x"});
        }));
        assert!(!is_one(
            |job| job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]})
        ));
        assert!(!is_one(|job| job["metadata"]["deletionTimestamp"] = json!("x")));
        let cancelled = json!({"muster.run/cancelled": "ann", "muster.run/admitted": "x"});
        for is_suspended in [true, false] {
            let job = job_with(|job| {
                job["metadata"]["annotations"] = cancelled.clone();
                job["spec"]["suspend"] = json!(is_suspended);
            });
            assert_eq!(job.is_some(), !is_suspended);
        }
        let owned = |kind: &str| {
            job_with(|job| {
                job["metadata"]["ownerReferences"] =
                    json!([{"apiVersion": "x/v1", "kind": kind, "name": "o", "controller": true}]);
            })
        };
        assert!(owned("JobSet").is_none());
        assert!(owned("CronJob").is_some());
    }

    #[test]
    fn what_cannot_be_predicted_is_named() {
        let text = |change: fn(&mut Value)| job_with(change).unwrap().pods.unwrap_err();
        assert_eq!(
            text(
                |job| job["spec"]["template"]["spec"]["schedulerName"] = json!("default-scheduler")
            ),
            "its pods ask for another scheduler; write `schedulerName: muster` in its pod template"
        );
        assert_eq!(
            text(|job| job["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue")),
            "its pods are made by kueue.x-k8s.io/multikueue (`managedBy`), perhaps in another cluster"
        );
        assert_eq!(
            text(|job| job["spec"]["template"]["metadata"]["labels"] =
                json!({"muster.run/gang": "g"})),
            "its pod template names another gang, gang g; a suspended object is the gang of its own pods"
        );
        assert_eq!(
            text(|job| {
                job["spec"]["template"]["spec"]["volumes"] =
                    json!([{"name": "v", "ephemeral": {}}]);
            }),
            "not supported for suspended objects: an ephemeral volume"
        );
    }

    #[test]
    fn the_admission_is_a_condition_or_an_annotation() {
        let said = json!({"type": "muster.run/Admitted", "reason": "Waiting"});
        let other = json!({"type": "HeadPodReady"});
        let with_condition = json!({"status": {"conditions": [other, said]}});
        let annotations = json!({"muster.run/Admitted": said.to_string()});
        let with_annotation = json!({"metadata": {"annotations": annotations}});
        for object in [with_condition, with_annotation] {
            assert_eq!(admission(&object).unwrap()["reason"], "Waiting");
        }
        assert_eq!(admission(&json!({"status": {"conditions": [other]}})), None);
    }

    fn template(gpus: u32) -> Value {
        json!({"spec": {
            "schedulerName": "muster",
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}],
        }})
    }

    /// Checks the pods of an object, as count and GPUs of each template.
    fn check(kind: GroupKind, spec: Value, expected: Result<&[(u32, u64)], &str>) {
        let mut object = json!({
            "metadata": {"name": "a", "namespace": "team", "labels": {"muster.run/queue": "q"}},
            "spec": spec,
        });
        object["spec"]["suspend"] = json!(true);
        let pods = read(kind, object).unwrap().pods;
        let found = pods.map(|pods| {
            let pair = |one: &ExpectedPods| (one.count, one.pod.requests.get("nvidia.com/gpu"));
            pods.iter().map(pair).collect::<Vec<_>>()
        });
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{kind}");
    }

    #[test]
    fn other_kinds_have_the_pods_of_all_their_templates() {
        let replicated = |name: &str, gpus| json!({"name": name, "replicas": 2, "template": {"spec": {"parallelism": 3, "template": template(gpus)}}});
        let jobs = json!([replicated("a", 8), {"name": "b", "template": {"spec": {"template": template(0)}}}]);
        check(GroupKind::JobSet, json!({"replicatedJobs": jobs}), Ok(&[(6, 8), (1, 0)]));
        let ended = json!({"replicatedJobsStatus": [{"name": "a", "succeeded": 1}]});
        let spec = json!({"replicatedJobs": jobs});
        assert_eq!(job_set(&spec, &ended).unwrap()[0].count, 3);
        check(
            GroupKind::JobSet,
            json!({"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "InOrder"}}),
            Err("not supported for suspended objects: jobs that start in order"),
        );
        let mut second = replicated("b", 8);
        second["dependsOn"] = json!([{"name": "a", "status": "Complete"}]);
        check(
            GroupKind::JobSet,
            json!({"replicatedJobs": [replicated("a", 8), second]}),
            Err("not supported for suspended objects: jobs that wait for others (`dependsOn`)"),
        );
        let workers =
            json!([{"replicas": 4, "minReplicas": 1, "numOfHosts": 2, "template": template(8)}]);
        let ray = |scales: bool| json!({"headGroupSpec": {"template": template(1)}, "workerGroupSpecs": workers, "enableInTreeAutoscaling": scales});
        check(GroupKind::RayCluster, ray(false), Ok(&[(1, 1), (8, 8)]));
        check(GroupKind::RayCluster, ray(true), Ok(&[(1, 1), (2, 8)]));
        let job = json!({"rayClusterSpec": ray(false), "shutdownAfterJobFinishes": true});
        check(GroupKind::RayJob, job, Ok(&[(1, 1), (8, 8)]));
        check(GroupKind::TrainJob, json!({}), Err("the JobSet a of this TrainJob does not exist"));
    }

    #[test]
    fn the_jobset_of_a_trainjob_tells_its_pods() {
        let object = json!({
            "metadata": {"name": "a", "namespace": "team", "ownerReferences": [
                {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "a", "controller": true},
            ]},
            "spec": {"suspend": true, "replicatedJobs": [{"template": {"spec": {"parallelism": 4, "template": template(8)}}}]},
        });
        let facts = serde_json::from_value::<GroupText>(object).unwrap().facts(GroupKind::JobSet);
        assert_eq!(facts.workload, None);
        assert_eq!(facts.pods_of_owner.unwrap().unwrap()[0].count, 4);
    }
}
