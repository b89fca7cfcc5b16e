//! A controller that lost its state reuses job numbers: a name means its own job, and an ambiguous
//! number is refused. Also interrupted submissions: no part of them runs later.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{SlurmCluster, StoppedDaemon, User};
use crate::muster::Muster;

/// Kills the controller and deletes its state, including job numbers.
fn forget(cluster: &SlurmCluster) {
    let down = StoppedDaemon::killed(cluster, "slurmctld");
    let state = cluster.conf().parent().unwrap().parent().unwrap().join("state");
    for entry in std::fs::read_dir(state).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("job_state") || name.starts_with("hash.") {
            let _ = std::fs::remove_file(entry.path());
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    drop(down);
    cluster.until("the controller", || cluster.succeeds(&["scontrol", "ping"]));
}

/// Submits jobs until the number of a lost one is reused, and returns the new job.
fn give_away(cluster: &SlurmCluster, number: u64) {
    cluster.until("the number is given away", || {
        let words = [
            "sbatch",
            "--parsable",
            "--mem=100",
            "--hold",
            "--job-name=usurper",
            "--wrap",
            "exit 0",
        ];
        let given: u64 = cluster.output_as(User::Games, &words).trim().parse().unwrap();
        assert!(given <= number, "the number {number} was passed over: {given}");
        given == number
    });
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_name_means_the_job_that_it_was_given_to_and_a_number_that_was_given_away_is_refused() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    forget(&cluster);
    let held = "time: 5m\nhold: true\nrun: sleep 300\n";
    let lost = muster.submit(&format!("name: lost-one\n{held}"))[0];
    let kept = muster.submit(&format!("name: kept-one\n{held}"))[0];
    let id = muster.job(lost)["native"]["id"].as_str().unwrap().to_owned();
    forget(&cluster);
    give_away(&cluster, lost);
    // 1. The number is ambiguous: it is refused, and nothing is done.
    let number = lost.to_string();
    for verb in ["cancel", "show", "explain", "hold", "requeue"] {
        let said = muster.call(&[verb, &number]);
        assert_eq!(said.code, 1, "{verb}: {said:?}");
        assert!(said.stderr.contains("is ambiguous"), "{verb}: {said:?}");
    }
    let state = || {
        cluster.output(&["squeue", "--noheader", "--states=all", "--format=%T", "--jobs", &number])
    };
    assert_eq!(state().trim(), "PENDING");
    // 2. The name means the lost job: nothing is done to the other one.
    let shown = muster.json(&["show", "lost-one"]);
    assert_eq!(
        (&shown["job"]["state"], &shown["job"]["name"]),
        (&"unknown".into(), &"lost-one".into()),
        "{shown}"
    );
    // 3. Queries resubmit nothing; an explicit request does.
    for verb in [vec!["ps"], vec!["ps", "-a"], vec!["show", "lost-one"], vec!["nodes"]] {
        muster.call(&verb);
    }
    let mine = || {
        cluster.output(&["squeue", "--noheader", "--states=all", "--format=%j", "--user", "mail"])
    };
    assert!(!mine().contains("-one"), "{}", mine());
    let said = muster.call(&["ps"]);
    assert!(
        said.stderr.contains("Slurm lost accepted jobs") && said.stderr.contains("lost-one"),
        "{said:?}"
    );
    let again = muster.output(&["requeue", &format!("muster:{id}")]);
    assert!(again.contains("resubmitted as job"), "{again}");
    cluster.until("it is there again", || mine().contains("lost-one"));
    // 4. The other lost job is cancelled by name: it is not resubmitted, and no other job is
    // affected.
    muster.output(&["cancel", "kept-one"]);
    let said = muster.call(&["ps"]);
    assert!(!said.stderr.contains("kept-one"), "{said:?}");
    assert_eq!(state().trim(), "PENDING");
    muster.output(&["cancel", "lost-one"]);
    assert!(!mine().contains("kept-one"));
    cluster.output(&["scancel", "--user", "games"]);
    let _ = kept;
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn who_waits_gets_what_was_promised_though_the_controller_lost_it() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    // Nothing starts until the nodes are up again.
    cluster.output(&["scontrol", "update", "nodename=ALL", "state=drain", "reason=test"]);
    muster.submit("name: promised\ntime: 5m\nrun: exit 3\n");
    forget(&cluster);
    // Some nodes may have forgotten that they were drained.
    for node in 1..=8 {
        let _ = cluster.succeeds(&[
            "scontrol",
            "update",
            &format!("nodename=node{node}"),
            "state=resume",
        ]);
    }
    // By name: its number may also mean a job of an earlier test whose end nobody knows.
    let waited = muster.call(&["wait", "promised"]);
    assert_eq!(waited.code, 3, "{waited:?}");
    assert!(waited.stderr.contains("resubmitted as job"), "{waited:?}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn an_interrupted_submission_is_withdrawn_and_says_so() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let down = StoppedDaemon::stopped(&cluster, "slurmctld");
    let mut command =
        muster.command(&["run", "--name", "broken-off", "--time", "1m", "--", "true"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Its record is written before Slurm is called.
    let records = cluster.work().join("home-mail/.local/state/muster/slurm");
    cluster.until("its record", || {
        cluster.succeeds(&[
            "grep",
            "-rqs",
            "broken-off",
            records.to_str().unwrap(),
            "--include=job.json",
        ])
    });
    // timeout(1) passes the signal on, and Ctrl-C only where it was not ignored when the tests were
    // started.
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let said = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&said.stderr);
    assert!(stderr.contains("withdrawn"), "{stderr}");
    assert!(matches!(said.status.code(), Some(130 | 124)), "{said:?}");
    drop(down);
    cluster.until("the controller", || cluster.succeeds(&["scontrol", "ping"]));
    muster.output(&["ps"]);
    let names =
        cluster.output(&["squeue", "--noheader", "--states=all", "--format=%j", "--user", "mail"]);
    assert!(!names.contains("broken-off"), "{names}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_client_that_is_killed_anywhere_in_a_submission_submits_once_or_not_at_all_and_never_later() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let rounds = std::env::var("MUSTER_TEST_KILLS").map_or(12, |rounds| rounds.parse().unwrap());
    let ran = cluster.work().join("ran-killed");
    cluster.output_as(User::Mail, &["mkdir", "-p", ran.to_str().unwrap()]);
    let names = || {
        let said = cluster.output(&[
            "squeue",
            "--noheader",
            "--states=all",
            "--format=%j",
            "--user",
            "mail",
        ]);
        let mut names: Vec<String> =
            said.lines().filter(|name| name.starts_with("killed-")).map(str::to_owned).collect();
        names.sort();
        names
    };
    for round in 0..rounds {
        let name = format!("killed-{round}");
        let run = format!("echo ran >> {}/{round}", ran.display());
        // Later in each round: before the first step, between steps, after the end.
        muster.killed_after(
            20 * round + 5,
            &["run", "--name", &name, "--time", "1m", "--", "sh", "-c", &run],
        );
    }
    // A submission that sbatch had sent arrives by itself; after that no other one arrives.
    let mut before = names();
    cluster.until("nothing arrives", || {
        let now = names();
        let is_still = now == before;
        before = now;
        is_still
    });
    for verb in [vec!["ps"], vec!["ps", "-a"], vec!["nodes"], vec!["queues"]] {
        muster.call(&verb);
    }
    assert_eq!(names(), before);
    let mut once = before.clone();
    once.dedup();
    assert_eq!(once, before, "a submission arrived twice");
    cluster.until("all have ended", || {
        !cluster
            .output(&["squeue", "--noheader", "--format=%j", "--user", "mail"])
            .contains("killed-")
    });
    for round in 0..rounds {
        let text = std::fs::read_to_string(ran.join(round.to_string())).unwrap_or_default();
        let is_there = before.contains(&format!("killed-{round}"));
        assert_eq!(text, if is_there { "ran\n" } else { "" }, "round {round}");
    }
}
