//! SIGKILL to the daemon at random moments and to supervisors: every job ends exactly once with the
//! right status, and nothing runs twice.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use muster_model::Outcome;
use muster_model::view::JobState;

use crate::home::{Home, alive, kill};
use crate::random::TestRng;

/// Kills of the daemon; `MUSTER_TEST_KILLS=200` for the long run.
fn kills() -> u64 {
    std::env::var("MUSTER_TEST_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(20)
}

#[test]
fn killing_the_daemon_at_random_moments_loses_and_repeats_nothing() {
    const JOBS: u64 = 100;
    let seed =
        std::env::var("MUSTER_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("seed {seed}");
    let mut rng = TestRng(seed);
    let home = Home::with_gpus(8);
    let mut file = String::new();
    for job in 1..=JOBS {
        let gang = if job % 5 == 0 { "tasks: 3\ngpus-per-task: 1" } else { "gpus: 1" };
        let _ = writeln!(
            file,
            "---\nname: job{job}\n{gang}\nrun: |\n  echo $RANK >> ran.{job}; sleep {}e-3; exit {}",
            rng.below(30 * kills()),
            job % 7
        );
    }
    home.write("many.yaml", &file);
    home.words("run many.yaml").ok();

    for moment in 0..kills() {
        // One job ends only after the daemon is back, so that each kill happens while work is
        // running, however fast the machine is.
        let gate = home.gate(&format!("back.{moment}"));
        let met = home.sh(&format!("--name met{moment} --gpus 1"), &gate);
        // This sleep does not replace a condition: it makes the moment of the kill random.
        std::thread::sleep(Duration::from_millis(rng.below(150)));
        home.kill_daemon();
        home.start_daemon(None);
        assert!(!home.job(met).state.is_final(), "nobody let it go");
        home.open(&format!("back.{moment}"));
    }

    let numbers: Vec<String> = home.jobs().iter().map(|job| job.job.to_string()).collect();
    let _code = home.muster(&[&["wait".to_owned()], numbers.as_slice()].concat());
    for view in home.jobs() {
        let job = view.job.0;
        let expected = if job <= JOBS { i32::try_from(job % 7).unwrap() } else { 0 };
        let outcome = view.elements[0].outcome.clone();
        let code = outcome.as_ref().map(Outcome::exit_code);
        assert_eq!(code, Some(expected), "job {job}: {outcome:?}");
        assert_eq!(view.elements[0].attempt, 1, "job {job}");
        if job <= JOBS {
            let ranks = if job % 5 == 0 { 3 } else { 1 };
            assert_eq!(
                home.read(&format!("ran.{job}")).lines().count(),
                ranks,
                "job {job} ran other than once"
            );
        }
    }
}

#[test]
fn a_killed_supervisor_is_a_lost_task_with_nothing_left_of_it() {
    let home = Home::with_gpus(2);
    let gate = home.gate("never");
    let job = home.sh("--gpus 1 --grace 1s", &format!("echo $$ > pid; {gate}"));
    home.until("it runs", || !home.read("pid").is_empty());
    let pid: u32 = home.read("pid").trim().parse().unwrap();
    for supervisor in home.pids_of("__supervise") {
        kill(supervisor);
    }
    home.words(&format!("wait {job}")).code(125);
    assert!(matches!(home.job(job).elements[0].outcome, Some(Outcome::Lost { .. })));
    home.until("its process is gone", || !alive(pid));
}

#[test]
fn a_gang_restarts_whole_after_a_supervisor_was_killed() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    let script = format!("echo $RANK >> ran.$MUSTER_ATTEMPT; {gate}");
    let job = home.sh("--tasks 2 --gpus-per-task 1 --restart 2 --grace 1s", &script);
    home.until("both run", || home.read("ran.1").lines().count() == 2);
    kill(home.pids_of("__supervise")[0]);
    home.until("both run again", || home.read("ran.2").lines().count() == 2);
    home.open("go");
    home.words(&format!("wait {job}")).ok();
    let view = home.job(job);
    assert_eq!((view.state, view.elements[0].attempt), (JobState::Done, 2));
}

#[test]
fn a_supervisor_killed_while_the_daemon_is_away_is_found_lost() {
    let home = Home::with_gpus(1);
    let gate = home.gate("never");
    let job = home.sh("--gpus 1 --grace 1s", &format!("echo $$ > pid; {gate}"));
    home.until("it runs", || !home.read("pid").is_empty());
    let pid: u32 = home.read("pid").trim().parse().unwrap();
    home.kill_daemon();
    for supervisor in home.pids_of("__supervise") {
        kill(supervisor);
    }
    home.start_daemon(None);
    home.words(&format!("wait {job}")).code(125);
    home.until("its process is gone", || !alive(pid));
}

#[test]
fn a_job_that_ends_while_the_daemon_is_away_has_ended_then() {
    let home = Home::with_gpus(1);
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let gate = home.gate("go");
    let job = home.sh("--gpus 1", &format!("touch runs; {gate}"));
    home.until("it runs", || home.path("runs").exists());
    home.kill_daemon();
    home.open("go");
    home.until("it is over", || home.pids_of("__supervise").is_empty());
    let over = now();
    home.until("the daemon was away for a while", || now() > over + Duration::from_secs(2));
    home.start_daemon(None);
    home.words(&format!("wait {job}")).ok();
    let ended = home.job(job).ended.unwrap();
    // The daemon's time line is anchored anew, so the two clocks agree but for moments.
    assert!(ended.0 < over.as_millis() as u64 + 500, "ended at {ended:?}, over at {over:?}");
}
