//! The part that each queue owns of a cluster: GPUs by model, with CPUs and memory in proportion to them. Where the
//! queues own less than there is, the rest belongs to all of them.

use std::collections::BTreeSet;

use muster_model::{NodeSpec, QueueSpec, QueueTree};

use super::flavor::{Amount, NodeFlavor, flavors};
use super::{QueueFilesError, QueueFilesInput};
use crate::queue::object_name;

/// Queue of the tree with what it inherits.
#[derive(Clone, Debug)]
pub(super) struct PlannedQueue<'a> {
    /// Path, such as `research/vision`.
    pub(super) path: String,
    /// Path of the parent; `None` at the top.
    pub(super) parent: Option<String>,
    pub(super) spec: &'a QueueSpec,
    /// Users of the nearest queue on its path that names some; on Kubernetes they are namespaces. Empty: all.
    pub(super) namespaces: BTreeSet<&'a str>,
}

impl<'a> PlannedQueue<'a> {
    /// Returns all queues of a tree, parents first.
    pub(super) fn all(tree: &'a QueueTree) -> Vec<Self> {
        let mut all = Vec::new();
        add(&tree.queues, None, &BTreeSet::new(), &mut all);
        all
    }

    /// Returns the most GPUs that it may use in all, where it has a limit. `borrow` counts for each model.
    pub(super) fn most_gpus(&self, owned: u64) -> Option<u64> {
        let models = self.spec.quota.len() as u64;
        let borrow = self.spec.borrow.filter(|_| models > 0)?;
        Some(owned.saturating_add(borrow.saturating_mul(models)))
    }

    /// Returns the GPUs that are kept for it while it is idle. `lend` counts for each model.
    pub(super) fn kept_gpus(&self, owned: u64) -> u64 {
        let models = self.spec.quota.len() as u64;
        let lend = self.spec.lend.filter(|_| models > 0).unwrap_or(u64::MAX);
        owned.saturating_sub(lend.saturating_mul(models.max(1)))
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.spec.queues.is_empty()
    }

    /// Returns the name of its object.
    pub(super) fn name(&self) -> String {
        object_name(&self.path)
    }
}

fn add<'a>(
    queues: &'a [QueueSpec],
    parent: Option<&str>,
    inherited: &BTreeSet<&'a str>,
    all: &mut Vec<PlannedQueue<'a>>,
) {
    for spec in queues {
        let path = parent.map_or(spec.name.to_string(), |parent| format!("{parent}/{}", spec.name));
        let own: BTreeSet<&str> = spec.users.iter().map(|user| user.as_str()).collect();
        let namespaces =
            if own.is_empty() && spec.groups.is_empty() { inherited.clone() } else { own };
        let parent = parent.map(str::to_owned);
        all.push(PlannedQueue { path: path.clone(), parent, spec, namespaces: namespaces.clone() });
        add(&spec.queues, Some(&path), &namespaces, all);
    }
}

/// A cluster as it is divided among the queues.
#[derive(Clone, Debug)]
pub(super) struct Shares<'a> {
    /// Kinds of nodes, by model; those without GPUs first.
    pub(super) flavors: Vec<NodeFlavor>,
    /// All queues, parents first.
    pub(super) queues: Vec<PlannedQueue<'a>>,
    /// Parts of the queue file that the nodes do not allow.
    pub(super) notes: Vec<String>,
}

impl<'a> Shares<'a> {
    /// Divides the nodes among the queues.
    pub(super) fn of(input: &QueueFilesInput<'a>) -> Result<Self, QueueFilesError> {
        let mut notes = Vec::new();
        let flavors = flavors(input.nodes, &mut notes);
        if flavors.iter().all(|flavor| flavor.model.is_none()) {
            return Err(QueueFilesError::NoGpus);
        }
        let queues = PlannedQueue::all(input.queues);
        for queue in &queues {
            let unknown = queue.spec.quota.keys().filter(|model| {
                !flavors.iter().any(|flavor| flavor.model.as_ref() == Some(*model))
            });
            notes.extend(
                unknown.map(|model| format!("{}: quota of {model}, which no node has", queue.path)),
            );
        }
        Ok(Self { flavors, queues, notes })
    }

    /// Returns what a queue and those below it own of a flavor: its quota, or else the sum of theirs.
    pub(super) fn owned(&self, flavor: &NodeFlavor, spec: &QueueSpec) -> Amount {
        flavor.part(owned_gpus(flavor, spec))
    }

    /// Returns what a parent owns of a flavor beyond its child queues, for all of them.
    pub(super) fn rest(&self, flavor: &NodeFlavor, spec: &QueueSpec) -> Amount {
        let below = sum(spec.queues.iter().map(|child| self.owned(flavor, child)));
        self.owned(flavor, spec).minus(below)
    }

    /// Returns what no queue owns of a flavor.
    pub(super) fn unowned(&self, flavor: &NodeFlavor) -> Amount {
        let top = self.queues.iter().filter(|queue| queue.parent.is_none());
        flavor.total.minus(sum(top.map(|queue| self.owned(flavor, queue.spec))))
    }

    /// Returns all that there is.
    pub(super) fn total(&self) -> Amount {
        sum(self.flavors.iter().map(|flavor| flavor.total))
    }

    /// Returns the resource under which the most GPUs are advertised.
    pub(super) fn resource(&self) -> &'static str {
        let most = self.flavors.iter().max_by_key(|flavor| flavor.total.gpus);
        most.expect("flavors of a cluster with GPUs").resource
    }

    /// Returns what a queue and those below it own in all.
    pub(super) fn owned_in_all(&self, spec: &QueueSpec) -> Amount {
        sum(self.flavors.iter().map(|flavor| self.owned(flavor, spec)))
    }
}

fn owned_gpus(flavor: &NodeFlavor, spec: &QueueSpec) -> u64 {
    let listed = flavor.model.as_ref().and_then(|model| spec.quota.get(model));
    listed
        .copied()
        .unwrap_or_else(|| spec.queues.iter().map(|child| owned_gpus(flavor, child)).sum::<u64>())
}

fn sum(amounts: impl Iterator<Item = Amount>) -> Amount {
    amounts.fold(Amount::default(), Amount::plus)
}

/// Checks that CPUs and memory of all nodes are known.
pub(super) fn check_measured(nodes: &[NodeSpec]) -> Result<(), QueueFilesError> {
    type Lacks = fn(&NodeSpec) -> bool;
    let measures: [(&'static str, Lacks); 2] =
        [("cpus", |node| node.cpus.0 == 0), ("memory", |node| node.memory.0 == 0)];
    for (field, lacks) in measures {
        let lacking: Vec<&NodeSpec> = nodes.iter().filter(|node| lacks(node)).collect();
        if let Some(first) = lacking.first() {
            let first = first.name.to_string();
            let count = lacking.len();
            return Err(QueueFilesError::Unmeasured { field, count, of: nodes.len(), first });
        }
    }
    Ok(())
}
