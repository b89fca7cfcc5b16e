//! Preemption with real processes: borrowed GPUs are reclaimed, higher priority preempts lower, and
//! a preempted job writes a checkpoint first.

use muster_model::view::JobState;

use crate::home::Home;

/// Program that acknowledges checkpoints as `step N`, and runs until the test lets it end.
fn saves(home: &Home) -> String {
    let gate = home.gate("go");
    format!(
        "trap 'echo step 7 > \"$MUSTER_CHECKPOINT_FILE\"' USR1; \
         echo \"$MUSTER_RESTART_COUNT:$MUSTER_LAST_CHECKPOINT\" >> begun; {gate}"
    )
}

#[test]
fn a_queue_reclaims_its_quota_and_the_preempted_job_resumes_from_its_checkpoint() {
    let home = Home::with_gpus(2);
    home.write(
        "queues.yaml",
        "queues:\n  - {name: owner, quota: {virtual: 1}}\n  - {name: guest, quota: {virtual: 1}}\n",
    );
    home.words("queues --set queues.yaml").ok();
    // 1. The borrowing job uses its own GPU and the owner's.
    let run = saves(&home);
    home.write(
        "guest.yaml",
        &format!("queue: guest\nnodes: 1\ngpus: 2\ncheckpoint: {{grace: 50s}}\nrun: |\n  {run}\n"),
    );
    home.words("run guest.yaml").ok();
    home.until("the guest runs", || home.read("begun") == "0:\n");
    // 2. The owner's job reclaims its GPU.
    let gate = home.gate("done");
    let owner = home.sh("--queue owner --gpus 1", &format!("echo up > mine; {gate}"));
    home.until("the owner runs", || home.path("mine").exists());
    let guest = home.job(1);
    assert_eq!(guest.state, JobState::Pending);
    assert_eq!(
        guest.elements[0].checkpoint.as_ref().unwrap().label,
        "step 7",
        "it saved before it went"
    );
    assert_eq!(home.read("begun"), "0:\n");
    // 3. When the owner's job has ended, the preempted job restarts from its checkpoint.
    home.open("done");
    home.words(&format!("wait {owner}")).ok();
    home.until("the guest runs again", || home.read("begun") == "0:\n1:step 7\n");
    home.open("go");
    home.words("wait 1").ok();
}

#[test]
fn higher_priority_takes_from_lower_unless_that_is_protected() {
    let home = Home::with_gpus(1);
    let gate = home.gate("go");
    home.write(
        "safe.yaml",
        &format!("gpus: 1\nprotect: always\nrun: \"echo up > safe; {gate}\"\n"),
    );
    home.words("run safe.yaml").ok();
    home.until("it runs", || home.path("safe").exists());
    let urgent = home.sh("--gpus 1 --priority 5", "echo up > urgent");
    assert_eq!(home.job(urgent).state, JobState::Pending);
    let why = home.words(&format!("explain {urgent}")).ok().stdout;
    assert!(why.contains("no job can be preempted: safe (1) is protected"), "{why}");
    home.open("go");
    home.words(&format!("wait 1 {urgent}")).ok();
    // Without protection it is preempted, which does not count as a restart.
    let gate = home.gate("again");
    let low = home.sh("--gpus 1", &format!("echo $MUSTER_RESTART_COUNT >> low; {gate}"));
    home.until("it runs", || home.path("low").exists());
    let would = home.words("run --dry-run --gpus 1 --priority 5 -- true").ok().stdout;
    assert!(
        would.contains("would wait: preempting") && would.contains("1 job that would be preempted"),
        "{would}"
    );
    let equal = home.words("run --dry-run --gpus 1 -- true").ok().stdout;
    assert!(
        equal.contains(&format!("no job can be preempted: sh ({low}) has no lower priority")),
        "{equal}"
    );
    let urgent = home.sh("--gpus 1 --priority 5", "echo up > urgent2");
    home.words(&format!("wait {urgent}")).ok();
    home.until("it runs again", || home.read("low") == "0\n1\n");
    home.open("again");
    home.words(&format!("wait {low}")).ok();
}
