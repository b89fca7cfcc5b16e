//! Jobs in the queues of the real Kueue, with its webhooks; kube-scheduler places their pods.

use serde_json::{Value, json};

use super::{
    Waiting, a_gang_too_large_says_so, a_gang_waits_whole, gangs_are_proved_whole, written_queues,
};
use crate::check::proved;
use crate::cluster::until;
use crate::conform::{self, JobPlace, conformance};
use crate::real_nodes::contention::competing_gangs_run_whole;
use crate::real_nodes::job_set::{JobSetController, a_failed_gang_starts_again};
use crate::real_nodes::target::{KubernetesTarget, run, submit};

/// Returns a namespace with a LocalQueue, whose quota is that of the cluster's GPUs.
fn place() -> KubernetesTarget {
    place_with_quota("8")
}

fn place_with_quota(gpus: &str) -> KubernetesTarget {
    let place = KubernetesTarget::without_scheduler();
    let object = |kind: &str, name: &str, spec: Value| {
        place.namespace.create_object(&json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec,
        }));
    };
    let own = place.namespace.name();
    let amount = |name: &str, quota: &str| json!({"name": name, "nominalQuota": quota});
    let resources = [amount("cpu", "100"), amount("memory", "1Ti"), amount("nvidia.com/gpu", gpus)];
    let group = json!({
        "coveredResources": ["cpu", "memory", "nvidia.com/gpu"],
        "flavors": [{"name": "default", "resources": resources}],
    });
    object("ClusterQueue", own, json!({"namespaceSelector": {}, "resourceGroups": [group]}));
    object("LocalQueue", "default", json!({"clusterQueue": own}));
    place
}

conformance!(
    @ place(), (ignore = "needs Kueue: cargo xtask kubernetes test --peers");
    an_exit_code_is_passed_on, the_first_failed_rank_ends_the_gang_with_its_code, every_rank_knows_its_place,
    an_array_runs_each_of_its_indices, a_job_has_its_own_environment_and_directory,
    what_cannot_be_is_refused_before_anything_is_done
);

#[test]
#[ignore = "needs Kueue: cargo xtask kubernetes test --peers"]
fn a_gang_waits_for_its_quota() {
    let place = place();
    let reason = "insufficient unused quota for nvidia.com/gpu";
    a_gang_waits_whole(&place, &Waiting { scheduler: "kueue", reason, pods: 0 });
    a_gang_too_large_says_so(&place, "> maximum capacity (8)");
}

#[test]
#[ignore = "needs Kueue: cargo xtask kubernetes test --peers"]
fn a_quota_beyond_the_nodes_starts_gangs_in_part() {
    let words = ["kueue", "--queue", "default"];
    gangs_are_proved_whole(&place(), &words);
    let place = place_with_quota("100");
    let proved = proved(place.namespace.cluster(), place.namespace.name(), &words);
    let (outcome, says) = &proved[0];
    assert_eq!(outcome, "failed", "{proved:?}");
    assert!(says.contains("the quota of the queue is larger than what is free"), "{proved:?}");
}

#[test]
#[ignore = "needs Kueue: cargo xtask kubernetes test --peers"]
fn gangs_compete_in_a_queue_that_init_writes() {
    let place = KubernetesTarget::without_scheduler();
    written_queues::apply(&place, "kueue");
    competing_gangs_run_whole(&place, written_queues::QUEUE);
}

#[test]
#[ignore = "needs Kueue: cargo xtask kubernetes test --peers"]
fn what_kueue_does_not_do_is_refused_or_said() {
    let place = place();
    // 1. A queue that does not exist.
    submit(&place, "name: lost\nqueue: no/such\ngpus: 1\nrun: 'true'\n");
    until("the queue is named", || place.ok(&["ps"]).contains("LocalQueue such doesn't exist"));
    assert!(place.ok(&["explain", "lost"]).contains("LocalQueue such doesn't exist"));
    place.ok(&["cancel", "lost"]);
    // 2. Verbs that need another scheduler.
    let (code, _, stderr) = run(&place, "name: held\nhold: true\nrun: 'true'\n");
    assert!(code == 1 && stderr.contains("`hold`"), "{code}: {stderr}");
    submit(&place, "name: runs\ntime: 5m\ngrace: 1s\nrun: sleep 300\n");
    until("it runs", || place.ok(&["ps"]).contains("running"));
    let (code, _, stderr) = place.call(&["requeue", "runs"]);
    assert!(code == 1 && stderr.contains("Kueue starts a suspended job again"), "{stderr}");
    place.ok(&["cancel", "runs"]);
    assert_eq!(place.call(&["wait", "runs"]).0, 130);
    // 3. An array that never fits.
    submit(&place, "name: wide\narray: 0-3\ngpus: 4\nrun: 'true'\n");
    until("it never fits", || place.ok(&["explain", "wide"]).contains("never starts while"));
    place.ok(&["cancel", "wide"]);
}

#[test]
#[ignore = "needs Kueue: cargo xtask kubernetes test --peers"]
fn gangs_of_several_roles_are_job_sets() {
    let _controller = JobSetController::start();
    let place = place();
    conform::roles_are_one_gang(&place);
    a_failed_gang_starts_again(&place);
}
