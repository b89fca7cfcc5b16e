//! Hold, release, requeue, and cancel at every state.

use muster_model::view::State;

use crate::home::Home;

#[test]
fn a_held_job_waits_for_its_release() {
    let home = Home::with_gpus(1);
    let job = home.run("--hold", &["true"]);
    assert_eq!(home.job(job).state, State::Held);
    let why = home.words(&format!("explain {job}")).ok().stdout;
    assert!(why.starts_with("true is held\n"), "{why}");
    assert!(why.contains(&format!("muster release {job}")), "{why}");
    home.words(&format!("release {job}")).ok();
    home.words(&format!("wait {job}")).ok();
}

#[test]
fn a_waiting_job_can_be_held() {
    let home = Home::with_gpus(1);
    let gate = home.gate("go");
    let first = home.sh("--gpus 1", &gate);
    let second = home.run("--gpus 1", &["true"]);
    home.words(&format!("hold {second}")).ok();
    home.open("go");
    home.words(&format!("wait {first}")).ok();
    assert_eq!(home.job(second).state, State::Held);
    home.words(&format!("release {second}")).ok();
    home.words(&format!("wait {second}")).ok();
}

#[test]
fn requeue_runs_it_again_from_the_start() {
    let home = Home::with_gpus(1);
    let gate = home.gate("go");
    let job = home.sh("--gpus 1 --grace 1s", &format!("echo $MUSTER_ATTEMPT >> attempts; {gate}"));
    home.until("it runs", || home.read("attempts") == "1\n");
    home.words(&format!("requeue {job}")).ok();
    home.until("it runs again", || home.read("attempts") == "1\n2\n");
    home.open("go");
    home.words(&format!("wait {job}")).ok();
    assert_eq!(home.job(job).elements[0].attempt, 2);
}

#[test]
fn cancel_works_at_every_state() {
    let home = Home::with_gpus(1);
    let gate = home.gate("never");
    let running = home.sh("--gpus 1 --grace 1s", &format!("echo > up; {gate}"));
    home.until("it runs", || home.path("up").exists());
    let pending = home.run("--gpus 1", &["true"]);
    let held = home.run("--hold", &["true"]);
    for job in [held, pending, running] {
        let said = home.words(&format!("cancel {job}")).ok().stdout;
        assert!(said.starts_with(&format!("{job}: ")), "{said}");
        home.words(&format!("wait {job}")).code(130);
        assert_eq!(home.job(job).state, State::Cancelled);
    }
    // What has ended stays as it ended.
    let done = home.run("", &["true"]);
    home.words(&format!("wait {done}")).ok();
    let _said = home.words(&format!("cancel {done}"));
    assert_eq!(home.job(done).state, State::Done);
    assert!(home.pids_of("never").is_empty());
}

#[test]
fn a_process_that_ignores_sigterm_is_killed_after_its_grace() {
    let home = Home::with_gpus(1);
    let gate = home.gate("never");
    let job = home.sh("--grace 1s", &format!("trap '' TERM; echo > up; {gate}"));
    home.until("it runs", || home.path("up").exists());
    home.words(&format!("cancel {job}")).ok();
    home.words(&format!("wait {job}")).code(130);
    assert!(home.pids_of("never").is_empty());
}

#[test]
fn one_element_of_an_array_can_be_cancelled() {
    let home = Home::with_gpus(4);
    let gate = home.gate("go");
    let job = home.sh("--gpus 1 --array 0-2 --grace 1s", &format!("echo > up.$MUSTER_ARRAY_INDEX; {gate}"));
    home.until("all run", || (0..3).all(|index| home.path(&format!("up.{index}")).exists()));
    home.words(&format!("cancel {job}[1]")).ok();
    home.until("one has ended", || home.job(job).array.is_some_and(|array| array.failed == 1));
    home.open("go");
    home.words(&format!("wait {job}")).code(1);
    assert_eq!(home.job(job).array.unwrap().succeeded, 2);
}

#[test]
fn a_drained_node_takes_nothing_new() {
    let home = Home::with_gpus(1);
    let name = home.words("nodes --json").json::<muster_api::types::NodeList>().nodes[0].name.to_string();
    home.words(&format!("nodes drain {name} --reason maintenance")).ok();
    assert!(home.words("nodes").ok().stdout.contains("drained"));
    let job = home.run("--gpus 1", &["true"]);
    assert_eq!(home.job(job).state, State::Pending);
    home.words(&format!("nodes resume {name}")).ok();
    home.words(&format!("wait {job}")).ok();
}
