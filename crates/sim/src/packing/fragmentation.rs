//! The published measure of fragmentation (Weng et al., USENIX ATC 2023; `pkg/utils/frag.go` of
//! their simulator): the part of the idle GPUs that typical pods cannot use. It is the same for
//! every policy, and shares no code with the engine's own measure.
//!
//! F_n(m) is what is idle on node n and of no use to pod m: all of it when m wants no GPU, does not
//! accept the model, or does not fit; else the devices with less room than m wants. F_n(M) is the
//! sum over the typical pods, weighted by frequency. As published, it ignores memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::peers::packing::{PackingNode, PackingPod};

/// Percentage of all pods that the typical pods make up.
const USUAL_PERCENT: u64 = 95;

/// The typical pods, each with its number in a list.
#[derive(Clone, Debug, Default)]
pub(super) struct TypicalPods {
    pods: Vec<(PackingPod, u64)>,
    total: u64,
}

impl TypicalPods {
    /// Selects the most frequent requests of a list, up to this percentage, including pods without
    /// GPU.
    pub(super) fn of(list: &[PackingPod]) -> Self {
        let mut counts: BTreeMap<PackingPod, u64> = BTreeMap::new();
        for pod in list {
            *counts.entry(PackingPod { memory_bytes: 0, ..pod.clone() }).or_default() += 1;
        }
        let mut pods: Vec<(PackingPod, u64)> = counts.into_iter().collect();
        // Among equally frequent ones those that want more, as published: the order of `PackingPod`
        // is that of their sort.
        pods.sort_by(|(one, ones), (other, others)| {
            (Reverse(ones), other).cmp(&(Reverse(others), one))
        });
        let mut sum = 0;
        let is_usual = |(_, count): &(PackingPod, u64)| {
            let is_short = sum * 100 < list.len() as u64 * USUAL_PERCENT;
            sum += count;
            is_short
        };
        let pods: Vec<(PackingPod, u64)> = pods.into_iter().take_while(is_usual).collect();
        let total = pods.iter().map(|(_, count)| count).sum();
        Self { pods, total }
    }

    /// Returns the number of pods.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns F_n(M) of a node, times [`TypicalPods::total`].
    pub(super) fn lost_on(&self, host: &PackingNode) -> u64 {
        let idle = host.gpu_milli();
        if idle == 0 {
            return 0;
        }
        self.pods.iter().map(|(pod, count)| (idle - useful(host, pod)) * count).sum()
    }
}

/// Returns the idle thousandths of a node that a pod could use.
fn useful(host: &PackingNode, pod: &PackingPod) -> u64 {
    let (devices, least) = pod.per_device();
    if devices == 0 || host.cpus_milli < pod.cpus_milli || !pod.accepts(host.model.as_ref()) {
        return 0;
    }
    let mut count = 0;
    let mut sum = 0;
    for capacity in host.capacities.iter().filter(|capacity| **capacity >= least) {
        count += 1;
        sum += u64::from(*capacity);
    }
    if count >= devices { sum } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn pod(devices: u32, share_milli: u16, cpus_milli: u64, models: &[&str]) -> PackingPod {
        let models = models.iter().map(|model| (*model).into()).collect();
        PackingPod { cpus_milli, share_milli, devices, models, memory_bytes: 7 }
    }

    #[test]
    fn fragmentation_is_what_typical_pods_cannot_use() {
        let host = PackingNode {
            model: Some("t4".into()),
            capacities: vec![1000, 600, 200, 0],
            cpus_milli: 8000,
            memory_bytes: 0,
            kinds: BTreeMap::new(),
        };
        let check = |pod: PackingPod, expected| {
            assert_eq!(
                TypicalPods::of(std::slice::from_ref(&pod)).lost_on(&host),
                expected,
                "{pod:?}"
            )
        };
        check(pod(1, 0, 8000, &[]), 800);
        check(pod(2, 0, 0, &[]), 1800);
        check(pod(0, 500, 0, &[]), 200);
        check(pod(0, 500, 8001, &[]), 1800);
        check(pod(0, 500, 0, &["a10"]), 1800);
        check(pod(0, 500, 0, &["a10", "t4"]), 200);
        check(pod(0, 0, 1000, &[]), 1800);
        let both = [pod(1, 0, 0, &[]), pod(1, 0, 0, &[]), pod(0, 500, 0, &[])];
        assert_eq!(
            (TypicalPods::of(&both).lost_on(&host), TypicalPods::of(&both).total()),
            (2 * 800 + 200, 3)
        );
        let full = PackingNode { capacities: vec![0, 0], ..host };
        assert_eq!(TypicalPods::of(&both).lost_on(&full), 0);
    }

    #[test]
    fn the_rarest_twentieth_is_not_usual() {
        let list = |rare: usize| {
            let mut list = vec![pod(1, 0, 0, &[]); 100 - rare];
            list.resize(100, pod(8, 0, 0, &[]));
            list
        };
        assert_eq!(TypicalPods::of(&list(5)).total(), 95);
        assert_eq!(TypicalPods::of(&list(6)).total(), 100);
    }
}
