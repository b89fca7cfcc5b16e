//! Fair share as a fixed-point number. It must not know pending entries.
//!
//! `share = max over GPU models of (usage / (capacity × half-life) + held / capacity) / weight`,
//! where usage is decayed and capacity is the cluster's. It has 40 fractional bits: a thousandth of
//! a GPU among 40,000 GPUs is 2^-25, which leaves room for weights of many thousands. Intermediate
//! values have 128 bits and saturate, as does the result. A model without capacity is ignored.
//!
//! Jobs without GPUs add nothing to a share. Among queues of equal share the one with fewer running
//! elements per weight goes first, so that a queue of such jobs cannot starve its siblings; then
//! the order of names. Among users of equal share the oldest entry goes first.

use muster_model::Time;

use crate::intern::{LeafId, UserId};
use crate::usage::DecayedUsage;
use crate::{Policy, tree::QueueNode};

/// Fractional bits of a share.
const FRACTION_BITS: u32 = 40;

/// Order of a queue among its siblings, lowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueRank {
    /// Fair share, with 40 fractional bits.
    share: u64,
    /// Running elements by weight, with 32 fractional bits.
    running: u64,
    /// Rank among its siblings by name.
    name_rank: u32,
}

impl Policy {
    /// Returns the share of a queue, with 40 fractional bits.
    pub(crate) fn queue_share(&self, now: Time, node: &QueueNode) -> u64 {
        self.share(now, &node.usage, &node.held, node.weight)
    }

    /// Returns the share of a user within a leaf, with 40 fractional bits.
    pub(crate) fn user_share(&self, now: Time, leaf: LeafId, user: UserId) -> u64 {
        self.queues
            .leaf_state(leaf)
            .users
            .get(&user)
            .map_or(0, |row| self.share(now, &row.usage, &row.held, 1))
    }

    /// Returns the order of a queue among its siblings.
    pub(crate) fn queue_rank(&self, now: Time, index: usize) -> QueueRank {
        let node = &self.queues.nodes[index];
        QueueRank {
            share: self.queue_share(now, node),
            running: (u64::from(node.running) << 32) / u64::from(node.weight),
            name_rank: node.name_rank,
        }
    }

    fn share(&self, now: Time, usage: &[DecayedUsage], held: &[u64], weight: u32) -> u64 {
        let half_life_ms = self.half_life_ms();
        let models = self.capacity.iter().zip(usage).zip(held);
        models
            .map(|((capacity, usage), held)| {
                if *capacity == 0 {
                    return 0;
                }
                quotient(usage.at(now, half_life_ms), *held, *capacity, half_life_ms, weight)
            })
            .max()
            .unwrap_or(0)
    }
}

/// Returns `(usage / (capacity × half_life) + held / capacity) / weight`.
fn quotient(usage: u64, held: u64, capacity: u64, half_life_ms: u64, weight: u32) -> u64 {
    let demand = (u128::from(held) * u128::from(half_life_ms)).saturating_add(u128::from(usage));
    if demand == 0 {
        return 0;
    }
    let supply =
        (u128::from(capacity) * u128::from(half_life_ms)).saturating_mul(u128::from(weight));
    u64::try_from((demand.min(u128::MAX >> FRACTION_BITS) << FRACTION_BITS) / supply)
        .unwrap_or(u64::MAX)
}

/// Converts a share to millionths.
pub(crate) fn to_ppm(share: u64) -> u64 {
    ((u128::from(share) * 1_000_000) >> FRACTION_BITS) as u64
}
