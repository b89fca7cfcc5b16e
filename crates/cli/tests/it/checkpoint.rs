//! Checkpoints from the command line: reported at any time, requested, acknowledged, and resumed
//! from.

use muster_model::view::JobState;

use crate::home::Home;

/// Saves when asked, as `step N` with N counting, and holds until it is let go. The inner shell
/// ignores the signal, as a program that a training script starts should.
fn saves(home: &Home) -> String {
    let gate = home.gate("go");
    format!(
        "n=0; trap 'n=$((n+1)); echo step $n > \"$MUSTER_CHECKPOINT_FILE\"' USR1; \
         echo \"$MUSTER_RESTART_COUNT:$MUSTER_LAST_CHECKPOINT\" >> begun; {gate}"
    )
}

#[test]
fn a_job_says_unasked_that_its_progress_is_saved_and_show_knows() {
    let home = Home::with_gpus(1);
    let gate = home.gate("go");
    let job = home.sh("--gpus 1", &format!("echo 'epoch 3' > \"$MUSTER_CHECKPOINT_FILE\"; {gate}"));
    home.until("it is known", || home.job(job).elements[0].checkpoint.is_some());
    let shown = home.words(&format!("show {job}")).ok().stdout;
    assert!(
        shown.lines().any(|line| line.contains("checkpoint") && line.ends_with("ago (epoch 3)")),
        "{shown}"
    );
    // The job has no checkpoint signal.
    let refused = home.words(&format!("checkpoint {job}")).code(1).stderr;
    assert!(
        refused.contains("has no checkpoint signal") && refused.contains("hint: "),
        "{refused}"
    );
    home.open("go");
    home.words(&format!("wait {job}")).ok();
    assert_eq!(
        home.job(job).elements[0].checkpoint.as_ref().unwrap().label,
        "epoch 3",
        "also once it has ended"
    );
}

#[test]
fn a_job_that_is_asked_answers() {
    let home = Home::with_gpus(1);
    home.write(
        "job.yaml",
        &format!("gpus: 1\ncheckpoint: {{grace: 50s}}\nrun: |\n  {}\n", saves(&home)),
    );
    let waiting = home.words("run --hold job.yaml").ok();
    assert!(waiting.stdout.contains('1'), "{}", waiting.stdout);
    let refused = home.words("checkpoint job").code(1).stderr;
    assert!(refused.contains("is not running") && refused.contains("hint: "), "{refused}");
    home.words("release job").ok();
    home.until("it runs", || home.read("begun") == "0:\n");
    home.until_state(1, JobState::Running);
    for step in 1..=2 {
        let said = home.words("checkpoint job --wait").ok().stdout;
        assert_eq!(said, format!("1: saved its progress (step {step})\n"));
    }
    let asked = home.words("checkpoint 1 --wait --json").ok().stdout;
    let asked: serde_json::Value = serde_json::from_str(&asked).unwrap();
    assert_eq!(
        (asked[0]["answer"].as_str(), asked[0]["checkpoint"]["label"].as_str()),
        (Some("saved"), Some("step 3"))
    );
    // Its checkpoint is available to its next attempt and to no other job.
    home.words("requeue job").ok();
    home.until("it runs again", || home.read("begun") == "0:\n1:step 3\n");
    home.open("go");
    home.words("wait 1").ok();
}

#[test]
fn a_word_over_the_api_is_the_job_s_own() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    home.write(
        "job.yaml",
        &format!("tasks: 2\ngpus-per-task: 1\ncheckpoint: {{grace: 50s, by: all}}\nrun: \"trap 'echo asked >> asked' USR1; echo up >> up; {gate}\"\n"),
    );
    home.words("run job.yaml").ok();
    home.until("both run", || home.read("up") == "up\nup\n");
    home.until_state(1, JobState::Running);
    let asked = || home.job(1).elements[0].checkpoint_asked.is_some();
    home.words("checkpoint job").ok();
    home.until("both are asked", || home.read("asked") == "asked\nasked\n");

    // Each rank acknowledges for itself, and all of them must.
    let said = home.muster(&["checkpoint", "job", "--saved", "\u{1b}step 5\n"]).ok().stdout;
    assert_eq!(said, "1: recorded (step 5)\n");
    assert!(asked(), "rank 1 has not answered");
    home.muster(&["checkpoint", "job", "--saved", "step 4", "--rank", "1"]).ok();
    home.until("it is answered", || !asked());
    // The checkpoint of the gang is the oldest of its ranks.
    assert_eq!(home.job(1).elements[0].checkpoint.as_ref().unwrap().label, "step 5");

    let refused =
        home.muster(&["checkpoint", "job", "--saved", "step 6", "--rank", "2"]).code(4).stderr;
    assert!(refused.contains("ranks 0 to 1"), "{refused}");
    home.open("go");
    home.words("wait 1").ok();
    let refused = home.muster(&["checkpoint", "job", "--saved", "step 7"]).code(1).stderr;
    assert!(refused.contains("is not running"), "{refused}");
}

