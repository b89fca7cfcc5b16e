//! Workloads: objects whose controller makes pods as long as `spec.suspend` is false. A workload with
//! a queue label is started and stopped by Muster, from the pods that it will have: those of its pod
//! templates. What cannot be foretold of its pods is an error, never a guess.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::group::{GangRef, GroupKind};
use crate::names;
use crate::object::Metadata;
use crate::pod::{PodFacts, PodText};

/// Kinds of objects with `spec.suspend`.
pub const KINDS: [GroupKind; 1] = [GroupKind::Job];

/// Workload that Muster starts and stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Creation in RFC 3339: its place in the queue, whenever its pods are made.
    pub created: String,
    /// True while it must have no pods; false once Muster has started it.
    pub is_suspended: bool,
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
    template: &'a Value,
}

impl Workload {
    /// Returns the number of pods that it has when it runs; `None` if it is not known.
    #[must_use]
    pub fn size(&self) -> Option<usize> {
        let pods = self.pods.as_ref().ok()?;
        Some(pods.iter().map(|pods| pods.count as usize).sum())
    }

    /// Reads an object; `None` for one that Muster neither starts nor stops: without a queue label,
    /// ended, managed by another object, or started by others.
    pub(crate) fn of(
        kind: GroupKind,
        metadata: &Metadata,
        spec: &Value,
        status: &Value,
    ) -> Option<Self> {
        let has_queue = metadata.labels.contains_key(names::QUEUE);
        let is_suspended = spec.pointer("/suspend").and_then(Value::as_bool).unwrap_or(false);
        let is_admitted = metadata.annotations.contains_key(names::ADMITTED);
        let ends = metadata.deletion_timestamp.is_some() || has_ended(status);
        if !has_queue || ends || !(is_suspended || is_admitted) || !is_on_top(metadata) {
            return None;
        }
        let templates = match kind {
            GroupKind::Job => job(spec, status),
            _ => return None,
        };
        let pods = templates.and_then(|templates| {
            templates.iter().map(|one| one.expected(kind, metadata)).collect()
        });
        Some(Self {
            created: metadata.creation_timestamp.clone().unwrap_or_default(),
            is_suspended,
            pods,
        })
    }
}

/// Returns true unless another object makes this one, and would undo a change. CronJobs make Jobs and
/// leave them alone.
fn is_on_top(metadata: &Metadata) -> bool {
    metadata.controller().is_none_or(|owner| owner.kind == "CronJob")
}

fn has_ended(status: &Value) -> bool {
    let conditions = status.pointer("/conditions").and_then(Value::as_array).into_iter().flatten();
    let is_end = |one: &Value| {
        let kind = one["type"].as_str().unwrap_or_default();
        ["Complete", "Completed", "Failed"].contains(&kind) && one["status"] == "True"
    };
    conditions.into_iter().any(is_end)
}

fn number(value: &Value, path: &str) -> Option<u32> {
    u32::try_from(value.pointer(path)?.as_u64()?).ok()
}

/// Returns the pods of a Job that run at once: not more than it has completions left.
fn job<'a>(spec: &'a Value, status: &Value) -> Result<Vec<Template<'a>>, String> {
    if let Some(manager) = spec["managedBy"].as_str()
        && manager != "kubernetes.io/job-controller"
    {
        return Err(format!("its pods are made by {manager}, not by the Job controller"));
    }
    let parallelism = number(spec, "/parallelism").unwrap_or(1);
    let left = number(spec, "/completions").map_or(u32::MAX, |completions| {
        completions.saturating_sub(number(status, "/succeeded").unwrap_or(0))
    });
    Ok(vec![Template { count: parallelism.min(left), template: &spec["template"] }])
}

impl Template<'_> {
    /// Reads the pods of the template.
    fn expected(&self, kind: GroupKind, metadata: &Metadata) -> Result<ExpectedPods, String> {
        let spec = &self.template["spec"];
        let mut labels = self.template["metadata"]["labels"].clone();
        if labels.is_null() {
            labels = json!({});
        }
        // Labels that controllers add, which pods may select each other by.
        for (key, value) in [
            ("batch.kubernetes.io/job-name", &metadata.name),
            ("job-name", &metadata.name),
            ("batch.kubernetes.io/controller-uid", &metadata.uid),
            ("controller-uid", &metadata.uid),
        ] {
            labels[key] = json!(**value);
        }
        let pod = json!({
            "metadata": {
                "name": *metadata.name,
                "namespace": *metadata.namespace,
                "uid": *metadata.uid,
                "creationTimestamp": metadata.creation_timestamp,
                "labels": labels,
                "annotations": self.template["metadata"]["annotations"],
            },
            "spec": spec,
        });
        let text: PodText = serde_json::from_value(without_nulls(pod))
            .map_err(|error| format!("its pod template cannot be read: {error}"))?;
        let mut pod = text.facts();
        if let Some(gang) = &pod.gang {
            return Err(format!("its pods would be members of {gang}, and not of it alone"));
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
        pod.gang = Some(GangRef::of_object(kind, metadata.key()));
        Ok(ExpectedPods {
            count: self.count,
            pod,
            priority_class: spec["priorityClassName"].as_str().map(Arc::from),
        })
    }
}

/// Removes null members, which mean the same as none.
fn without_nulls(mut value: Value) -> Value {
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.retain(|_, member| !member.is_null());
    }
    value
}

#[cfg(test)]
mod tests {
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
    fn what_cannot_be_foretold_is_named() {
        let text = |change: fn(&mut Value)| job_with(change).unwrap().pods.unwrap_err();
        assert_eq!(
            text(
                |job| job["spec"]["template"]["spec"]["schedulerName"] = json!("default-scheduler")
            ),
            "its pods ask for another scheduler; write `schedulerName: muster` in its pod template"
        );
        assert_eq!(
            text(|job| job["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue")),
            "its pods are made by kueue.x-k8s.io/multikueue, not by the Job controller"
        );
        assert_eq!(
            text(|job| job["spec"]["template"]["metadata"]["labels"] =
                json!({"muster.run/gang": "g"})),
            "its pods would be members of gang g, and not of it alone"
        );
        assert_eq!(
            text(|job| {
                job["spec"]["template"]["spec"]["volumes"] =
                    json!([{"name": "v", "ephemeral": {}}]);
            }),
            "not supported for suspended objects: an ephemeral volume"
        );
    }
}
