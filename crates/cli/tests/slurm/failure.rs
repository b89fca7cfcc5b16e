//! Daemons that stop and restart, as tests of failures need.

use crate::cluster::{SlurmCluster, StoppedDaemon, User};

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_running_job_outlives_its_controller() {
    let cluster = SlurmCluster::here();
    let job = cluster.submit(
        User::Mail,
        &["--gpus-per-node=h100:2"],
        "while [ ! -e go-on ]; do sleep 0.1; done",
    );
    job.reaches("RUNNING");
    // A stopped controller writes its state first; state lost by a kill is not covered here.
    let down = StoppedDaemon::stopped(&cluster, "slurmctld");
    assert!(!cluster.succeeds(&["scontrol", "ping"]));
    drop(down);
    cluster.until("the controller", || cluster.succeeds(&["scontrol", "ping"]));
    assert_eq!((job.field("JobState"), job.field("Restarts")), ("RUNNING".into(), "0".into()));
    cluster.output_as(User::Mail, &["touch", "go-on"]);
    job.reaches("COMPLETED");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_node_whose_daemon_was_killed_goes_down_and_comes_back() {
    let cluster = SlurmCluster::here();
    let state = || cluster.output(&["sinfo", "-h", "-N", "-n", "node3", "-p", "batch", "-o", "%T"]);
    let down = StoppedDaemon::killed(&cluster, "node3");
    cluster.until("node3 down", || state().starts_with("down"));
    drop(down);
    cluster.until("node3 idle", || state().trim() == "idle");
}
