//! Job files that are submitted as RayJobs.

use super::{RayProgram, have_no_nodes, until};
use crate::conform::JobPlace;
use crate::real_nodes::target::KubernetesTarget;

#[test]
#[ignore = "needs KubeRay: cargo xtask kubernetes test --peers"]
fn a_program_runs_on_all_nodes_and_its_exit_code_is_the_jobs() {
    let place = KubernetesTarget::new();
    // 1. It runs on both nodes, and is shown.
    let first = RayProgram::submit(&place, "first", ("2", 4), 0, "");
    first.runs();
    first.says("2 actors on 2 nodes");
    let listed = place.ok(&["ps"]);
    assert!(listed.contains("running") && listed.contains("2 of 2 ranks"), "{listed}");
    let status = place.ok(&["ray", "status", "first"]);
    assert!(status.contains("2 Ray nodes; 8 of 8 GPUs"), "{status}");
    // 2. The next waits as a whole, and is explained.
    let second = RayProgram::submit(&place, "second", ("2", 4), 7, "");
    until("it says why", || place.ok(&["ps"]).contains("none is free"));
    assert!(place.ok(&["explain", "second"]).contains("is pending: capacity"));
    assert_eq!(second.pods().len(), 2);
    assert!(have_no_nodes(&second.pods()), "{:?}", second.pods());
    assert_eq!(second.state(), "pending");
    // 3. Both end with their exit codes, and nothing of them is left but the objects.
    first.may_end();
    assert_eq!(place.call(&["wait", "first"]).0, 0);
    second.runs();
    second.may_end();
    let (code, stdout, stderr) = place.call(&["wait", "second"]);
    assert_eq!(code, 7, "{stdout}{stderr}{}", second.object());
    until("the pods are gone", || first.pods().is_empty() && second.pods().is_empty());
}

#[test]
#[ignore = "needs KubeRay: cargo xtask kubernetes test --peers"]
fn a_job_is_held_released_requeued_and_cancelled() {
    let place = KubernetesTarget::new();
    // 1. Held, it has no pods.
    let job = RayProgram::submit(&place, "acts", ("1", 1), 0, "hold: true\n");
    until("KubeRay has suspended it", || {
        job.object()["status"]["jobDeploymentStatus"] == "Suspended"
    });
    assert_eq!(job.state(), "held");
    assert!(job.pods().is_empty());
    place.ok(&["release", "acts"]);
    job.runs();
    // 2. Requeued, it starts again on a cluster of its own.
    let cluster = job.object()["status"]["rayClusterName"].clone();
    place.ok(&["requeue", "acts"]);
    until("it starts again", || job.starts() == 2);
    job.runs();
    assert_ne!(job.object()["status"]["rayClusterName"], cluster);
    // 3. Cancelled, it is gone.
    place.ok(&["cancel", "acts"]);
    until("nothing of it is left", || {
        job.pods().is_empty() && place.namespace.objects("rayjobs", "").is_empty()
    });
}

#[test]
#[ignore = "needs KubeRay: cargo xtask kubernetes test --peers"]
fn a_range_grows_by_the_autoscaler_as_far_as_its_program_needs() {
    let place = KubernetesTarget::new();
    let job = RayProgram::submit(&place, "grows", ("1..2", 4), 0, "ray: {idle: 10m}\n");
    job.runs();
    job.says("2 actors on 2 nodes");
    let shown = job.shown();
    assert_eq!((&shown["tasks"], &shown["elements"][0]["attempt"]), (&2.into(), &1.into()));
    job.may_end();
    assert_eq!(place.call(&["wait", "grows"]).0, 0);
    until("the pods are gone", || job.pods().is_empty());
}
