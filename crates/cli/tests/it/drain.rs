//! Draining and resuming nodes and single GPUs from the command line.

use muster_api::types::NodeList;
use muster_model::view::JobState;

use crate::home::Home;

fn nodes(home: &Home) -> NodeList {
    home.words("nodes --json").ok().json()
}

fn name(home: &Home) -> String {
    nodes(home).nodes[0].name.to_string()
}

#[test]
fn a_drained_gpu_keeps_its_task_and_is_still_drained_after_a_restart() {
    let home = Home::with_gpus(2);
    let node = name(&home);
    let gate = home.gate("go");
    let runs = home.sh("--gpus 1", &gate);
    home.until_state(runs, JobState::Running);
    let said =
        home.muster(&["nodes", "drain", &node, "--gpu", "0,1", "--reason", "bad fan"]).ok().stderr;
    assert!(
        said.contains(&format!("GPUs 0,1 of {node}: drained: no new jobs start there")),
        "{said}"
    );
    let waits = home.run("--gpus 1", &["true"]);
    assert_eq!(
        (home.job(runs).state, home.job(waits).state),
        (JobState::Running, JobState::Pending)
    );

    home.kill_daemon();
    home.start_daemon(Some(2));
    let table = home.words("nodes").ok().stdout;
    assert!(table.contains("GPUs 0,1 since ") && table.contains(": bad fan"), "{table}");
    assert!(table.contains("then out of service"), "{table}");
    let why = home.words(&format!("explain {waits}")).ok().stdout;
    assert!(why.contains(&format!("drained    GPUs 0,1 of {node} since ")), "{why}");
    assert!(why.contains("free now   0 of 2"), "{why}");

    home.words(&format!("nodes resume {node} --gpu 0-1")).ok();
    home.words(&format!("wait {waits}")).ok();
    home.open("go");
    home.words(&format!("wait {runs}")).ok();
}

#[test]
fn before_a_planned_drain_only_what_ends_in_time_starts() {
    let home = Home::with_gpus(2);
    let node = name(&home);
    let said = home.words(&format!("nodes drain {node} --in 1h --reason kernel")).ok().stderr;
    assert!(
        said.contains("drained in 1h; until then, jobs that end in time still start there"),
        "{said}"
    );
    let short = home.run("--gpus 1 --time 10m", &["true"]);
    home.words(&format!("wait {short}")).ok();
    let long = home.run("--gpus 1 --time 2h", &["true"]);
    let why = home.words(&format!("explain {long}")).ok().stdout;
    assert!(why.contains("is pending: drain\n"), "{why}");
    assert!(why.contains(&format!("{node} takes only jobs that end by ")), "{why}");
    assert!(why.contains("muster run … --time "), "{why}");
    home.words(&format!("nodes resume {node}")).ok();
    home.words(&format!("wait {long}")).ok();
}

#[test]
fn a_drain_that_stops_queues_again_what_ran() {
    let home = Home::with_gpus(2);
    let node = name(&home);
    let gate = home.gate("go");
    let job = home.sh("--gpus 1 --grace 1s", &gate);
    home.until_state(job, JobState::Running);
    home.words(&format!("nodes drain {node} --stop")).ok();
    home.until_state(job, JobState::Pending);
    home.open("go");
    home.words(&format!("nodes resume {node}")).ok();
    home.words(&format!("wait {job}")).ok();
    assert_eq!(home.job(job).elements[0].attempt, 2);
}

#[test]
fn mistakes_are_answered_with_what_is_meant() {
    let home = Home::with_gpus(2);
    let node = name(&home);
    let fails = |words: String, code: i32, expected: &str| {
        let said = home.words(&words).code(code).stderr;
        assert!(said.contains(expected), "{words}: {said}");
    };
    fails(format!("nodes drain {node}x"), 4, &format!("did you mean {node}?"));
    fails(format!("nodes drain {node} --gpu 2"), 4, "has no GPU 2; they are 0 to 1");
    fails(format!("nodes drain {node} --gpu GPU-7"), 4, "name it by its index or UUID");
    fails(format!("nodes drain {node} --at 18:00 --in 2h"), 2, "cannot be used with");
    fails(format!("nodes drain {node} --at 2020-01-01T00:00Z"), 2, "lies in the past");
    fails(format!("nodes drain {node} --at noon"), 2, "expected a time of day such as 18:00");
    assert!(nodes(&home).nodes[0].drain.is_none(), "nothing was done");

    // A second drain only changes the reason; resuming a node that is not drained is no error.
    home.words(&format!("nodes drain {node} --reason one")).ok();
    let first = nodes(&home).nodes[0].drain.clone().unwrap();
    let again = home.words(&format!("nodes drain {node} --reason two")).ok().stderr;
    assert!(again.contains("this replaces the earlier drain"), "{again}");
    let second = nodes(&home).nodes[0].drain.clone().unwrap();
    assert_eq!((first.from, &*second.reason), (second.from, "two"));
    home.words(&format!("nodes resume {node}")).ok();
    fails(format!("nodes resume {node}"), 0, "not drained; nothing has changed");
}
