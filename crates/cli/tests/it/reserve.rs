//! Advance reservations of simulated GPUs from the command line.

use muster_api::types::{AdvanceReservationList, NodeList};
use muster_model::view::{AdvanceReservationView, JobState};
use serde_json::{Value, json};

use crate::home::Home;

fn reservations(home: &Home) -> Vec<AdvanceReservationView> {
    home.words("reserve --json").ok().json::<AdvanceReservationList>().reservations
}

fn node(home: &Home) -> String {
    home.words("nodes --json").ok().json::<NodeList>().nodes[0].name.to_string()
}

/// Returns the name of the user who runs the tests, as the daemon resolves it. The job that reports
/// it has ended, so the whole node can be reserved.
fn me(home: &Home) -> String {
    let job = home.run("", &["true"]);
    home.words(&format!("wait {job}")).ok();
    home.job(job).user.to_string()
}

#[test]
fn a_gpu_that_is_set_aside_is_for_the_jobs_that_name_it() {
    let home = Home::with_gpus(2);
    let me = me(&home);
    let said = home.words(&format!("reserve exam --gpus 1 --for 1h --users {me}")).ok().stderr;
    assert!(said.contains("exam: reserved now for 1h"), "{said}");
    let wide = home.run("--gpus 2", &["true"]);
    let beside = home.run("--gpus 1 --time 10m", &["true"]);
    home.words(&format!("wait {beside}")).ok();
    let inside = home.run("--gpus 1 --time 10m --reservation exam", &["true"]);
    home.words(&format!("wait {inside}")).ok();
    assert_eq!(home.job(inside).elements[0].tasks[0].devices, [0]);
    assert_eq!(home.job(beside).elements[0].tasks[0].devices, [1]);

    // The reservation shows in `explain` and `nodes`, and survives a restart of the daemon.
    home.kill_daemon();
    home.start_daemon(Some(2));
    let why = home.words(&format!("explain {wide}")).ok().stdout;
    assert!(why.contains("reserved   GPU 0 of") && why.contains("for exam until"), "{why}");
    let table = home.words("nodes").ok().stdout;
    assert!(table.contains("GPU 0 reserved for exam until"), "{table}");
    let table = home.words("reservations").ok().stdout;
    assert!(table.contains("exam") && table.contains("active"), "{table}");
    assert_eq!(home.job(wide).state, JobState::Pending);

    let dropped = home.words("reserve exam --drop --json").ok().json::<Value>();
    let message = "exam: deleted; jobs that run in it continue";
    assert_eq!(dropped, json!({"name": "exam", "message": message}));
    assert!(reservations(&home).is_empty());
    home.words(&format!("wait {wide}")).ok();
}

#[test]
fn until_it_begins_others_run_there_what_ends_in_time() {
    let home = Home::with_gpus(2);
    let me = me(&home);
    let node = node(&home);
    let words =
        format!("reserve exam --nodes {node} --in 1h --for 2h --every 1d --times 3 --users {me}");
    let said = home.words(&words).ok().stderr;
    assert!(
        said.contains("and again every 1d; until then, jobs that end in time still start there"),
        "{said}"
    );
    let short = home.run("--gpus 1 --time 10m", &["true"]);
    home.words(&format!("wait {short}")).ok();
    let long = home.run("--gpus 1 --time 2h", &["true"]);
    let why = home.words(&format!("explain {long}")).ok().stdout;
    assert!(
        why.contains("exam reserves the same GPUs from") && why.contains("muster run … --time"),
        "{why}"
    );
    let inside = home.run("--gpus 2 --time 1h --reservation exam", &["true"]);
    let why = home.words(&format!("explain {inside}")).ok().stdout;
    assert!(why.contains("waits for  reservation exam to begin at"), "{why}");
    let row = &reservations(&home)[0];
    assert_eq!((row.times.count, row.is_active, row.waiting), (Some(3), false, 1));
    home.words("reserve exam --drop").ok();
    home.words(&format!("wait {long}")).ok();
    let why = home.words(&format!("explain {inside}")).ok().stdout;
    assert!(why.contains("exam has ended, was deleted"), "{why}");
}

