//! Hold, release, requeue and cancel in every state of a job.

use muster_model::view::JobState;

use crate::home::Home;

#[test]
fn a_held_job_waits_for_its_release() {
    let home = Home::with_gpus(1);
    let job = home.run("--hold", &["true"]);
    assert_eq!(home.job(job).state, JobState::Held);
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
    assert_eq!(home.job(second).state, JobState::Held);
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
        assert_eq!(home.job(job).state, JobState::Cancelled);
    }
    // What has ended stays as it ended.
    let done = home.run("", &["true"]);
    home.words(&format!("wait {done}")).ok();
    let _said = home.words(&format!("cancel {done}"));
    assert_eq!(home.job(done).state, JobState::Done);
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
    let job = home
        .sh("--gpus 1 --array 0-2 --grace 1s", &format!("echo > up.$MUSTER_ARRAY_INDEX; {gate}"));
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
    let name =
        home.words("nodes --json").json::<muster_api::types::NodeList>().nodes[0].name.to_string();
    home.words(&format!("nodes drain {name} --reason maintenance")).ok();
    assert!(home.words("nodes").ok().stdout.contains("drained"));
    let job = home.run("--gpus 1", &["true"]);
    assert_eq!(home.job(job).state, JobState::Pending);
    home.words(&format!("nodes resume {name}")).ok();
    home.words(&format!("wait {job}")).ok();
}

#[test]
fn acting_on_many_filtered_jobs_needs_confirmation() {
    let home = Home::with_gpus(1);
    let documents: Vec<String> =
        (0..30).map(|number| format!("name: many-{number}\nhold: true\nrun: 'true'\n")).collect();
    let file = home.write("many.yaml", &documents.join("---\n"));
    home.muster(&["run", file.to_str().unwrap()]).ok();
    // Without a terminal to confirm on it is refused, with the option to add as a hint.
    let refused = home.words("cancel --name many-*").code(2);
    assert!(
        refused.stderr.contains("would cancel 30 jobs") && refused.stderr.contains("--yes"),
        "{refused:?}"
    );
    let shown = home.words("cancel --name many-* --dry-run").ok();
    assert_eq!(shown.stdout.lines().count(), 30, "{shown:?}");
    assert!(shown.stdout.contains("many-29, held, "), "{shown:?}");
    // No confirmation for at most ten jobs, or for jobs that were named individually.
    let some = home.words("cancel --name many-1?").ok();
    assert_eq!(some.stdout.lines().count(), 10, "{some:?}");
    home.words("cancel --all --yes").ok();
    assert_eq!(home.words("cancel --all").ok().stderr, "no job to cancel\n");
}

#[test]
fn a_list_is_bounded_and_says_how_many_match() {
    let home = Home::with_gpus(1);
    let gate = home.gate("go");
    let documents: Vec<String> =
        (0..20).map(|number| format!("name: waits-{number}\nhold: true\nrun: 'true'\n")).collect();
    let file = home.write("many.yaml", &documents.join("---\n"));
    home.muster(&["run", file.to_str().unwrap()]).ok();
    let ended = home.run("", &["true"]);
    home.words(&format!("wait {ended}")).ok();
    let running = home.sh("--gpus 1", &gate);
    home.until("it runs", || home.job(running).state == JobState::Running);
    let list = |words: &str| {
        let list = home.words(words).json::<muster_api::types::JobList>();
        (list.jobs.iter().map(|job| job.job.0).collect::<Vec<_>>(), list.matched)
    };
    let (jobs, matched) = list("ps --json --limit 3");
    assert_eq!((jobs.len(), matched), (3, Some(21)));
    assert!(jobs.contains(&running), "what runs goes first: {jobs:?}");
    assert_eq!(list("ps --json --all --limit 21"), (list("ps --json").0, Some(22)));
    assert_eq!(list("ps --json --all --limit 50").0.len(), 22);
    assert_eq!(list("ps --json --name waits-1?").0.len(), 10);
    let text = home.words("ps --limit 5").ok();
    assert_eq!(text.stdout.lines().count(), 6, "{text:?}");
    assert!(text.stderr.contains("and 16 more jobs"), "{text:?}");
    // Piped output is complete.
    assert_eq!(home.words("ps").ok().stdout.lines().count(), 22);
    home.open("go");
}

#[test]
fn a_job_is_named_as_what_another_waits_for() {
    let home = Home::with_gpus(1);
    let gate = home.gate("go");
    let first = home.sh("--name prepare", &gate);
    let second = home.run("--name train --after prepare", &["true"]);
    assert_eq!(home.job(second).state, JobState::Pending);
    let why = home.words(&format!("explain {second}")).ok().stdout;
    assert!(why.contains(&format!(" {first}")), "{why}");
    // Several live jobs of a name are an error with their numbers; an unknown name is one, too.
    let again = home.run("--name prepare --hold", &["true"]);
    let refused = home.words("run --after afterany:prepare -- true").code(4);
    assert!(
        refused.stderr.contains(&format!("`prepare` names several jobs: {first}, {again}")),
        "{refused:?}"
    );
    let refused = home.words("run --after no-such -- true").code(4);
    assert!(refused.stderr.contains("none of your jobs has this name"), "{refused:?}");
    // Among jobs that have ended, the newest is taken.
    home.words(&format!("cancel {again}")).ok();
    home.open("go");
    home.words(&format!("wait {first} {second}")).ok();
    let failed = home.run("--after afternotok:prepare", &["true"]);
    home.words(&format!("wait {failed}")).ok();
}

#[test]
fn a_script_for_sbatch_is_submitted_as_what_import_makes_of_it() {
    let home = Home::with_gpus(2);
    home.write(
        "train.sbatch",
        "#!/bin/bash\n#SBATCH --job-name=fine\n#SBATCH --gpus=1\n#SBATCH --partition=gpu\n#SBATCH --time=10:00\necho from-a-script $SLURM_JOB_NAME\n",
    );
    let run = home.words("run train.sbatch --wait").ok();
    assert!(run.stderr.contains("train.sbatch: "), "{run:?}");
    assert!(
        run.stderr.contains("`fine` has a section `slurm`, which this machine ignores"),
        "{run:?}"
    );
    assert!(home.words("logs fine").ok().stdout.contains("from-a-script"), "{run:?}");
    assert_eq!(home.job(1).time_limit, Some(muster_model::Span::from_secs(600)));
    // A shell script without sbatch options must be run as a command.
    home.write("plain.sh", "#!/bin/sh\ntrue\n");
    let refused = home.words("run plain.sh").code(2);
    assert!(refused.stderr.contains("muster run [OPTIONS] -- ./plain.sh"), "{refused:?}");
}
