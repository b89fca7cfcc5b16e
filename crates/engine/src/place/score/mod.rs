//! Scores of nodes and devices for a placement policy: the lower the weight, the better. `weigh.rs`
//! and `fragmentation.rs` compute weights; `gang/scored.rs` places by them.

mod fragmentation;
#[cfg(test)]
mod tests;
pub(crate) mod weigh;
pub(crate) mod workload_mix;

use muster_model::queue::PlacementPolicy;

use workload_mix::WorkloadMix;

/// Placement policy, with the workload mix that it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scoring<'a> {
    policy: PlacementPolicy,
    mix: &'a WorkloadMix,
}

impl<'a> Scoring<'a> {
    /// Returns `None` for packing, which follows the indexes.
    pub(crate) fn new(policy: PlacementPolicy, mix: &'a WorkloadMix) -> Option<Self> {
        (policy != PlacementPolicy::Pack).then_some(Self { policy, mix })
    }
}
