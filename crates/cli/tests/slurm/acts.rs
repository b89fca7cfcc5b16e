//! What is done to jobs of Muster on the real Slurm: that it happens, and to nothing else.

use crate::cluster::{Cluster, User};
use crate::muster::Muster;

/// A job that is started again when it fails, and a service, whose replicas always are.
const RESTARTED: &str = "name: rst\ntime: 5m\nrestart: {max: 2}\nrun: exec sleep 300\n---\n\
                         name: svc\nkind: service\nreplicas: 2\ntime: 5m\nrun: exec sleep 300\n";

/// What Slurm says of every element of a job, in full: none is being ended any more.
fn ended_as(cluster: &Cluster, job: u64) -> Vec<String> {
    let said = cluster.said(&[
        "squeue",
        "--noheader",
        "--states=all",
        "--array",
        "--format=%T",
        "--jobs",
        &job.to_string(),
    ]);
    said.lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn what_is_cancelled_stays_so_though_it_is_started_again_when_it_fails() {
    let cluster = Cluster::here();
    let muster = Muster::of(&cluster, User::Nobody);
    let are = |job, state: &str| {
        cluster.until(&format!("job {job} all {state}"), || {
            ended_as(&cluster, job).iter().all(|one| one == state)
        });
    };
    for by_hand in [false, true] {
        let jobs = muster.submit(RESTARTED);
        for job in &jobs {
            are(*job, "RUNNING");
            // The ranks have begun: their end is what the scripts see.
            cluster.until("its rank", || muster.job(*job)["elements"][0]["tasks"][0]["stage"] == "running");
        }
        for job in &jobs {
            match by_hand {
                true => drop(cluster.said_to(User::Nobody, &["scancel", &job.to_string()])),
                false => drop(muster.said(&["cancel", &job.to_string()])),
            }
        }
        for job in &jobs {
            are(*job, "CANCELLED");
            assert_eq!(muster.state(*job), "cancelled");
        }
    }
    // What waits.
    let waits = muster.submit(&RESTARTED.replace("time: 5m", "time: 5m\nhold: true"));
    for job in waits {
        muster.said(&["cancel", &job.to_string()]);
        are(job, "CANCELLED");
    }
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn an_element_that_fails_starts_again_and_takes_no_other_with_it() {
    let cluster = Cluster::here();
    let muster = Muster::of(&cluster, User::Nobody);
    let text = "name: again\ntime: 2m\narray: 0-2\nrestart: {max: 1}\n\
                run: 'echo attempt $MUSTER_ATTEMPT; [ $MUSTER_ARRAY_INDEX$MUSTER_ATTEMPT != 21 ]'\n";
    let job = muster.submit(text)[0];
    assert_eq!(muster.call(&["wait", &job.to_string()]).code, 0);
    let said = |index: u32| muster.said(&["logs", &format!("{job}[{index}]")]);
    // The last element has the number of the whole array.
    assert_eq!([said(0), said(1), said(2)], ["attempt 1\n", "attempt 1\n", "attempt 2\n"]);
}
