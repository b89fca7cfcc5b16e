//! The invariants of a [`Policy`], recomputed from scratch: what the maintained sums must be, given
//! the users' rows and the pending entries. For tests, simulation and debug assertions; far too
//! slow for a pass.

use std::collections::BTreeMap;

use muster_model::{GpuModel, QueueName};

use crate::Policy;
use crate::intern::{ModelId, UserId};
use crate::tree::Node;

/// An invariant that does not hold. A queue named "" is the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inconsistency {
    /// A queue's count of running elements is not the sum over its users.
    Running {
        /// Which queue.
        queue: QueueName,
    },
    /// A queue's count of pending entries, or of the children that have some, is not what waits
    /// below it.
    Pending {
        /// Which queue.
        queue: QueueName,
    },
    /// A queue's held GPUs are not the sum over its users.
    Held {
        /// Which queue.
        queue: QueueName,
        /// Of which model.
        model: GpuModel,
    },
    /// What one user holds below a queue that limits it is not the sum over the leaves.
    HeldByUser {
        /// Which queue.
        queue: QueueName,
    },
    /// The jobs of users that wait below a queue that limits them are not the sum over the leaves.
    WaitingJobs {
        /// Which queue.
        queue: QueueName,
    },
    /// What counts against quota is not what follows from the use.
    Taken {
        /// Which queue.
        queue: QueueName,
        /// Of which model.
        model: GpuModel,
    },
    /// Usage does not accrue at the rate of what is held.
    Rate {
        /// Which queue.
        queue: QueueName,
        /// Of which model.
        model: GpuModel,
    },
    /// More counts against quota than nominal and borrowing admit. Holds after any sequence of
    /// admitted starts; a new tree with smaller quotas may leave a queue in it until enough has
    /// ended.
    Overdraft {
        /// Which queue.
        queue: QueueName,
        /// Of which model.
        model: GpuModel,
    },
}

/// What a queue's counters must be.
#[derive(Default)]
struct Sums {
    running: u32,
    pending: u32,
    held: Vec<u64>,
    rate: Vec<u64>,
    held_by_user: BTreeMap<UserId, u64>,
    waiting_jobs: BTreeMap<UserId, u32>,
}

impl Policy {
    /// Everything that should hold and does not. To be called when nothing is tried: between
    /// [`Policy::try_hold`] and [`Policy::undo_hold`] the rates lag behind on purpose.
    #[must_use]
    pub fn inconsistencies(&self) -> Vec<Inconsistency> {
        let sums = self.sums();
        let mut found = Vec::new();
        for (node, sums) in self.nodes.iter().zip(&sums) {
            self.audit_counts(node, sums, &mut found);
            for model in self.models.ids() {
                self.audit_model(node, sums, model, &mut found);
            }
        }
        found
    }

    /// Sums over users and entries, from the leaves upwards.
    fn sums(&self) -> Vec<Sums> {
        let count = self.models.len();
        let empty = || Sums { held: vec![0; count], rate: vec![0; count], ..Sums::default() };
        let mut sums: Vec<Sums> = self.nodes.iter().map(|_| empty()).collect();
        for leaf in &self.leaves {
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
                for (user, jobs) in &leaf.waiting_jobs {
                    *sum.waiting_jobs.entry(*user).or_default() += jobs;
                }
                let entries = leaf.levels.values().flat_map(|level| level.users.values());
                sum.pending += entries.map(|entries| entries.len() as u32).sum::<u32>();
                next = self.nodes[index].parent;
            }
        }
        sums
    }

    fn audit_counts(&self, node: &Node, sums: &Sums, found: &mut Vec<Inconsistency>) {
        let queue = || node.name.clone();
        if node.running != sums.running {
            found.push(Inconsistency::Running { queue: queue() });
        }
        let waiting = node.children.iter().filter(|child| self.nodes[**child].pending > 0);
        if node.pending != sums.pending || !waiting.eq(&node.pending_children) {
            found.push(Inconsistency::Pending { queue: queue() });
        }
        let holders = sums.held_by_user.iter().filter(|(_, milli)| **milli > 0);
        if node.limits.gpus_per_user.is_some() && !holders.eq(&node.held_by_user) {
            found.push(Inconsistency::HeldByUser { queue: queue() });
        }
        if node.limits.pending_jobs.is_some() && node.waiting_jobs != sums.waiting_jobs {
            found.push(Inconsistency::WaitingJobs { queue: queue() });
        }
    }

    fn audit_model(
        &self,
        node: &Node,
        sums: &Sums,
        model: ModelId,
        found: &mut Vec<Inconsistency>,
    ) {
        let at = usize::from(model.0);
        let (queue, name) = (|| node.name.clone(), || self.models.name(model).clone());
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
            node.children.iter().map(|child| self.nodes[*child].quota[at].claim()).sum()
        };
        if quota.taken != taken {
            found.push(Inconsistency::Taken { queue: queue(), model: name() });
        }
        if quota.taken > quota.ceiling {
            found.push(Inconsistency::Overdraft { queue: queue(), model: name() });
        }
    }
}
