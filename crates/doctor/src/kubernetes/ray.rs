//! Objects of KubeRay as the rules need them: each RayCluster, RayJob and RayService with the cluster that
//! it makes. A cluster that an object of the snapshot made is that object's, so nothing counts twice.

use muster_kubernetes::group::GroupKind;
use muster_slurm::conf::evidence::MissingInput;
use serde_json::Value;

use super::resource::{RAY_JOBS, RAY_SERVICES, Resource};
use super::snapshot::Snapshot;
use super::view::{ClusterView, gpus_of_spec, name_of, quantity};

/// Port of the control store (GCS), of the dashboard with the jobs API, and of Ray Client (Ray's
/// documentation on ports).
pub(crate) const PORTS: [(u64, &str); 3] =
    [(6379, "the control store"), (8265, "the dashboard"), (10001, "Ray Client")];

/// Highest number of replicas of a group that sets none: the default in KubeRay's definitions.
pub(crate) const UNBOUNDED: u64 = 2_147_483_647;

/// Counts the kinds of KubeRay that are not in a snapshot of files as empty, if another one is: manifests
/// are written one by one, and a RayCluster needs no RayJob.
pub fn complete_ray(snapshot: &mut Snapshot) {
    let api = GroupKind::RayCluster.api().expect("a RayCluster is an object");
    let kinds = [Resource::of_group(api), RAY_JOBS, RAY_SERVICES];
    if kinds.iter().any(|kind| snapshot.list(*kind).is_ok()) {
        for kind in kinds {
            snapshot.add(kind, Vec::new());
        }
    }
}

/// Object of KubeRay that has not ended.
pub(crate) struct RayObject<'a> {
    pub(crate) kind: &'static str,
    pub(crate) object: &'a Value,
    /// Specification of its cluster; null for a RayJob that selects one.
    pub(crate) cluster: &'a Value,
    /// Names of the clusters that it made, or its own.
    pub(crate) cluster_names: Vec<&'a str>,
}

/// Group of equal pods of a cluster.
pub(crate) struct RayGroup<'a> {
    /// `head`, or the name of the group of workers.
    pub(crate) name: &'a str,
    pub(crate) group: &'a Value,
    /// Pods that it has, those of all hosts of a replica.
    pub(crate) pods: u64,
}

impl<'a> RayObject<'a> {
    /// Returns the objects of a cluster that have not ended and are not suspended.
    pub(crate) fn all(view: &ClusterView<'a>) -> Result<Vec<Self>, MissingInput> {
        let api = GroupKind::RayCluster.api().expect("a RayCluster is an object");
        let clusters = view.list(Resource::of_group(api))?;
        let jobs = view.list(RAY_JOBS)?;
        let services = view.list(RAY_SERVICES)?;
        let mut all = Vec::new();
        for job in jobs.iter().filter(|job| !has_ended(job, clusters)) {
            all.push(Self::new("RayJob", job, &job["spec"]["rayClusterSpec"], clusters));
        }
        for service in services {
            all.push(Self::new(
                "RayService",
                service,
                &service["spec"]["rayClusterConfig"],
                clusters,
            ));
        }
        let is_made = |cluster: &&Value| {
            jobs.iter().any(|job| is_owner("RayJob", job, cluster))
                || services.iter().any(|service| is_owner("RayService", service, cluster))
        };
        for cluster in clusters.iter().filter(|cluster| !is_made(cluster)) {
            all.push(Self::new("RayCluster", cluster, &cluster["spec"], &[]));
        }
        all.retain(|one| one.object["spec"]["suspend"] != true && one.cluster["suspend"] != true);
        Ok(all)
    }

