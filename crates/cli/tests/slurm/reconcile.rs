//! A controller that dies while jobs are handed on: each ends in exactly one truthful state, none
//! runs twice, none is lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cluster::{Cluster, Down, User};
use crate::muster::Muster;

/// As many as a test run has time for; the figures of docs/slurm.md are of more.
const JOBS: usize = 60;
/// Acknowledged before the controller is killed.
const BEFORE: usize = 20;

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_controller_that_is_killed_among_submissions_doubles_and_loses_nothing() {
    let cluster = Cluster::here();
    let jobs = std::env::var("MUSTER_TEST_SUBMISSIONS").map_or(JOBS, |jobs| jobs.parse().unwrap());
    let ran = cluster.work().join("ran");
    cluster.said_to(User::Mail, &["mkdir", "-p", ran.to_str().unwrap()]);
    let file = |nth: usize| {
        let path = cluster.work().join(format!("once-{nth}.yaml"));
        let run = format!("echo ran >> {}/{nth}; sleep 1", ran.display());
        std::fs::write(&path, format!("name: once-{nth}\ntime: 2m\nrun: {run}\n")).unwrap();
        path.display().to_string()
    };
    // 1. Submissions one after the other, and a kill among them.
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
        drop(Down::killed(&cluster, "slurmctld"));
        submit.join().unwrap()
    });
    assert_eq!(numbers.len(), jobs);
    // 2. All end, by themselves or after they were handed on again.
    let muster = Muster::of(&cluster, User::Mail);
    let ours = |job: &serde_json::Value| job["name"].as_str().unwrap().starts_with("once-");
    cluster.until_patiently("all jobs end", || {
        let list = muster.json(&["ps"]);
        let jobs = list["jobs"].as_array().unwrap();
        // What the controller had not yet noted as started it starts again, cannot, and holds: only
        // its administrator lets it go.
        !jobs.iter().any(|job| ours(job) && job["state"] != "held")
    });
    // 3. One truthful state each, and each ran once. By name: Slurm gives numbers of jobs that it
    //    lost to others.
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
            // Its end was not told to the controller before that died: it ran, and nobody knows how
            // it ended.
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
