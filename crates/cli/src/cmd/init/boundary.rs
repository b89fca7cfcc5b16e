//! `BOUNDARY.md`: which node is whose, and who moves one how. One page, for the people on both
//! sides.

use std::fmt::Write as _;

use muster_model::NodeSpec;
use muster_spec::{Partition, fold_names};

use crate::cmd::inventory::summary;

/// This page.
pub const DOCUMENT: &str = "BOUNDARY.md";
/// Lines for slurm.conf.
pub const SLURM_NODES: &str = "slurm-nodes.conf";
/// Lines for gres.conf.
pub const SLURM_GRES: &str = "slurm-gres.conf";
/// Commands for the services pool.
pub const KUBERNETES: &str = "kubernetes-nodes.sh";
/// The batch pool as a cluster file.
pub const BATCH: &str = "cluster-batch.yaml";
/// The services pool as a cluster file.
pub const SERVICES: &str = "cluster-services.yaml";
/// Every node, by which --check knows that none is missing.
pub const ALL: &str = "cluster-all.yaml";

/// Domains with nodes in both pools: `leaf l2, leaf l3`; empty when there is none.
pub fn broken(parts: &Partition) -> String {
    let words: Vec<String> =
        parts.broken.iter().map(|(level, domain)| format!("{level} {domain}")).collect();
    words.join(", ")
}

/// The page.
pub fn document(parts: &Partition) -> String {
    let mut text = String::from(
        "\
# The boundary between Slurm and Kubernetes

Every node is in one pool. Slurm starts jobs on the batch pool only, Kubernetes pods on the services pool only. Neither knows
what the other has given away, so that a node in both is given away twice.

| pool | control plane | what | nodes |
|---|---|---|---|
",
    );
    for (pool, plane, nodes) in
        [("batch", "Slurm", &parts.batch.nodes), ("services", "Kubernetes", &parts.services.nodes)]
    {
        let _ = writeln!(text, "| {pool} | {plane} | {} | {} |", summary(nodes), list(nodes));
    }
    let broken = broken(parts);
    let _ = match broken.is_empty() {
        true => writeln!(text, "\nNo topology domain has nodes in both pools."),
        false => writeln!(
            text,
            "\nTopology domains with nodes in both pools: {broken}. A gang that asks for one of them finds fewer nodes."
        ),
    };
    text.push_str(FIXED);
    text
}

fn list(nodes: &[NodeSpec]) -> String {
    let names = fold_names(nodes.iter().map(|node| node.name.as_str()));
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ")
}

/// What does not depend on the nodes.
const FIXED: &str = "
## Files

| file | where it goes |
|---|---|
| `slurm-nodes.conf` | every Slurm node; `include` it in slurm.conf |
| `slurm-gres.conf` | every Slurm node; `include` it in gres.conf |
| `kubernetes-nodes.sh` | read it, then run it once with a kubeconfig of the cluster |
| `cluster-batch.yaml`, `cluster-services.yaml` | the pools, for `muster` |
| `cluster-all.yaml` | every node of the site; the check compares with it |

## Who moves a node

One team owns these files: ____________ . Nobody else moves a node, and no script does on its own. Keep the files in version
control and run the check there on every change:

    muster init hybrid --check .

It exits with 1 when a node is in both pools, in neither, or moved by half.

## How a node moves

1. Drain it where it is, and wait until nothing runs on it.
   From Slurm: `scontrol update nodename=NODE state=drain reason=moves`, until `squeue -w NODE` is empty.
   From Kubernetes: `kubectl drain NODE --ignore-daemonsets --delete-emptydir-data`.
2. Write the files anew: `muster init hybrid --cluster cluster-all.yaml --services-nodes 'LIST' -o . --force`, where LIST is
   the services pool as it will be. Or by hand, in all of them: its entry in the two pools, its lines in both Slurm files, its
   commands and the list at the top of `kubernetes-nodes.sh`, the table above.
3. Check: `muster init hybrid --check .`
4. Stop the old side: slurmd on the node (and restart slurmctld with the new files), or `kubectl delete node NODE` and the
   kubelet on the node.
5. Only then start the new side: slurmd with the new files, or join the node and run `kubernetes-nodes.sh`.

A new node comes into `cluster-all.yaml` first, a removed one leaves it last.

## Instead of a boundary

Slinky (SchedMD's slurm-operator) and Soperator run Slurm inside Kubernetes: one substrate holds all nodes, and an operator moves
them.
";
