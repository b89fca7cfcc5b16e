//! Daemons end and come back, as tests of failures need it.

use crate::cluster::{Cluster, Down, User};

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_running_job_outlives_its_controller() {
    let cluster = Cluster::here();
    let job = cluster.submit(
        User::Mail,
        &["--gpus-per-node=h100:2"],
        "while [ ! -e go-on ]; do sleep 0.1; done",
    );
    job.reaches("RUNNING");
    // Asked to end, it writes its state first; what a kill loses is not the cluster's promise.
    let down = Down::stopped(&cluster, "slurmctld");
    assert!(!cluster.succeeds(&["scontrol", "ping"]));
    drop(down);
    cluster.until("the controller", || cluster.succeeds(&["scontrol", "ping"]));
    assert_eq!((job.field("JobState"), job.field("Restarts")), ("RUNNING".into(), "0".into()));
    cluster.said_to(User::Mail, &["touch", "go-on"]);
    job.reaches("COMPLETED");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_node_whose_daemon_was_killed_goes_down_and_comes_back() {
    let cluster = Cluster::here();
    let state = || cluster.said(&["sinfo", "-h", "-N", "-n", "node3", "-p", "batch", "-o", "%T"]);
    let down = Down::killed(&cluster, "node3");
    cluster.until("node3 down", || state().starts_with("down"));
    drop(down);
    cluster.until("node3 idle", || state().trim() == "idle");
}