    fn new(kind: &'static str, object: &'a Value, cluster: &'a Value, all: &'a [Value]) -> Self {
        let made = || all.iter().filter(|one| is_owner(kind, object, one));
        let mut names: Vec<&str> =
            made().filter_map(|one| one["metadata"]["name"].as_str()).collect();
        let cluster = match made().next() {
            Some(made) if cluster.is_null() => &made["spec"],
            _ => cluster,
        };
        if kind == "RayCluster" {
            names.extend(object["metadata"]["name"].as_str());
        }
        Self { kind, object, cluster, cluster_names: names }
    }

    /// Returns its kind, namespace and name: `RayJob ml/train`.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind, name_of(self.object))
    }

    /// Returns the namespace that it is in; empty without one.
    pub(crate) fn namespace(&self) -> &'a str {
        self.object["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    /// Returns its groups, the head first.
    pub(crate) fn groups(&self) -> Vec<RayGroup<'a>> {
        if self.cluster.is_null() {
            return Vec::new();
        }
        let head = RayGroup { name: "head", group: &self.cluster["headGroupSpec"], pods: 1 };
        let workers = self.workers().map(|group| {
            let number = |field: &str, default| group[field].as_u64().unwrap_or(default);
            let pods = number("replicas", number("minReplicas", 0)).max(number("minReplicas", 0));
            RayGroup {
                name: group["groupName"].as_str().unwrap_or("workers"),
                group,
                pods: pods.saturating_mul(number("numOfHosts", 1)),
            }
        });
        std::iter::once(head).chain(workers).collect()
    }

    /// Returns its groups of workers, as they are written.
    pub(crate) fn workers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.cluster["workerGroupSpecs"].as_array().into_iter().flatten()
    }

    /// Returns true if Ray's autoscaler changes the number of its workers.
    pub(crate) fn is_autoscaled(&self) -> bool {
        self.cluster["enableInTreeAutoscaling"] == true
    }

    /// Returns the GPUs of all its pods.
    pub(crate) fn gpus(&self) -> u64 {
        self.groups().iter().map(|group| group.gpus().saturating_mul(group.pods)).sum()
    }
}

impl<'a> RayGroup<'a> {
    /// Returns the specification of its pods.
    pub(crate) fn spec(&self) -> &'a Value {
        &self.group["template"]["spec"]
    }

    /// Returns the GPUs of one of its pods.
    pub(crate) fn gpus(&self) -> u64 {
        gpus_of_spec(self.spec())
    }

    /// Returns the container that runs Ray: the first one.
    pub(crate) fn container(&self) -> &'a Value {
        &self.spec()["containers"][0]
    }

    /// Returns the image of that container.
    pub(crate) fn image(&self) -> Option<&'a str> {
        self.container()["image"].as_str()
    }

    /// Returns the memory of that container in bytes: its limit, else its request.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        let resources = &self.container()["resources"];
        let of = |kind: &str| amount(&resources[kind]["memory"]);
        of("limits").or_else(|| of("requests"))
    }
}

/// Returns a quantity, which is a text or a number; `None` for 0 and for anything else.
pub(crate) fn amount(value: &Value) -> Option<u64> {
    Some(quantity(value)).filter(|amount| *amount > 0)
}

fn is_owner(kind: &str, owner: &Value, made: &Value) -> bool {
    let owners = made["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    made["metadata"]["namespace"] == owner["metadata"]["namespace"]
        && owners
            .into_iter()
            .any(|one| one["kind"] == kind && one["name"] == owner["metadata"]["name"])
}

/// Returns true for a RayJob that has ended, and whose cluster is gone or goes.
fn has_ended(job: &Value, clusters: &[Value]) -> bool {
    let deployment = job["status"]["jobDeploymentStatus"].as_str().unwrap_or_default();
    let is_over = ["Complete", "Failed", "ValidationFailed"].contains(&deployment);
    let has_cluster = || clusters.iter().any(|cluster| is_owner("RayJob", job, cluster));
    // Without this, its cluster stays and keeps its GPUs until somebody deletes it.
    is_over && (job["spec"]["shutdownAfterJobFinishes"] == true || !has_cluster())
}
