//! `BOUNDARY.md`: the assignment of nodes to Slurm and Kubernetes, and the procedure to move one.

use std::fmt::Write as _;

use muster_model::NodeSpec;
use muster_model::hostlist;
use muster_spec::ClusterPartition;

use crate::cmd::inventory::summary;

/// Name of this page.
pub const DOCUMENT: &str = "BOUNDARY.md";
/// File with the nodes for slurm.conf.
pub const SLURM_NODES: &str = "slurm-nodes.conf";
/// File with the GPUs for gres.conf.
pub const SLURM_GRES: &str = "slurm-gres.conf";
/// Script that labels and taints the nodes of the services pool.
pub const KUBERNETES: &str = "kubernetes-nodes.sh";
/// Cluster file of the batch pool.
pub const BATCH: &str = "cluster-batch.yaml";
/// Cluster file of the services pool.
pub const SERVICES: &str = "cluster-services.yaml";
/// Cluster file of all nodes, by which `--check` finds missing ones.
pub const ALL: &str = "cluster-all.yaml";

/// Returns the topology domains with nodes in both pools, such as `leaf l2, leaf l3`; empty if
/// there are none.
pub fn split_domains(parts: &ClusterPartition) -> String {
    let words: Vec<String> =
        parts.broken.iter().map(|(level, domain)| format!("{level} {domain}")).collect();
    words.join(", ")
}

/// Returns the text of the page.
pub fn document(parts: &ClusterPartition) -> String {
    let mut text = String::from(
        "\
# The boundary between Slurm and Kubernetes

Every node is in one pool. Slurm starts jobs on the batch pool only, Kubernetes starts pods on the services pool only. Neither sees
the allocations of the other, so a node in both pools would be allocated twice.

| pool | control plane | hardware | nodes |
|---|---|---|---|
",
    );
    for (pool, plane, nodes) in
        [("batch", "Slurm", &parts.batch.nodes), ("services", "Kubernetes", &parts.services.nodes)]
    {
        let _ = writeln!(text, "| {pool} | {plane} | {} | {} |", summary(nodes), list(nodes));
    }
    let broken = split_domains(parts);
    let _ = if broken.is_empty() {
        writeln!(text, "\nNo topology domain has nodes in both pools.")
    } else {
        writeln!(
            text,
            "\nTopology domains with nodes in both pools: {broken}. A gang that needs one of them finds fewer nodes there."
        )
    };
    text.push_str(FIXED);
    text
}

fn list(nodes: &[NodeSpec]) -> String {
    let names = hostlist::fold(nodes.iter().map(|node| node.name.as_str()));
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ")
}

/// Part of the page that does not depend on the nodes.
const FIXED: &str = "
## Files

| file | where it goes |
|---|---|
| `slurm-nodes.conf` | every Slurm node; `include` it in the slurm.conf that there is |
| `slurm-gres.conf` | every Slurm node; `include` it in the gres.conf that there is |
| `kubernetes-nodes.sh` | read it, then run it once with a kubeconfig of the cluster |
| `cluster-batch.yaml`, `cluster-services.yaml` | the pools, for `muster` |
| `cluster-all.yaml` | all nodes of the site; the check compares with it |

For a new Slurm cluster, `muster init slurm --cluster cluster-batch.yaml` writes all its files in place of the two.

## Check both sides

    muster check slurm --conf /etc/slurm --kubernetes-nodes cluster-services.yaml
    muster check kubernetes --slurm-nodes slurm-nodes.conf

## Which job goes where

Users need not know the boundary. These lines in the site file of all users, /etc/muster/site.yaml, send their jobs to the right side
(docs/site.md describes the file; it also needs `fleet` and `people`):

    clusters:
      batch: slurm              # also gangs and arrays; slurm@HOST over ssh
      services: kubernetes      # kubernetes@CONTEXT for another context of the kubeconfig
      notebooks: kubernetes

`muster run --on auto train.yaml` says which side it takes, and why.

## Owner

One team owns these files: ____________ . Only this team moves nodes, and no script does so automatically. Keep the files in
version control and run the check on every change:

    muster init hybrid --check .

It exits with 1 if a node is in both pools, in neither, or partially moved.

## How to move a node

1. Drain it in its present pool, and wait until nothing runs on it.
   From Slurm: `scontrol update nodename=NODE state=drain reason=moves`, until `squeue -w NODE` is empty.
   From Kubernetes: `kubectl drain NODE --ignore-daemonsets --delete-emptydir-data`.
2. Write the files again: `muster init hybrid --cluster cluster-all.yaml --services-nodes 'LIST' -o . --force`, where LIST is
   the new services pool. Or edit all of them by hand: the node's entry in the two pools, its lines in both Slurm files, its
   commands and the list at the top of `kubernetes-nodes.sh`, and the table above.
3. Check: `muster init hybrid --check .`
4. Stop the old side: slurmd on the node (and restart slurmctld with the new files), or `kubectl delete node NODE` and the
   kubelet on the node.
5. Only then start the new side: slurmd with the new files, or join the node and run `kubernetes-nodes.sh`.

Add a new node to `cluster-all.yaml` first; remove a node from it last.

## Alternatives to a boundary

Slinky (SchedMD's slurm-operator) and Soperator run Slurm inside Kubernetes: Kubernetes has all nodes, and an operator moves them
between the two.
";
