//! What a submission is checked against: who submits, which nodes there are, which queues. Borrowed
//! from whoever knows; nothing here looks anything up.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{GpuModel, NodeSpec, QueueName, QueueSpec, QueueTree, UserName, WindowName};

/// The surroundings of a check. Without any node nothing about capacity, models and labels is
/// checked.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// Who submits.
    pub(crate) user: UserName,
    /// Every node, up or not.
    pub(crate) hosts: Vec<Host<'a>>,
    /// Devices in all, by model.
    pub(crate) models: BTreeMap<&'a GpuModel, u64>,
    /// Topology levels, widest first, without the node.
    pub(crate) levels: Vec<Arc<str>>,
    /// Path of every leaf queue, in file order; `None` when nobody knows, and then their names are
    /// not checked.
    pub(crate) leaves: Option<Vec<QueueName>>,
    /// Advance reservations, by name; `None` when nobody knows, and then their names are not
    /// checked.
    pub(crate) windows: Option<Vec<WindowName>>,
    /// Leaf of a job that names none.
    pub(crate) default_queue: &'a QueueName,
    /// What queues say of jobs that say nothing themselves; `None` when nobody knows.
    pub(crate) queues: Option<&'a QueueTree>,
}

/// A node and its devices by model, counted once for all documents of a submission.
#[derive(Clone, Debug)]
pub(crate) struct Host<'a> {
    pub(crate) node: &'a NodeSpec,
    pub(crate) gpus: Vec<(&'a GpuModel, u64)>,
}

impl<'a> Site<'a> {
    /// A site of these nodes and queues.
    pub fn new(
        user: UserName,
        nodes: impl IntoIterator<Item = &'a NodeSpec>,
        queues: &'a QueueTree,
    ) -> Self {
        let hosts: Vec<Host<'a>> = nodes.into_iter().map(host).collect();
        let mut models = BTreeMap::new();
        for (model, count) in hosts.iter().flat_map(|host| &host.gpus) {
            *models.entry(*model).or_insert(0) += count;
        }
        let mut leaves = Vec::new();
        collect(&queues.queues, "", &mut leaves);
        Self {
            user,
            hosts,
            models,
            levels: Vec::new(),
            leaves: Some(leaves),
            windows: None,
            default_queue: &queues.default_queue,
            queues: Some(queues),
        }
    }

    /// Where somebody else decides: neither nodes nor queues are known, and only what a job says by
    /// itself is checked.
    pub fn unknown(user: UserName, default_queue: &'a QueueName) -> Self {
        let (hosts, models, levels) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self {
            user,
            hosts,
            models,
            levels,
            leaves: None,
            windows: None,
            default_queue,
            queues: None,
        }
    }

    /// With these topology levels, widest first, without the node.
    #[must_use]
    pub fn with_levels(self, levels: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { levels: levels.into_iter().collect(), ..self }
    }

    /// With these advance reservations.
    #[must_use]
    pub fn with_windows(self, windows: impl IntoIterator<Item = WindowName>) -> Self {
        Self { windows: Some(windows.into_iter().collect()), ..self }
    }
}

fn host(node: &NodeSpec) -> Host<'_> {
    let mut gpus: Vec<(&GpuModel, u64)> = Vec::new();
    for device in &node.devices {
        match gpus.iter_mut().find(|(model, _)| *model == &device.model) {
            Some((_, count)) => *count += 1,
            None => gpus.push((&device.model, 1)),
        }
    }
    Host { node, gpus }
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
