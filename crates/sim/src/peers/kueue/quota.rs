//! Quotas of Kueue: a tree of cohorts with cluster queues as its leaves, each with a nominal quota,
//! a lending limit and a borrowing limit. Counted per flavor, which is a GPU model here.
//!
//! Source: pkg/cache/scheduler/resource_node.go and the pages on cohorts and cluster queues, Kueue
//! 0.19.2. A queue of the queue file without a quota for a model has none here and borrows; what the
//! cluster has beyond all quotas is the quota of the cohort above all queues.

use std::collections::BTreeMap;

use muster_model::node::GpuModel;
use muster_model::queue::QueueSpec;
use muster_model::{QueueName, Time};

use crate::fleet::{FleetJob, FleetSite, JobNo};

/// Index of a flavor.
pub(super) type Flavor = usize;

/// A cohort, or a cluster queue.
#[derive(Clone, Debug)]
struct QuotaNode {
    parent: Option<usize>,
    /// Quota by flavor, as in the queue file, with that of the queues below.
    quota: Vec<u64>,
    /// Its own quota and what those below lend, by flavor.
    subtree: Vec<u64>,
    usage: Vec<u64>,
    borrowing: Option<u64>,
    lending: Option<u64>,
}

/// All quotas and their use.
#[derive(Clone, Debug)]
pub(super) struct Quotas {
    /// The root comes first, parents before their children.
    nodes: Vec<QuotaNode>,
    leaves: BTreeMap<QueueName, usize>,
    /// GPU models; empty if the cluster has no GPU, whose only flavor is CPUs.
    models: Vec<GpuModel>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdmittedWorkload {
    pub(super) job: JobNo,
    pub(super) queue: usize,
    pub(super) flavor: Flavor,
    pub(super) amount: u64,
    pub(super) priority: i32,
    pub(super) since: Time,
    /// Time since which not all of its pods run, if they do not.
    pub(super) unready_since: Time,
}

/// Amount that a job requests, of one of these flavors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QuotaDemand {
    pub(super) amount: u64,
    pub(super) flavors: Vec<Flavor>,
}

impl Quotas {
    pub(super) fn new(site: &FleetSite) -> Self {
        let mut models: Vec<GpuModel> = site
            .nodes
            .iter()
            .flat_map(|node| &node.devices)
            .map(|device| device.model.clone())
            .collect();
        models.sort();
        models.dedup();
        let total: Vec<u64> = if models.is_empty() {
            vec![site.size_milli()]
        } else {
            models.iter().map(|model| devices_of(site, model)).collect()
        };
        let root = QuotaNode {
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
        let quota: Vec<u64> = if self.models.is_empty() {
            vec![0]
        } else {
            self.models.iter().map(|model| queue.quota.get(model).copied().unwrap_or(0)).collect()
        };
        let usage = vec![0; quota.len()];
        let at = self.nodes.len();
        self.nodes.push(QuotaNode {
            parent: Some(parent),
            quota,
            subtree: Vec::new(),
            usage,
            borrowing: queue.borrow,
            lending: queue.lend,
        });
        if queue.queues.is_empty() {
            self.leaves.insert(path.as_str().into(), at);
        } else {
            queue.queues.iter().for_each(|child| self.add_queue(child, at, &path))
        }
    }

    /// Computes the quota of every subtree, from the leaves up: what those below lend, and the
    /// node's own rest.
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

    /// Returns the cluster queues.
    pub(super) fn leaves(&self) -> impl Iterator<Item = (&QueueName, usize)> {
        self.leaves.iter().map(|(name, at)| (name, *at))
    }

    /// Returns the cluster queue of a job.
    pub(super) fn leaf(&self, queue: &QueueName) -> usize {
        self.leaves.get(queue).copied().unwrap_or(0)
    }

    /// Returns what a job requests.
    pub(super) fn demand(&self, job: &FleetJob) -> QuotaDemand {
        let (each, flavors) = if self.models.is_empty() {
            (u64::from(job.task.cpus.0), vec![0])
        } else {
            let wanted = &job.task.gpu.models;
            let takes = |at: &Flavor| wanted.is_empty() || wanted.contains(&self.models[*at]);
            (u64::from(job.task.gpu.devices), (0..self.models.len()).filter(takes).collect())
        };
        QuotaDemand { amount: each * u64::from(job.tasks), flavors }
    }

    /// Returns the part of its quota that no other queue can use.
    fn guaranteed(&self, at: usize, flavor: Flavor) -> u64 {
        let node = &self.nodes[at];
        node.lending.map_or(0, |lending| node.subtree[flavor].saturating_sub(lending))
    }

    /// Returns what a node may still use, its own and borrowed.
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

    /// Returns whether the amount fits after the evictions.
    pub(super) fn would_fit(
        &self,
        at: usize,
        flavor: Flavor,
        amount: u64,
        without: &[AdmittedWorkload],
    ) -> bool {
        let mut trial = self.clone();
        without.iter().for_each(|one| trial.remove(one.queue, one.flavor, one.amount));
        trial.available(at, flavor) >= amount
    }

    /// Returns whether it would use more than its own quota.
    pub(super) fn would_borrow(&self, at: usize, flavor: Flavor, amount: u64) -> bool {
        self.nodes[at].usage[flavor] + amount > self.nodes[at].subtree[flavor]
    }

    /// Returns the unused part of its own quota.
    pub(super) fn unused(&self, at: usize, flavor: Flavor) -> u64 {
        self.nodes[at].subtree[flavor].saturating_sub(self.nodes[at].usage[flavor])
    }

    /// Returns whether it uses more than its own quota.
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

fn devices_of(site: &FleetSite, model: &GpuModel) -> u64 {
    site.nodes.iter().flat_map(|node| &node.devices).filter(|device| device.model == *model).count()
        as u64
}
