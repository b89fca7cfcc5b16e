//! Pods that claim their GPUs (dynamic resource allocation) on a real API server: its controller makes
//! the claims, its validation reads the allocations, and the scheduler has the shipped rights only.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, TestNamespace, pod_spec, until};
use crate::scheduler_process::SchedulerProcess;

/// Number of GPUs that the driver of node 2 advertises.
const GPUS: usize = 8;

/// Driver with its device class and slices, which go with it.
pub struct Driver<'a> {
    cluster: &'a KubernetesCluster,
    name: &'static str,
}

impl<'a> Driver<'a> {
    /// Installs the class of a driver's GPUs.
    pub fn install(cluster: &'a KubernetesCluster, name: &'static str) -> Self {
        let class = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {
                "expression": format!("device.driver == '{name}' && device.attributes['{name}'].type == 'gpu'"),
            }}], "config": [{"opaque": {"driver": name, "parameters": {
                "apiVersion": "example.com/v1", "kind": "GpuConfig", "sharing": "none",
            }}}]},
        });
        let output = cluster.kubectl_with(&["apply", "-f", "-"], &class.to_string());
        assert!(output.status.success(), "{output:?}");
        Self { cluster, name }
    }

    /// Installs the class, and advertises GPUs on a node whose driver does not run.
    fn advertise(cluster: &'a KubernetesCluster, name: &'static str, node: &str) -> Self {
        let driver = Self::install(cluster, name);
        let device = |at: usize| {
            json!({
                "name": format!("gpu-{at}"),
                "attributes": {
                    "type": {"string": "gpu"}, "index": {"int": at},
                    "driverVersion": {"version": "580.65.6"},
                },
                "capacity": {"memory": {"value": "80Gi"}},
            })
        };
        let slice = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": format!("{name}-{node}")},
            "spec": {
                "driver": name, "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": (0..GPUS).map(device).collect::<Vec<_>>(),
            },
        });
        let output = cluster.kubectl_with(&["apply", "-f", "-"], &slice.to_string());
        assert!(output.status.success(), "{output:?}");
        driver
    }

    /// Returns a template `gpus` of claims for this many GPUs.
    pub fn template(&self, count: usize) -> Value {
        let name = self.name;
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpus"},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": {
                "deviceClassName": name, "count": count,
                "selectors": [{"cel": {"expression": format!("device.attributes['{name}'].index >= 0")}}],
            }}]}}},
        })
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        for kind in ["resourceslices", "deviceclasses"] {
            let objects = self.cluster.get(&[kind]);
            for object in objects["items"].as_array().into_iter().flatten() {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                if name.starts_with(self.name) {
                    self.cluster.kubectl(&["delete", kind, name]);
                }
            }
        }
    }
}

/// Returns a pod of a gang with a claim of the template `gpus`.
pub fn claimant(gang: &str, index: usize, size: usize) -> Value {
    let mut spec = pod_spec("muster", 0);
    spec["resourceClaims"] = json!([{"name": "gpus", "resourceClaimTemplateName": "gpus"}]);
    spec["containers"][0]["resources"]["claims"] = json!([{"name": "gpus"}]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{gang}-{index}"),
            "labels": {"gang": gang, "muster.run/gang": gang},
            "annotations": {"muster.run/gang-size": size.to_string()},
        },
        "spec": spec,
    })
}

/// Returns the devices of all claims in a namespace, each as often as it is given.
pub fn given(namespace: &TestNamespace) -> Vec<String> {
    let claims = namespace.objects("resourceclaims", "");
    let results = claims
        .iter()
        .filter_map(|claim| claim["status"]["allocation"]["devices"]["results"].as_array());
    results.flatten().map(|one| format!("{}/{}", one["pool"], one["device"])).collect()
}

