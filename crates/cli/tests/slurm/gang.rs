//! A gang on several nodes without Muster, as a check of the cluster itself.

use std::collections::BTreeSet;

use crate::cluster::{SlurmCluster, User};

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn thirty_two_ranks_on_four_nodes_of_one_leaf_see_eight_devices_each() {
    let cluster = SlurmCluster::here();
    let gang = ["--nodes=4", "--ntasks-per-node=8", "--gpus-per-node=h100:8", "--switches=1"];
    let job = cluster.submit(
        User::Mail,
        &gang,
        r#"srun sh -c 'echo "$SLURM_PROCID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"'"#,
    );
    let said = job.output();
    let ranks: Vec<Vec<&str>> = said.lines().map(|line| line.split(' ').collect()).collect();
    let numbers: BTreeSet<u32> = ranks.iter().map(|rank| rank[0].parse().unwrap()).collect();
    assert_eq!((ranks.len(), numbers), (32, (0..32).collect()), "{said}");
    assert!(ranks.iter().all(|rank| rank[2] == "0,1,2,3,4,5,6,7"), "{said}");
    let nodes: Vec<&str> =
        ranks.iter().map(|rank| rank[1]).collect::<BTreeSet<_>>().into_iter().collect();
    let leaves = [["node1", "node2", "node3", "node4"], ["node5", "node6", "node7", "node8"]];
    assert!(leaves.iter().any(|leaf| nodes == leaf), "{nodes:?}");
}
