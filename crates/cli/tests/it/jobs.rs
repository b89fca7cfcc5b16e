//! Arrays, dependencies, begin times, restarts.

use muster_model::view::JobState;

use crate::home::Home;

#[test]
fn an_array_keeps_its_cap() {
    let home = Home::with_gpus(8);
    let gate = home.gate("go");
    let job = home.sh("--gpus 1 --array 0-9%3", &gate);
    home.until("three run", || home.job(job).array.is_some_and(|array| array.active == 3));
    let view = home.job(job);
    assert_eq!(view.array.unwrap().waiting, 7);
    assert_eq!(view.elements.len(), 3);
    let why = home.words(&format!("explain {job}[5]")).ok().stdout;
    assert!(why.starts_with("sh[5] is pending: array cap\n"), "{why}");
    home.open("go");
    home.words(&format!("wait {job}")).ok();
}

#[test]
fn dependencies_wait_and_fail_truthfully() {
    let home = Home::with_gpus(4);
    let gate = home.gate("go");
    let bad = home.sh("--name bad", &format!("{gate}; exit 9"));
    let good = home.sh(&format!("--name on-success --after {bad}"), "true");
    let cleanup = home.sh(&format!("--name on-failure --after afternotok:{bad}"), "true");
    let any = home.sh(&format!("--name either-way --after afterany:{bad}"), "true");
    let started = home.sh(&format!("--name once-started --after after:{bad}"), "true");

    home.words(&format!("wait {started}")).ok();
    for waiting in [good, cleanup, any] {
        assert_eq!(home.job(waiting).state, JobState::Pending);
    }
    let why = home.words(&format!("explain {good}")).ok().stdout;
    assert!(why.contains(&format!("job {bad} to succeed")), "{why}");

    home.open("go");
    home.words(&format!("wait {bad}")).code(9);
    home.words(&format!("wait {good}")).code(125);
    home.words(&format!("wait {cleanup} {any}")).ok();
}

#[test]
fn names_in_one_file_can_be_waited_for() {
    let home = Home::with_gpus(1);
    let file = "name: first\nrun: echo 1 >> order\n---\nname: second\nafter: first\nrun: echo 2 >> order\n";
    home.write("chain.yaml", file);
    home.words("run --wait chain.yaml").ok();
    assert_eq!(home.read("order"), "1\n2\n");
}

#[test]
fn a_gang_restarts_as_a_whole_until_it_succeeds() {
    let home = Home::with_gpus(2);
    let script = "echo try >> tries.$RANK; [ $RANK = 0 ] || [ $(wc -l < tries.1) -ge 3 ] || exit 1; \
                  [ $RANK = 1 ] || while [ $(wc -l < tries.1) -lt 3 ]; do sleep 0.02; done";
    home.write("tries.1", "");
    home.write(
        "again.yaml",
        &format!(
            "tasks: 2\ngpus-per-task: 1\nrestart: {{max: 5, backoff: 1s}}\nrun: |\n  {script}\n"
        ),
    );
    home.words("run --wait again.yaml").ok();
    let tries = (home.read("tries.0"), home.read("tries.1"));
    assert_eq!(home.job(1).elements[0].attempt, 3, "{tries:?}");
    assert_eq!(tries.1.lines().count(), 3);
    assert_eq!(home.words("logs 1 --attempt 1").ok().stdout, "");
}

#[test]
fn a_gang_of_which_one_rank_fails_ends_whole() {
    let home = Home::with_gpus(3);
    let gate = home.gate("never");
    let script = format!("[ $RANK != 1 ] || exit 4; {gate}");
    let job = home.sh("--tasks 3 --gpus-per-task 1 --grace 1s", &script);
    home.words(&format!("wait {job}")).code(4);
    assert!(home.pids_of("never").is_empty());
    let free = home.words("nodes --json").json::<muster_api::types::NodeList>().nodes;
    assert!(free[0].devices.iter().all(|device| device.used.0 == 0), "{free:?}");
}
