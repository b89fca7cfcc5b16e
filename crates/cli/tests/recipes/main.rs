//! The recipes of `examples/` for PyTorch, Lightning and Transformers, run with the real libraries:
//! each writes a checkpoint on request, is preempted, resumes at the saved step, and ends as done. And
//! jobs of kind `ray` with the real Ray.
//! `cargo xtask recipes` provides the libraries; without them each test is ignored with that
//! reason.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]
#![allow(dead_code, reason = "the home has more than these tests need")]

mod check_ray;
#[path = "../it/home.rs"]
mod home;
#[path = "../it/random.rs"]
mod random;
mod ray;
mod ray_examples;
mod ray_growth;
mod ray_import;
mod ray_kills;
mod ray_model;
mod ray_outputs;

use std::path::{Path, PathBuf};

use home::Home;
use muster_model::view::JobState;

/// Returns the root directory of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the interpreter that has the libraries.
fn python() -> PathBuf {
    std::env::var_os("MUSTER_TEST_PYTHON").expect("`cargo xtask recipes` says which python").into()
}

/// The recipe as it is, with an interpreter that has the libraries first in its PATH, and a place
/// of its own for what it saves.
fn submit(home: &Home, recipe: &str) {
    let python = python();
    let text = std::fs::read_to_string(root().join(format!("examples/{recipe}.yaml"))).unwrap();
    // torchrun of torch 1.13 on Python 3.11 cannot read "no redirection for any rank"; of a rank
    // that is not there it can.
    let env = format!(
        "env: {{PATH: \"{}:/usr/bin:/bin\", CHECKPOINT: {}, OMP_NUM_THREADS: \"1\", HF_HUB_OFFLINE: \"1\", \
         PET_REDIRECTS: \"9:1\", PET_TEE: \"9:1\", ",
        python.parent().unwrap().display(),
        home.path("saved").display()
    );
    assert!(text.contains("env: {"), "{text}");
    // As many steps as the test wants by then: the first start has no end.
    let run = format!("run: STEPS=$(cat {}) python3", home.path("steps").display());
    assert!(text.contains("run: python3"), "{text}");
    let text = text.replace("env: {", &env).replace("run: python3", &run);
    home.write("steps", "1000000");
    home.write("recipe.yaml", &format!("{text}workdir: {}\npriority: -5\n", root().display()));
    home.words("run recipe.yaml").ok();
}

/// The step of the last line of the log that begins so.
fn step(home: &Home, begin: &str) -> Option<u32> {
    let log = home.words("logs 1").ok().stdout;
    let line = log.lines().rev().find_map(|line| line.strip_prefix(begin));
    line.and_then(|rest| rest.trim().parse().ok())
}

fn saves_makes_room_and_resumes(recipe: &str, gpus: u32) {
    let home = Home::with_gpus(gpus);
    submit(&home, recipe);
    // 1. It writes a checkpoint on request, and continues. The request may precede the program's
    //    signal handler.
    home.until("it runs", || home.job(1).state == JobState::Running);
    let said = home.words("checkpoint 1 --wait").ok().stdout;
    assert!(said.starts_with("1: saved its progress (step "), "{said}");
    assert_eq!(home.job(1).elements[0].attempt, 1, "it goes on");
    // 2. It is preempted: it writes a checkpoint, and is requeued.
    let gate = home.gate("go");
    home.write("urgent.yaml", &format!("name: urgent\ngpus: {gpus}\nrun: {gate}\n"));
    home.words("run urgent.yaml").ok();
    home.until_state(2, JobState::Running);
    let low = home.job(1);
    assert_eq!(low.state, JobState::Pending);
    let label = low.elements[0].checkpoint.as_ref().unwrap().label.clone();
    let saved: u32 = label.strip_prefix("step ").unwrap().parse().unwrap();
    assert_eq!(step(&home, "saved step "), Some(saved), "the label names what was saved");
    let last = saved + 20;
    home.write("steps", &last.to_string());
    // 3. It resumes there, and ends.
    home.open("go");
    home.words("wait 1").ok();
    assert_eq!(step(&home, "starts at step "), Some(saved));
    assert_eq!(step(&home, "done at step "), Some(last));
    let ended = home.job(1);
    assert_eq!((ended.state, ended.elements[0].attempt), (JobState::Done, 2));
}

#[test]
#[ignore = "needs PyTorch: `cargo xtask recipes` has it"]
fn ranks_under_torchrun_save_together_and_resume() {
    saves_makes_room_and_resumes("torch-checkpoint", 2);
}

#[test]
#[ignore = "needs Lightning: `cargo xtask recipes` has it"]
fn a_lightning_module_saves_and_resumes() {
    saves_makes_room_and_resumes("lightning-checkpoint", 1);
}

#[test]
#[ignore = "needs Transformers: `cargo xtask recipes` has it"]
fn a_hugging_face_trainer_saves_and_resumes() {
    saves_makes_room_and_resumes("transformers-checkpoint", 1);
}