#[test]
fn of_several_elements_the_one_that_saved_is_named_and_one_that_is_stopped_may_still_say_it() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    home.write(
        "sweep.yaml",
        &format!("gpus: 1\narray: 0-1\ngrace: 50s\nrun: \"trap 'echo late >> late; {gate}; exit 0' TERM; echo up >> up; while :; do sleep 0.02; done\"\n"),
    );
    home.words("run sweep.yaml").ok();
    home.until("both run", || home.read("up") == "up\nup\n");
    let several = home.muster(&["checkpoint", "sweep", "--saved", "step 1"]).code(1).stderr;
    assert!(
        several.contains("several elements") && several.contains("MUSTER_ARRAY_INDEX"),
        "{several}"
    );
    home.words("requeue sweep[1]").ok();
    home.until("it saves in its grace", || home.read("late") == "late\n");
    let said = home.muster(&["checkpoint", "sweep[1]", "--saved", "step 2"]).ok().stdout;
    assert_eq!(said, "1[1]: recorded (step 2)\n");
    let long = format!("{}\nthe end", "x".repeat(100_000));
    let said = home.muster(&["checkpoint", "sweep[0]", "--saved", &long]).ok().stdout;
    assert_eq!(said, "1[0]: recorded (the end)\n");
    home.open("go");
    home.words("cancel sweep").ok();
}

#[test]
fn a_job_that_does_not_answer_in_time_is_told_from_one_that_ended() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    home.write(
        "mute.yaml",
        &format!(
            "gpus: 1\ncheckpoint: {{grace: 100ms}}\nrun: \"trap : USR1; echo up > mute; {gate}\"\n"
        ),
    );
    home.write("ends.yaml", "gpus: 1\ncheckpoint: {grace: 50s}\nrun: \"trap 'exit 0' USR1; echo up > ends; while :; do sleep 0.02; done\"\n");
    home.words("run mute.yaml ends.yaml").ok();
    home.until("both run", || home.path("mute").exists() && home.path("ends").exists());
    home.until_state(1, JobState::Running);
    home.until_state(2, JobState::Running);
    let late = home.words("checkpoint mute --wait").code(124).stdout;
    assert_eq!(late, "1: did not acknowledge in time\n");
    let ended = home.words("checkpoint ends --wait").code(1).stdout;
    assert_eq!(ended, "2: ended before it acknowledged\n");
    home.open("go");
    home.words("wait 1 2").ok();
}

#[test]
fn an_answer_survives_a_daemon_that_is_away() {
    let home = Home::with_gpus(1);
    let gate = home.gate("save");
    let script = format!(
        "{gate}; echo 'step 1' > \"$MUSTER_CHECKPOINT_FILE\"; echo > saved; {}",
        home.gate("go")
    );
    let job = home.sh("--gpus 1", &script);
    home.until_state(job, JobState::Running);
    home.kill_daemon();
    home.open("save");
    home.until("it has written", || home.path("saved").exists());
    home.start_daemon(Some(1));
    home.until("it is known", || home.job(job).elements[0].checkpoint.is_some());
    assert_eq!(home.job(job).elements[0].checkpoint.as_ref().unwrap().label, "step 1");
    home.open("go");
    home.words(&format!("wait {job}")).ok();
}

#[test]
fn a_job_can_save_before_its_limit_and_go_on_in_its_next_turn() {
    let home = Home::with_gpus(2);
    // The warning comes soon, but not before the shell has set its trap; the limit itself is far
    // away.
    let run = format!("run: |\n  {}\n", saves(&home));
    home.write(
        "turns.yaml",
        &format!("nodes: 1\ngpus: 2\ntime: 10m\ncheckpoint: {{grace: 594s, then: requeue}}\n{run}"),
    );
    home.words("run turns.yaml").ok();
    home.until("it has had two turns", || home.read("begun").starts_with("0:\n1:step 1\n"));
    home.open("go");
    home.words("wait 1").ok();
    assert!(home.job(1).elements[0].attempt >= 2);
}

