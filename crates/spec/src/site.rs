//! The site that a submission is checked against: user, nodes and queues, passed in by the caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{
    AdvanceReservationName, GpuModel, NodeSpec, QueueName, QueueSpec, QueueTree, UserName,
};

/// The user, nodes and queues of a check. Without any node, capacity, models and labels are not
/// checked.
#[derive(Clone, Debug)]
pub struct SubmissionSite<'a> {
    /// User who submits the job.
    pub(crate) user: UserName,
    /// Every node, up or not.
    pub(crate) hosts: Vec<SiteNode<'a>>,
    /// Number of devices, by model.
    pub(crate) models: BTreeMap<&'a GpuModel, u64>,
    /// Topology levels, widest first, without the node.
    pub(crate) levels: Vec<Arc<str>>,
    /// Path of every leaf queue, in file order; `None` if unknown, and then names are not checked.
    pub(crate) leaves: Option<Vec<QueueName>>,
    /// Names of advance reservations; `None` if unknown, and then names are not checked.
    pub(crate) windows: Option<Vec<AdvanceReservationName>>,
    /// Leaf of a job that names none.
    pub(crate) default_queue: &'a QueueName,
    /// Queues with their defaults for jobs; `None` if unknown.
    pub(crate) queues: Option<&'a QueueTree>,
}

/// A node and its devices by model, counted once for all documents of a submission.
#[derive(Clone, Debug)]
pub(crate) struct SiteNode<'a> {
    pub(crate) node: &'a NodeSpec,
    pub(crate) gpus: Vec<(&'a GpuModel, u64)>,
}

impl<'a> SubmissionSite<'a> {
    /// Returns a site with these nodes and queues.
    pub fn new(
        user: UserName,
        nodes: impl IntoIterator<Item = &'a NodeSpec>,
        queues: &'a QueueTree,
    ) -> Self {
        let hosts: Vec<SiteNode<'a>> = nodes.into_iter().map(host).collect();
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

    /// Returns the site of an external scheduler: neither nodes nor queues are known, and only the
    /// job itself is checked.
    pub fn unknown(user: UserName, default_queue: &'a QueueName) -> Self {
        let hosts = Vec::new();
        let models = BTreeMap::new();
        let levels = Vec::new();
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

    /// Sets the topology levels, widest first, without the node.
    #[must_use]
    pub fn with_levels(self, levels: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { levels: levels.into_iter().collect(), ..self }
    }

    /// Sets the names of advance reservations.
    #[must_use]
    pub fn with_windows(self, windows: impl IntoIterator<Item = AdvanceReservationName>) -> Self {
        Self { windows: Some(windows.into_iter().collect()), ..self }
    }
}

fn host(node: &NodeSpec) -> SiteNode<'_> {
    let mut gpus: Vec<(&GpuModel, u64)> = Vec::new();
    for device in &node.devices {
        match gpus.iter_mut().find(|(model, _)| *model == &device.model) {
            Some((_, count)) => *count += 1,
            None => gpus.push((&device.model, 1)),
        }
    }
    SiteNode { node, gpus }
}

fn collect(queues: &[QueueSpec], parent: &str, leaves: &mut Vec<QueueName>) {
    for queue in queues {
        let path = join(parent, &queue.name);
        if queue.queues.is_empty() {
            leaves.push(QueueName(Arc::from(path)))
        } else {
            collect(&queue.queues, &path, leaves)
        }
    }
}

/// Returns the path of a queue below `parent`.
pub(crate) fn join(parent: &str, name: &str) -> String {
    match parent {
        "" => name.to_owned(),
        _ => format!("{parent}/{name}"),
    }
}
