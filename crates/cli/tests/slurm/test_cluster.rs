//! Properties of the test cluster on which the other tests rely: nodes, GPUs, leaf switches, device
//! isolation, preemption, REST with tokens.

use crate::cluster::{SlurmCluster, User};

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn eight_nodes_of_eight_gpus_hang_on_two_leaves() {
    let cluster = SlurmCluster::here();
    let nodes = cluster.output(&["scontrol", "show", "node", "-o"]);
    assert_eq!(nodes.lines().filter(|line| line.contains("Gres=gpu:h100:8")).count(), 8, "{nodes}");
    assert_eq!(nodes.matches("gres/gpu=8").count(), 8, "{nodes}");
    let switches = cluster.output(&["scontrol", "show", "topology"]);
    let leaves = switches.lines().filter(|line| line.contains("Level=0"));
    let nodes: Vec<&str> =
        leaves.filter_map(|line| line.split_once(" Nodes=")?.1.split(' ').next()).collect();
    assert_eq!(nodes, ["node[1-4]", "node[5-8]"], "{switches}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_job_opens_its_own_device_and_no_other_where_the_cluster_says_so() {
    let cluster = SlurmCluster::here();
    let claimed = cluster.fact("constrained") == "yes";
    assert_eq!(cluster.output(&["scontrol", "show", "config"]).contains("task/cgroup"), claimed);
    let open = format!(
        "echo own $CUDA_VISIBLE_DEVICES\nfor device in {}/nvidia*; do (: <$device); done 2>&1 | sed 's/.*: //'",
        cluster.devices().display()
    );
    let job = cluster.submit(
        User::Mail,
        &["--gpus-per-node=h100:1"],
        &format!("srun sh -c \"$(cat <<'X'\n{open}\nX\n)\""),
    );
    let said = job.output();
    assert_eq!(said.lines().next(), Some("own 0"), "{said}");
    let refused = said.lines().filter(|line| *line == "Operation not permitted").count();
    assert_eq!(refused, if claimed { 7 } else { 0 }, "{said}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_job_of_high_qos_takes_the_place_of_a_low_one_which_is_queued_again() {
    let cluster = SlurmCluster::here();
    let whole = ["--nodes=8", "--gpus-per-node=h100:8"];
    let low = cluster.submit(User::Games, &[&whole[..], &["--qos=low"]].concat(), "exec sleep 300");
    low.reaches("RUNNING");
    let high =
        cluster.submit(User::Mail, &[&whole[..], &["--qos=high"]].concat(), "exec sleep 300");
    high.reaches("RUNNING");
    low.reaches("PENDING");
    assert_eq!(low.field("Restarts"), "1");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn rest_answers_who_has_a_token_and_nobody_else() {
    let cluster = SlurmCluster::here();
    // Each release has its own API versions, which it lists; the newest is the highest number.
    let documents = ["/openapi/v3", "/openapi"].map(|path| cluster.get(path, Some(User::Mail)));
    let (_, document) =
        documents.into_iter().find(|(status, _)| *status == 200).expect("a description");
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let paths = document["paths"].as_object().unwrap().keys();
    let of_nodes = paths.filter(|path| {
        path.starts_with("/slurm/v") && path.trim_end_matches('/').ends_with("/nodes")
    });
    let nodes = of_nodes.max().expect("a version that lists nodes");
    let (status, body) = cluster.get(nodes, None);
    assert_eq!(status, 401, "{body}");
    let (status, body) = cluster.get(nodes, Some(User::Mail));
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("gpu:h100:8"), "{body}");
}
