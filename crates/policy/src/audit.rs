//! The invariants of a [`Policy`], recomputed from scratch: the expected sums, given the users'
//! rows and the pending entries. For tests, simulation and debug assertions; far too slow for a
//! pass.

use std::collections::BTreeMap;

use muster_model::{GpuModel, QueueName};

use crate::Policy;
use crate::intern::{ModelId, UserId};
use crate::tree::QueueNode;

/// Violated invariant. A queue with an empty name is the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inconsistency {
    /// A queue's count of running elements is not the sum over its users.
    Running {
        /// Name of the queue.
        queue: QueueName,
    },
    /// A queue's count of pending entries, or of the children with pending entries, is not that of
    /// its subtree.
    Pending {
        /// Name of the queue.
        queue: QueueName,
    },
    /// A queue's held GPUs are not the sum over its users.
    Held {
        /// Name of the queue.
        queue: QueueName,
        /// GPU model of the counter.
        model: GpuModel,
    },
    /// The GPUs of one user below a queue that limits them are not the sum over the leaves.
    HeldByUser {
        /// Name of the queue.
        queue: QueueName,
    },
    /// The pending jobs of users below a queue that limits them are not the sum over the leaves.
    PendingJobs {
        /// Name of the queue.
        queue: QueueName,
    },
    /// The use of quota does not follow from what is held.
    Taken {
        /// Name of the queue.
        queue: QueueName,
        /// GPU model of the counter.
        model: GpuModel,
    },
    /// Usage does not accrue at the rate of what is held.
    Rate {
        /// Name of the queue.
        queue: QueueName,
        /// GPU model of the counter.
        model: GpuModel,
    },
    /// More of the quota is used than nominal and borrowing admit. This cannot result from admitted
    /// starts alone; a new tree with smaller quotas may cause it until enough has ended.
    Overdraft {
        /// Name of the queue.
        queue: QueueName,
        /// GPU model of the counter.
        model: GpuModel,
    },
}

/// Expected counters of a queue.
#[derive(Default)]
struct QueueSums {
    running: u32,
    pending: u32,
    held: Vec<u64>,
    rate: Vec<u64>,
    held_by_user: BTreeMap<UserId, u64>,
    waiting_jobs: BTreeMap<UserId, u32>,
}

impl Policy {
    /// Returns all violated invariants. Must not be called between [`Policy::try_hold`] and
    /// [`Policy::undo_hold`], where the rates lag behind on purpose.
    #[must_use]
    pub fn inconsistencies(&self) -> Vec<Inconsistency> {
        let sums = self.sums();
        let mut found = Vec::new();
        for (node, sums) in self.queues.nodes.iter().zip(&sums) {
            self.audit_counts(node, sums, &mut found);
            for model in self.models.ids() {
                self.audit_model(node, sums, model, &mut found);
            }
        }
        found
    }

    /// Returns the sums over users and entries, from the leaves upwards.
    fn sums(&self) -> Vec<QueueSums> {
        let count = self.models.len();
        let empty =
            || QueueSums { held: vec![0; count], rate: vec![0; count], ..QueueSums::default() };
        let mut sums: Vec<QueueSums> = self.queues.nodes.iter().map(|_| empty()).collect();
        for leaf in &self.queues.leaves {
            let mut next = leaf.node;
            while let Some(index) = next {
                let sum = &mut sums[index];
                for (user, row) in &leaf.users {
                    sum.running += row.running;
                    for model in 0..count {
                        sum.held[model] += row.held[model];
                        sum.rate[model] += row.usage[model].rate();
                        *sum.held_by_user.entry(*user).or_default() += row.held[model];
                    }
                }
                for (user, jobs) in &leaf.pending_jobs {
                    *sum.waiting_jobs.entry(*user).or_default() += jobs;
                }
                let entries = leaf.levels.values().flat_map(|level| level.users.values());
                sum.pending += entries.map(|entries| entries.len() as u32).sum::<u32>();
                next = self.queues.nodes[index].parent;
            }
        }
        sums
    }

    fn audit_counts(&self, node: &QueueNode, sums: &QueueSums, found: &mut Vec<Inconsistency>) {
        let queue = || node.name.clone();
        if node.running != sums.running {
            found.push(Inconsistency::Running { queue: queue() });
        }
        let waiting = node.children.iter().filter(|child| self.queues.nodes[**child].pending > 0);
        if node.pending != sums.pending || !waiting.eq(&node.pending_children) {
            found.push(Inconsistency::Pending { queue: queue() });
        }
        let holders = sums.held_by_user.iter().filter(|(_, milli)| **milli > 0);
        if node.limits.gpus_per_user.is_some() && !holders.eq(&node.held_by_user) {
            found.push(Inconsistency::HeldByUser { queue: queue() });
        }
        if node.limits.pending_jobs.is_some() && node.pending_jobs != sums.waiting_jobs {
            found.push(Inconsistency::PendingJobs { queue: queue() });
        }
    }

    fn audit_model(
        &self,
        node: &QueueNode,
        sums: &QueueSums,
        model: ModelId,
        found: &mut Vec<Inconsistency>,
    ) {
        let at = usize::from(model.0);
        let queue = || node.name.clone();
        let name = || self.models.name(model).clone();
        let quota = &node.quota[at];
        if node.held[at] != sums.held[at] {
            found.push(Inconsistency::Held { queue: queue(), model: name() });
        }
        if node.usage[at].rate() != sums.rate[at] || sums.rate[at] != sums.held[at] {
            found.push(Inconsistency::Rate { queue: queue(), model: name() });
        }
        let taken = if node.is_leaf() {
            if quota.is_bounded { sums.held[at] } else { 0 }
        } else {
            node.children
                .iter()
                .map(|child| self.queues.nodes[*child].quota[at].charge_to_parent())
                .sum()
        };
        if quota.taken != taken {
            found.push(Inconsistency::Taken { queue: queue(), model: name() });
        }
        if quota.taken > quota.ceiling {
            found.push(Inconsistency::Overdraft { queue: queue(), model: name() });
        }
    }
}
