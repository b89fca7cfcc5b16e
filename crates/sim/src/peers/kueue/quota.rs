//! Quotas as Kueue counts them: a tree of cohorts with cluster queues as its leaves, a nominal
//! quota each, what of it is lent, and what may be borrowed. Counted per flavor, which is a model
//! of GPU here.
//!
//! Source: pkg/cache/scheduler/resource_node.go and the pages on cohorts and cluster queues, Kueue
//! 0.15. Of the queue file, a queue without a quota of its own for a model has none here and
//! borrows; what the cluster has beyond all quotas is the quota of the cohort above all queues.

use std::collections::BTreeMap;

use muster_model::QueueName;
use muster_model::node::GpuModel;
use muster_model::queue::QueueSpec;

use super::preempt::Admitted;
use crate::fleet::{FleetJob, Site};

/// Index of a flavor.
pub(super) type Flavor = usize;

/// A cohort, or a cluster queue.
#[derive(Clone, Debug)]
struct Node {
    parent: Option<usize>,
    /// As the queue file has it, with that of the queues below, by flavor.
    quota: Vec<u64>,
    /// Its own and what those below lend, by flavor.
    subtree: Vec<u64>,
    usage: Vec<u64>,
    borrowing: Option<u64>,
    lending: Option<u64>,
}

/// All quotas and what is used of them.
#[derive(Clone, Debug)]
pub(super) struct Quotas {
    /// The root comes first, parents before their children.
    nodes: Vec<Node>,
    leaves: BTreeMap<QueueName, usize>,
    /// None of them where the cluster has no GPU: then the one flavor is its CPUs.
    models: Vec<GpuModel>,
}

/// What a job asks for: so much of one of these flavors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Demand {
    pub(super) amount: u64,
    pub(super) flavors: Vec<Flavor>,
}

impl Quotas {
    pub(super) fn new(site: &Site) -> Self {
        let mut models: Vec<GpuModel> = site
            .nodes
            .iter()
            .flat_map(|node| &node.devices)
            .map(|device| device.model.clone())
            .collect();
        models.sort();
        models.dedup();
        let total: Vec<u64> = match models.is_empty() {
            true => vec![site.size_milli()],
            false => models.iter().map(|model| devices_of(site, model)).collect(),
        };
        let root = Node {
            parent: None,
            usage: vec![0; total.len()],
            quota: total,
            subtree: Vec::new(),
            borrowing: None,
            lending: None,
        };
        let mut quotas = Self { nodes: vec![root], leaves: BTreeMap::new(), models };
        for queue in &site.tree.queues {
            quotas.add_queue(queue, 0, "");
        }
        quotas.sum_up();
        quotas
    }

    fn add_queue(&mut self, queue: &QueueSpec, parent: usize, above: &str) {
        let path = if above.is_empty() {
            queue.name.to_string()
        } else {
            format!("{above}/{}", queue.name)
        };
        let quota: Vec<u64> = match self.models.is_empty() {
            true => vec![0],
            false => self
                .models
                .iter()
                .map(|model| queue.quota.get(model).copied().unwrap_or(0))
                .collect(),
        };
        let usage = vec![0; quota.len()];
        let at = self.nodes.len();
        self.nodes.push(Node {
            parent: Some(parent),
            quota,
            subtree: Vec::new(),
            usage,
            borrowing: queue.borrow,
            lending: queue.lend,
        });
        match queue.queues.is_empty() {
            true => drop(self.leaves.insert(path.as_str().into(), at)),
            false => queue.queues.iter().for_each(|child| self.add_queue(child, at, &path)),
        }
    }

    /// Quota of every subtree, from the leaves up: what those below lend, and what the node has
    /// beyond that.
    fn sum_up(&mut self) {
        for node in &mut self.nodes {
            node.subtree = vec![0; node.quota.len()];
        }
        for at in (0..self.nodes.len()).rev() {
            for flavor in 0..self.nodes[at].quota.len() {
                let node = &mut self.nodes[at];
                node.subtree[flavor] = node.subtree[flavor].max(node.quota[flavor]);
                let lent = node.subtree[flavor] - self.guaranteed(at, flavor);
                if let Some(parent) = self.nodes[at].parent {
                    self.nodes[parent].subtree[flavor] += lent;
                }
            }
        }
    }

