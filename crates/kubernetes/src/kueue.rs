//! Kueue's queues: ClusterQueues, Cohorts, LocalQueues and ResourceFlavors as a queue tree, for clusters
//! that leave Kueue. A Cohort is a parent queue, a ClusterQueue a leaf, and a LocalQueue the name by
//! which the pods of its namespace address one. What the tree cannot express is said on the
//! ClusterQueue; what would admit more than Kueue does holds its pods back.

mod coverage;
pub mod defect;
mod local_queues;
mod object;
mod tree;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::{GpuModel, QueueName, QueueTree};

use crate::object::ObjectKey;

pub use coverage::{Flavor, FlavorGroup};
pub use local_queues::{DEFAULT, LocalQueue, LocalQueues, Target};
pub use object::{
    ClusterQueueSpec, ClusterQueueText, CohortSpec, CohortText, FlavorSpec, FlavorText,
    LocalQueueSpec, LocalQueueText, NamespaceText,
};

/// API group of the objects.
pub const GROUP: &str = "kueue.x-k8s.io";
/// Versions of it that are read, the best first.
pub const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// Resource names in addresses.
pub const CLUSTER_QUEUES: &str = "clusterqueues";
/// Resource name of Cohorts in addresses.
pub const COHORTS: &str = "cohorts";
/// Resource name of LocalQueues in addresses.
pub const LOCAL_QUEUES: &str = "localqueues";
/// Resource name of ResourceFlavors in addresses.
pub const FLAVORS: &str = "resourceflavors";

/// Objects that describe queues.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Leaves of the tree, by the name of the ClusterQueue.
    pub cluster_queues: BTreeMap<Arc<str>, ClusterQueueSpec>,
    /// Cohorts by name. Those that are only referred to exist too, without quota.
    pub cohorts: BTreeMap<Arc<str>, CohortSpec>,
    /// LocalQueues by namespace and name.
    pub local_queues: BTreeMap<ObjectKey, LocalQueueSpec>,
    /// Kinds of nodes, by the name of the ResourceFlavor.
    pub flavors: BTreeMap<Arc<str>, FlavorSpec>,
    /// Labels of each namespace.
    pub namespaces: BTreeMap<Arc<str>, BTreeMap<String, String>>,
}

/// Models of a GPU resource (second argument) on the nodes that have all these labels.
pub type ModelsOf<'a> = &'a dyn Fn(&BTreeMap<String, String>, &str) -> BTreeSet<GpuModel>;

/// Objects as a queue tree, and what is wrong with each.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The tree. Its default queue is for running pods whose LocalQueue does not exist.
    pub tree: QueueTree,
    /// LocalQueues, by which pods address the leaves of the tree.
    pub local_queues: LocalQueues,
    /// Leaves of the tree as they are in force, by the name of the ClusterQueue.
    pub cluster_queues: BTreeMap<Arc<str>, ClusterQueue>,
    /// Settings of each Cohort that have no effect, by the name of the Cohort.
    pub cohort_notes: BTreeMap<Arc<str>, String>,
}

/// ClusterQueue as it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterQueue {
    /// Leaf of the tree.
    pub queue: QueueName,
    /// Resources that its quota covers, and where.
    pub groups: Vec<FlavorGroup>,
    /// Reason for which none of its pods starts.
    pub hold: Option<Hold>,
    /// True if its running pods are stopped.
    pub drains: bool,
    /// Settings that have no effect, or another one than with Kueue.
    pub remarks: Vec<String>,
}

/// Reason for which no pod of a queue starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// One word for programs, that of Kueue where it has one.
    pub reason: &'static str,
    /// Explanation for users, a sentence that names the object.
    pub message: String,
}

impl Hold {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// Reads the objects. `models` returns the models of GPUs on the nodes with given labels.
#[must_use]
pub fn read(objects: &Objects, models: ModelsOf<'_>) -> Reading {
    // Many queues have the same flavors, and there are many nodes to look at.
    let known = RefCell::new(BTreeMap::new());
    let models = |labels: &BTreeMap<String, String>, resource: &str| {
        let key = (labels.clone(), resource.to_owned());
        known.borrow_mut().entry(key).or_insert_with(|| models(labels, resource)).clone()
    };
    let (tree, cluster_queues, cohort_notes) = tree::read(objects, &models);
    let local_queues = local_queues::read(objects, &cluster_queues);
    Reading { tree, local_queues, cluster_queues, cohort_notes }
}

#[cfg(test)]
mod tests;
