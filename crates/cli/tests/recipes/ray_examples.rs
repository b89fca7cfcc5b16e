//! The examples for Ray's libraries, with the real Ray: each runs as it is, and prints what it found.

use std::fs;

use muster_model::view::JobState;

use crate::home::Home;
use crate::ray::PATIENCE;
use crate::ray_outputs::{ASK, OUTPUTS, SERVE_AT};
use crate::{python, root};

/// Submits an example as it is, but for the interpreter, to a daemon with two GPUs.
fn submit(name: &str) -> Home {
    let home = Home::with_gpus(2);
    let text = fs::read_to_string(root().join(format!("examples/{name}.yaml"))).unwrap();
    let python = python();
    let run = format!("run: {} examples", python.display());
    assert!(text.contains("run: python3 examples"), "{text}");
    let text = text.replace("run: python3 examples", &run);
    let more = format!(
        "workdir: {}\nenv: {{STORAGE: {}}}\nray: {{python: {}}}\n",
        root().display(),
        home.path("saved").display(),
        python.display()
    );
    home.write("example.yaml", &format!("{text}{more}"));
    home.words("run example.yaml").ok();
    home
}

/// Runs an example to its end, and returns what its program printed.
fn output(name: &str) -> String {
    let home = submit(name);
    let code = home.words("wait 1").code;
    let log = home.words("logs 1").ok().stdout;
    assert_eq!(code, 0, "{log}");
    log
}

/// Runs an example, and looks for what it should print.
fn prints(name: &str) {
    let expected = OUTPUTS.iter().find(|(known, _)| *known == name).unwrap().1;
    let log = output(name);
    assert!(log.contains(expected), "{expected}\n{log}");
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn core_places_an_actor_on_each_gpu() {
    prints("ray-core");
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn tune_runs_twenty_trials_on_two_nodes() {
    prints("ray-tune");
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn train_has_a_worker_on_each_gpu_and_saves() {
    prints("ray-train");
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn data_scores_with_an_actor_on_each_gpu() {
    prints("ray-data");
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn serve_answers_until_the_job_is_cancelled() {
    let home = submit("ray-serve");
    let address = || {
        let log = home.words("logs 1").stdout;
        let line = log.lines().find_map(|line| line.split_once(SERVE_AT))?;
        Some(line.1.trim().to_owned())
    };
    home.until_within(PATIENCE, "it serves", || {
        assert!(!home.job(1).state.is_final(), "{}", home.words("logs 1").stdout);
        address().is_some()
    });
    let output =
        std::process::Command::new(python()).args(["-c", ASK, &address().unwrap()]).output();
    let output = output.unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("{\"answer\":42}"), "{output:?}");
    home.words("cancel 1").ok();
    home.until_within(PATIENCE, "it ends", || home.job(1).state == JobState::Cancelled);
}
