//! `muster top`: once, and live on a terminal.

use muster_model::view::JobState;

use crate::home::Home;
use crate::pty::Typist;

#[test]
fn one_view_shows_gpus_and_jobs() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    let held = home.sh("--gpus 1 --name held", &gate);
    home.until_state(held, JobState::Running);
    home.words("run --gpus 2 --name waits --time 1m -- true").ok();
    let view = home.words("top --once").ok().stdout;
    assert!(view.contains("2 GPUs: 1 held; 2 jobs: 1 running, 1 waiting"), "{view}");
    assert_eq!(view.matches("simulated").count(), 2, "no load is made up: {view}");
    assert!(view.contains("1 held (") && view.contains("free"), "{view}");
    let json: serde_json::Value = home.words("top --json").json();
    assert_eq!(json["gpus"].as_array().unwrap().len(), 2);
    assert_eq!(json["gpus"][0]["load"], serde_json::Value::Null);
    assert_eq!(json["jobs"][0]["name"], "held");
    assert_eq!(json["nodes"][0]["devices"].as_array().unwrap().len(), 2);
    home.open("go");
    home.words("top -i 0").code(2);
}

#[test]
fn a_view_that_cannot_be_read_says_so() {
    let home = Home::with_gpus(1);
    home.words("run --wait -- true").ok();
    let mut typist = Typist::new(&home, &["top", "--interval", "0.2"]);
    typist.until_next("up, down: choose");
    home.words("stop-daemon").ok();
    typist.until_next("not up to date: ");
    typist.keys("q");
    assert_eq!(typist.code(), 0);
}

#[test]
fn keys_explain_and_cancel_the_chosen_job() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    let held = home.sh("--gpus 2 --name held", &format!("echo up; {gate}"));
    home.until_state(held, JobState::Running);
    home.words("run --gpus 2 --name waits --time 1m -- true").ok();
    let mut typist = Typist::new(&home, &["top", "--interval", "0.2"]);
    typist.until_next("up, down: choose");
    typist.keys("l");
    typist.until_next("any key goes back");
    typist.keys("x\x1b[Be");
    typist.until_next("waits is pending");
    typist.until_next("any key goes back");
    typist.keys("xc");
    typist.until_next("cancel job 2?");
    typist.keys("n");
    typist.until_next("up, down: choose");
    assert_eq!(home.job(2).state, JobState::Pending);
    typist.keys("c");
    typist.until_next("cancel job 2?");
    typist.keys("y");
    home.until_state(2, JobState::Cancelled);
    // While the command runs, keys other than `q` do nothing.
    typist.until_next("any key goes back");
    typist.keys("xq");
    assert_eq!(typist.code(), 0);
    assert!(typist.seen().contains("\x1b[?1049l"), "the screen is left");
    home.open("go");
}
