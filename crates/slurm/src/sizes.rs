//! Sizes of nodes and partitions in Slurm's units, and what follows from them for a partition: billing
//! weights and defaults of jobs.

use muster_model::NodeSpec;

pub(crate) fn cpus(node: &NodeSpec) -> u32 {
    node.cpus.0 / 1000
}

/// Returns the memory in Slurm's megabytes.
pub(crate) fn memory_mib(node: &NodeSpec) -> u64 {
    node.memory.0 >> 20
}

pub(crate) fn gpus(nodes: &[&NodeSpec]) -> u64 {
    nodes.iter().map(|node| node.devices.len() as u64).sum()
}

/// Returns the billing weights and defaults of a partition. With PriorityFlags=MAX_TRES a job pays
/// for its largest part: weights are a GPU's part of the CPUs and of the memory, so that a GPU with
/// its parts of both costs as much as one GPU. `shards` is their number per GPU, or 0.
pub(crate) fn partition_defaults(nodes: &[&NodeSpec], shards: u32) -> String {
    let cpus_all: u64 = nodes.iter().map(|node| u64::from(cpus(node))).sum();
    let mib_all: u64 = nodes.iter().map(|node| memory_mib(node)).sum();
    let memory =
        nodes.iter().map(|node| memory_mib(node) / u64::from(cpus(node).max(1))).min().unwrap_or(0);
    let gpus = gpus(nodes);
    if gpus == 0 {
        return format!("TRESBillingWeights=\"CPU=1.0\" DefMemPerCPU={}", memory.max(1));
    }
    // Rounded down: a job with GPUs and their parts of CPUs and memory pays for the GPUs.
    let weight = |amount: u64, unit: u64| millionths(gpus * 1_000_000 * unit / amount.max(1));
    let with_gpus = nodes.iter().filter(|node| !node.devices.is_empty());
    let of_gpu =
        with_gpus.map(|node| u64::from(cpus(node)) / node.devices.len() as u64).min().unwrap_or(1);
    // All shards of a GPU cost as much as the GPU.
    let shards = match shards {
        0 => String::new(),
        shards => format!(",GRES/shard={}", millionths(1_000_000 / u64::from(shards))),
    };
    format!(
        "TRESBillingWeights=\"CPU={},Mem={}G,GRES/gpu=1.0{shards}\" DefMemPerCPU={} DefCpuPerGPU={}",
        weight(cpus_all, 1),
        weight(mib_all, 1024),
        memory.max(1),
        of_gpu.max(1)
    )
}

/// Formats millionths: `0.0625` for 62500.
fn millionths(amount: u64) -> String {
    let text = format!("{}.{:06}", amount / 1_000_000, amount % 1_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_decimal() {
        let written = [0, 63, 62_500, 1_000_000, 12_345_000].map(millionths);
        assert_eq!(written, ["0.0", "0.000063", "0.0625", "1.0", "12.345"]);
    }
}