    /// Cluster queues.
    pub(super) fn leaves(&self) -> impl Iterator<Item = (&QueueName, usize)> {
        self.leaves.iter().map(|(name, at)| (name, *at))
    }

    /// The cluster queue that a job waits in.
    pub(super) fn leaf(&self, queue: &QueueName) -> usize {
        self.leaves.get(queue).copied().unwrap_or(0)
    }

    /// What a job asks for.
    pub(super) fn demand(&self, job: &FleetJob) -> Demand {
        let (each, flavors) = match self.models.is_empty() {
            true => (u64::from(job.task.cpus.0), vec![0]),
            false => {
                let wanted = &job.task.gpu.models;
                let takes = |at: &Flavor| wanted.is_empty() || wanted.contains(&self.models[*at]);
                (u64::from(job.task.gpu.devices), (0..self.models.len()).filter(takes).collect())
            }
        };
        Demand { amount: each * u64::from(job.tasks), flavors }
    }

    /// Of its quota, what nobody else can have.
    fn guaranteed(&self, at: usize, flavor: Flavor) -> u64 {
        let node = &self.nodes[at];
        node.lending.map_or(0, |lending| node.subtree[flavor].saturating_sub(lending))
    }

    /// What a node may still use, its own and borrowed.
    pub(super) fn available(&self, at: usize, flavor: Flavor) -> u64 {
        let node = &self.nodes[at];
        let Some(parent) = node.parent else {
            return node.subtree[flavor].saturating_sub(node.usage[flavor]);
        };
        let guaranteed = self.guaranteed(at, flavor);
        let own = guaranteed.saturating_sub(node.usage[flavor]);
        let mut above = self.available(parent, flavor);
        if let Some(borrowing) = node.borrowing {
            let stored = node.subtree[flavor] - guaranteed + borrowing;
            above = above.min(stored.saturating_sub(node.usage[flavor].saturating_sub(guaranteed)));
        }
        own + above
    }

    /// There is so much for it once some have gone.
    pub(super) fn would_fit(
        &self,
        at: usize,
        flavor: Flavor,
        amount: u64,
        without: &[Admitted],
    ) -> bool {
        let mut trial = self.clone();
        without.iter().for_each(|one| trial.remove(one.queue, one.flavor, one.amount));
        trial.available(at, flavor) >= amount
    }

    /// It would use more than its own quota.
    pub(super) fn would_borrow(&self, at: usize, flavor: Flavor, amount: u64) -> bool {
        self.nodes[at].usage[flavor] + amount > self.nodes[at].subtree[flavor]
    }

    /// What of its own quota it does not use.
    pub(super) fn unused(&self, at: usize, flavor: Flavor) -> u64 {
        self.nodes[at].subtree[flavor].saturating_sub(self.nodes[at].usage[flavor])
    }

    /// It uses more than its own quota.
    pub(super) fn borrows(&self, at: usize, flavor: Flavor) -> bool {
        self.would_borrow(at, flavor, 0)
    }

    pub(super) fn add(&mut self, at: usize, flavor: Flavor, amount: u64) {
        let own = self.guaranteed(at, flavor).saturating_sub(self.nodes[at].usage[flavor]);
        self.nodes[at].usage[flavor] += amount;
        if let Some(parent) = self.nodes[at].parent
            && amount > own
        {
            self.add(parent, flavor, amount - own);
        }
    }

    pub(super) fn remove(&mut self, at: usize, flavor: Flavor, amount: u64) {
        let beyond = self.nodes[at].usage[flavor].saturating_sub(self.guaranteed(at, flavor));
        self.nodes[at].usage[flavor] -= amount;
        if let Some(parent) = self.nodes[at].parent
            && beyond > 0
        {
            self.remove(parent, flavor, amount.min(beyond));
        }
    }
}

fn devices_of(site: &Site, model: &GpuModel) -> u64 {
    site.nodes.iter().flat_map(|node| &node.devices).filter(|device| device.model == *model).count()
        as u64
}
