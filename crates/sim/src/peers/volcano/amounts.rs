//! CPUs, memory and GPUs of a job, a queue or the whole cluster, as Volcano adds and compares them:
//! each separately.

use std::ops::{Add, AddAssign, SubAssign};

use muster_model::job::Resources;

use crate::fleet::Pool;

/// An amount of each resource. Volcano counts GPUs as one resource (nvidia.com/gpu), whatever their
/// models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourceAmounts {
    pub(super) cpu_milli: u64,
    pub(super) memory_bytes: u64,
    pub(super) gpu_milli: u64,
}

impl ResourceAmounts {
    /// Returns what a whole gang requests.
    pub(super) fn of(tasks: u32, task: &Resources) -> Self {
        let tasks = u64::from(tasks);
        Self {
            cpu_milli: tasks * u64::from(task.cpus.0),
            memory_bytes: tasks.saturating_mul(task.memory.0),
            gpu_milli: tasks * u64::from(task.gpu.milli().0),
        }
    }

    /// Returns the capacity of nodes that are up, without broken devices.
    pub(super) fn available(pool: &Pool) -> Self {
        pool.nodes().filter(|(_, node)| node.is_up).fold(Self::default(), |sum, (_, node)| {
            let gpus = node.free.len() as u64 - u64::from(node.broken.len());
            sum + Self {
                cpu_milli: u64::from(node.spec.cpus.0),
                memory_bytes: node.spec.memory.0,
                gpu_milli: gpus * 1000,
            }
        })
    }

    /// Combines each resource with that of another amount.
    pub(super) fn combine(self, other: Self, what: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            cpu_milli: what(self.cpu_milli, other.cpu_milli),
            memory_bytes: what(self.memory_bytes, other.memory_bytes),
            gpu_milli: what(self.gpu_milli, other.gpu_milli),
        }
    }

    pub(super) fn min(self, other: Self) -> Self {
        self.combine(other, u64::min)
    }

    pub(super) fn max(self, other: Self) -> Self {
        self.combine(other, u64::max)
    }

    /// Returns the difference, at least 0.
    pub(super) fn less(self, other: Self) -> Self {
        self.combine(other, u64::saturating_sub)
    }

    /// Returns whether no resource exceeds the other amount.
    pub(super) fn within(self, other: Self) -> bool {
        self.min(other) == self
    }

    /// Returns whether no requested resource exceeds the other amount; the rest is ignored.
    pub(super) fn within_for(self, other: Self, asked: Self) -> bool {
        let of_asked = |amount: u64, asked: u64| if asked > 0 { amount } else { 0 };
        self.combine(asked, of_asked).within(other)
    }

    /// Returns the dominant share of a whole, in billionths. Of 0, nothing is 0 and something is
    /// the whole.
    pub(super) fn share_of(self, whole: Self) -> u64 {
        const ALL: u64 = 1_000_000_000;
        let part = |amount: u64, whole: u64| match (amount, whole) {
            (0, 0) => 0,
            (_, 0) => ALL,
            _ => u64::try_from(u128::from(amount) * u128::from(ALL) / u128::from(whole))
                .unwrap_or(u64::MAX),
        };
        let parts = self.combine(whole, part);
        parts.cpu_milli.max(parts.memory_bytes).max(parts.gpu_milli)
    }
}

impl Add for ResourceAmounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.combine(other, u64::saturating_add)
    }
}

impl AddAssign for ResourceAmounts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for ResourceAmounts {
    fn sub_assign(&mut self, other: Self) {
        *self = self.less(other);
    }
}