/// A job file whose `run` is a shell around a program, as it is documented: the shell does not
/// handle the signal.
fn wrapped(home: &Home, name: &str, fields: &str, program: &str) {
    home.write(&format!("{name}.sh"), program);
    home.write(
        &format!("{name}.yaml"),
        &format!("name: {name}\ngpus: 1\n{fields}\nrun: |\n  sh {name}.sh\n  code=$?\n  echo ended >> {name}.ends\n  exit $code\n"),
    );
}

#[test]
fn a_job_that_ends_when_it_is_asked_to_make_room_is_queued_again_whatever_it_ends_with() {
    let home = Home::with_gpus(1);
    let gate = home.gate("go");
    for (number, end) in ["kill -9 $$", "exit 3", "exit 0"].into_iter().enumerate() {
        let name = format!("low{number}");
        let up = format!("echo $MUSTER_RESTART_COUNT >> {name}.up");
        let program = format!(
            "[ \"$MUSTER_RESTART_COUNT\" = 0 ] || {{ {up}; exit 0; }}; trap '{end}' USR1; {up}; while :; do sleep 0.02; done"
        );
        wrapped(&home, &name, "priority: -5\ncheckpoint: {grace: 50s}", &program);
        home.words(&format!("run {name}.yaml")).ok();
        home.until("it runs", || home.read(&format!("{name}.up")) == "0\n");
        home.write("urgent.yaml", &format!("name: urgent{number}\ngpus: 1\nrun: {gate}\n"));
        home.words("run urgent.yaml").ok();
        let low = 1 + 2 * number as u64;
        home.until_state(low + 1, JobState::Running);
        assert_eq!(home.job(low).state, JobState::Pending, "{end}");
        home.open("go");
        home.words(&format!("wait {low}")).ok();
        assert_eq!(
            (home.job(low).elements[0].attempt, home.job(low).state),
            (2, JobState::Done),
            "{end}"
        );
        std::fs::remove_file(home.path("go")).unwrap();
    }
}

#[test]
fn a_shell_around_the_program_survives_and_a_request_that_no_process_handles_is_told() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    wrapped(&home, "saves", "checkpoint: {grace: 50s}", &saves(&home));
    wrapped(&home, "deaf", "checkpoint: {grace: 2s}", &format!("echo up > deaf.up; {gate}"));
    home.words("run saves.yaml deaf.yaml").ok();
    home.until("both run", || home.path("begun").exists() && home.path("deaf.up").exists());
    home.until_state(1, JobState::Running);
    home.until_state(2, JobState::Running);
    let said = home.words("checkpoint saves --wait").ok().stdout;
    assert_eq!(said, "1: saved its progress (step 1)\n");
    let unheard = home.words("checkpoint deaf --wait").code(124);
    assert_eq!(unheard.stdout, "2: was not signalled: no process of it handles SIGUSR1\n");
    assert!(
        unheard.stderr.contains("no process of it handles SIGUSR1; waiting"),
        "{}",
        unheard.stderr
    );
    let shown = home.words("show deaf").ok().stdout;
    assert!(shown.contains("no process of it handles SIGUSR1"), "{shown}");
    assert_eq!((home.read("saves.ends"), home.read("deaf.ends")), (String::new(), String::new()));
    home.open("go");
    home.words("wait 1 2").ok();
}

#[test]
fn a_program_that_does_not_exist_fails_at_once_whatever_the_restarts() {
    let home = Home::with_gpus(1);
    home.write("typo.yaml", "name: typo\nrestart: 2\nrun: [pyhton, train.py]\n");
    let run = home.words("run typo.yaml --wait").code(125);
    let job = home.job(1);
    assert_eq!(
        (job.elements[0].attempt, job.state),
        (1, JobState::Failed),
        "{}{}",
        run.stdout,
        run.stderr
    );
    let said = job.elements[0].outcome.as_ref().unwrap().to_string();
    assert_eq!(said, "rank 0 did not start: pyhton: not found in PATH");
}
