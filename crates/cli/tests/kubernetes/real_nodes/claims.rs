//! Pods that claim their GPUs on real nodes: the kubelet and a driver accept what the scheduler wrote.

use std::collections::BTreeSet;

use serde_json::json;

use crate::claims::{Driver, claimant, given};
use crate::cluster::{KubernetesCluster, until};
use crate::scheduler_process::SchedulerProcess;

/// Two nodes have four claimed GPUs each. The kubelet starts no pod whose claim is not reserved for it, and
/// the driver gives no device twice.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_gang_over_two_nodes_runs_on_claimed_gpus() {
    let cluster = KubernetesCluster::here();
    let driver = Driver::install(&cluster, "gpus.example.com");
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("claimed-gpus");
    namespace.create_object(&driver.template(4));
    let script = json!(["sh", "-c", "until [ -e /end ]; do usleep 50000; done"]);
    for index in 0..2 {
        for gang in ["a", "b"] {
            let mut pod = claimant(gang, index, 2);
            let container = &mut pod["spec"]["containers"][0];
            container["image"] = json!("localhost/busybox:1");
            container["command"] = script.clone();
            container["resources"]["limits"] = json!({});
            namespace.create_object(&pod);
        }
    }
    for name in ["a-0", "a-1"] {
        namespace.reaches(name, "Running");
    }
    assert_eq!(namespace.bound("gang=b"), 0);
    let devices = given(&namespace);
    assert_eq!(
        (devices.len(), devices.iter().collect::<BTreeSet<_>>().len()),
        (8, 8),
        "{devices:?}"
    );
    until("gang b says why it waits", || namespace.reason("b-0").contains("needs 4 of"));
    for name in ["a-0", "a-1"] {
        namespace.exec(name, &["touch", "/end"]);
        namespace.reaches(name, "Succeeded");
    }
    // The controller frees the claims of pods that have ended, and the driver gives their devices again.
    for name in ["b-0", "b-1"] {
        namespace.reaches(name, "Running");
    }
}
