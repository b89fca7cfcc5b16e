//! Jobs for KAI, with its grouper, scheduler and binder. The release is one that starts the pods of a JobSet one by one.

use std::fs;

use serde_json::{Value, json};

use super::{gangs_are_proved_whole, written_queues};
use crate::cluster::until;
use crate::conform::{JobPlace, conformance};
use crate::real_nodes::job_set::JobSetController;
use crate::real_nodes::target::{KubernetesTarget, run, submit};

/// Queue that KAI takes for a workload without one.
const QUEUE: &str = "default";

fn place() -> KubernetesTarget {
    KubernetesTarget::without_scheduler()
}

conformance!(
    @ place(), (ignore = "needs KAI: cargo xtask kubernetes test --peers");
    an_exit_code_is_passed_on, an_array_runs_each_of_its_indices, a_job_has_its_own_environment_and_directory,
    what_cannot_be_is_refused_before_anything_is_done, what_is_held_waits_for_its_release,
    what_is_cancelled_ends_as_cancelled
);

#[test]
#[ignore = "needs KAI: cargo xtask kubernetes test --peers"]
fn a_job_waits_for_its_gpus_and_is_explained() {
    let place = place();
    let gate = place.folder().join("may-end");
    let wait = format!("until [ -e {} ]; do usleep 50000; done", gate.display());
    for name in ["a", "b", "second"] {
        submit(&place, &format!("name: {name}\nqueue: {QUEUE}\ngpus: 4\ntime: 5m\nrun: {wait}\n"));
        let both_run =
            || place.ok(&["ps"]).lines().filter(|line| line.contains(" running ")).count() == 2;
        until("the others run", || name != "b" || both_run());
    }
    let reason = "didn't have enough resources: GPUs";
    until("KAI says why", || place.ok(&["explain", "second"]).contains(reason));
    let explained: Value =
        serde_json::from_str(&place.ok(&["explain", "second", "--json"])).unwrap();
    let gang = &explained["gang"];
    assert_eq!(
        (&gang["scheduler"], &gang["pods"]["waiting"]),
        (&json!("kai-scheduler"), &json!(1))
    );
    assert!(place.ok(&["ps"]).contains(reason));
    fs::write(&gate, "").unwrap();
    assert_eq!(place.call(&["wait", "second"]).0, 0);
}

#[test]
#[ignore = "needs KAI: cargo xtask kubernetes test --peers"]
fn a_queue_that_init_writes_starts_jobs_and_gangs() {
    let place = place();
    written_queues::apply(&place, "kai");
    let queue = written_queues::QUEUE;
    submit(&place, &format!("name: quick\nqueue: {queue}\ngpus: 1\nrun: 'true'\n"));
    assert_eq!(place.call(&["wait", "quick"]).0, 0);
    // The release starts no JobSet as a gang, but its own PodGroups.
    gangs_are_proved_whole(&place, &["kai-scheduler", "--queue", written_queues::OBJECT]);
}

#[test]
#[ignore = "needs KAI: cargo xtask kubernetes test --peers"]
fn a_gang_that_it_would_start_in_part_is_refused() {
    let _controller = JobSetController::start();
    let place = place();
    let all = place.all_of_it();
    let (code, _, stderr) = run(&place, &format!("name: gang\n{all}\nrun: 'true'\n"));
    assert!(code == 1 && stderr.contains("older than 0.15"), "{code}: {stderr}");
    assert!(place.namespace.objects("jobsets", "muster.run/job").is_empty());
    // Its own PodGroups are gangs.
    gangs_are_proved_whole(&place, &["kai-scheduler", "--queue", QUEUE]);
}