#[test]
fn when_a_reservation_starts_its_jobs_start_and_stopped_jobs_are_requeued() {
    let home = Home::with_gpus(1);
    let me = me(&home);
    let node = node(&home);
    let gate = home.gate("go");
    let endless = home.sh("--gpus 1 --grace 1s", &gate);
    home.until_state(endless, JobState::Running);
    let words = format!("reserve exam --nodes {node} --in 1s --for 1h --users {me}");
    let refused = home.words(&words).code(1).stderr;
    assert!(
        refused.contains(&format!("still held by: {endless}")) && refused.contains("--stop"),
        "{refused}"
    );
    home.words(&format!("{words} --stop")).ok();
    let inside = home.run("--gpus 1 --time 10m --reservation exam", &["true"]);
    home.words(&format!("wait {inside}")).ok();
    home.until_state(endless, JobState::Pending);
    home.open("go");
    home.words("reserve exam --drop").ok();
    home.words(&format!("wait {endless}")).ok();
    assert_eq!(home.job(endless).elements[0].attempt, 2);
}

#[test]
fn mistakes_are_answered_with_what_is_meant() {
    let home = Home::with_gpus(2);
    let me = me(&home);
    let node = node(&home);
    home.words(&format!("reserve exam --gpus 1 --for 1h --users {me}")).ok();
    home.words("reserve others --gpus 1 --for 1h --users somebody-else").ok();
    // All errors are reported at once.
    let wrong = std::cell::RefCell::new(Vec::new());
    let fails = |words: &str, code: i32, expected: &str| {
        let run = home.words(words);
        if run.code != code || !run.stderr.contains(expected) {
            wrong.borrow_mut().push(format!("{words}: {} {}", run.code, run.stderr));
        }
    };
    fails("run --gpus 1 --time 1m --reservation exem -- true", 2, "did you mean `exam`?");
    fails(
        "run --gpus 1 --time 1m --reservation others -- true",
        1,
        "the reservation others is for other users and queues",
    );
    fails("run --gpus 1 --time 2h --reservation exam -- true", 1, "more, grace included");
    fails("run --gpus 1 --reservation exam -- true", 1, "has no time limit");
    fails("run --gpus 2 --time 1m --reservation exam -- true", 1, "never fits");
    fails("reserve exem --drop", 4, "did you mean exam?");
    fails("reserve more --gpus 1 --for 1h --users ann", 1, "only 0 of 1 GPUs can be reserved then");
    fails(
        &format!("reserve more --nodes {node} --for 1h --users ann"),
        1,
        "is in the reservation exam at an overlapping time",
    );
    fails(
        &format!("reserve more --nodes {node}x --for 1h --users ann"),
        4,
        &format!("did you mean {node}?"),
    );
    fails("reserve exam --gpus 1 --for 2h --users ann", 1, "the reservation exam exists already");
    fails("reserve a/b --gpus 1 --for 2h --users ann", 2, "invalid reservation name");
    fails("reserve more --gpus 1 --for 1h", 2, "no users or queues");
    fails("reserve more --for 1h --users ann", 2, "no nodes or GPUs");
    fails("reserve more --gpus 1 --users ann", 2, "no duration");
    fails("reserve more --gpus 1 --for 1h --times 3 --users ann", 2, "--every");
    fails("reserve more --node-selector a=b --for 1h --users ann", 2, "only on Kubernetes");
    fails("reserve more --node-selector a --for 1h --users ann", 2, "a label with its value");
    fails(
        "reserve more --gpus 1 --for 1h --start 2020-01-01T00:00Z --users ann",
        2,
        "lies in the past",
    );
    assert!(wrong.borrow().is_empty(), "{}", wrong.borrow().join("\n"));
    assert_eq!(reservations(&home).len(), 2, "nothing else was done");
}
