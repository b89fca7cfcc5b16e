//! Rules on the number of workers of a Ray cluster, and on its object store.

use muster_model::Bytes;
use muster_model::check::Severity::{Low, Medium};
use serde_json::Value;

use super::super::KubernetesRule;
use crate::kubernetes::ray::{RayGroup, RayObject, UNBOUNDED, amount};
use crate::kubernetes::view::{ClusterView, count, gpus_of_spec};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any};

const AUTOSCALING: DocPage = DocPage::Web(
    "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/configuring-autoscaling.html",
);

/// Share of a container's memory that Ray gives the object store by itself, in percent (Ray's
/// documentation on memory).
const STORE_PERCENT: u64 = 30;

pub(super) const RULES: &[KubernetesRule] = &[
    KubernetesRule {
        id: "ray-autoscales-without-bound",
        severity: Medium,
        title: "a Ray cluster with GPUs grows without a bound",
        meaning: "one program that asks for too much takes every GPU that the namespace may have",
        cure: "`maxReplicas` in each group of workers with GPUs",
        page: AUTOSCALING,
        check: without_bound,
    },
    KubernetesRule {
        id: "ray-bounds-without-autoscaling",
        severity: Low,
        title: "bounds of a Ray cluster have no effect",
        meaning: "without the autoscaler the number of workers stays that of `replicas`",
        cure: "`enableInTreeAutoscaling: true`, or `minReplicas` and `maxReplicas` equal to `replicas`",
        page: AUTOSCALING,
        check: bounds_without_autoscaling,
    },
    KubernetesRule {
        id: "ray-service-without-floor",
        severity: Low,
        title: "a RayService may lose all its workers with GPUs",
        meaning: "after a quiet time the next request waits for a node, an image and a model; where the GPUs went to others, for as long as these run",
        cure: "`minReplicas` of at least 1 in a group of workers with GPUs",
        page: AUTOSCALING,
        check: without_floor,
    },
    KubernetesRule {
        id: "ray-store-beyond-volume",
        severity: Medium,
        title: "the object store of a Ray cluster is on disk, or larger than its memory-backed volume",
        meaning: "objects are read and written at the speed of a disk, or the pod is evicted when the volume is full",
        cure: "`object-store-memory` in `rayStartParams` below the `sizeLimit` of an `emptyDir: {medium: Memory}` at /dev/shm",
        page: DocPage::Web(
            "https://docs.ray.io/en/latest/ray-core/scheduling/memory-management.html",
        ),
        check: store_beyond_volume,
    },
];

fn has_gpus(group: &Value) -> bool {
    gpus_of_spec(&group["template"]["spec"]) > 0
}

fn name(group: &Value) -> &str {
    group["groupName"].as_str().unwrap_or("workers")
}

/// Judges the groups of workers of each cluster: the function returns what is wrong with one.
fn each_group(
    cluster: &ClusterView<'_>,
    wrong: impl Fn(&RayObject<'_>, &Value) -> Option<String>,
) -> RuleResult {
    let rays = RayObject::all(cluster)?;
    let mut findings = Vec::new();
    for ray in &rays {
        for group in ray.workers() {
            if let Some(says) = wrong(ray, group) {
                let title = format!("{} group {}", ray.title(), name(group));
                findings.push(RuleFinding::about(title.clone(), format!("{title}: {says}")));
            }
        }
    }
    fail_if_any(findings, count(rays.len(), "Ray cluster"))
}

fn without_bound(cluster: &ClusterView<'_>) -> RuleResult {
    each_group(cluster, |ray, group| {
        let most = group["maxReplicas"].as_u64().unwrap_or(UNBOUNDED);
        let is_open = ray.is_autoscaled() && most >= UNBOUNDED && has_gpus(group);
        is_open.then(|| "autoscaling without maxReplicas".to_owned())
    })
}

fn bounds_without_autoscaling(cluster: &ClusterView<'_>) -> RuleResult {
    each_group(cluster, |ray, group| {
        let replicas = group["replicas"].as_u64().unwrap_or(0);
        let most = group["maxReplicas"].as_u64().filter(|most| *most < UNBOUNDED)?;
        let is_idle = !ray.is_autoscaled() && most > replicas;
        is_idle.then(|| format!("maxReplicas is {most}, replicas {replicas}, without autoscaling"))
    })
}

fn without_floor(cluster: &ClusterView<'_>) -> RuleResult {
    let rays = RayObject::all(cluster)?;
    let may_be_empty = |ray: &&RayObject<'_>| {
        let head_has_gpus = ray.groups().first().is_some_and(|head| head.gpus() > 0);
        let mut groups = ray.workers().filter(|group| has_gpus(group)).peekable();
        ray.kind == "RayService"
            && ray.is_autoscaled()
            && !head_has_gpus
            && groups.peek().is_some()
            && groups.all(|group| group["minReplicas"].as_u64().unwrap_or(0) == 0)
    };
    let finding = |ray: &RayObject<'_>| {
        let title = ray.title();
        let says = format!("{title}: minReplicas is 0 in every group with GPUs");
        RuleFinding::about(title, says)
    };
    let findings = rays.iter().filter(may_be_empty).map(finding).collect();
    fail_if_any(findings, count(rays.len(), "Ray cluster"))
}

fn store_beyond_volume(cluster: &ClusterView<'_>) -> RuleResult {
    let rays = RayObject::all(cluster)?;
    let mut findings = Vec::new();
    for ray in &rays {
        for group in ray.groups() {
            if let Some(says) = store_defect(&group) {
                let title = format!("{} group {}", ray.title(), group.name);
                findings.push(RuleFinding::about(title.clone(), format!("{title}: {says}")));
            }
        }
    }
    fail_if_any(findings, count(rays.len(), "Ray cluster"))
}

/// Returns what is wrong with the object store of a group's pods. Where they mount no volume at /dev/shm,
/// KubeRay adds one in memory, as large as the container's memory.
fn store_defect(group: &RayGroup<'_>) -> Option<String> {
    let memory = group.memory_bytes();
    let given = amount(&group.group["rayStartParams"]["object-store-memory"]);
    let store = given.or_else(|| Some(memory? / 100 * STORE_PERCENT))?;
    let mounts = group.container()["volumeMounts"].as_array().into_iter().flatten();
    let mount = mounts.into_iter().find(|mount| mount["mountPath"] == "/dev/shm");
    let volume = mount.and_then(|mount| {
        let volumes = group.spec()["volumes"].as_array().into_iter().flatten();
        volumes.into_iter().find(|volume| volume["name"] == mount["name"])
    });
    let size = match volume {
        Some(volume)
            if volume["emptyDir"].is_object() && volume["emptyDir"]["medium"] != "Memory" =>
        {
            return Some("its volume at /dev/shm is on disk".to_owned());
        }
        Some(volume) => amount(&volume["emptyDir"]["sizeLimit"]).or(memory)?,
        None => memory?,
    };
    let says = || format!("its object store has {}, /dev/shm {}", Bytes(store), Bytes(size));
    (store > size).then(says)
}
