//! Exit codes: those of jobs, and those of other outcomes.

use muster_model::view::JobState;

use crate::home::Home;

#[test]
fn wait_passes_on_how_a_job_ended() {
    let home = Home::with_gpus(8);
    let cases = [
        (home.sh("", "exit 0"), 0, "done"),
        (home.sh("", "exit 3"), 3, "failed: rank 0 exited with 3"),
        (home.sh("", "kill -KILL $$"), 137, "failed: rank 0 ended by signal 9"),
        (home.sh("", "kill -TERM $$"), 143, "failed: rank 0 ended by signal 15"),
        (home.run("--time 1s --grace 1s", &["sleep", "60"]), 124, "failed: reached its time limit"),
        (home.run("", &["/nonexistent/program"]), 125, ""),
    ];
    for (job, code, said) in cases {
        let run = home.words(&format!("wait {job}")).code(code);
        assert!(run.stdout.starts_with(&format!("{job}: {said}")), "{}", run.stdout);
    }
    let first = cases[1].0;
    let second = cases[4].0;
    home.words(&format!("wait 1 {first} {second}")).code(3);
    home.words(&format!("wait {second} {first} 1")).code(124);
}

#[test]
fn a_cancelled_job_is_130_and_names_who() {
    let home = Home::with_gpus(1);
    let job = home.run("", &["sleep", "60"]);
    home.until_state(job, JobState::Running);
    let waiter = home.spawn(&["wait", &job.to_string()]);
    home.words(&format!("cancel {job}")).ok();
    let output = waiter.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with(&format!("{job}: cancelled: cancelled by ")), "{said}");
}

#[test]
fn run_wait_follow_and_watch_pass_codes_on() {
    let home = Home::with_gpus(2);
    for mode in ["--wait", "--follow", "--watch"] {
        home.muster(&["run", mode, "--", "sh", "-c", "exit 7"]).code(7);
        home.muster(&["run", mode, "--", "true"]).ok();
    }
    let wait = home.muster(&["run", "--wait", "--", "sh", "-c", "exit 7"]).code(7);
    assert!(wait.stderr.contains("rank 0 exited with 7"), "{}", wait.stderr);
    let follow = home
        .muster(&["run", "--follow", "--", "sh", "-c", "echo out; echo err >&2; exit 7"])
        .code(7);
    assert_eq!(follow.stdout, "out\nerr\n");
    assert!(follow.stderr.contains("rank 0 exited with 7"), "{}", follow.stderr);
}

#[test]
fn an_array_with_a_failure_is_1() {
    let home = Home::with_gpus(4);
    let job = home.sh(
        "--array 0-5%2",
        "[ $MUSTER_ARRAY_INDEX != 3 ] || exit 5; echo element $MUSTER_ARRAY_INDEX",
    );
    home.words(&format!("wait {job}")).code(1);
    let array = home.job(job).array.unwrap();
    assert_eq!((array.total, array.succeeded, array.failed), (6, 5, 1));
    let said = home.words(&format!("wait {job}[4]")).ok().stdout;
    assert_eq!(said, format!("{job}[4]: done\n"));
    let said = home.words(&format!("wait {job}[3]")).code(5).stdout;
    assert_eq!(said, format!("{job}[3]: failed: rank 0 exited with 5\n"));
    home.words(&format!("wait {job}[6]")).code(4);
    assert_eq!(home.words(&format!("logs {job}[4]")).ok().stdout, "element 4\n");
    assert_eq!(home.words(&format!("logs {job}_5")).ok().stdout, "element 5\n");
}

#[test]
fn unknown_things_are_4() {
    let home = Home::with_gpus(1);
    home.words("run --wait -- true").ok();
    for verb in
        ["show", "explain", "logs", "wait", "cancel", "hold", "release", "requeue", "checkpoint"]
    {
        let run = home.words(&format!("{verb} 99")).code(4);
        assert!(run.stderr.starts_with("error: "), "{verb}: {}", run.stderr);
        let named = home.words(&format!("{verb} nobody")).code(4);
        assert_eq!(
            named.stderr, "error: there is no job `nobody`\nhint: `muster ps -a` lists all jobs\n",
            "{verb}"
        );
    }
    home.words("logs 1[7]").code(4);
    home.words("nodes drain nowhere").code(4);
}

#[test]
fn a_name_that_several_jobs_have_is_not_guessed() {
    let home = Home::with_gpus(1);
    let one = home.run("--name twin --hold", &["true"]);
    let two = home.run("--name twin --hold", &["true"]);
    let run = home.words("cancel twin").code(4);
    assert_eq!(
        run.stderr,
        format!("error: `twin` names several jobs: {one}, {two}\nhint: use one of these\n")
    );
    home.words(&format!("cancel {one}")).ok();
    // Of the two only one has not ended: now the name is enough.
    home.words("cancel twin").ok();
    assert_eq!(home.job(two).state, JobState::Cancelled);
}
