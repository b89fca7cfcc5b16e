//! Kinds of objects that the rules read. A closed list: a reader of a cluster lists these and no
//! others, and never Secrets or ConfigMaps.

use muster_kubernetes::{group, kueue};

/// Kind of object, as the API server names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// API group; empty for the core API.
    pub group: &'static str,
    /// Name in addresses: lower case, plural.
    pub plural: &'static str,
    /// Kind as manifests have it: `Pod`.
    pub kind: &'static str,
}

const fn resource(group: &'static str, plural: &'static str, kind: &'static str) -> Resource {
    Resource { group, plural, kind }
}

pub(crate) const NODES: Resource = resource("", "nodes", "Node");
pub(crate) const PODS: Resource = resource("", "pods", "Pod");
pub(crate) const QUOTAS: Resource = resource("", "resourcequotas", "ResourceQuota");
pub(crate) const DEPLOYMENTS: Resource = resource("apps", "deployments", "Deployment");
pub(crate) const DAEMON_SETS: Resource = resource("apps", "daemonsets", "DaemonSet");
pub(crate) const PRIORITY_CLASSES: Resource =
    resource("scheduling.k8s.io", "priorityclasses", "PriorityClass");
pub(crate) const BUDGETS: Resource =
    resource("policy", "poddisruptionbudgets", "PodDisruptionBudget");
pub(crate) const RESOURCE_SLICES: Resource =
    resource("resource.k8s.io", "resourceslices", "ResourceSlice");
pub(crate) const DEFINITIONS: Resource =
    resource("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition");
pub(crate) const CLUSTER_QUEUES: Resource =
    resource(kueue::GROUP, kueue::CLUSTER_QUEUES, "ClusterQueue");
pub(crate) const LOCAL_QUEUES: Resource = resource(kueue::GROUP, kueue::LOCAL_QUEUES, "LocalQueue");
pub(crate) const FLAVORS: Resource = resource(kueue::GROUP, kueue::FLAVORS, "ResourceFlavor");
pub(crate) const TOPOLOGIES: Resource = resource(kueue::GROUP, "topologies", "Topology");
pub(crate) const CLUSTER_POLICIES: Resource =
    resource("nvidia.com", "clusterpolicies", "ClusterPolicy");
pub(crate) const RAY_JOBS: Resource = resource("ray.io", "rayjobs", "RayJob");
pub(crate) const RAY_SERVICES: Resource = resource("ray.io", "rayservices", "RayService");
pub(crate) const SERVICES: Resource = resource("", "services", "Service");
/// File with which the default scheduler runs; no object, so that it comes from files only.
pub(crate) const SCHEDULER_CONFIGURATION: Resource = resource(
    "kubescheduler.config.k8s.io",
    "kubeschedulerconfigurations",
    "KubeSchedulerConfiguration",
);

/// Kinds beside those of gang objects.
const OTHERS: [Resource; 16] = [
    NODES,
    PODS,
    QUOTAS,
    DEPLOYMENTS,
    DAEMON_SETS,
    PRIORITY_CLASSES,
    BUDGETS,
    RESOURCE_SLICES,
    DEFINITIONS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    FLAVORS,
    TOPOLOGIES,
    CLUSTER_POLICIES,
    RAY_SERVICES,
    SERVICES,
];

impl Resource {
    /// Returns the kinds that a cluster may serve, gang objects of all APIs among them.
    pub fn all() -> impl Iterator<Item = Resource> {
        OTHERS.into_iter().chain(group::APIS.iter().map(Resource::of_group))
    }

    /// Returns the kind of a gang object.
    pub(crate) fn of_group(api: &group::GroupApi) -> Resource {
        Resource { group: api.group, plural: api.plural, kind: api.name }
    }

    /// Returns the kind of an object with this API group and kind.
    pub(crate) fn of_object(group: &str, kind: &str) -> Option<Resource> {
        let mut all = Resource::all().chain([SCHEDULER_CONFIGURATION]);
        all.find(|one| one.group == group && one.kind == kind)
    }

    /// Returns the kind that a file is named after: `pods`, `clusterqueues.kueue.x-k8s.io`. A name
    /// without a group stands for nothing where several groups have it.
    pub(crate) fn of_file(stem: &str) -> Option<Resource> {
        let mut named = Resource::all().filter(|one| one.full_name() == stem || one.plural == stem);
        let first = named.next()?;
        let is_exact = first.full_name() == stem;
        if is_exact || named.next().is_none() { Some(first) } else { None }
    }

    /// Returns the name by which kubectl finds it: `pods`, `clusterqueues.kueue.x-k8s.io`.
    #[must_use]
    pub fn full_name(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Returns true for a kind that no CustomResourceDefinition defines.
    pub(crate) fn is_built_in(&self) -> bool {
        let of_kubernetes = ["", "apps", "batch", "policy", DEFINITIONS.group, "resource.k8s.io"];
        of_kubernetes.contains(&self.group) || self.group == PRIORITY_CLASSES.group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_kinds_where_there_is_no_doubt() {
        let named = |stem| Resource::of_file(stem).map(|one| one.kind);
        assert_eq!(named("pods"), Some("Pod"));
        assert_eq!(named("jobs"), Some("Job"));
        assert_eq!(named("jobs.batch"), Some("Job"));
        assert_eq!(named("podgroups"), None);
        assert_eq!(named("podgroups.scheduling.volcano.sh"), Some("PodGroup"));
        assert_eq!(named("secrets"), None);
    }

    #[test]
    fn every_kind_is_listed_once() {
        let mut names: Vec<String> = Resource::all().map(|one| one.full_name()).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| name != "secrets" && name != "configmaps"));
    }
}
