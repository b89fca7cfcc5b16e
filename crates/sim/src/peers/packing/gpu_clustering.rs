//! GPU clustering (`gpu_clustering_score.go`, after Gandiva, Xiao et al., OSDI 2018): pods with
//! equally many GPUs go together. Nodes with only such pods come first, then those with such pods
//! among others, then free nodes, then all others; within each class, fuller nodes first. For a pod
//! without GPU all nodes are equal.

use super::{MAX_SCORE, NodeMaxima, PackingNode, PackingPod};

/// Returns the score: a quarter of the scale for each of the four classes of nodes.
pub(super) fn score(host: &PackingNode, largest: NodeMaxima, pod: &PackingPod) -> i64 {
    let Some(kind) = pod.kind() else { return 0 };
    let band = match (host.kinds.contains_key(&kind), host.kinds.len()) {
        (true, 1) => 3,
        (true, _) => 2,
        (false, 0) => 1,
        (false, _) => 0,
    };
    let free = host.gpu_milli() as i64;
    let most = largest.gpu_milli as i64;
    MAX_SCORE / 4 * (most - free) / most + MAX_SCORE / 4 * band
}
