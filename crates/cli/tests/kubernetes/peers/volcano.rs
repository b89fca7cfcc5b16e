//! Jobs of Volcano, with its controller and scheduler.

use super::{
    Waiting, a_gang_too_large_says_so, a_gang_waits_whole, gangs_are_proved_whole, written_queues,
};
use crate::cluster::until;
use crate::conform::{JobPlace, conformance};
use crate::real_nodes::contention::competing_gangs_run_whole;
use crate::real_nodes::job_set::a_failed_gang_starts_again;
use crate::real_nodes::target::{KubernetesTarget, run, submit};

fn place() -> KubernetesTarget {
    KubernetesTarget::without_scheduler()
}

conformance!(
    @ place(), (ignore = "needs Volcano: cargo xtask kubernetes test --peers");
    an_exit_code_is_passed_on, the_first_failed_rank_ends_the_gang_with_its_code, every_rank_knows_its_place,
    a_job_has_its_own_environment_and_directory, roles_are_one_gang, what_cannot_be_is_refused_before_anything_is_done
);

#[test]
#[ignore = "needs Volcano: cargo xtask kubernetes test --peers"]
fn a_gang_waits_for_its_gpus() {
    let place = place();
    let reason = "tasks in gang unschedulable";
    a_gang_waits_whole(&place, &Waiting { scheduler: "volcano", reason, pods: 2 });
    // Of an ended job Volcano has deleted the PodGroup.
    assert!(place.ok(&["explain", "second"]).contains("is done"));
    a_gang_too_large_says_so(&place, reason);
    gangs_are_proved_whole(&place, &["volcano"]);
}

#[test]
#[ignore = "needs Volcano: cargo xtask kubernetes test --peers"]
fn gangs_compete_in_a_queue_that_init_writes() {
    let place = place();
    written_queues::apply(&place, "volcano");
    competing_gangs_run_whole(&place, written_queues::QUEUE);
}

#[test]
#[ignore = "needs Volcano: cargo xtask kubernetes test --peers"]
fn a_gang_that_failed_starts_again_as_often_as_it_may() {
    a_failed_gang_starts_again(&place());
}

#[test]
#[ignore = "needs Volcano: cargo xtask kubernetes test --peers"]
fn what_volcano_does_not_do_is_refused_or_said() {
    let place = place();
    for (field, part) in [("array: 0-3", "an array"), ("hold: true", "`hold`")] {
        let (code, _, stderr) = run(&place, &format!("name: no\n{field}\nrun: 'true'\n"));
        assert!(code == 1 && stderr.contains(part), "{code}: {stderr}");
    }
    submit(&place, "name: runs\ntime: 5m\ngrace: 1s\nrun: sleep 300\n");
    until("it runs", || place.ok(&["ps"]).contains("running"));
    let (code, _, stderr) = place.call(&["requeue", "runs"]);
    assert!(code == 1 && stderr.contains("cancel it and submit it again"), "{stderr}");
    assert!(place.ok(&["cancel", "runs"]).contains("the object was deleted"));
}
