//! Jobs that the kubelet ends, and jobs that name what the cluster does not have.

use super::target::{KubernetesTarget, run, submit};
use crate::conform::JobPlace;

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_job_that_takes_more_memory_than_it_asked_for_says_so() {
    let place = KubernetesTarget::without_scheduler();
    let settings = "kubernetes: {scheduler: none}";
    submit(
        &place,
        &format!("name: hungry\nmemory: 64M\ntime: 5m\nrun: tail /dev/zero\n{settings}\n"),
    );
    assert_eq!(place.call(&["wait", "hungry"]).0, 137);
    let shown = place.ok(&["show", "hungry"]);
    assert!(shown.contains("out of memory"), "{shown}");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_scheduler_that_the_cluster_does_not_have_is_named() {
    let place = KubernetesTarget::without_scheduler();
    let (code, _, stderr) = run(&place, "name: a\nrun: 'true'\nkubernetes: {scheduler: kueue}\n");
    assert!(
        code == 1 && stderr.contains("it serves no localqueues.kueue.x-k8s.io"),
        "{code}: {stderr}"
    );
    assert!(place.namespace.objects("jobs", "").is_empty());
}
