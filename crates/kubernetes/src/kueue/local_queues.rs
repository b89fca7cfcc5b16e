//! LocalQueues: the names by which the pods of a namespace address ClusterQueues.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{GpuModel, QueueName};

use super::{ClusterQueue, FlavorGroup, Hold, Objects};
use crate::names;
use crate::object::ObjectKey;
use crate::resources::Quantities;
use crate::rule::NodeRule;

/// LocalQueue of pods that name none.
pub const DEFAULT: &str = "default";

/// LocalQueues of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalQueues(BTreeMap<ObjectKey, LocalQueue>);

/// LocalQueue as it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalQueue {
    /// ClusterQueue that it stands for; `None` if there is none of that name.
    pub target: Option<Arc<Target>>,
    /// Reason for which none of its pods starts.
    pub hold: Option<Hold>,
    /// True if its running pods are stopped.
    pub drains: bool,
}

/// ClusterQueue, as far as pods are placed by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the ClusterQueue.
    pub name: Arc<str>,
    /// Leaf of the tree.
    pub queue: QueueName,
    /// Resources that its quota covers, and where.
    groups: Vec<FlavorGroup>,
}

/// Joins each LocalQueue with its ClusterQueue, which may be on hold, closed or missing.
pub(super) fn read(
    objects: &Objects,
    cluster_queues: &BTreeMap<Arc<str>, ClusterQueue>,
) -> LocalQueues {
    let target = |(name, queue): (&Arc<str>, &ClusterQueue)| {
        let target = Target {
            name: Arc::clone(name),
            queue: queue.queue.clone(),
            groups: queue.groups.clone(),
        };
        (Arc::clone(name), Arc::new(target))
    };
    let targets: BTreeMap<Arc<str>, Arc<Target>> = cluster_queues.iter().map(target).collect();
    let read = |(key, spec): (&ObjectKey, &super::LocalQueueSpec)| {
        let backing = cluster_queues.get(&spec.cluster_queue);
        let stopped = spec.stop_policy.word().map(|word| {
            let text = format!("LocalQueue {} starts nothing (`stopPolicy: {word}`)", key.name);
            Hold::new("Stopped", text)
        });
        let missing = || {
            let text = format!(
                "LocalQueue {} names ClusterQueue {}, which does not exist; create it, or change `clusterQueue`",
                key.name, spec.cluster_queue
            );
            Hold::new("ClusterQueueDoesNotExist", text)
        };
        let inactive = |backing: &ClusterQueue| {
            let hold = backing.hold.as_ref()?;
            Some(Hold::new("ClusterQueueIsInactive", hold.message.clone()))
        };
        let hold = stopped.or_else(|| match backing {
            None => Some(missing()),
            Some(backing) => {
                inactive(backing).or_else(|| outside(objects, &spec.cluster_queue, key))
            }
        });
        let local_queue = LocalQueue {
            target: targets.get(&spec.cluster_queue).cloned(),
            hold,
            drains: spec.stop_policy.word() == Some("HoldAndDrain")
                || backing.is_some_and(|backing| backing.drains),
        };
        (key.clone(), local_queue)
    };
    LocalQueues(objects.local_queues.iter().map(read).collect())
}

/// Returns why a ClusterQueue is closed to a namespace; `None` if it is open.
fn outside(objects: &Objects, cluster_queue: &str, key: &ObjectKey) -> Option<Hold> {
    let selector = objects.cluster_queues.get(cluster_queue)?.namespace_selector.as_ref();
    let none = BTreeMap::new();
    let labels = objects.namespaces.get(&key.namespace).unwrap_or(&none);
    if selector.is_some_and(|selector| selector.matches(labels)) {
        return None;
    }
    let text = format!(
        "namespace {} may not use ClusterQueue {cluster_queue}: its `namespaceSelector` does not match",
        key.namespace
    );
    Some(Hold::new("NamespaceNotSelected", text))
}

impl LocalQueues {
    /// Returns the LocalQueue that pods of a namespace name, or their default one.
    ///
    /// # Errors
    /// Why there is none, for users.
    pub fn find(&self, namespace: &Arc<str>, name: Option<&str>) -> Result<&LocalQueue, String> {
        let key =
            ObjectKey { namespace: Arc::clone(namespace), name: name.unwrap_or(DEFAULT).into() };
        self.0.get(&key).ok_or_else(|| match name {
            Some(name) => format!("namespace {namespace} has no LocalQueue {name}"),
            None => format!(
                "it names no queue with the label {}, and namespace {namespace} has no LocalQueue {DEFAULT}",
                names::KUEUE_QUEUE
            ),
        })
    }

    /// Returns all LocalQueues by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &LocalQueue)> {
        self.0.iter()
    }
}

impl Target {
    /// Adds the nodes of the flavors to the rule of a pod with these requests.
    pub fn restrict(&self, requests: &Quantities, rule: &mut NodeRule) {
        for group in &self.groups {
            group.restrict(requests, rule);
        }
    }

    /// Returns the models of a GPU resource that the quota covers, in the order of the flavors.
    ///
    /// # Errors
    /// Why no GPU is covered, for users.
    pub fn models(&self, resource: &str) -> Result<Vec<GpuModel>, String> {
        let Some(group) = self.groups.iter().find(|group| group.resources.contains(resource))
        else {
            return Err(format!("ClusterQueue {} has no quota of {resource}", self.name));
        };
        let mut models: Vec<GpuModel> = Vec::new();
        for model in group.flavors.iter().filter_map(|flavor| flavor.models.get(resource)) {
            if !models.contains(model) {
                models.push(model.clone());
            }
        }
        if models.is_empty() {
            let flavors: Vec<&str> = group.flavors.iter().map(|flavor| &*flavor.name).collect();
            let flavors = flavors.join(", ");
            return Err(format!(
                "no node has {resource} of the flavors of ClusterQueue {}: {flavors}",
                self.name
            ));
        }
        Ok(models)
    }
}
