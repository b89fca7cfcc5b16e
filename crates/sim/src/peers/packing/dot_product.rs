//! Dot product (`dot_product_score.go`, after Tetris, Grandl et al., SIGCOMM 2014, with all devices
//! of a node merged into one number and each resource as part of the most that a node has): the
//! smaller the product of free and requested resources, the better. Whole numbers only.

use super::{MAX_SCORE, NodeMaxima, PackingNode, PackingPod};

/// Returns 100 less the mean of the products over CPUs and GPUs in percent, rounded down.
pub(super) fn score(host: &PackingNode, largest: NodeMaxima, pod: &PackingPod) -> i64 {
    let cpus = i128::from(largest.cpus_milli).pow(2);
    let gpus = i128::from(largest.gpu_milli).pow(2);
    let of_cpus = i128::from(host.cpus_milli) * i128::from(pod.cpus_milli);
    let of_gpus = i128::from(host.gpu_milli()) * i128::from(pod.gpu_milli());
    let all = 2 * cpus * gpus;
    let lost = i128::from(MAX_SCORE) * (of_cpus * gpus + of_gpus * cpus);
    let score = (i128::from(MAX_SCORE) * all - lost).div_euclid(all);
    i64::try_from(score).unwrap_or(0)
}
