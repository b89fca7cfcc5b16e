//! What a submission is checked against: who submits, which nodes there are, which queues. Borrowed from
//! whoever knows; nothing here looks anything up.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{GpuModel, NodeSpec, QueueName, QueueSpec, QueueTree, UserName};

/// The surroundings of a check. Without any node nothing about capacity, models and labels is checked.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// Who submits.
    pub user: UserName,
    /// Every node, up or not.
    pub nodes: Vec<&'a NodeSpec>,
    /// Queues.
    pub queues: &'a QueueTree,
}

impl<'a> Site<'a> {
    /// A site of these nodes and queues.
    pub fn new(user: UserName, nodes: impl IntoIterator<Item = &'a NodeSpec>, queues: &'a QueueTree) -> Self {
        Self { user, nodes: nodes.into_iter().collect(), queues }
    }

    /// Devices in all by model, by name.
    pub(crate) fn models(&self) -> BTreeMap<&'a GpuModel, u64> {
        let mut models = BTreeMap::new();
        for device in self.nodes.iter().flat_map(|node| &node.devices) {
            *models.entry(&device.model).or_insert(0) += 1;
        }
        models
    }

    /// Path of every leaf queue, in file order.
    pub(crate) fn leaves(&self) -> Vec<QueueName> {
        let mut leaves = Vec::new();
        collect(&self.queues.queues, "", &mut leaves);
        leaves
    }
}

fn collect(queues: &[QueueSpec], parent: &str, leaves: &mut Vec<QueueName>) {
    for queue in queues {
        let path = join(parent, &queue.name);
        match queue.queues.is_empty() {
            true => leaves.push(QueueName(Arc::from(path))),
            false => collect(&queue.queues, &path, leaves),
        }
    }
}

/// Path of a queue below `parent`.
pub(crate) fn join(parent: &str, name: &str) -> String {
    match parent {
        "" => name.to_owned(),
        _ => format!("{parent}/{name}"),
    }
}
