//! Score of nodes for a pod: plugins `nodeorder` and `binpack` of the default configuration, added
//! up. `binpack` counts CPUs and memory only unless configured otherwise, and for them it cancels
//! exactly what `nodeorder` gives to empty nodes. So the score mostly depends on how evenly CPUs,
//! memory and GPUs of a node would be used.

use muster_model::job::Resources;

use crate::fleet::PoolNode;

/// Default CPU and memory requests in `nodeorder` (pkg/scheduler/util/pod_resources.go of
/// Kubernetes 1.35, DefaultMilliCPURequest and DefaultMemoryRequest).
const DEFAULT_CPU_MILLI: u64 = 100;
const DEFAULT_MEMORY_BYTES: u64 = 200 << 20;
const MILLIONTHS: u64 = 1_000_000;

/// Capacity of one resource of a node, the held part, and the pod's request.
#[derive(Clone, Copy)]
struct ResourceUse {
    there: u64,
    held: u64,
    asked: u64,
}

impl ResourceUse {
    fn with_default(self, default: u64) -> Self {
        Self { asked: if self.asked == 0 { default } else { self.asked }, ..self }
    }

    /// Returns the held part with the pod, in millionths of the capacity.
    fn fraction(self) -> u64 {
        let held = (self.held + self.asked).min(self.there);
        (u128::from(held) * u128::from(MILLIONTHS) / u128::from(self.there)) as u64
    }
}

/// Returns the score of a node for a pod, in thousandths, where `placed` pods of the same gang come
/// before it.
pub(super) fn score(node: &PoolNode, pod: &Resources, placed: u32) -> u64 {
    let before = |asked: u64| u64::from(placed).saturating_mul(asked);
    let of = |there: u64, free: u64, asked: u64| ResourceUse {
        there,
        held: there - free + before(asked),
        asked,
    };
    let cpu = of(u64::from(node.spec.cpus.0), u64::from(node.cpus), u64::from(pod.cpus.0));
    let memory = of(node.spec.memory.0, node.memory_bytes, pod.memory.0);
    let devices = u64::from(node.free.len() as u32 - node.broken.len());
    let gpu = of(devices, u64::from(node.whole.len()), u64::from(pod.gpu.devices));
    (least(cpu, memory) + balanced(cpu, memory, gpu)) * 1000 + binpack(cpu, memory)
}

/// Returns the free part of CPUs and memory with the pod, 0 to 100 (noderesources, LeastAllocated,
/// 50 and 50, leastrequested.weight 1).
fn least(cpu: ResourceUse, memory: ResourceUse) -> u64 {
    let parts = [cpu.with_default(DEFAULT_CPU_MILLI), memory.with_default(DEFAULT_MEMORY_BYTES)];
    let left = parts
        .into_iter()
        .filter(|of| of.there > 0)
        .map(|of| (MILLIONTHS - of.fraction()) * 100 / MILLIONTHS);
    let count = left.clone().count() as u64;
    left.sum::<u64>().checked_div(count).unwrap_or(0)
}

/// Returns how evenly CPUs, memory and, if the pod requests them, GPUs would be used, 0 to 100: 100
/// less the standard deviation (noderesources, BalancedAllocation, balancedresource.weight 1).
fn balanced(cpu: ResourceUse, memory: ResourceUse, gpu: ResourceUse) -> u64 {
    let is_asked = gpu.asked > 0;
    let parts = [Some(cpu), Some(memory), is_asked.then_some(gpu)];
    let used: Vec<u64> =
        parts.into_iter().flatten().filter(|of| of.there > 0).map(ResourceUse::fraction).collect();
    let deviation = match used[..] {
        [] | [_] => 0,
        [one, other] => one.abs_diff(other) / 2,
        _ => {
            let mean = used.iter().sum::<u64>() / used.len() as u64;
            let squares: u64 = used.iter().map(|part| part.abs_diff(mean).pow(2)).sum();
            (squares / used.len() as u64).isqrt()
        }
    };
    (MILLIONTHS - deviation) * 100 / MILLIONTHS
}

/// Returns the mean utilisation of CPUs and memory after the placement, of those that the task
/// requests, in thousandths of a score from 0 to 100 (binpack.go, all weights 1).
fn binpack(cpu: ResourceUse, memory: ResourceUse) -> u64 {
    let asked = [cpu, memory].into_iter().filter(|of| of.asked > 0 && of.there > 0);
    let count = asked.clone().count() as u64;
    let full = asked.map(|of| of.fraction() / 10).sum::<u64>();
    full.checked_div(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreading_and_packing_cancel_out() {
        let half = ResourceUse { there: 100, held: 40, asked: 10 };
        let full = ResourceUse { there: 100, held: 80, asked: 10 };
        for (cpu, memory) in [(half, half), (full, half), (full, full)] {
            assert_eq!(least(cpu, memory) * 1000 + binpack(cpu, memory), 100_000);
        }
        // Without requests for CPUs and memory there is nothing to pack, and only the free part
        // counts.
        let cpu = ResourceUse { there: 100_000, held: 40_000, asked: 0 };
        let memory = ResourceUse { there: 1_000 << 30, held: 400 << 30, asked: 0 };
        assert_eq!((least(cpu, memory), binpack(cpu, memory)), (59, 0));
    }

    #[test]
    fn uneven_use_costs_its_standard_deviation() {
        let of = |held: u64, asked: u64| ResourceUse { there: 100, held, asked };
        assert_eq!(balanced(of(40, 10), of(40, 10), of(40, 10)), 100);
        assert_eq!(balanced(of(90, 10), of(40, 10), of(0, 0)), 75);
        // Of 1, 0.5 and 0 it is the root of 1/6.
        assert_eq!(
            balanced(of(90, 10), of(40, 10), ResourceUse { there: 10_000_000, held: 0, asked: 1 }),
            59
        );
    }
}
