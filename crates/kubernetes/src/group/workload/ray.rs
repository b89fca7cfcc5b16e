//! Pods that KubeRay makes for a RayCluster or RayJob: those of its templates, with the containers that KubeRay adds, whose
//! requests count for where a pod fits.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{Template, number};
use crate::names;

/// Requests of the container in a worker that waits for the head (KubeRay 1.6).
const WAIT_FOR_HEAD: [&str; 2] = ["200m", "256Mi"];
/// Requests of the autoscaler beside the head, unless `autoscalerOptions` has others.
const AUTOSCALER: [&str; 2] = ["500m", "512Mi"];
/// Requests of the container beside the head that submits the program of a RayJob in `SidecarMode`.
const SUBMITTER: [&str; 2] = ["500m", "200Mi"];

/// Returns the pods of a RayJob's cluster.
///
/// # Errors
/// Why Muster cannot start and stop it.
pub(super) fn job(spec: &Value) -> Result<Vec<Template<'_>>, String> {
    let cluster = spec.get("rayClusterSpec").filter(|cluster| cluster.is_object());
    let cluster = cluster.ok_or(
        "it runs on a cluster that exists (`clusterSelector`), and has no pods of its own",
    )?;
    // KubeRay refuses it for good.
    if spec["shutdownAfterJobFinishes"] != true {
        return Err(
            "KubeRay suspends a RayJob only with `shutdownAfterJobFinishes: true`".to_owned()
        );
    }
    if spec["submissionMode"] == "InteractiveMode" {
        return Err(
            "KubeRay does not suspend a RayJob in `InteractiveMode` while it waits for its user"
                .to_owned(),
        );
    }
    let mut templates = self::cluster(cluster);
    if spec["submissionMode"] == "SidecarMode"
        && let Some(head) = templates.first_mut()
    {
        head.add("containers", names::RAY_SUBMITTER, &requests(SUBMITTER));
    }
    Ok(templates)
}

/// Returns head and workers; with the autoscaler, the workers that it keeps at least.
pub(super) fn cluster(spec: &Value) -> Vec<Template<'_>> {
    let scales = spec["enableInTreeAutoscaling"] == true;
    let path = if scales { "/minReplicas" } else { "/replicas" };
    let mut head = Template {
        count: 1,
        template: Cow::Borrowed(&spec["headGroupSpec"]["template"]),
        role: Some((names::RAY_GROUP, names::RAY_HEAD_GROUP)),
    };
    if scales {
        let given = spec.pointer("/autoscalerOptions/resources").cloned();
        head.add("containers", "autoscaler", &given.unwrap_or_else(|| requests(AUTOSCALER)));
    }
    let groups = spec["workerGroupSpecs"].as_array().into_iter().flatten();
    let workers = groups.map(|group| {
        let hosts = number(group, "/numOfHosts").unwrap_or(1).max(1);
        let count = number(group, path).unwrap_or(0).saturating_mul(hosts);
        let role = group["groupName"].as_str().map(|name| (names::RAY_GROUP, name));
        let mut worker = Template { count, template: Cow::Borrowed(&group["template"]), role };
        worker.add("initContainers", "wait-gcs-ready", &requests(WAIT_FOR_HEAD));
        worker
    });
    std::iter::once(head).chain(workers).collect()
}

fn requests([cpu, memory]: [&str; 2]) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}})
}

impl Template<'_> {
    /// Adds a container to a list of the pods' specification.
    fn add(&mut self, list: &str, name: &str, resources: &Value) {
        let Some(spec) = self.template.to_mut().pointer_mut("/spec").and_then(Value::as_object_mut)
        else {
            return;
        };
        let containers = spec.entry(list).or_insert_with(|| json!([]));
        if let Some(containers) = containers.as_array_mut() {
            containers.push(json!({"name": name, "resources": resources}));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{GroupKind, GroupText};

    /// Returns the CPUs, in thousandths, of each pod of an object.
    fn cpus(kind: GroupKind, spec: &Value) -> Result<Vec<u64>, String> {
        let labels = json!({"muster.run/queue": "q"});
        let metadata = json!({"name": "a", "namespace": "team", "labels": labels});
        let mut object = json!({"metadata": metadata, "spec": spec});
        object["spec"]["suspend"] = json!(true);
        let text: GroupText = serde_json::from_value(object).unwrap();
        let pods = text.facts(kind).workload.unwrap().pods?;
        Ok(pods.iter().map(|one| one.pod.requests.get("cpu")).collect())
    }

    fn template(cpu: &str) -> Value {
        let resources = json!({"requests": {"cpu": cpu}});
        json!({"spec": {"schedulerName": "muster", "containers": [{"name": "ray", "resources": resources}]}})
    }

    #[test]
    fn containers_of_kuberay_count_for_where_a_pod_fits() {
        let worker = |cpu| json!({"groupName": "w", "replicas": 1, "template": template(cpu)});
        let workers = json!([worker("100m"), worker("2")]);
        let mut cluster =
            json!({"headGroupSpec": {"template": template("1")}, "workerGroupSpecs": workers});
        let of_cluster = |cluster: &Value| cpus(GroupKind::RayCluster, cluster).unwrap();
        assert_eq!(of_cluster(&cluster), [1000, 200, 2000]);
        let job = json!({"rayClusterSpec": cluster, "submissionMode": "SidecarMode", "shutdownAfterJobFinishes": true});
        assert_eq!(cpus(GroupKind::RayJob, &job).unwrap(), [1500, 200, 2000]);
        cluster["enableInTreeAutoscaling"] = json!(true);
        assert_eq!(of_cluster(&cluster), [1500, 200, 2000]);
        cluster["autoscalerOptions"] = json!({"resources": {"requests": {"cpu": "3"}}});
        assert_eq!(of_cluster(&cluster), [4000, 200, 2000]);
    }

    #[test]
    fn ray_jobs_that_kuberay_does_not_suspend_are_named() {
        let cluster = json!({"headGroupSpec": {"template": template("1")}});
        let refused = |spec: Value| cpus(GroupKind::RayJob, &spec).unwrap_err();
        let keeps = refused(json!({"rayClusterSpec": cluster}));
        assert!(keeps.contains("`shutdownAfterJobFinishes: true`"), "{keeps}");
        let waits = json!({"rayClusterSpec": cluster, "shutdownAfterJobFinishes": true, "submissionMode": "InteractiveMode"});
        assert!(refused(waits).contains("`InteractiveMode`"));
        let selects = refused(json!({"clusterSelector": {"ray.io/cluster": "lab"}}));
        assert!(selects.contains("`clusterSelector`"), "{selects}");
    }
}