/// Two gangs of 5 that claim 8 GPUs: whole, one after the other, each pod on a GPU of its own.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn gangs_that_claim_gpus_start_whole_one_after_the_other() {
    let cluster = KubernetesCluster::here();
    let driver = Driver::advertise(&cluster, "gang-gpus.example.com", "node2");
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("claimed-gangs");
    namespace.create_object(&driver.template(1));
    for index in 0..5 {
        for gang in ["a", "b"] {
            namespace.create_object(&claimant(gang, index, 5));
        }
    }
    until("gang a has its node", || namespace.bound("gang=a") == 5);
    until("gang b says why it waits", || namespace.reason("b-0").contains("3 of 5 pods fit"));
    assert_eq!(namespace.bound("gang=b"), 0);
    let devices = given(&namespace);
    assert_eq!(
        (devices.len(), devices.iter().collect::<BTreeSet<_>>().len()),
        (5, 5),
        "{devices:?}"
    );
    for claim in namespace.objects("resourceclaims", "") {
        let status = &claim["status"];
        if status["allocation"].is_null() {
            continue;
        }
        assert_eq!(status["reservedFor"].as_array().unwrap().len(), 1, "{claim}");
        assert_eq!(status["allocation"]["devices"]["config"][0]["source"], "FromClass");
        assert_eq!(
            claim["metadata"]["finalizers"],
            json!(["resource.kubernetes.io/delete-protection"])
        );
    }
    for index in 0..5 {
        namespace.delete(&format!("a-{index}"));
    }
    until("gang b has its node", || namespace.bound("gang=b") == 5);
    // The controller has taken gang a's claims away.
    until("five claims are left", || namespace.objects("resourceclaims", "").len() == 5);
}

/// The default scheduler and Muster give the devices of one driver to different pods.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn claims_of_other_schedulers_count() {
    let cluster = KubernetesCluster::here();
    let driver = Driver::advertise(&cluster, "shared-gpus.example.com", "node2");
    let namespace = cluster.namespace("claims-of-others");
    namespace.create_object(&driver.template(1));
    for index in 0..6 {
        let mut other = claimant("other", index, 1);
        other["spec"]["schedulerName"] = json!("default-scheduler");
        other["metadata"]["labels"] = json!({"gang": "other"});
        namespace.create_object(&other);
    }
    until("the others have their GPUs", || namespace.bound("gang=other") == 6);
    let _scheduler = SchedulerProcess::active(&cluster);
    for index in 0..2 {
        namespace.create_object(&claimant("own", index, 2));
    }
    namespace.create_object(&claimant("late", 0, 1));
    until("two more have a node", || namespace.bound("gang=own") == 2);
    until("the ninth says why it waits", || {
        namespace.reason("late-0").contains("shared-gpus.example.com")
    });
    let devices: BTreeSet<String> = given(&namespace).into_iter().collect();
    assert_eq!(devices.len(), GPUS);
}

/// A suspended Job is resumed once the GPUs of its template are kept for it; the next one has no pods.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn suspended_jobs_wait_for_claimed_gpus_without_pods() {
    let cluster = KubernetesCluster::here();
    let driver = Driver::advertise(&cluster, "job-gpus.example.com", "node2");
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("claiming-jobs");
    namespace.create_object(&driver.template(2));
    for name in ["first", "second"] {
        let mut spec = claimant(name, 0, 1)["spec"].take();
        spec["restartPolicy"] = json!("Never");
        namespace.create_object(&json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "labels": {"muster.run/queue": "default"}},
            "spec": {
                "suspend": true, "completionMode": "Indexed", "parallelism": 3, "completions": 3,
                "template": {"spec": spec},
            },
        }));
    }
    until("the first Job has its node", || namespace.bound("job-name=first") == 3);
    let devices: BTreeSet<String> = given(&namespace).into_iter().collect();
    assert_eq!(devices.len(), 6);
    let second = || cluster.get(&["job", "second", "--namespace", "claiming-jobs"]);
    until("the second Job says why it waits", || second().to_string().contains("1 of 3 pods fit"));
    assert_eq!(second()["spec"]["suspend"], true);
    assert!(namespace.list("job-name=second").is_empty());
    cluster.kubectl(&["delete", "job", "first", "--namespace", "claiming-jobs"]);
    until("the second Job has its node", || namespace.bound("job-name=second") == 3);
}
