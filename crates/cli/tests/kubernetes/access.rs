//! Access rights in the test cluster are enforced: a service account has those of its roles, and no others.

use std::time::{Duration, Instant};

use crate::cluster::{KubernetesCluster, success};

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_service_account_has_the_rights_of_its_roles_and_no_others() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("access");
    let account = format!("{}/default", namespace.name());
    let words = ["kubeconfig", &account];
    let kubeconfig = success(&words, &cluster.xtask(&words));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    std::fs::write(&file, kubeconfig).unwrap();
    let option = format!("--kubeconfig={}", file.display());
    let as_account = |words: &[&str]| {
        let options = [option.as_str(), "--namespace", namespace.name()];
        cluster.kubectl_with(&[words, &options].concat(), "")
    };

    let refused = as_account(&["get", "pods"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("system:serviceaccount:access:default"), "{message}");
    assert!(message.contains("cannot list resource \"pods\""), "{message}");

    let of_it = ["--namespace", namespace.name()];
    let role = ["create", "role", "reader", "--verb=list", "--resource=pods"];
    cluster.kubectl(&[&role[..], &of_it].concat());
    let account = format!("--serviceaccount={}:default", namespace.name());
    let binding = ["create", "rolebinding", "reader", "--role=reader", &account];
    cluster.kubectl(&[&binding[..], &of_it].concat());
    // Authorization reads roles from a watch: allowed a moment later.
    let subject = format!("--as=system:serviceaccount:{}:default", namespace.name());
    let allowed = ["auth", "can-i", "list", "pods", &subject];
    let start = Instant::now();
    while !cluster.kubectl_with(&[&allowed[..], &of_it].concat(), "").status.success() {
        assert!(start.elapsed() < Duration::from_secs(60), "the role has no effect");
    }
    success(&["get", "pods"], &as_account(&["get", "pods"]));
    assert!(!as_account(&["get", "secrets"]).status.success());
}
