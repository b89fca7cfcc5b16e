//! A controller that is killed during submissions: each job ends in exactly one correct state, none
//! runs twice, none is lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cluster::{SlurmCluster, StoppedDaemon, User};
use crate::muster::Muster;

/// Number of jobs that a test run has time for; docs/slurm.md has figures of more.
const JOBS: usize = 60;
/// Number of jobs acknowledged before the controller is killed.
const BEFORE: usize = 20;

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_controller_that_is_killed_among_submissions_doubles_and_loses_nothing() {
    let cluster = SlurmCluster::here();
    let jobs = std::env::var("MUSTER_TEST_SUBMISSIONS").map_or(JOBS, |jobs| jobs.parse().unwrap());
    let ran = cluster.work().join("ran");
    cluster.output_as(User::Mail, &["mkdir", "-p", ran.to_str().unwrap()]);
    let file = |nth: usize| {
        let path = cluster.work().join(format!("once-{nth}.yaml"));
        let run = format!("echo ran >> {}/{nth}; sleep 1", ran.display());
        std::fs::write(&path, format!("name: once-{nth}\ntime: 2m\nrun: {run}\n")).unwrap();
        path.display().to_string()
    };
    // 1. Submit jobs one after the other, and kill the controller meanwhile.
    let accepted = AtomicUsize::new(0);
    let numbers: Vec<u64> = std::thread::scope(|scope| {
        let submit = scope.spawn(|| {
            let muster = Muster::of(&cluster, User::Mail);
            let one = |nth| {
                let answer = muster.json(&["run", &file(nth)]);
                accepted.fetch_add(1, Ordering::SeqCst);
                answer["jobs"][0]["job"].as_u64().unwrap()
            };
            (0..jobs).map(one).collect()
        });
        cluster.until("the first submissions", || {
            accepted.load(Ordering::SeqCst) >= BEFORE.min(jobs / 2)
        });
        drop(StoppedDaemon::killed(&cluster, "slurmctld"));
        submit.join().unwrap()
    });
    assert_eq!(numbers.len(), jobs);
    // 2. Wait until all end, directly or after a resubmission.
    let muster = Muster::of(&cluster, User::Mail);
    let ours = |job: &serde_json::Value| job["name"].as_str().unwrap().starts_with("once-");
    cluster.until_patiently("all jobs end", || {
        let list = muster.json(&["ps"]);
        let jobs = list["jobs"].as_array().unwrap();
        // A job whose start the controller had not recorded is started again, fails to, and is held
        // until an administrator releases it.
        !jobs.iter().any(|job| ours(job) && job["state"] != "held")
    });
    // 3. Each job has one correct state and ran once. By name: Slurm reuses the numbers of lost
    // jobs.
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    let list = muster.json(&["ps", "--all"]);
    for nth in 0..numbers.len() {
        let text = std::fs::read_to_string(ran.join(nth.to_string())).unwrap_or_default();
        let name = format!("once-{nth}");
        let job = list["jobs"].as_array().unwrap().iter().find(|job| job["name"] == name);
        let job = job.unwrap_or_else(|| panic!("{name} is lost"));
        let state = job["state"].as_str().unwrap().to_owned();
        match state.as_str() {
            "done" => assert_eq!(text, "ran\n", "{name}: {job}"),
            // The controller was killed before it received the end of the job: it ran, but its end
            // is unknown.
            "unknown" | "failed" | "held" => {
                assert!(text.len() <= "ran\n".len(), "{name} ran twice: {job}")
            }
            other => panic!("{name} is {other}: {job}"),
        }
        *states.entry(state).or_default() += 1;
    }
    muster.cancel(&numbers);
    println!("{jobs} submissions over a killed controller: {states:?}");
}
