//! The objects of a probe gang: its pods, and what makes them known as a gang to their scheduler.

use muster_kubernetes::names;
use serde_json::{Value, json};

use super::{KUEUE, LABEL, POD_GROUPS, ProbeObject, ProbePlan, ProbeTerms};
use crate::kubernetes::view::DEFAULT_SCHEDULER;

/// API group of the PodGroups of Kubernetes.
const NATIVE_GROUP: &str = "scheduling.k8s.io";

/// Way in which pods are made known as a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GangForm {
    /// Nothing: each pod is on its own.
    None,
    /// Annotations of the pods, for Muster's scheduler.
    Annotated,
    /// PodGroup of an API group, which the pods name in a label and an annotation of this key.
    PodGroup { group: &'static str, key: &'static str },
    /// PodGroup of Kubernetes, which the pods name in a field.
    Native,
    /// Suspended Job in a queue of Kueue.
    KueueJob,
}

impl GangForm {
    /// Returns the form that a scheduler knows.
    pub(super) fn of(scheduler: &str) -> Option<Self> {
        let pod_group = |group, key| Self::PodGroup { group, key };
        Some(match scheduler {
            names::SCHEDULER => Self::Annotated,
            "volcano" => pod_group("scheduling.volcano.sh", "scheduling.k8s.io/group-name"),
            names::KAI_SCHEDULER => pod_group("scheduling.run.ai", "pod-group-name"),
            "scheduler-plugins-scheduler" => {
                pod_group("scheduling.x-k8s.io", "scheduling.x-k8s.io/pod-group")
            }
            KUEUE => Self::KueueJob,
            POD_GROUPS => Self::Native,
            DEFAULT_SCHEDULER => Self::None,
            _ => return None,
        })
    }
}

/// Returns the objects of a gang of this name and number of pods.
///
/// # Errors
/// If its form needs a queue, and none is named.
pub(super) fn of_gang(
    plan: &ProbePlan,
    form: GangForm,
    (gang, pods): (&str, u64),
    terms: &ProbeTerms,
) -> Result<Vec<ProbeObject>, String> {
    let object = |group: &'static str, plural: &'static str, kind: &str, spec: Value| ProbeObject {
        group,
        plural,
        object: json!({
            "kind": kind,
            "metadata": {"name": gang, "namespace": terms.namespace, "labels": {LABEL: gang}},
            "spec": spec,
        }),
    };
    let mut objects = match form {
        GangForm::None | GangForm::Annotated => Vec::new(),
        GangForm::PodGroup { group, .. } => {
            let mut spec = json!({"minMember": pods});
            if let Some(queue) = &terms.queue {
                spec["queue"] = json!(queue);
            }
            vec![object(group, "podgroups", "PodGroup", spec)]
        }
        GangForm::Native => {
            let spec = json!({"schedulingPolicy": {"gang": {"minCount": pods}}});
            vec![object(NATIVE_GROUP, "podgroups", "PodGroup", spec)]
        }
        GangForm::KueueJob => {
            let Some(queue) = &terms.queue else {
                return Err("a LocalQueue of the namespace: --queue names it".to_owned());
            };
            let template =
                json!({"metadata": {"labels": {LABEL: gang}}, "spec": pod_spec(plan, terms)});
            let spec = json!({
                "suspend": true, "completionMode": "Indexed", "parallelism": pods, "completions": pods,
                "backoffLimit": 0, "template": template,
            });
            let mut job = object("batch", "jobs", "Job", spec);
            job.object["metadata"]["labels"][names::KUEUE_QUEUE] = json!(queue);
            return Ok(vec![job]);
        }
    };
    objects.extend((0..pods).map(|at| pod(plan, form, (gang, at, pods), terms)));
    Ok(objects)
}

fn pod(
    plan: &ProbePlan,
    form: GangForm,
    (gang, at, pods): (&str, u64, u64),
    terms: &ProbeTerms,
) -> ProbeObject {
    let mut labels = json!({LABEL: gang});
    let mut annotations = json!({});
    let mut spec = pod_spec(plan, terms);
    match form {
        GangForm::Annotated => {
            labels[names::GANG] = json!(gang);
            annotations = json!({names::GANG: gang, names::GANG_SIZE: pods.to_string()});
        }
        GangForm::PodGroup { key, .. } => {
            labels[key] = json!(gang);
            annotations[key] = json!(gang);
        }
        GangForm::Native => spec["schedulingGroup"] = json!({"podGroupName": gang}),
        GangForm::None | GangForm::KueueJob => {}
    }
    if let Some(queue) = &terms.queue {
        let key = if form == GangForm::Annotated { names::QUEUE } else { names::KAI_QUEUE };
        labels[key] = json!(queue);
    }
    let metadata = json!({
        "name": format!("{gang}-{at}"), "namespace": terms.namespace,
        "labels": labels, "annotations": annotations,
    });
    let object = json!({"kind": "Pod", "metadata": metadata, "spec": spec});
    ProbeObject { group: "", plural: "pods", object }
}

/// Returns the specification of a pod that waits until it is deleted.
fn pod_spec(plan: &ProbePlan, terms: &ProbeTerms) -> Value {
    let scheduler = match plan.scheduler.as_str() {
        KUEUE | POD_GROUPS => DEFAULT_SCHEDULER,
        own => own,
    };
    let limits = json!({plan.resource.as_ref(): plan.gpus.to_string()});
    json!({
        "schedulerName": scheduler,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false,
        "containers": [{"name": "wait", "image": terms.image, "resources": {"limits": limits}}],
    })
}
